"""How Jira answers: error bodies, bodies read, numbers in queries."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Refusal, Unsupported

NO_ISSUE = "Issue does not exist or you do not have permission to see it."


def problem(
    status: int, *messages: str, errors: dict[str, str] | None = None, headers: dict[str, str] | None = None
) -> JSONResponse:
    """An error in Jira's shape."""
    return JSONResponse({"errorMessages": list(messages), "errors": errors or {}}, status, headers)


def refuse(status: int, *messages: str, errors: dict[str, str] | None = None) -> Refusal:
    """The same, to be raised."""
    return Refusal(problem(status, *messages, errors=errors))


def no_issue() -> Refusal:
    """What Jira says both when there is nothing and when the caller may not know."""
    return refuse(404, NO_ISSUE)


def read_json(call: Call) -> Any:
    """The request's body; what is no JSON is refused."""
    try:
        return json.loads(call.body)
    except ValueError:
        raise refuse(400, "There was an error parsing JSON. Check that your request body is valid.") from None


def read_object(call: Call) -> dict[str, Any]:
    """The request's body, which must be an object."""
    data = read_json(call)
    if not isinstance(data, dict):
        raise refuse(400, "Invalid request payload. Refer to the REST API documentation and try again.")
    return data


def only(given: Any, known: tuple[str, ...], where: str) -> None:
    """What the simulator does not implement must not be ignored in silence."""
    if unknown := set(given) - set(known):
        raise Unsupported(f"{', '.join(sorted(unknown))} in {where}")


def number(call: Call, name: str, default: int) -> int:
    """A whole number of the query."""
    value = call.query.get(name, str(default))
    if not value.isdecimal():
        raise refuse(400, f"'{name}' must be a number")
    return int(value)


def properties_in(data: dict[str, Any]) -> dict[str, Any]:
    """Entity properties in a body: `[{"key": …, "value": …}]`."""
    found: dict[str, Any] = {}
    for item in data.get("properties") or []:
        if not isinstance(item, dict) or set(item) != {"key", "value"} or not isinstance(item["key"], str):
            raise refuse(400, "Can not deserialize properties")
        check_property(item["key"], item["value"])
        found[item["key"]] = item["value"]
    return found


def check_property(key: str, value: Any) -> None:
    """Refuse what is too long for a property."""
    if len(key) > 255 or len(json.dumps(value)) > 32_768:
        raise refuse(400, "The property is too long")


def nothing() -> Response:
    """Done, and nothing to say."""
    return Response(status_code=204)
