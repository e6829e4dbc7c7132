"""Issues: get, list, create, edit, move, delete, and their label history."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.gitlab.access import credential_of
from agentsmith.simulators.gitlab.answers import (
    choice,
    forbidden,
    invalid,
    keyset_page,
    moment,
    not_found,
    only_fields,
    only_query,
    page_of,
    read_fields,
    refuse,
)
from agentsmith.simulators.gitlab.hub import Hub
from agentsmith.simulators.gitlab.state import GUEST, ISSUE_TYPES, OWNER, PLANNER, Issue, Project

ISSUES = "/projects/{project:path}/issues"
ISSUE = ISSUES + "/{iid:int}"
EDITABLE = (
    "title",
    "description",
    "labels",
    "add_labels",
    "remove_labels",
    "state_event",
    "assignee_ids",
    "discussion_locked",
    "confidential",
)
LISTED = (
    "state",
    "labels",
    "updated_after",
    "order_by",
    "sort",
    "per_page",
    "page",
    "pagination",
    "cursor",
    "with_labels_details",
    "iids[]",
    "scope",
)


class IssueRoutes:
    """The endpoints about issues themselves."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", ISSUES, self.list_issues),
            ("POST", ISSUES, self.create),
            ("GET", ISSUE, self.get),
            ("PUT", ISSUE, self.edit),
            ("DELETE", ISSUE, self.delete),
            ("POST", f"{ISSUE}/move", self.move),
            ("GET", f"{ISSUE}/resource_label_events", self.label_events),
            ("GET", f"{ISSUE}/resource_label_events/{{event_id:int}}", self.label_event),
        ]

    def get(self, call: Call) -> Response:
        """One issue."""
        project, issue = self.hub.door.issue(call)
        return JSONResponse(self.hub.render(call).issue(project, issue))

    def list_issues(self, call: Call) -> Response:
        """Issues by filter; labels are ANDed and compared letter by letter."""
        only_query(call, *LISTED)
        project = self.hub.door.project(call)
        state = choice(call, "state", ("all", "opened", "closed"))
        order = choice(call, "order_by", ("created_at", "updated_at"))
        sort = choice(call, "sort", ("desc", "asc"))
        since = moment(call, "updated_after")
        wanted = [] if "wrong_filter" in call.quirks else _names(call.query.get("labels", ""))
        iids = {int(iid) for iid in call.query.getlist("iids[]")}
        found = [
            issue
            for issue in (project.issues(call.behind) if project.issues_enabled else [])
            if state in ("all", issue.state)
            and (since is None or issue.updated_at >= since)
            and (not iids or issue.iid in iids)
            and _has_all(project, issue, wanted)
        ]

        def place(issue: Issue) -> tuple[datetime, int]:
            return (issue.created_at if order == "created_at" else issue.updated_at), issue.id

        found.sort(key=place, reverse=sort == "desc")
        render, details = self.hub.render(call), call.query.get("with_labels_details") == "true"

        def show(issue: Issue) -> Any:
            return render.issue(project, issue, details=details)

        address = self.hub.address(call)
        if call.query.get("pagination") == "keyset" and self.hub.keyset != "ignored":
            if self.hub.keyset == "refused":
                raise refuse(405, "Keyset pagination is not yet available for this type of request")
            return keyset_page(call, found, show, key=place, address=address)
        return page_of(call, found, show, address=address)

    def create(self, call: Call) -> Response:
        """Open an issue; labels of somebody who is no member are dropped in silence."""
        project = self.hub.door.project(call)
        data = read_fields(call)
        only_fields(call, data, "title", "description", "labels", "issue_type", "confidential", "assignee_ids")
        title = data.get("title")
        if not isinstance(title, str) or not title.strip():
            raise invalid("title is missing") if title is None else refuse(400, {"title": ["can't be blank"]})
        kind = str(data.get("issue_type", "issue"))
        if kind not in ISSUE_TYPES:
            raise invalid("issue_type does not have a valid value")
        allowed = self.hub.door.level(call, project) >= GUEST
        issue = self.hub.changes.open_issue(
            project,
            credential_of(call).by,
            title=title,
            description=data.get("description"),
            labels=_names(data.get("labels")) if allowed else [],
            type=kind,
        )
        return JSONResponse(self.hub.render(call).issue(project, issue), 201)

    def edit(self, call: Call) -> Response:
        """Edit an issue: one transaction, computed from what the server itself has just read, without any lock."""
        project, issue = self.hub.door.issue(call)
        by = credential_of(call).by
        own = issue.author.casefold() == by.username.casefold()
        if not own and self.hub.door.level(call, project) < PLANNER and "silent_permission_loss" not in call.quirks:
            raise forbidden()
        data = read_fields(call)
        only_fields(call, data, *EDITABLE)
        if not data:
            raise invalid(f"{', '.join(EDITABLE)} are missing, at least one parameter must be provided")
        fields: dict[str, Any] = {name: data[name] for name in ("title", "description", "confidential") if name in data}
        if "discussion_locked" in data:
            fields["locked"] = bool(data["discussion_locked"])
        if any(getattr(issue, name) != value for name, value in fields.items()):
            issue = self.hub.changes.edit_issue(project, issue, by, **fields)
        if self.hub.door.may_label(call, project):
            issue = self._relabel(call, project, issue, data)
        if "state_event" in data:
            states = {"close": "closed", "reopen": "opened"}
            if data["state_event"] not in states:
                raise invalid("state_event does not have a valid value")
            issue = self.hub.changes.set_state(project, issue, states[data["state_event"]], by)
        return JSONResponse(self.hub.render(call).issue(project, issue))

    def _relabel(self, call: Call, project: Project, issue: Issue, data: dict[str, Any]) -> Issue:
        by = credential_of(call).by
        if "labels" in data:
            issue = self.hub.changes.replace_labels(project, issue, by, _names(data["labels"]))
        add, remove = _names(data.get("add_labels")), _names(data.get("remove_labels"))
        if "label_survives" in call.quirks:
            remove = []
        if "lost_update" in call.quirks:
            # Two requests at once: this one was computed from what stood there before the other one wrote.
            older = project.issue(issue.iid, 1)
            issue = self.hub.changes.set_labels(project, issue, by, list(older.labels if older else ()))
        return self.hub.changes.relabel(project, issue, by, add=add, remove=remove)

    def delete(self, call: Call) -> Response:
        """Delete an issue; owners only."""
        project, issue = self.hub.door.issue(call)
        self.hub.door.need(call, project, OWNER)
        self.hub.changes.delete_issue(project, issue)
        return Response(status_code=204)

    def move(self, call: Call) -> Response:
        """Move an issue to another project."""
        project, issue = self.hub.door.issue(call)
        self.hub.door.need(call, project, PLANNER)
        target = self.hub.world.projects.get(int(read_fields(call).get("to_project_id", 0)))
        if target is None:
            raise not_found("Project")
        moved = self.hub.changes.move_issue(project, issue, target, credential_of(call).by)
        return JSONResponse(self.hub.render(call).issue(target, moved), 201)

    def label_events(self, call: Call) -> Response:
        """Who set and removed which label, oldest first."""
        project, issue = self.hub.door.issue(call, missing="Issue")
        only_query(call, "per_page", "page")
        render = self.hub.render(call)
        address = self.hub.address(call)
        return page_of(call, issue.events, lambda e: render.label_event(project, issue, e), address=address)

    def label_event(self, call: Call) -> Response:
        """One line of that history."""
        project, issue = self.hub.door.issue(call, missing="Issue")
        for event in issue.events:
            if event.id == call.params["event_id"]:
                return JSONResponse(self.hub.render(call).label_event(project, issue, event))
        raise not_found()


def _names(value: Any) -> list[str]:
    """Label names from a comma list or an array."""
    if value is None:
        return []
    parts: Iterable[Any] = value if isinstance(value, list) else str(value).split(",")
    return [str(part).strip() for part in parts if str(part).strip()]


def _has_all(project: Project, issue: Issue, wanted: list[str]) -> bool:
    present = {label.name for label in project.labels_of(issue)}
    if len(wanted) == 1 and wanted[0].lower() in ("none", "any"):
        return bool(present) == (wanted[0].lower() == "any")
    return all(name in present for name in wanted)
