"""Jira's JSON for what is in `state`. Every address starts with the site root that it is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from agentsmith.simulators.jira.documents import plain
from agentsmith.simulators.jira.state import (
    LINK_TYPES,
    Comment,
    History,
    Issue,
    Link,
    Project,
    Status,
    Transition,
    User,
    World,
)

Json = dict[str, Any]
CATEGORIES = {
    "new": (2, "blue-gray", "To Do"),
    "indeterminate": (4, "yellow", "In Progress"),
    "done": (3, "green", "Done"),
}
SIZES = ("48x48", "24x24", "16x16", "32x32")
EMPTY = (
    "aggregatetimeestimate",
    "aggregatetimeoriginalestimate",
    "aggregatetimespent",
    "duedate",
    "environment",
    "lastViewed",
    "security",
    "timeestimate",
    "timeoriginalestimate",
    "timespent",
)


def stamp(moment: datetime) -> str:
    """As Jira prints dates: no colon in the offset."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}+0000"


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders for one client. `version` is that of the API; only 3 shows documents."""

    world: World
    root: str
    version: str
    cloud: bool
    comment_properties: bool = True

    @property
    def api(self) -> str:
        """The API root of the version that was asked."""
        return f"{self.root}/rest/api/{self.version}"

    def text(self, body: Any) -> Any:
        """A document, or its text where the older API is asked."""
        return body if self.version == "3" or not isinstance(body, dict) else plain(body)

    def user(self, name: str | None) -> Json | None:
        """An account as it appears inside other things."""
        if name is None:
            return None
        user = self.world.user(name)
        who: Json = {"accountId": user.account_id, "accountType": user.type}
        query = f"accountId={quote(user.account_id)}"
        if not self.cloud:
            who = {"name": user.name, "key": f"JIRAUSER{user.name}", "emailAddress": user.email}
            query = f"username={quote(user.name)}"
        return {
            "self": f"{self.api}/user?{query}",
            **who,
            "avatarUrls": {size: f"{self.root}/avatar/{user.name}?s={size[:2]}" for size in SIZES},
            "displayName": user.display_name,
            "active": True,
            "timeZone": "Etc/UTC",
        }

    def myself(self, user: User) -> Json:
        """The long form."""
        groups: Json = {"size": 0, "items": []}
        more = {"emailAddress": user.email, "locale": "en_US", "expand": "groups,applicationRoles"}
        return {**(self.user(user.name) or {}), **more, "groups": groups, "applicationRoles": groups}

    def status(self, status: Status) -> Json:
        """A step of a workflow."""
        number, color, name = CATEGORIES[status.category]
        return {
            "self": f"{self.api}/status/{status.id}",
            "description": "",
            "iconUrl": f"{self.root}/",
            "name": status.name,
            "id": status.id,
            "statusCategory": {
                "self": f"{self.api}/statuscategory/{number}",
                "id": number,
                "key": status.category,
                "colorName": color,
                "name": name,
            },
        }

    def project(self, project: Project) -> Json:
        """A project as issues show it."""
        return {
            "self": f"{self.api}/project/{project.id}",
            "id": str(project.id),
            "key": project.key,
            "name": project.name,
            "projectTypeKey": "software",
            "avatarUrls": {size: f"{self.root}/secure/projectavatar?size={size[:2]}" for size in SIZES},
        }

    def fields(self, issue: Issue) -> Json:
        """Every field of an issue."""
        project = self.world.project(issue.project)
        progress = {"progress": 0, "total": 0}
        kind, url = "issuetype/10001", f"{self.api}/issue/{issue.key}"
        return {
            **dict.fromkeys(EMPTY),
            "summary": issue.summary,
            "description": self.text(issue.description),
            "issuetype": {
                "self": f"{self.api}/{kind}",
                "id": "10001",
                "description": "",
                "iconUrl": f"{self.root}/",
                "name": "Task",
                "subtask": False,
                "avatarId": 10315,
            },
            "project": self.project(project),
            "status": self.status(project.statuses[issue.status]),
            "priority": {"self": f"{self.api}/priority/3", "iconUrl": f"{self.root}/", "name": "Medium", "id": "3"},
            "resolution": None,
            "resolutiondate": None,
            "labels": list(issue.labels),
            "creator": self.user(issue.creator),
            "reporter": self.user(issue.creator),
            "assignee": self.user(issue.assignee),
            "created": stamp(issue.created),
            "updated": stamp(issue.updated),
            "issuelinks": [self.link(link, issue) for link in self.world.links_of(issue)],
            "comment": self.comments(issue, 0, 5000, within=True),
            "worklog": {"startAt": 0, "maxResults": 20, "total": 0, "worklogs": []},
            "subtasks": [],
            "components": [],
            "versions": [],
            "fixVersions": [],
            "attachment": [],
            "timetracking": {},
            "progress": progress,
            "aggregateprogress": progress,
            "workratio": -1,
            "votes": {"self": f"{url}/votes", "votes": 0, "hasVoted": False},
            "watches": {"self": f"{url}/watchers", "watchCount": 1, "isWatching": True},
        }

    def issue(self, issue: Issue, fields: Iterable[str] | None, properties: Iterable[str] = ()) -> Json:
        """An issue with the fields that were asked for; None: all."""
        shown = self.fields(issue)
        if fields is not None:
            wanted = set(fields)
            left = {name[1:] for name in wanted if name.startswith("-")}
            everything = bool(wanted & {"*all", "*navigable"}) or not wanted - {f"-{name}" for name in left}
            shown = {name: v for name, v in shown.items() if (everything or name in wanted) and name not in left}
        body: Json = {
            "expand": "renderedFields,names,schema,operations,editmeta,changelog",
            "id": str(issue.id),
            "self": f"{self.api}/issue/{issue.id}",
            "key": issue.key,
            "fields": shown,
        }
        keys = list(properties)
        if keys:
            held = issue.properties
            body["properties"] = {k: v for k, v in held.items() if k in keys or "*all" in keys}
        return body

    def comment(self, issue: Issue, comment: Comment, *, properties: bool = False) -> Json:
        """A comment; its properties only where asked for."""
        author = self.user(comment.author)
        body: Json = {
            "self": f"{self.api}/issue/{issue.id}/comment/{comment.id}",
            "id": comment.id,
            "author": author,
            "body": self.text(comment.body),
            "updateAuthor": author,
            "created": stamp(comment.created),
            "updated": stamp(comment.updated),
            "jsdPublic": True,
        }
        if not self.cloud:
            del body["jsdPublic"]
        if properties and self.comment_properties:
            body["properties"] = [{"key": key, "value": value} for key, value in comment.properties.items()]
        return body

    def comments(self, issue: Issue, start: int, most: int, *, within: bool = False, properties: bool = False) -> Json:
        """A page of comments, or the field of that name."""
        found = issue.comments[start : start + most]
        page: Json = {"self": f"{self.api}/issue/{issue.id}/comment"} if within else {}
        return {
            **page,
            "comments": [self.comment(issue, c, properties=properties) for c in found],
            "maxResults": most,
            "total": len(issue.comments),
            "startAt": start,
        }

    def history(self, history: History) -> Json:
        """One entry of an issue's history."""
        return {
            "id": history.id,
            "author": self.user(history.author),
            "created": stamp(history.created),
            "items": self.changes(history),
        }

    def changes(self, history: History) -> list[Json]:
        """The fields that one entry changed."""
        return [
            {
                "field": change.field,
                "fieldtype": "jira",
                "fieldId": change.field.lower(),
                "from": change.from_,
                "fromString": change.from_string,
                "to": change.to,
                "toString": change.to_string,
            }
            for change in history.items
        ]

    def transition(self, project: Project, way: Transition) -> Json:
        """A way out of the present status."""
        return {
            "id": way.id,
            "name": way.name,
            "to": self.status(project.statuses[way.to]),
            "hasScreen": False,
            "isGlobal": way.source is None,
            "isInitial": False,
            "isAvailable": True,
            "isConditional": False,
            "looped": False,
        }

    def link_type(self, name: str) -> Json:
        """A kind of link."""
        inward, outward = LINK_TYPES[name]
        number = 10000 + list(LINK_TYPES).index(name)
        url = f"{self.api}/issueLinkType/{number}"
        return {"id": str(number), "name": name, "inward": inward, "outward": outward, "self": url}

    def link(self, link: Link, seen_from: Issue) -> Json:
        """A link as one of its ends shows it: with the issue at the other end, under the name of that end."""
        side, other = ("outwardIssue", link.outward) if seen_from.id == link.inward else ("inwardIssue", link.inward)
        shown: Json = {"id": link.id, "self": f"{self.api}/issueLink/{link.id}", "type": self.link_type(link.type)}
        issue = self.world.issue(str(other))
        if issue is not None:
            project = self.world.project(issue.project)
            fields = {"summary": issue.summary, "status": self.status(project.statuses[issue.status])}
            shown[side] = {
                "id": str(issue.id),
                "key": issue.key,
                "self": f"{self.api}/issue/{issue.id}",
                "fields": fields,
            }
        return shown
