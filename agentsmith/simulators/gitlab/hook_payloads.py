"""What a webhook tells about an issue or a comment, in GitLab's shape."""

from __future__ import annotations

from typing import Any

from agentsmith.simulators.gitlab.changes import Notice
from agentsmith.simulators.gitlab.payloads import Json, Renderer, iso
from agentsmith.simulators.gitlab.state import Issue, Label, Note, Project


def payload_of(render: Renderer, notice: Notice) -> Json:
    """The body of one delivery."""
    shared: Json = {
        "user": _user(render, notice.actor),
        "project": _project(render, notice.project),
        "repository": _repository(render, notice.project),
    }
    if notice.note is not None:
        return {
            "object_kind": "note",
            "event_type": "note",
            "project_id": notice.project.id,
            **shared,
            "object_attributes": _note(render, notice, notice.note),
            "issue": _attributes(render, notice.project, notice.issue),
        }
    kind = "work_item" if notice.issue.type == "task" else "issue"
    assignees = [_assignee(render, name) for name in notice.issue.assignees]
    payload: Json = {
        "object_kind": kind,
        "event_type": kind,
        **shared,
        "object_attributes": {**_attributes(render, notice.project, notice.issue), "action": notice.action},
        "labels": _labels(notice.project, notice.issue),
        "changes": _changes(notice),
    }
    return {**payload, "assignees": assignees, "assignee": assignees[0]} if assignees else payload


def test_payload(render: Renderer, project: Project, issue: Issue, actor: str) -> Json:
    """What the button "Test" sends: an issue of the project, without an action."""
    payload = payload_of(render, Notice("issue", "", project, actor, issue))
    del payload["object_attributes"]["action"]
    return payload


def _attributes(render: Renderer, project: Project, issue: Issue) -> Json:
    ids = [render.world.user(name).id for name in issue.assignees]
    nothing = (
        "closed_at",
        "due_date",
        "last_edited_at",
        "last_edited_by_id",
        "milestone_id",
        "duplicated_to_id",
        "weight",
        "human_total_time_spent",
        "human_time_estimate",
        "human_time_change",
        "health_status",
        "updated_by_id",
    )
    return {
        **dict.fromkeys(nothing),
        "author_id": render.world.user(issue.author).id,
        "confidential": issue.confidential,
        "created_at": iso(issue.created_at),
        "description": issue.description,
        "discussion_locked": issue.locked,
        "id": issue.id,
        "iid": issue.iid,
        "moved_to_id": issue.moved_to,
        "project_id": project.id,
        "relative_position": 513,
        "state_id": 1 if issue.state == "opened" else 2,
        "time_estimate": 0,
        "title": issue.title,
        "updated_at": iso(issue.updated_at),
        "type": render.type_name(issue),
        "url": render.issue_url(project, issue),
        "total_time_spent": 0,
        "time_change": 0,
        "assignee_ids": ids,
        "assignee_id": ids[0] if ids else None,
        "labels": _labels(project, issue),
        "state": issue.state,
        "severity": "unknown",
    }


def _note(render: Renderer, notice: Notice, note: Note) -> Json:
    return {
        "attachment": None,
        "author_id": render.world.user(note.author).id,
        "change_position": None,
        "commit_id": None,
        "created_at": iso(note.created_at),
        "discussion_id": f"{note.id:040x}",
        "id": note.id,
        "internal": False,
        "line_code": None,
        "note": note.body,
        "noteable_id": notice.issue.id,
        "noteable_type": "Issue",
        "original_position": None,
        "position": None,
        "project_id": notice.project.id,
        "resolved_at": None,
        "resolved_by_id": None,
        "resolved_by_push": None,
        "st_diff": None,
        "system": note.system,
        "type": None,
        "updated_at": iso(note.updated_at),
        "updated_by_id": None,
        "description": note.body,
        "url": f"{render.issue_url(notice.project, notice.issue)}#note_{note.id}",
        "action": notice.action,
    }


def _changes(notice: Notice) -> Json:
    before, after = notice.before, notice.issue
    if before is None:
        return {}
    stamps = {"previous": iso(before.updated_at), "current": iso(after.updated_at)}
    changes: dict[str, Any] = {"updated_at": stamps}
    if before.labels != after.labels:
        sides = {"previous": before, "current": after}
        changes["labels"] = {side: _labels(notice.project, issue) for side, issue in sides.items()}
    for name in ("title", "description", "confidential"):
        if getattr(before, name) != getattr(after, name):
            changes[name] = {"previous": getattr(before, name), "current": getattr(after, name)}
    if before.state != after.state:
        ids = {"opened": 1, "closed": 2}
        changes["state_id"] = {"previous": ids[before.state], "current": ids[after.state]}
        changes["closed_at"] = {"previous": iso(before.closed_at), "current": iso(after.closed_at)}
    return changes


def _labels(project: Project, issue: Issue) -> list[Json]:
    return [_label(project, label) for label in project.labels_of(issue)]


def _label(project: Project, label: Label) -> Json:
    return {
        "id": label.id,
        "title": label.name,
        "color": label.color,
        "project_id": project.id,
        "created_at": iso(label.created_at),
        "updated_at": iso(label.created_at),
        "template": False,
        "description": label.description,
        "type": "ProjectLabel",
        "group_id": None,
    }


def _user(render: Renderer, username: str) -> Json:
    user = render.world.user(username)
    avatar = f"{render.web}/uploads/-/system/user/avatar/{user.id}/avatar.png"
    names = {"name": user.username, "username": user.username}
    return {"id": user.id, **names, "avatar_url": avatar, "email": "[REDACTED]"}


def _assignee(render: Renderer, username: str) -> Json:
    return _user(render, username)


def _repository(render: Renderer, project: Project) -> Json:
    name = project.path.rpartition("/")[2]
    url = f"{render.web}/{project.path}"
    return {"name": name, "url": f"{url}.git", "description": None, "homepage": url}


def _project(render: Renderer, project: Project) -> Json:
    group, _, name = project.path.rpartition("/")
    url = f"{render.web}/{project.path}"
    ssh = f"git@{render.web.partition('://')[2]}:{project.path}.git"
    return {
        "id": project.id,
        "name": name,
        "description": None,
        "web_url": url,
        "avatar_url": None,
        "git_ssh_url": ssh,
        "git_http_url": f"{url}.git",
        "namespace": group,
        "visibility_level": 0 if project.private else 20,
        "path_with_namespace": project.path,
        "default_branch": "main",
        "ci_config_path": None,
        "homepage": url,
        "url": ssh,
        "ssh_url": ssh,
        "http_url": f"{url}.git",
    }
