"""Work items: read, patch, create, delete, read many, and their history."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.azuredevops.answers import (
    PATCH,
    listed,
    need_type,
    need_version,
    no_item,
    only_query,
    problem,
    read_json,
    read_object,
    refuse,
    whole,
)
from agentsmith.simulators.azuredevops.hub import Hub
from agentsmith.simulators.azuredevops.patching import read_patch
from agentsmith.simulators.azuredevops.payloads import Renderer
from agentsmith.simulators.azuredevops.state import TAGS, Project, WorkItem
from agentsmith.simulators.frame import Call, Handler

ITEM = "/wit/workitems/{number:int}"
HISTORY = "/wit/workItems/{number:int}"
EXPANSIONS = ("none", "relations", "fields", "links", "all")
MOST_IN_BATCH = 200


class ItemRoutes:
    """The endpoints about work items themselves; all of them with and without a project in the path."""

    def __init__(self, hub: Hub, *, most_revisions: int) -> None:
        self.hub = hub
        self.most_revisions = most_revisions

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path below `_apis`, handler."""
        return [
            ("GET", ITEM, self.get),
            ("PATCH", ITEM, self.patch),
            ("DELETE", ITEM, self.delete),
            ("GET", "/wit/workitems", self.get_many),
            ("POST", "/wit/workitems/${type}", self.create),
            ("POST", "/wit/workitemsbatch", self.batch),
            ("GET", f"{HISTORY}/updates", self.updates),
            ("GET", f"{HISTORY}/revisions", self.revisions),
            ("GET", f"{HISTORY}/revisions/{{rev:int}}", self.revision),
        ]

    def get(self, call: Call) -> Response:
        """One work item; fields or an expansion, not both."""
        only_query(call, "fields", "$expand", "asOf")
        need_version(call)
        expand, fields = _expansion(call.query.get("$expand")), call.query.get("fields")
        if fields and expand != "none":
            raise refuse(400, "The expand parameter can not be used with the fields parameter.", "ArgumentException")
        item = self.hub.door.item(call)
        shown = self.hub.render(call).item(
            item, item.as_of(call.behind), expand=expand, only=fields.split(",") if fields else None
        )
        return JSONResponse(shown)

    def patch(self, call: Call) -> Response:
        """Change a work item, in one revision or not at all."""
        only_query(call, "validateOnly", "bypassRules", "suppressNotifications", "$expand")
        need_version(call)
        need_type(call, PATCH)
        item = self.hub.door.item(call)
        self.hub.door.need_write(call)
        if "revision_race" in call.quirks:
            message = (
                f"TF26071: This work item has been changed by someone else since you opened it. You will need to "
                f"refresh it and reapply your changes. (work item {item.id})"
            )
            return problem(409, message, "WorkItemRevisionMismatchException")
        project = self.hub.world.project(item.project)
        overwrites = "add_overwrites" in call.quirks
        wishes = read_patch(read_json(call), item.now, project, add_overwrites=overwrites)
        if len(item.revisions) >= self.most_revisions:
            message = f"VS403432: Work item {item.id} has reached the limit of {self.most_revisions} revisions."
            raise refuse(400, message, "WorkItemRevisionLimitExceededException")
        if "silent_permission_loss" in call.quirks:
            wishes.fields.pop(TAGS, None)
        by, expand = self.hub.door.by(call), _expansion(call.query.get("$expand"))
        with self._for_good(call, project):
            self.hub.changes.update(item, by, wishes.fields, relations=wishes.relations, history=wishes.history)
            return JSONResponse(self.hub.render(call).item(item, item.now, expand=expand))

    def create(self, call: Call) -> Response:
        """A new work item."""
        only_query(call, "validateOnly", "bypassRules", "suppressNotifications", "$expand")
        need_version(call)
        need_type(call, PATCH)
        project = self.hub.door.project(call)
        self.hub.door.need_write(call)
        type_ = str(call.params["type"])
        if project is None or type_ not in project.types:
            raise refuse(
                404, f"VS402323: Work item type {type_} does not exist in the project.", "WorkItemTypeNotFoundException"
            )
        wishes = read_patch(read_json(call), None, project)
        if "System.Title" not in wishes.fields:
            message = "TF401320: Rule Error for field Title. Error code: Required, InvalidEmpty."
            raise refuse(400, message, "RuleValidationException")
        by = self.hub.door.by(call)
        with self._for_good(call, project):
            item = self.hub.changes.create(project, type_, wishes.fields, by)
            if wishes.history:
                self.hub.changes.comment(item, wishes.history, by)
            return JSONResponse(self.hub.render(call).item(item, item.now))

    def _for_good(self, call: Call, project: Project) -> AbstractContextManager[None]:
        """Where a change is made; with `validateOnly` it is answered and not kept."""
        only_tried = call.query.get("validateOnly", "").casefold() == "true"
        return self.hub.changes.rehearsal(project) if only_tried else nullcontext()

    def delete(self, call: Call) -> Response:
        """Into the recycle bin."""
        item = self.hub.door.item(call)
        self.hub.door.need_write(call)
        self.hub.changes.delete(item, self.hub.door.by(call))
        return JSONResponse({"id": item.id, "code": 200, "name": item.now.fields.get("System.Title"), "url": ""})

    def get_many(self, call: Call) -> Response:
        """Several work items by their ids in the query."""
        only_query(call, "ids", "fields", "$expand", "asOf", "errorPolicy")
        try:
            ids = [int(part) for part in call.query.get("ids", "").split(",")]
        except ValueError:
            raise refuse(400, "The ids parameter is not a list of numbers.", "ArgumentException") from None
        fields = call.query.get("fields")
        body = {"ids": ids, "errorPolicy": call.query.get("errorPolicy", "fail"), "$expand": call.query.get("$expand")}
        return self._many(call, {**body, "fields": fields.split(",") if fields else None})

    def batch(self, call: Call) -> Response:
        """The same with a body: up to 200; with errorPolicy omit what is not there is null."""
        need_version(call)
        return self._many(call, read_object(call))

    def updates(self, call: Call) -> Response:
        """The history of a work item, oldest first, 200 at a time."""
        only_query(call, "$top", "$skip")
        item = self.hub.door.item(call)
        render = self.hub.render(call)
        skip, top = whole(call, "$skip", 0, 1 << 30), whole(call, "$top", 200, 200)
        last = len(item.revisions) - call.behind
        return listed([render.update(item, index) for index in range(skip, min(skip + top, last))])

    def revisions(self, call: Call) -> Response:
        """Every revision of a work item, whole."""
        only_query(call, "$top", "$skip", "$expand")
        item = self.hub.door.item(call)
        render = self.hub.render(call)
        skip, top = whole(call, "$skip", 0, 1 << 30), whole(call, "$top", 200, 200)
        return listed([render.item(item, revision) for revision in item.revisions[skip : skip + top]])

    def revision(self, call: Call) -> Response:
        """The work item as it was in one revision."""
        only_query(call, "$expand")
        need_version(call)
        item = self.hub.door.item(call)
        found = next((revision for revision in item.revisions if revision.rev == call.params["rev"]), None)
        if found is None:
            raise refuse(404, f"Revision {call.params['rev']} does not exist.", "WorkItemRevisionNotFoundException")
        return JSONResponse(self.hub.render(call).item(item, found))

    def _many(self, call: Call, body: dict[str, Any]) -> Response:
        project = self.hub.door.project(call)
        ids = body.get("ids")
        if not isinstance(ids, list) or not ids or len(ids) > MOST_IN_BATCH:
            message = f"VS403474: You requested {len(ids or ())} work items which exceeds the limit of {MOST_IN_BATCH}."
            raise refuse(400, message, "WorkItemPageSizeExceededException")
        render = self.hub.render(call)
        shown: list[Any] = []
        for number in ids:
            item = self._found(call, number, project.name if project else None)
            if item is None and str(body.get("errorPolicy", "fail")).lower() != "omit":
                raise no_item(number)
            shown.append(None if item is None else self._shown(render, item, body, call.behind))
        return listed(shown)

    def _found(self, call: Call, number: int, project: str | None) -> WorkItem | None:
        if self.hub.door.credential(call).user.name.casefold() in self.hub.door.blind:
            return None
        try:
            item = self.hub.world.item(number)
        except LookupError:
            return None
        return item if project is None or item.project == project else None

    @staticmethod
    def _shown(render: Renderer, item: WorkItem, body: dict[str, Any], behind: int) -> dict[str, Any]:
        expand = _expansion(body.get("$expand"))
        return render.item(item, item.as_of(behind), expand=expand, only=body.get("fields"))


def _expansion(given: Any) -> str:
    expand = str(given or "none").lower()
    if expand not in EXPANSIONS:
        raise refuse(400, f"The expand option {expand!r} is not known.", "ArgumentException")
    return expand
