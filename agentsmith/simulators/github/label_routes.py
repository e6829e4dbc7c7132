"""Labels, on issues and of repositories."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.github.access import credential_of
from agentsmith.simulators.github.answers import invalid, not_found, read_json, read_object, refuse
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.payloads import Json
from agentsmith.simulators.github.state import AUTO_COLOR, Issue, Label, Repository

ON_ISSUE = "/repos/{owner}/{repo}/issues/{number:int}/labels"
OF_REPOSITORY = "/repos/{owner}/{repo}/labels"
MAX_NAME = 50


class LabelRoutes:
    """The endpoints about labels."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler. A name may hold a slash, hence `path`."""
        return [
            ("GET", ON_ISSUE, self.on_issue),
            ("POST", ON_ISSUE, self.add),
            ("PUT", ON_ISSUE, self.replace_all),
            ("DELETE", ON_ISSUE, self.remove_all),
            ("DELETE", ON_ISSUE + "/{name:path}", self.remove),
            ("GET", OF_REPOSITORY, self.of_repository),
            ("POST", OF_REPOSITORY, self.create),
            ("GET", OF_REPOSITORY + "/{name:path}", self.get),
            ("PATCH", OF_REPOSITORY + "/{name:path}", self.edit),
            ("DELETE", OF_REPOSITORY + "/{name:path}", self.delete),
        ]

    def on_issue(self, call: Call) -> Response:
        """The labels of an issue."""
        repository, issue = self.hub.door.issue(call)
        shown = [_whole(label) for label in self.hub.render(call).labels(repository, issue)]
        return self.hub.page(call, repository, f"issues/{issue.number}/labels", shown)

    def add(self, call: Call) -> Response:
        """Add labels, making those that do not exist; answers the full list."""
        repository, issue = self.hub.door.issue(call)
        names = names_in(_labels_in(call))
        if self._writable(call, repository):
            issue = self.hub.changes.add_labels(repository, issue, names, credential_of(call).by)
        return self._all(call, repository, issue)

    def replace_all(self, call: Call) -> Response:
        """Set the labels: what others added meanwhile is lost, which is the point of having this here."""
        repository, issue = self.hub.door.issue(call)
        names = names_in(_labels_in(call))
        if self._writable(call, repository):
            issue = self.hub.changes.replace_labels(repository, issue, names, credential_of(call).by)
        return self._all(call, repository, issue)

    def remove_all(self, call: Call) -> Response:
        """Take all labels off."""
        repository, issue = self.hub.door.issue(call)
        if self._writable(call, repository):
            self.hub.changes.remove_labels(repository, issue, issue.labels, credential_of(call).by)
        return Response(status_code=204)

    def remove(self, call: Call) -> Response:
        """Take one label off and answer the rest; 404 with its own message where it is not there."""
        repository, issue = self.hub.door.issue(call)
        writable = self._writable(call, repository)
        label = repository.label_named(call.params["name"])
        if label is None or label.id not in issue.labels:
            # Nothing proves that of two simultaneous removals only one is told 200.
            if "lenient_delete" not in call.quirks:
                raise refuse(404, "Label does not exist")
        elif writable:
            issue = self.hub.changes.remove_labels(repository, issue, [label.id], credential_of(call).by)
        return self._all(call, repository, issue)

    def of_repository(self, call: Call) -> Response:
        """The repository's labels."""
        repository = self.hub.door.repository(call)
        render = self.hub.render(call)
        labels = list(repository.labels.values())
        return self.hub.page(call, repository, "labels", labels, lambda each: _whole(render.label(repository, each)))

    def create(self, call: Call) -> Response:
        """Make a label; 422 `already_exists` where there is one of that name in any case."""
        repository = self.hub.door.repository(call)
        self.hub.door.need(call, repository, "issues", "write")
        data = read_object(call)
        if "name" not in data:
            raise invalid("Label", "missing_field", "name")
        (name,) = names_in([data["name"]])
        if repository.label_named(name):
            raise invalid("Label", "already_exists", "name")
        color = _color(data.get("color", AUTO_COLOR))
        label = self.hub.changes.create_label(repository, name, color, data.get("description"))
        shown = _whole(self.hub.render(call).label(repository, label))
        return JSONResponse(shown, 201, {"Location": shown["url"]})

    def get(self, call: Call) -> Response:
        """One label."""
        repository, label = self._named(call)
        return JSONResponse(_whole(self.hub.render(call).label(repository, label)))

    def edit(self, call: Call) -> Response:
        """Rename or recolour; every issue that has it follows."""
        repository, label = self._named(call)
        self.hub.door.need(call, repository, "issues", "write")
        data = read_object(call)
        fields: dict[str, Any] = {}
        # PyGithub sends the old name beside the new one.
        if new_name := data.get("new_name") or data.get("name"):
            (fields["name"],) = names_in([new_name])
            other = repository.label_named(fields["name"])
            if other and other.id != label.id:
                raise invalid("Label", "already_exists", "name")
        if "color" in data:
            fields["color"] = _color(data["color"])
        if "description" in data:
            fields["description"] = data["description"]
        repository.labels[label.id] = replace(label, **fields)
        return JSONResponse(_whole(self.hub.render(call).label(repository, repository.labels[label.id])))

    def delete(self, call: Call) -> Response:
        """Delete a label, and thereby take it off every issue."""
        repository, label = self._named(call)
        self.hub.door.need(call, repository, "issues", "write")
        del repository.labels[label.id]
        return Response(status_code=204)

    def _named(self, call: Call) -> tuple[Repository, Label]:
        repository = self.hub.door.repository(call)
        label = repository.label_named(call.params["name"])
        if label is None:
            raise not_found()
        return repository, label

    def _writable(self, call: Call, repository: Repository) -> bool:
        """Whether the write takes effect; refuses with 403 unless the loss is to be silent."""
        if "silent_permission_loss" not in call.quirks:
            self.hub.door.need(call, repository, "issues", "triage")
        return self.hub.door.may_label(call, repository)

    def _all(self, call: Call, repository: Repository, issue: Issue) -> Response:
        return JSONResponse([_whole(label) for label in self.hub.render(call).labels(repository, issue)])


def names_in(labels: Any) -> list[str]:
    """Label names from strings or objects; what GitHub would not store is refused."""
    if not isinstance(labels, list):
        raise refuse(422, "Invalid request.\n\nFor 'properties/labels', that is not an array.")
    names = []
    for item in labels:
        name = item.get("name") if isinstance(item, dict) else item
        if not isinstance(name, str) or not name.strip():
            raise invalid("Label", "invalid", "name")
        if len(name) > MAX_NAME:
            raise invalid("Label", "invalid", "name", f"name is too long (maximum is {MAX_NAME} characters)")
        if "," in name:
            raise invalid("Label", "invalid", "name", "name cannot contain a comma")
        names.append(name)
    return names


def _labels_in(call: Call) -> Any:
    data = read_json(call)
    return data.get("labels", []) if isinstance(data, dict) else data


def _color(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch("[0-9a-fA-F]{6}", value):
        raise invalid("Label", "invalid", "color")
    return value


def _whole(label: Json) -> Json:
    """A label as the endpoints for labels show it; issues and webhooks show less."""
    return {**label, "archived_at": None, "archived_by": None}
