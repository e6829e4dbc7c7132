"""How GitHub answers: error bodies, bodies read, and pages with their Link header."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Refusal, Unsupported

DOCS = "https://docs.github.com/rest"
MAX_BODY = 65_536
T = TypeVar("T")


def problem(status: int, message: str, *, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    """An error in GitHub's shape."""
    body = {"message": message, **more, "documentation_url": DOCS, "status": str(status)}
    return JSONResponse(body, status, headers)


def refuse(status: int, message: str, **more: Any) -> Refusal:
    """The same, to be raised."""
    return Refusal(problem(status, message, **more))


def not_found() -> Refusal:
    """What GitHub says both when there is nothing and when the caller may not know."""
    return refuse(404, "Not Found")


def invalid(resource: str, code: str, field: str, message: str | None = None, **more: Any) -> Refusal:
    """A 422 about one field."""
    error = {"resource": resource, "code": code, "field": field, **more}
    if message:
        error["message"] = message
    return refuse(422, "Validation Failed", errors=[error])


def custom(resource: str, message: str) -> Refusal:
    """A 422 about no field in particular."""
    return refuse(422, "Validation Failed", errors=[{"resource": resource, "code": "custom", "message": message}])


def read_json(call: Call) -> Any:
    """The request's body; what is no JSON is refused as GitHub does."""
    if not call.body:
        return {}
    try:
        return json.loads(call.body)
    except ValueError:
        raise refuse(400, "Problems parsing JSON") from None


def read_object(call: Call) -> dict[str, Any]:
    """The request's body, which must be an object."""
    data = read_json(call)
    if not isinstance(data, dict):
        raise refuse(400, "Body should be a JSON object")
    return data


def text_field(data: dict[str, Any], resource: str, field: str) -> str:
    """A string that must be there and must not be too long."""
    value = data.get(field)
    if value is None:
        raise invalid(resource, "missing_field", field)
    if not isinstance(value, str):
        raise refuse(422, f"Invalid request.\n\nFor 'properties/{field}', {value!r} is not a string.")
    if len(value) > MAX_BODY:
        raise invalid(resource, "unprocessable", field, f"{field} is too long (maximum is {MAX_BODY} characters)")
    return value


def only_query(call: Call, *known: str) -> None:
    """Parameters that the simulator does not implement must not be ignored in silence."""
    if unknown := set(call.query) - set(known):
        raise Unsupported(f"query parameters {', '.join(sorted(unknown))} of {call.method} {call.path}")


def moment(text: str | None) -> datetime | None:
    """A date in the query; GitHub refuses what it cannot read."""
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise refuse(422, "The since parameter must be a valid ISO 8601 timestamp") from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def choice(call: Call, name: str, allowed: Sequence[str]) -> str:
    """A query parameter out of a few; the first is the default."""
    value = call.query.get(name, allowed[0])
    if value not in allowed:
        raise invalid("Issue", "invalid", name, value=value)
    return value


def _number(call: Call, name: str, default: int) -> int:
    try:
        return max(1, int(call.query.get(name, default)))
    except ValueError:
        return default


def page_of(call: Call, items: Sequence[T], address: str) -> tuple[list[T], dict[str, str]]:
    """One page, and the Link header that leads on. `address` is the listing's own, without a query."""
    size = min(100, _number(call, "per_page", 30))
    page = _number(call, "page", 1)
    last = max(1, -(-len(items) // size))
    links: list[str] = []

    def link(rel: str, number: int) -> None:
        query = urlencode({**dict(call.query), "page": str(number)})
        links.append(f'<{address}?{query}>; rel="{rel}"')

    if page > 1:
        link("prev", min(page - 1, last))
    if page < last:
        link("next", page + 1)
        if "uncounted" not in call.quirks:
            link("last", last)
    if page > 1:
        link("first", 1)
    shown = list(items[(page - 1) * size : page * size])
    return shown, {"Link": ", ".join(links)} if links else {}


def listed(body: list[Any], headers: dict[str, str]) -> Response:
    """A list with its headers."""
    return JSONResponse(body, 200, headers)
