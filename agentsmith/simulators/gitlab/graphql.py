"""The GraphQL endpoint, as far as a client needs it to whom REST does not tell when a label was changed.

A field that is not in `SCHEMA` is answered as GitLab answers one that does not exist (200, with `errors`) and counts as
an unknown request, because the real service may know it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Endpoint, Unsupported
from agentsmith.simulators.gitlab.answers import read_fields
from agentsmith.simulators.gitlab.hub import Hub
from agentsmith.simulators.gitlab.state import Issue, Label, Project
from agentsmith.simulators.graphql_document import BadDocument, Selected, Variable, read

PATH = "/api/graphql"
SCHEMA: Mapping[str, Mapping[str, str]] = {
    "Query": {"issue": "Issue", "projects": "ProjectConnection"},
    "ProjectConnection": {"nodes": "Project"},
    "Project": {"id": "", "fullPath": "", "labels": "LabelConnection"},
    "Issue": {"id": "", "iid": "", "title": "", "labels": "LabelConnection"},
    "LabelConnection": {"pageInfo": "PageInfo", "nodes": "Label"},
    "PageInfo": {"hasNextPage": "", "endCursor": ""},
    "Label": {"id": "", "title": "", "color": "", "description": "", "createdAt": "", "updatedAt": ""},
}
"""The type of every field; empty for plain values."""
MOST = 100


class GraphqlRoutes:
    """The one endpoint, beside the root of the REST API."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    @property
    def endpoint(self) -> Endpoint:
        """Where it is."""
        return Endpoint("POST", PATH, self.run, outside=True)

    def run(self, call: Call) -> Response:
        """Read, check, then run; GraphQL errors come with status 200."""
        data = read_fields(call)
        try:
            document = read(str(data.get("query", "")), data.get("operationName"))
        except BadDocument as bad:
            return _errors(str(bad))
        variables = data.get("variables") or {}
        if missing := [name for name in sorted(document.required) if variables.get(name) is None]:
            return _errors(f"Variable ${missing[0]} of type was provided invalid value")
        if document.kind != "query":
            raise Unsupported("a GraphQL mutation", _errors("mutations are not simulated"))
        hidden = {"createdAt", "updatedAt"} if "no_label_dates" in call.quirks else set()
        if unknown := _first_unknown(document.selections, "Query", hidden):
            answer = _errors(f"Field '{unknown[1]}' doesn't exist on type '{unknown[0]}'", code="undefinedField")
            if unknown[1] in hidden:
                return answer
            raise Unsupported(f"{unknown[0]}.{unknown[1]}", answer)
        return JSONResponse({"data": self._query(call, document.selections, variables)})

    def _query(self, call: Call, selections: list[Selected], variables: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for selected in selections:
            arguments = {name: _value(value, variables) for name, value in selected.arguments.items()}
            if selected.name == "projects":
                there = self._projects(call, arguments.get("ids"))
                result[selected.alias] = {
                    inner.alias: [_project(project, inner.selections, variables) for project in there]
                    for inner in selected.selections
                }
                continue
            found = self._issue(call, str(arguments.get("id")))
            result[selected.alias] = None if found is None else _issue(*found, selected.selections, variables)
        return result

    def _projects(self, call: Call, gids: object) -> list[Project]:
        """The projects of these numbers, as far as they are in sight."""
        if not isinstance(gids, list):
            raise Unsupported("projects without ids", _errors("projects are simulated by their ids only"))
        named = {f"gid://gitlab/Project/{project.id}": project for project in self.hub.world.projects.values()}
        return [named[gid] for gid in gids if gid in named and self.hub.door.sees(call, named[gid])]

    def _issue(self, call: Call, gid: str) -> tuple[Project, Issue] | None:
        """The issue of that number; one that is out of sight is null, like one that is not there."""
        named = re.fullmatch(r"gid://gitlab/(?:Issue|WorkItem)/([0-9]+)", gid)
        found = self.hub.world.issue_by_id(int(named[1])) if named else None
        return found if found is not None and self.hub.door.shows(call, *found) else None


def _project(project: Project, selections: list[Selected], variables: Mapping[str, Any]) -> dict[str, Any]:
    plain = {"id": f"gid://gitlab/Project/{project.id}", "fullPath": project.path}
    return _with_labels(plain, list(project.labels.values()), selections, variables)


def _issue(project: Project, issue: Issue, selections: list[Selected], variables: Mapping[str, Any]) -> dict[str, Any]:
    plain = {"id": f"gid://gitlab/Issue/{issue.id}", "iid": str(issue.iid), "title": issue.title}
    return _with_labels(plain, project.labels_of(issue), selections, variables)


def _with_labels(
    plain: Mapping[str, str], labels: list[Label], selections: list[Selected], variables: Mapping[str, Any]
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for selected in selections:
        if selected.name == "labels":
            arguments = {name: _value(value, variables) for name, value in selected.arguments.items()}
            term = str(arguments.get("searchTerm") or "").casefold()
            found = [label for label in labels if term in f"{label.name}\n{label.description or ''}".casefold()]
            result[selected.alias] = _labels(found, selected.selections, arguments)
        else:
            result[selected.alias] = plain[selected.name]
    return result


def _labels(labels: list[Label], selections: list[Selected], arguments: Mapping[str, Any]) -> dict[str, Any]:
    begin = int(base64.b64decode(arguments["after"])) if arguments.get("after") else 0
    end = begin + min(int(arguments.get("first") or MOST), MOST)
    more = end < len(labels)
    info = {"hasNextPage": more, "endCursor": base64.b64encode(str(end).encode()).decode() if more else None}
    result: dict[str, Any] = {}
    for selected in selections:
        shown = [_label(label) for label in labels[begin:end]]
        picked = {inner.alias: inner.name for inner in selected.selections}
        result[selected.alias] = (
            {alias: info[name] for alias, name in picked.items()}
            if selected.name == "pageInfo"
            else [{alias: label[name] for alias, name in picked.items()} for label in shown]
        )
    return result


def _label(label: Label) -> dict[str, Any]:
    return {
        "id": f"gid://gitlab/ProjectLabel/{label.id}",
        "title": label.name,
        "color": label.color,
        "description": label.description,
        "createdAt": _whole(label.created_at),
        "updatedAt": _whole(label.updated_at),
    }


def _whole(moment: datetime) -> str:
    """As GraphQL prints dates: seconds, unlike REST."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _first_unknown(selections: list[Selected], type_name: str, hidden: set[str]) -> tuple[str, str] | None:
    """Check everything before anything runs, as GraphQL prescribes."""
    for selected in selections:
        inner = SCHEMA[type_name].get(selected.name)
        if (
            inner is None
            or bool(inner) != bool(selected.selections)
            or (type_name == "Label" and selected.name in hidden)
        ):
            return type_name, selected.name or "a fragment"
        if inner and (found := _first_unknown(selected.selections, inner, hidden)):
            return found
    return None


def _value(value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_value(one, variables) for one in value]
    return variables.get(value.name) if isinstance(value, Variable) else value


def _errors(message: str, *, code: str = "") -> Response:
    error: dict[str, Any] = {"message": message} | ({"extensions": {"code": code}} if code else {})
    return JSONResponse({"errors": [error]})
