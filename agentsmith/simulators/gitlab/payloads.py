"""GitLab's JSON for what is in `state`. Every address starts with the API root or the web root it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from agentsmith.simulators.gitlab.state import (
    ISSUE_TYPES,
    Issue,
    Label,
    LabelEvent,
    Link,
    MergeRequest,
    Note,
    Project,
    User,
    World,
)

Json = dict[str, Any]


def iso(moment: datetime | None) -> str | None:
    """As GitLab's API prints dates."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders for one client."""

    world: World
    api: str
    web: str
    empty: Callable[[Project], bool] = lambda _: False
    """Whether a project has no commit yet."""

    def user(self, username: str) -> Json:
        """The short form of a user."""
        user = self.world.user(username)
        return {
            "id": user.id,
            "username": user.username,
            "public_email": "",
            "name": user.username,
            "state": user.state,
            "locked": False,
            "avatar_url": f"{self.web}/uploads/-/system/user/avatar/{user.id}/avatar.png",
            "web_url": f"{self.web}/{quote(user.username)}",
        }

    def account(self, user: User) -> Json:
        """The long form, as `GET /user` and `GET /users/:id` answer it."""
        empty = dict.fromkeys(
            ("bio", "location", "linkedin", "twitter", "website_url", "organization", "job_title"), ""
        )
        made = "2020-01-01T00:00:00.000Z"
        return {**self.user(user.username), **empty, "bot": user.bot, "created_at": made, "followers": 0}

    def project(self, project: Project) -> Json:
        """A project."""
        url = f"{self.api}/projects/{project.id}"
        group, _, name = project.path.rpartition("/")
        return {
            "id": project.id,
            "description": None,
            "name": name,
            "name_with_namespace": project.path.replace("/", " / "),
            "path": name,
            "path_with_namespace": project.path,
            "created_at": iso(project.created_at),
            "default_branch": None if self.empty(project) else project.default_branch,
            "empty_repo": self.empty(project),
            "http_url_to_repo": f"{self.web}/{project.path}.git",
            "merge_requests_enabled": True,
            "visibility": "private" if project.private else "public",
            "web_url": f"{self.web}/{project.path}",
            "issues_enabled": project.issues_enabled,
            "archived": False,
            "namespace": {"id": 1, "name": group, "path": group, "kind": "group", "full_path": group},
            "_links": {"self": url, "issues": f"{url}/issues", "labels": f"{url}/labels", "members": f"{url}/members"},
        }

    def label(self, label: Label) -> Json:
        """A label of a project."""
        return {
            "id": label.id,
            "name": label.name,
            "description": label.description,
            "description_html": label.description or "",
            "text_color": "#FFFFFF",
            "color": label.color,
            "archived": False,
            "subscribed": False,
            "priority": None,
            "is_project_label": True,
        }

    def issue_url(self, project: Project, issue: Issue) -> str:
        """The page of an issue."""
        return f"{self.web}/{project.path}/-/issues/{issue.iid}"

    def issue(self, project: Project, issue: Issue, *, details: bool = False) -> Json:
        """An issue."""
        url = f"{self.api}/projects/{project.id}/issues/{issue.iid}"
        labels = project.labels_of(issue)
        assignees = [self.user(name) for name in issue.assignees]
        times = dict.fromkeys(("human_time_estimate", "human_total_time_spent"))
        full = f"{project.path}#{issue.iid}"
        return {
            "id": issue.id,
            "iid": issue.iid,
            "project_id": project.id,
            "title": issue.title,
            "description": issue.description,
            "state": issue.state,
            "created_at": iso(issue.created_at),
            "updated_at": iso(issue.updated_at),
            "closed_at": iso(issue.closed_at),
            "closed_by": self.user(issue.closed_by) if issue.closed_by else None,
            "labels": [self.label(label) for label in labels] if details else [label.name for label in labels],
            "milestone": None,
            "assignees": assignees,
            "author": self.user(issue.author),
            "type": issue.type.upper(),
            "assignee": assignees[0] if assignees else None,
            "user_notes_count": sum(1 for note in issue.notes if not note.system),
            "merge_requests_count": 0,
            "upvotes": 0,
            "downvotes": 0,
            "due_date": None,
            "confidential": issue.confidential,
            "discussion_locked": issue.locked,
            "issue_type": issue.type,
            "web_url": self.issue_url(project, issue),
            "time_stats": {"time_estimate": 0, "total_time_spent": 0, **times},
            "task_completion_status": {"count": 0, "completed_count": 0},
            "has_tasks": False,
            "_links": {
                "self": url,
                "notes": f"{url}/notes",
                "award_emoji": f"{url}/award_emoji",
                "project": f"{self.api}/projects/{project.id}",
                "closed_as_duplicate_of": None,
            },
            "references": {"short": f"#{issue.iid}", "relative": f"#{issue.iid}", "full": full},
            "severity": "UNKNOWN",
            "moved_to_id": issue.moved_to,
            "service_desk_reply_to": None,
        }

    def merge_request(self, project: Project, request: MergeRequest) -> Json:
        """A merge request."""
        url = f"{self.api}/projects/{project.id}/merge_requests/{request.iid}"
        return {
            "id": request.id,
            "iid": request.iid,
            "project_id": project.id,
            "title": request.title,
            "description": request.description,
            "state": request.state,
            "created_at": iso(request.created_at),
            "updated_at": iso(request.updated_at),
            "merged_at": None,
            "closed_at": iso(request.updated_at) if request.state == "closed" else None,
            "target_branch": request.target,
            "source_branch": request.source,
            "user_notes_count": 0,
            "author": self.user(request.author),
            "assignees": [],
            "assignee": None,
            "reviewers": [],
            "source_project_id": request.source_project,
            "target_project_id": project.id,
            "labels": [],
            "draft": request.draft,
            "work_in_progress": request.draft,
            "milestone": None,
            "merge_when_pipeline_succeeds": False,
            "merge_status": "checking",
            "detailed_merge_status": "checking",
            "sha": None,
            "merge_commit_sha": None,
            "should_remove_source_branch": None,
            "force_remove_source_branch": None,
            "reference": f"!{request.iid}",
            "references": {
                "short": f"!{request.iid}",
                "relative": f"!{request.iid}",
                "full": f"{project.path}!{request.iid}",
            },
            "web_url": f"{self.web}/{project.path}/-/merge_requests/{request.iid}",
            "squash": False,
            "has_conflicts": False,
            "_links": {"self": url, "notes": f"{url}/notes"},
        }

    def note(self, project: Project, issue: Issue, note: Note, commands: Json | None = None) -> Json:
        """A comment."""
        return {
            "id": note.id,
            "type": None,
            "body": note.body,
            "attachment": None,
            "author": self.user(note.author),
            "created_at": iso(note.created_at),
            "updated_at": iso(note.updated_at),
            "system": note.system,
            "noteable_id": issue.id,
            "noteable_type": "Issue",
            "project_id": project.id,
            "resolvable": False,
            "confidential": False,
            "internal": False,
            "imported": False,
            "imported_from": "none",
            "noteable_iid": issue.iid,
            "commands_changes": commands or {},
        }

    def label_event(self, project: Project, issue: Issue, event: LabelEvent) -> Json:
        """A line of an issue's label history; the label is null once it was deleted, and may be another project's."""
        projects = (project, *self.world.projects.values())
        label = next((found for of in projects if (found := of.labels.get(event.label)) is not None), None)
        short = None
        if label is not None:
            short = {"id": label.id, "name": label.name, "color": label.color, "description": label.description}
        return {
            "id": event.id,
            "user": self.user(event.user),
            "created_at": iso(event.created_at),
            "resource_type": "Issue",
            "resource_id": issue.id,
            "label": short,
            "action": event.action,
        }

    def linked(self, pair: tuple[Project, Issue], link: Link, type: str) -> Json:
        """An issue as another one's links show it."""
        project, issue = pair
        more = {"issue_link_id": link.id, "link_type": type, "link_created_at": iso(link.created_at)}
        return {**self.issue(project, issue), **more, "link_updated_at": iso(link.created_at)}

    def member(self, user: User, level: int) -> Json:
        """A member of a project."""
        return {**self.user(user.username), "access_level": level, "created_at": None, "expires_at": None}

    def type_name(self, issue: Issue) -> str:
        """How webhooks name the type of an issue."""
        return ISSUE_TYPES[issue.type]
