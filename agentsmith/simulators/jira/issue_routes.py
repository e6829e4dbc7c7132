"""Issues: get, create, edit, delete; many at once, their history and their properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler, Unsupported
from agentsmith.simulators.jira.answers import (
    check_property,
    nothing,
    number,
    only,
    properties_in,
    read_json,
    read_object,
    refuse,
)
from agentsmith.simulators.jira.hub import Hub
from agentsmith.simulators.jira.state import Issue

API = "/rest/api/{version}"
ISSUE = API + "/issue/{key}"
SCREEN = "Field '{}' cannot be set. It is not on the appropriate screen, or unknown."
TEXTS = ("summary", "description")


def split(value: str | None) -> list[str] | None:
    """A list in a query, separated by commas."""
    return None if value is None else [part.strip() for part in value.split(",") if part.strip()]


class IssueRoutes:
    """The endpoints about issues themselves."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("POST", API + "/issue", self.create),
            ("POST", API + "/issue/bulkfetch", self.bulk_fetch),
            ("GET", ISSUE, self.get),
            ("PUT", ISSUE, self.edit),
            ("DELETE", ISSUE, self.delete),
            ("GET", ISSUE + "/editmeta", self.edit_meta),
            ("GET", ISSUE + "/changelog", self.changelog),
            ("GET", ISSUE + "/properties", self.property_keys),
            ("GET", ISSUE + "/properties/{property}", self.property),
            ("PUT", ISSUE + "/properties/{property}", self.set_property),
            ("DELETE", ISSUE + "/properties/{property}", self.drop_property),
        ]

    def get(self, call: Call) -> Response:
        """One issue. One that was moved is found under its old key, and shows its new one."""
        only(call.query, ("fields", "expand", "properties", "updateHistory", "fieldsByKeys"), call.path)
        issue, render = self.hub.door.issue(call), self.hub.render(call)
        shown = render.issue(issue, split(call.query.get("fields")), split(call.query.get("properties")) or ())
        for word in split(call.query.get("expand")) or ():
            if word == "changelog":
                found = [render.history(h) for h in issue.history]
                most = 1 if "short_history" in call.quirks else len(found)
                counts = {"startAt": 0, "maxResults": most, "total": len(found)}
                shown["changelog"] = {**counts, "histories": found[:most]}
            elif word != "properties":
                raise Unsupported(f"expand={word}")
        return JSONResponse(shown)

    def bulk_fetch(self, call: Call) -> Response:
        """Up to 100 issues, not through the index; those that the caller may not see are left out."""
        if not self.hub.cloud:
            raise refuse(404, "HTTP 404 Not Found")
        data = read_object(call)
        only(data, ("issueIdsOrKeys", "fields", "properties", "expand", "fieldsByKeys"), call.path)
        wanted = data.get("issueIdsOrKeys")
        if not isinstance(wanted, list) or not wanted or len(wanted) > 100:
            raise refuse(400, "Between 1 and 100 issues can be fetched.")
        found = [self.hub.world.issue(str(name), call.behind) for name in wanted]
        who, render = self.hub.door.name(call), self.hub.render(call)
        seen = {i.id: i for i in found if i and self.hub.world.may(who, i.project, "BROWSE_PROJECTS")}
        shown = [render.issue(i, data.get("fields"), data.get("properties") or ()) for _, i in sorted(seen.items())]
        return JSONResponse({"issues": shown, "issueErrors": []})

    def create(self, call: Call) -> Response:
        """Open an issue."""
        data = read_object(call)
        fields = data.get("fields") or {}
        key = self._project_in(fields.get("project"))
        if not self.hub.world.may(self.hub.door.name(call), key, "EDIT_ISSUES"):
            raise refuse(400, errors={"project": "valid project is required"})
        if not isinstance(fields.get("summary"), str) or not fields["summary"].strip():
            raise refuse(400, errors={"summary": "You must specify a summary of the issue."})
        labels = _labels(fields.get("labels") or [])
        project, by = self.hub.world.project(key), self.hub.by(call)
        issue = self.hub.changes.open_issue(
            project, by, summary=fields["summary"], description=fields.get("description"), labels=labels
        )
        url = f"{self.hub.render(call).api}/issue/{issue.id}"
        return JSONResponse({"id": str(issue.id), "key": issue.key, "self": url}, 201)

    def _project_in(self, named: Any) -> str:
        """The key of the project that a new issue names, by its key or its id; empty where there is none."""
        if not isinstance(named, dict):
            return ""
        for project in self.hub.world.projects.values():
            if str(project.id) == str(named.get("id", "")) or project.key == named.get("key"):
                return project.key
        return ""

    def edit(self, call: Call) -> Response:
        """Edit fields, labels and properties at once; 204, or the edited fields where asked for (Cloud only)."""
        known = ("notifyUsers", "returnIssue", "overrideScreenSecurity", "overrideEditableFlag", "expand")
        only(call.query, known, call.path)
        issue, data = self.hub.door.issue(call), read_object(call)
        self._may_edit(call, issue)
        labels, fields = self._wanted(issue, data)
        properties = properties_in(data)
        if "label_conflict" in call.quirks:
            raise refuse(409, "The issue was being updated by another request.")
        if "silent_permission_loss" in call.quirks:
            labels, fields, properties = list(issue.labels), {}, {}
        if "label_revived" in call.quirks:
            labels = [*issue.labels, *(name for name in labels if name not in issue.labels)]
        issue = self.hub.changes.set_labels(issue, self.hub.by(call), labels, properties=properties, fields=fields)
        if call.query.get("returnIssue") != "true" or not self.hub.cloud or not self.hub.returns_issue:
            return nothing()
        edited = [*(data.get("fields") or {}), *(data.get("update") or {})]
        keys = list(properties) if self.hub.returns_properties else []
        return JSONResponse(self.hub.render(call).issue(issue, edited, keys))

    def delete(self, call: Call) -> Response:
        """Remove an issue."""
        issue = self.hub.door.issue(call)
        self.hub.door.need(call, issue, "DELETE_ISSUES", 403, "You do not have permission to delete this issue.")
        self.hub.changes.delete_issue(issue, self.hub.by(call))
        return nothing()

    def edit_meta(self, call: Call) -> Response:
        """Which fields the caller may edit."""
        issue = self.hub.door.issue(call)
        shown: dict[str, Any] = {name: _meta(name, "string", ["set"]) for name in TEXTS}
        if self.hub.world.project(issue.project).labels_on_screen:
            shown["labels"] = _meta("labels", "array", ["add", "set", "remove"]) | {
                "schema": {"type": "array", "items": "string", "system": "labels"}
            }
        return JSONResponse({"fields": shown})

    def changelog(self, call: Call) -> Response:
        """The history, oldest first, in pages of at most 100."""
        if not self.hub.cloud:
            raise refuse(404, "HTTP 404 Not Found")
        issue, render = self.hub.door.issue(call), self.hub.render(call)
        start, most = number(call, "startAt", 0), min(100, number(call, "maxResults", 100))
        found = issue.history[start : start + most]
        url = f"{render.api}/issue/{issue.key}/changelog"
        page = {"self": f"{url}?startAt={start}&maxResults={most}", "maxResults": most, "startAt": start}
        last = start + most >= len(issue.history)
        if not last:
            page["nextPage"] = f"{url}?startAt={start + most}&maxResults={most}"
        values = [render.history(h) for h in found]
        return JSONResponse({**page, "total": len(issue.history), "isLast": last, "values": values})

    def property_keys(self, call: Call) -> Response:
        """The names of an issue's properties."""
        issue, render = self.hub.door.issue(call), self.hub.render(call)
        url = f"{render.api}/issue/{issue.key}/properties"
        return JSONResponse({"keys": [{"self": f"{url}/{key}", "key": key} for key in issue.properties]})

    def property(self, call: Call) -> Response:
        """One property."""
        issue, key = self.hub.door.issue(call), call.params["property"]
        if key not in issue.properties:
            raise refuse(404, f"The property with key '{key}' does not exist.")
        return JSONResponse({"key": key, "value": issue.properties[key]})

    def set_property(self, call: Call) -> Response:
        """Set a property: 201 if it is new, 200 if it was there."""
        issue, key, value = self.hub.door.issue(call), call.params["property"], read_json(call)
        self.hub.door.need(call, issue, "EDIT_ISSUES", 403, "You do not have permission to edit this issue.")
        check_property(key, value)
        return JSONResponse({}, 201 if self.hub.changes.set_property(issue, key, value) else 200)

    def drop_property(self, call: Call) -> Response:
        """Take a property away; 404 where there is none."""
        issue, key = self.hub.door.issue(call), call.params["property"]
        self.hub.door.need(call, issue, "EDIT_ISSUES", 403, "You do not have permission to edit this issue.")
        if key not in issue.properties:
            raise refuse(404, f"The property with key '{key}' does not exist.")
        self.hub.changes.drop_property(issue, key)
        return nothing()

    def _may_edit(self, call: Call, issue: Issue) -> None:
        who, may = self.hub.door.name(call), self.hub.world.may
        silent = call.query.get("notifyUsers") == "false" and not self.hub.cloud
        if silent and not may(who, issue.project, "ADMINISTER_PROJECTS"):
            message = "To discard the user notification either admin or project admin permissions are required."
            raise refuse(403, message)
        on_screen = self.hub.world.project(issue.project).labels_on_screen
        if not on_screen or not may(who, issue.project, "EDIT_ISSUES"):
            raise refuse(400, errors={"labels": SCREEN.format("labels")})

    def _wanted(self, issue: Issue, data: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """The labels and texts that an edit leaves behind."""
        only(data, ("fields", "update", "properties", "historyMetadata", "transition"), "an edit")
        fields, update = dict(data.get("fields") or {}), data.get("update") or {}
        if both := set(fields) & set(update):
            field = sorted(both)[0]
            raise refuse(400, errors={field: f"Field '{field}' cannot appear in both 'fields' and 'update'"})
        labels = list(issue.labels)
        if "labels" in fields:
            labels = _labels(fields.pop("labels"))
        for field, operations in update.items():
            if field == "labels":
                labels = relabelled(labels, operations)
            elif field in TEXTS and len(operations) == 1 and "set" in operations[0]:
                fields[field] = operations[0]["set"]
            else:
                raise refuse(400, errors={field: SCREEN.format(field)})
        if unknown := set(fields) - set(TEXTS):
            raise refuse(400, errors={field: SCREEN.format(field) for field in unknown})
        return labels, fields


def relabelled(labels: list[str], operations: Any) -> list[str]:
    """The labels after operations in their order; adding what is there and removing what is not are no errors."""
    steps: dict[str, Callable[[Any], list[str]]] = {
        "add": lambda name: [*labels, *(n for n in _labels([name]) if n not in labels)],
        "remove": lambda name: [n for n in labels if n != name],
        "set": _labels,
    }
    for operation in operations if isinstance(operations, list) else [None]:
        if not isinstance(operation, dict) or len(operation) != 1 or next(iter(operation)) not in steps:
            raise refuse(400, errors={"labels": "Operation not recognised"})
        for verb, value in operation.items():
            labels = steps[verb](value)
    return labels


def _labels(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise refuse(400, errors={"labels": "data was not an array"})
    for name in names:
        if any(c.isspace() for c in name):
            raise refuse(400, errors={"labels": f"The label '{name}' contains spaces which is invalid."})
        if len(name) > 255:
            raise refuse(400, errors={"labels": f"The label '{name}' exceeds the maximum length for a single label."})
    return list(dict.fromkeys(names))


def _meta(name: str, kind: str, operations: list[str]) -> dict[str, Any]:
    schema = {"type": kind, "system": name}
    return {"required": name == "summary", "schema": schema, "name": name, "key": name, "operations": operations}
