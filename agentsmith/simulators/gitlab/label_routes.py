"""Labels of projects, and links between issues."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.gitlab.answers import (
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
from agentsmith.simulators.gitlab.state import PLANNER, Issue, Label, Project

LABELS = "/projects/{project:path}/labels"
LINKS = "/projects/{project:path}/issues/{iid:int}/links"
OPPOSITE = {"blocks": "is_blocked_by", "is_blocked_by": "blocks", "relates_to": "relates_to"}


class LabelRoutes:
    """The endpoints about labels and links."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", LINKS, self.links),
            ("POST", LINKS, self.link),
            ("DELETE", LINKS + "/{link_id:int}", self.unlink),
            ("GET", LABELS, self.list_labels),
            ("POST", LABELS, self.create),
            ("GET", LABELS + "/{name}", self.get),
            ("PUT", LABELS + "/{name}", self.edit),
            ("PUT", LABELS, self.edit),  # the older form, in which the body names the label
            ("DELETE", LABELS + "/{name}", self.delete),
        ]

    def list_labels(self, call: Call) -> Response:
        """The project's labels by name."""
        only_query(call, "per_page", "page", "with_counts", "include_ancestor_groups", "search")
        project = self.hub.door.project(call)
        found = sorted(project.labels.values(), key=lambda label: label.name)
        return page_of(call, found, self.hub.render(call).label, address=self.hub.address(call))

    def create(self, call: Call) -> Response:
        """Make a label; 409 where there is one of that name."""
        project = self.hub.door.project(call)
        self.hub.door.need(call, project, PLANNER)
        data = read_fields(call)
        only_fields(call, data, "name", "color", "description", "priority")
        for field in ("name", "color"):
            if not isinstance(data.get(field), str):
                raise invalid(f"{field} is missing")
        if "," in data["name"] or not data["name"].strip():
            raise refuse(400, {"title": ["is invalid"]})
        if project.label_named(data["name"]):
            raise refuse(409, "Label already exists")
        label = self.hub.changes.create_label(project, data["name"], _color(data["color"]), data.get("description"))
        return JSONResponse(self.hub.render(call).label(label), 201)

    def get(self, call: Call) -> Response:
        """One label, by id or name."""
        _, label = self._label(call)
        return JSONResponse(self.hub.render(call).label(label))

    def edit(self, call: Call) -> Response:
        """Rename or recolour; every issue that has it follows, and none of them counts as updated."""
        project, label = self._label(call)
        self.hub.door.need(call, project, PLANNER)
        data = read_fields(call)
        only_fields(call, data, "new_name", "color", "description", "priority", "name")
        fields: dict[str, Any] = {}
        if data.get("new_name"):
            fields["name"] = str(data["new_name"])
        if "color" in data:
            fields["color"] = _color(data["color"])
        if "description" in data:
            fields["description"] = data["description"]
        return JSONResponse(self.hub.render(call).label(self.hub.changes.edit_label(project, label, **fields)))

    def delete(self, call: Call) -> Response:
        """Delete a label, and thereby take it off every issue."""
        project, label = self._label(call)
        self.hub.door.need(call, project, PLANNER)
        del project.labels[label.id]
        return Response(status_code=204)

    def links(self, call: Call) -> Response:
        """The issues that this one is linked to, in one list; a server may not know links at all."""
        if denied := call.quirks.get("no_links"):
            raise forbidden() if denied.status == 403 else not_found()
        _, issue = self.hub.door.issue(call)
        render = self.hub.render(call)
        shown = []
        for link in self.hub.world.links.values():
            if issue.id in (link.source, link.target):
                ours = link.source == issue.id
                other = self.hub.world.issue_by_id(link.target if ours else link.source)
                if other is not None:
                    shown.append(render.linked(other, link, link.type if ours else OPPOSITE[link.type]))
        return JSONResponse(shown)

    def link(self, call: Call) -> Response:
        """Link two issues; only paid tiers let one block the other."""
        project, issue = self.hub.door.issue(call)
        self.hub.door.need(call, project, PLANNER)
        data = read_fields(call)
        only_fields(call, data, "target_project_id", "target_issue_iid", "link_type")
        kind = str(data.get("link_type", "relates_to"))
        if kind not in OPPOSITE:
            raise invalid("link_type does not have a valid value")
        if kind != "relates_to" and not self.hub.changes.premium:
            raise refuse(403, "Blocked issues not available for current license")
        target = self._target(data)
        self.hub.changes.link(issue, target[1], kind)
        render = self.hub.render(call)
        source = render.issue(project, issue)
        return JSONResponse({"source_issue": source, "target_issue": render.issue(*target), "link_type": kind}, 201)

    def unlink(self, call: Call) -> Response:
        """Take a link away."""
        project, issue = self.hub.door.issue(call)
        self.hub.door.need(call, project, PLANNER)
        link = self.hub.world.links.get(call.params["link_id"])
        if link is None or issue.id not in (link.source, link.target):
            raise not_found()
        del self.hub.world.links[link.id]
        return JSONResponse({"link_type": link.type})

    def _target(self, data: dict[str, Any]) -> tuple[Project, Issue]:
        try:
            project = self.hub.world.project(data.get("target_project_id", ""))
            issue = project.issue(int(data.get("target_issue_iid", 0)))
        except (LookupError, ValueError):
            raise not_found() from None
        if issue is None:
            raise not_found()
        return project, issue

    def _label(self, call: Call) -> tuple[Project, Label]:
        project = self.hub.door.project(call)
        name = call.params.get("name") or str(read_fields(call).get("name", ""))
        label = project.labels.get(int(name)) if name.isdecimal() else None
        label = label or project.label_named(name)
        if label is None:
            raise not_found("Label")
        return project, label


def _color(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"#[0-9a-fA-F]{6}|[a-z]+", value):
        raise refuse(400, {"color": ["must be a valid color code"]})
    return value
