"""Merge requests: get, list, open, edit, close. Whether one is a draft stands in its title."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.gitlab.access import credential_of
from agentsmith.simulators.gitlab.answers import (
    choice,
    forbidden,
    invalid,
    not_found,
    only_fields,
    only_query,
    page_of,
    read_fields,
    refuse,
)
from agentsmith.simulators.gitlab.hub import Hub
from agentsmith.simulators.gitlab.state import DEVELOPER, MergeRequest, Project

REQUESTS = "/projects/{project:path}/merge_requests"
REQUEST = REQUESTS + "/{iid:int}"
LONGEST_TITLE = 255
LONGEST_TEXT = 1_048_576
CREATABLE = ("source_branch", "target_branch", "title", "description", "remove_source_branch", "squash", "labels")
EDITABLE = ("title", "description", "target_branch", "state_event", "remove_source_branch", "squash", "labels")
LISTED = ("state", "source_branch", "target_branch", "order_by", "sort", "per_page", "page", "scope", "iids[]")


class MergeRoutes:
    """The endpoints about merge requests as such."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", REQUESTS, self.list_requests),
            ("POST", REQUESTS, self.create),
            ("GET", REQUEST, self.get),
            ("PUT", REQUEST, self.edit),
        ]

    def list_requests(self, call: Call) -> Response:
        """Merge requests into this project, those from forks among them."""
        only_query(call, *LISTED)
        project = self.hub.door.project(call)
        state = choice(call, "state", ("all", "opened", "closed", "merged", "locked"))
        order = choice(call, "order_by", ("created_at", "updated_at"))
        sort = choice(call, "sort", ("desc", "asc"))
        source, target = call.query.get("source_branch"), call.query.get("target_branch")
        iids = {int(iid) for iid in call.query.getlist("iids[]")}
        found = [
            request
            for request in project.merge_requests(call.behind)
            if state in ("all", request.state)
            and source in (None, request.source)
            and target in (None, request.target)
            and (not iids or request.iid in iids)
        ]
        found.sort(
            key=lambda request: (request.created_at if order == "created_at" else request.updated_at, request.id),
            reverse=sort == "desc",
        )
        render = self.hub.render(call)
        return page_of(
            call, found, lambda request: render.merge_request(project, request), address=self.hub.address(call)
        )

    def get(self, call: Call) -> Response:
        """One merge request."""
        project, request = self._found(call)
        return JSONResponse(self.hub.render(call).merge_request(project, request))

    def create(self, call: Call) -> Response:
        """Open a merge request; a second one for the same branches is 409. One without any change is let through."""
        project = self.hub.door.project(call)
        data = read_fields(call)
        only_fields(call, data, *CREATABLE)
        for name in ("source_branch", "target_branch", "title"):
            if not isinstance(data.get(name), str):
                raise invalid(f"{name} is missing" if data.get(name) is None else f"{name} is invalid")
        self.hub.door.need(call, project, DEVELOPER)
        source, target = data["source_branch"], data["target_branch"]
        _check_texts(data)
        heads = self.hub.code.of(project).heads()
        if source not in heads:
            raise refuse(400, {"source_branch": ["does not exist"]})
        if target not in heads:
            raise refuse(400, {"target_branch": ["does not exist"]})
        if source == target:
            words = "You can't use same project/branch for source and target"
            raise refuse(422, {"branch_conflict": [words], "validate_branches": [words]})
        for other in project.merge_requests():
            same = (other.source, other.target, other.source_project) == (source, target, project.id)
            if other.state == "opened" and same:
                words = f"Another open merge request already exists for this source branch: !{other.iid}"
                raise refuse(409, [words])
        made = self.hub.changes.open_merge_request(
            project,
            credential_of(call).by,
            source=source,
            target=target,
            title=data["title"],
            description=data.get("description"),
        )
        return JSONResponse(self.hub.render(call).merge_request(project, made), 201)

    def edit(self, call: Call) -> Response:
        """Change title, text, target or state."""
        project, request = self._found(call)
        data = read_fields(call)
        only_fields(call, data, *EDITABLE)
        credential = credential_of(call)
        if self.hub.door.level(call, project) < DEVELOPER and credential.username != request.author:
            raise forbidden()
        _check_texts(data)
        fields: dict[str, Any] = {}
        names = {"title": "title", "description": "description", "target_branch": "target"}
        for name, field in names.items():
            if name in data:
                fields[field] = data[name]
        event = data.get("state_event")
        if event is not None:
            if event not in ("close", "reopen"):
                raise invalid("state_event does not have a valid value")
            fields["state"] = "closed" if event == "close" else "opened"
        if not fields:
            raise invalid(f"{', '.join(EDITABLE)} are missing, at least one parameter must be provided")
        after = self.hub.changes.edit_merge_request(project, request, credential.by, **fields)
        return JSONResponse(self.hub.render(call).merge_request(project, after))

    def _found(self, call: Call) -> tuple[Project, MergeRequest]:
        project = self.hub.door.project(call)
        request = project.merge_request(call.params["iid"], call.behind)
        if request is None:
            raise not_found()
        return project, request


def _check_texts(data: dict[str, Any]) -> None:
    title, text = data.get("title"), data.get("description")
    if title is not None and not str(title).strip():
        raise refuse(400, {"title": ["can't be blank"]})
    if title is not None and len(str(title)) > LONGEST_TITLE:
        raise refuse(400, {"title": [f"is too long (maximum is {LONGEST_TITLE} characters)"]})
    if text is not None and len(str(text)) > LONGEST_TEXT:
        raise refuse(400, {"description": [f"is too long (maximum is {LONGEST_TEXT} characters)"]})
