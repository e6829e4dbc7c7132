"""GitHub's JSON for what is in `state`. Every address starts with the API root or the web root it is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from agentsmith.simulators.github.state import (
    REACTIONS,
    Comment,
    Issue,
    IssueEvent,
    Label,
    Reaction,
    Repository,
    User,
    World,
    at_least,
)

Json = dict[str, Any]


def iso(moment: datetime | None) -> str | None:
    """As GitHub prints dates."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def author_association(role: str, login: str, repository: Repository) -> str:
    """How GitHub calls somebody's relation to a repository."""
    if login.casefold() == repository.owner.casefold():
        return "OWNER"
    return "COLLABORATOR" if at_least(role, "triage") else "NONE"


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders for one client. `apps` gives the JSON of a GitHub App by id."""

    world: World
    api: str
    web: str
    apps: dict[int, Json]

    def user(self, login: str) -> Json:
        """The short form of a user."""
        user = self.world.user(login)
        url, html = f"{self.api}/users/{quote(user.login)}", f"{self.web}/{quote(user.login)}"
        return {
            "login": user.login,
            "id": user.id,
            "node_id": f"U_{user.id}",
            "avatar_url": f"{self.web}/avatars/u/{user.id}?v=4",
            "gravatar_id": "",
            "url": url,
            "html_url": html,
            "followers_url": f"{url}/followers",
            "following_url": f"{url}/following{{/other_user}}",
            "gists_url": f"{url}/gists{{/gist_id}}",
            "starred_url": f"{url}/starred{{/owner}}{{/repo}}",
            "subscriptions_url": f"{url}/subscriptions",
            "organizations_url": f"{url}/orgs",
            "repos_url": f"{url}/repos",
            "events_url": f"{url}/events{{/privacy}}",
            "received_events_url": f"{url}/received_events",
            "type": user.type,
            "user_view_type": "public",
            "site_admin": False,
        }

    def account(self, user: User) -> Json:
        """The long form, as `GET /user` answers it."""
        made = "2020-01-01T00:00:00Z"
        empty = dict.fromkeys(("company", "location", "email", "hireable", "bio", "twitter_username"))
        counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
        names = {"name": user.login, "blog": "", "created_at": made, "updated_at": made}
        return {**self.user(user.login), **names, **empty, **counts}

    def label(self, repository: Repository, label: Label) -> Json:
        """A label of a repository."""
        return {
            "id": label.id,
            "node_id": f"LA_{label.id}",
            "url": f"{self.repo_url(repository)}/labels/{quote(label.name, safe='')}",
            "name": label.name,
            "color": label.color,
            "default": label.default,
            "description": label.description,
        }

    def labels(self, repository: Repository, issue: Issue) -> list[Json]:
        """The labels on an issue."""
        return [self.label(repository, label) for label in repository.labels_of(issue)]

    def rollup(self, url: str, reactions: Iterable[Reaction]) -> Json:
        """How many of each reaction there are."""
        given = [r.content for r in reactions]
        return {"url": url, "total_count": len(given), **{name: given.count(name) for name in REACTIONS}}

    def reaction(self, reaction: Reaction) -> Json:
        """One reaction."""
        return {
            "id": reaction.id,
            "node_id": f"REA_{reaction.id}",
            "user": self.user(reaction.user),
            "content": reaction.content,
            "created_at": iso(reaction.created_at),
        }

    def repo_url(self, repository: Repository) -> str:
        """The API address of a repository."""
        return f"{self.api}/repos/{repository.full_name}"

    def issue(self, repository: Repository, issue: Issue) -> Json:
        """An issue, or a pull request as the issue endpoints show it."""
        repo = self.repo_url(repository)
        url = f"{repo}/issues/{issue.number}"
        kind = "pull" if issue.pull else "issues"
        html = f"{self.web}/{repository.full_name}/{kind}/{issue.number}"
        assignees = [self.user(login) for login in issue.assignees]
        role = self.world.role_of(issue.user, repository)
        body: Json = {
            "url": url,
            "repository_url": repo,
            "labels_url": f"{url}/labels{{/name}}",
            "comments_url": f"{url}/comments",
            "events_url": f"{url}/events",
            "html_url": html,
            "id": issue.id,
            "node_id": f"{'PR' if issue.pull else 'I'}_{issue.id}",
            "number": issue.number,
            "title": issue.title,
            "user": self.user(issue.user),
            "labels": self.labels(repository, issue),
            "state": issue.state,
            "locked": issue.locked,
            "assignee": assignees[0] if assignees else None,
            "assignees": assignees,
            "milestone": None,
            "comments": len(issue.comments),
            "created_at": iso(issue.created_at),
            "updated_at": iso(issue.updated_at),
            "closed_at": iso(issue.closed_at),
            "author_association": author_association(role, issue.user, repository),
            "active_lock_reason": issue.lock_reason,
            "body": issue.body,
            "closed_by": None if issue.closed_by is None else self.user(issue.closed_by),
            "reactions": self.rollup(f"{url}/reactions", issue.reactions),
            "timeline_url": f"{url}/timeline",
            "performed_via_github_app": self.app(issue.app),
            "state_reason": issue.state_reason,
        }
        if issue.pull:
            pull = f"{repo}/pulls/{issue.number}"
            body["draft"] = issue.pull.draft
            body["pull_request"] = {
                "url": pull,
                "html_url": html,
                "diff_url": f"{html}.diff",
                "patch_url": f"{html}.patch",
                "merged_at": iso(issue.pull.merged_at),
            }
        return body

    def comment(self, repository: Repository, issue: Issue, comment: Comment) -> Json:
        """A comment on an issue."""
        repo = self.repo_url(repository)
        url = f"{repo}/issues/comments/{comment.id}"
        kind = "pull" if issue.pull else "issues"
        role = self.world.role_of(comment.user, repository)
        return {
            "url": url,
            "html_url": f"{self.web}/{repository.full_name}/{kind}/{issue.number}#issuecomment-{comment.id}",
            "issue_url": f"{repo}/issues/{issue.number}",
            "id": comment.id,
            "node_id": f"IC_{comment.id}",
            "user": self.user(comment.user),
            "created_at": iso(comment.created_at),
            "updated_at": iso(comment.updated_at),
            "author_association": author_association(role, comment.user, repository),
            "body": comment.body,
            "reactions": self.rollup(f"{url}/reactions", comment.reactions),
            "performed_via_github_app": self.app(comment.app),
        }

    def event(self, repository: Repository, event: IssueEvent) -> Json:
        """One line of an issue's history."""
        return {
            "id": event.id,
            "node_id": f"EV_{event.id}",
            "url": f"{self.repo_url(repository)}/issues/events/{event.id}",
            "actor": self.user(event.actor),
            "event": event.event,
            "commit_id": None,
            "commit_url": None,
            "created_at": iso(event.created_at),
            "performed_via_github_app": self.app(event.app),
            **event.details,
        }

    def timeline(self, repository: Repository, issue: Issue) -> list[Json]:
        """Events and comments of an issue, oldest first."""
        rows = [(e.created_at, e.id, self.event(repository, e)) for e in issue.events]
        for comment in issue.comments:
            shown = self.comment(repository, issue, comment)
            said = {**shown, "event": "commented", "actor": shown["user"]}
            rows.append((comment.created_at, comment.id, said))
        return [shown for *_, shown in sorted(rows, key=lambda row: row[:2])]

    def app(self, app_id: int | None) -> Json | None:
        """The GitHub App that did it, if one did."""
        return None if app_id is None else self.apps.get(app_id)
