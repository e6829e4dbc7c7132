"""How GitLab answers: error bodies, bodies read (JSON or a form), and pages by number or by keyset."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Refusal, Unsupported

T = TypeVar("T")
MOST_COUNTED = 10_000
"""A list that is longer tells neither how long it is nor which page is its last."""


def problem(status: int, message: Any, *, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error in GitLab's usual shape."""
    return JSONResponse({"message": message}, status, headers)


def refuse(status: int, message: Any) -> Refusal:
    """The same, to be raised."""
    return Refusal(problem(status, message))


def invalid(error: str) -> Refusal:
    """What GitLab says about a parameter, before anything is looked at."""
    return Refusal(JSONResponse({"error": error}, 400))


def not_found(what: str = "") -> Refusal:
    """What GitLab says both when there is nothing and when the caller may not know."""
    return refuse(404, f"404 {what} Not Found" if what else "404 Not found")


def forbidden() -> Refusal:
    """The credential is good, but may not do this."""
    return refuse(403, "403 Forbidden")


def read_fields(call: Call) -> dict[str, Any]:
    """The request's fields, from JSON, a form, or the query; texts with a null byte are refused as GitLab does."""
    kind = call.headers.get("content-type", "").partition(";")[0]
    if not call.body:
        data: Any = {}
    elif kind == "application/x-www-form-urlencoded":
        form = parse_qs(call.body.decode("utf-8", "replace"), keep_blank_values=True)
        data = {name.removesuffix("[]"): values if name.endswith("[]") else values[-1] for name, values in form.items()}
    elif kind == "application/json":
        try:
            data = json.loads(call.body)
        except ValueError:
            raise invalid("There was a problem in the JSON you submitted") from None
    else:
        raise Refusal(JSONResponse({"error": f"The provided content-type '{kind}' is not supported."}, 406))
    if not isinstance(data, dict):
        raise invalid("The request body must be an object")
    if any(isinstance(value, str) and "\0" in value for value in data.values()):
        raise Refusal(Response("Bad Request", 400, media_type="text/plain"))
    return {**dict(call.query), **data}


def only_fields(call: Call, data: dict[str, Any], *known: str) -> None:
    """Fields that the simulator does not implement must not be ignored in silence."""
    if unknown := set(data) - set(known):
        raise Unsupported(f"fields {', '.join(sorted(unknown))} of {call.method} {call.path}")


def only_query(call: Call, *known: str) -> None:
    """The same for the query."""
    if unknown := set(call.query) - {*known, "private_token"}:
        raise Unsupported(f"query parameters {', '.join(sorted(unknown))} of {call.method} {call.path}")


def moment(call: Call, name: str) -> datetime | None:
    """A date in the query; GitLab refuses what it cannot read."""
    text = call.query.get(name)
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(f"{name} is invalid") from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def choice(call: Call, name: str, allowed: Sequence[str]) -> str:
    """A query parameter out of a few; the first is the default."""
    value = call.query.get(name, allowed[0])
    if value not in allowed:
        raise invalid(f"{name} does not have a valid value")
    return value


def _number(call: Call, name: str, default: int) -> int:
    value = call.query.get(name, str(default))
    if not value.isdecimal():
        raise invalid(f"{name} is invalid")
    return int(value)


def page_of(call: Call, items: Sequence[T], show: Callable[[T], Any], *, address: str | None = None) -> Response:
    """One page by number, with all of GitLab's headers; a list that is very long is not counted."""
    size, page = _size(call), max(1, _number(call, "page", 1))
    last = max(1, -(-len(items) // size))
    numbers = {"prev": page - 1 if page > 1 else None, "next": page + 1 if page < last else None}
    counted = len(items) <= MOST_COUNTED
    links = {**numbers, "first": 1, "last": last if counted else None}
    headers = {
        "X-Page": str(page),
        "X-Per-Page": str(size),
        "X-Prev-Page": str(numbers["prev"] or ""),
        "X-Next-Page": str(numbers["next"] or ""),
        **({"X-Total": str(len(items)), "X-Total-Pages": str(last)} if counted else {}),
        "Link": ", ".join(
            _link(call, rel, {"page": str(number), "per_page": str(size)}, address)
            for rel, number in links.items()
            if number is not None
        ),
    }
    shown = items[(page - 1) * size : page * size]
    return JSONResponse([show(item) for item in shown], 200, headers)


def keyset_page(
    call: Call,
    items: Sequence[T],
    show: Callable[[T], Any],
    *,
    key: Callable[[T], tuple[Any, ...]],
    address: str | None = None,
) -> Response:
    """The page after the cursor: `items` are in order, and `key` tells the place of each in it."""
    size = _size(call)
    cursor = call.query.get("cursor")
    rest = list(items)
    if cursor is not None:
        try:
            after = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        except ValueError:
            raise invalid("cursor is invalid") from None
        backwards = call.query.get("sort", "desc") == "desc"
        rest = [i for i in rest if (_place(key(i)) < after if backwards else _place(key(i)) > after)]
    shown = rest[:size]
    headers = {"X-Per-Page": str(size)}
    if len(rest) > size:
        place = base64.urlsafe_b64encode(json.dumps(_place(key(shown[-1]))).encode()).decode()
        headers["Link"] = _link(call, "next", {"cursor": place, "per_page": str(size)}, address)
    return JSONResponse([show(item) for item in shown], 200, headers)


def _place(key: tuple[Any, ...]) -> list[Any]:
    return [part.timestamp() if isinstance(part, datetime) else part for part in key]


def _size(call: Call) -> int:
    return min(100, max(1, _number(call, "per_page", 20)))


def _link(call: Call, rel: str, position: dict[str, str], address: str | None) -> str:
    root = call.base_url if address is None else address
    path = call.raw_path.partition("/api/v4")[2]
    return f'<{root}{path}?{urlencode({**dict(call.query), **position})}>; rel="{rel}"'
