"""The GraphQL endpoint, as far as a client of issues and labels needs it.

A field that is not in `SCHEMA` is answered as GitHub answers one that does not exist (200, with `errors`) and
counts as an unknown request, because the real service may know it. Mutations run one after the other and are
no transaction: what the first wrote stays although the second failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Unsupported
from agentsmith.simulators.github.access import credential_of
from agentsmith.simulators.github.answers import read_object
from agentsmith.simulators.github.graphql_schema import SCHEMA, Failed, Field, Thing, Visit
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.graphql_document import BadDocument, Document, Selected, Variable, read


class GraphqlEndpoint:
    """The one endpoint."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def run(self, call: Call) -> Response:
        """Read, check, then run; GraphQL errors come with status 200."""
        data = read_object(call)
        query, variables = data.get("query"), data.get("variables") or {}
        if not isinstance(query, str):
            return _errors("A query attribute must be specified and must be a string.")
        try:
            document = read(query, data.get("operationName"))
        except BadDocument as bad:
            return _errors(str(bad))
        for name in sorted(document.required):
            if variables.get(name) is None:
                return _errors(f"Variable ${name} was provided invalid value")
        root = "Mutation" if document.kind == "mutation" else "Query"
        run = _Run(self.hub, call, document, variables)
        if unknown := run.first_unknown(document.selections, root):
            type_name, field = unknown
            words = f"Field '{field}' doesn't exist on type '{type_name}'"
            raise Unsupported(words, _errors(words))
        result = run.select(Thing(root, None), document.selections, [])
        body: dict[str, Any] = {"data": result}
        if run.errors:
            body["errors"] = run.errors
        return JSONResponse(body)


def _errors(message: str, **more: Any) -> Response:
    return JSONResponse({"errors": [{"message": message, **more}]})


@dataclass(slots=True)
class _Run:
    """One execution of one operation."""

    hub: Hub
    call: Call
    document: Document
    variables: dict[str, Any]
    errors: list[dict[str, Any]] = dataclass_field(default_factory=list)

    def first_unknown(self, selections: list[Selected], type_name: str) -> tuple[str, str] | None:
        """Check everything before anything runs, as GraphQL prescribes."""
        fields = SCHEMA.get(type_name)
        if fields is None:
            return type_name, "(the type itself)"
        for selected in map(self._resolved, selections):
            if selected.on is not None:
                inner: str | None = selected.on
            elif selected.name == "__typename":
                continue
            elif selected.name in fields:
                inner = fields[selected.name].type
            else:
                return type_name, selected.name
            if (inner is None) != (not selected.selections):
                return type_name, f"{selected.name} (with or without selections)"
            if inner is not None and (found := self.first_unknown(selected.selections, inner)):
                return found
        return None

    def select(self, thing: Thing, selections: list[Selected], path: list[Any]) -> dict[str, Any]:
        """The chosen fields of one object."""
        result: dict[str, Any] = {}
        for selected in map(self._resolved, selections):
            if selected.on is not None:
                if selected.on in thing.kinds:
                    result |= self.select(thing, selected.selections, path)
            elif selected.name == "__typename":
                result[selected.alias] = thing.type
            else:
                here = [*path, selected.alias]
                result[selected.alias] = self._field(thing, SCHEMA[thing.type][selected.name], selected, here)
        return result

    def _field(self, thing: Thing, field: Field, selected: Selected, path: list[Any]) -> Any:
        arguments = {name: self._value(value) for name, value in selected.arguments.items()}
        visit = Visit(self.hub, self.call, credential_of(self.call), arguments)
        try:
            value = field.resolve(thing.value, visit)
        except Failed as failed:
            self.errors.append({"type": failed.kind, "path": path, "message": str(failed)})
            return None
        return self._shown(value, selected, path)

    def _shown(self, value: Any, selected: Selected, path: list[Any]) -> Any:
        if isinstance(value, list):
            return [self._shown(item, selected, [*path, index]) for index, item in enumerate(value)]
        return self.select(value, selected.selections, path) if isinstance(value, Thing) else value

    def _resolved(self, selected: Selected) -> Selected:
        if selected.fragment is None:
            return selected
        return self.document.fragments.get(selected.fragment, Selected(name=selected.fragment))

    def _value(self, value: Any) -> Any:
        if isinstance(value, Variable):
            return self.variables.get(value.name)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in value.items()}
        return value
