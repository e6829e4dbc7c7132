"""How Azure DevOps answers: wrapped exceptions, lists, versions of the API, and the page that wants a sign-in."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response

from agentsmith.simulators.frame import Call, Refusal, Unsupported

SIGN_IN = (
    '<!DOCTYPE html>\r\n<html lang="en-US">\r\n<head><title>\r\n\tAzure DevOps Services | Sign In\r\n</title></head>'
    '<body class="lwp"><form method="post" action="/_signin"></form></body></html>'
)
_VERSION = re.compile(r"(\d+\.\d+)(?:-(preview)(?:\.(\d+))?)?")
JSON = "application/json"
PATCH = "application/json-patch+json"


def wrapped(message: str, type_key: str, code: int = 0) -> dict[str, Any]:
    """An exception as the service wraps it."""
    name = f"Microsoft.TeamFoundation.WorkItemTracking.Server.{type_key}"
    return {
        "$id": "1",
        "innerException": None,
        "message": message,
        "typeName": f"{name}, Microsoft.TeamFoundation.WorkItemTracking.Server",
        "typeKey": type_key,
        "errorCode": code,
        "eventId": 3200 if code else 3000,
    }


def problem(status: int, message: str, type_key: str, *, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error in the service's shape."""
    return JSONResponse(wrapped(message, type_key), status, headers)


def refuse(status: int, message: str, type_key: str) -> Refusal:
    """The same, to be raised."""
    return Refusal(problem(status, message, type_key))


def no_item(number: int) -> Refusal:
    """What the service says both when there is nothing and when the caller may not know."""
    message = f"TF401232: Work item {number} does not exist, or you do not have permissions to read it."
    return refuse(404, message, "WorkItemUnauthorizedAccessException")


def listed(items: list[Any], **headers: str) -> JSONResponse:
    """A list in its wrapping."""
    return JSONResponse({"count": len(items), "value": items}, 200, headers)


def sign_in(call: Call, status: int = 0) -> Response:
    """What somebody without a good token gets: never a plain error, unless the client asks for one."""
    if status == 401:
        return Response("", 401, {"WWW-Authenticate": f'Bearer authorization_uri="{call.base_url}/_signin"'})
    if status in (301, 302):
        location = f"https://spsprodweu1.vssps.visualstudio.com/_signin?realm=dev.azure.com&reply_to={call.path}"
        moved = "<html><head><title>Object moved</title></head><body></body></html>"
        return HTMLResponse(moved, status, {"Location": location})
    return HTMLResponse(SIGN_IN, status or 203)


def version_in(call: Call) -> str | None:
    """The version of the API that a request names, in its query or in Accept."""
    if "api-version" in call.query:
        return call.query["api-version"]
    found = re.search(r"api-version=([^;,\s]+)", call.headers.get("accept", ""))
    return found[1] if found else None


def need_version(call: Call, *, preview: int | None = None, newest: float = 7.2) -> None:
    """Refuse a request whose version the resource does not have; `preview`: it is in preview still."""
    given = version_in(call)
    if given is None:
        if call.method == "GET":
            return
        message = (
            "No api-version was supplied for the request. The version must be supplied either as part of the Accept "
            'header (e.g. "application/json; api-version=1.0") or as a query parameter (e.g. "?api-version=1.0").'
        )
        raise refuse(400, message, "VssVersionNotSpecifiedException")
    found = _VERSION.fullmatch(given)
    if found is None or float(found[1]) > newest:
        raise refuse(
            400, f"The requested version {given!r} of the resource is out of range.", "VssVersionOutOfRangeException"
        )
    if preview is not None and found[2] is None:
        message = (
            f'The requested version "{given}" of the resource is under preview. The -preview flag must be supplied in '
            f'the api-version for such requests. For example: "{given}-preview"'
        )
        raise refuse(400, message, "VssInvalidPreviewVersionException")
    if preview is not None and found[3] is not None and int(found[3]) > preview:
        raise refuse(
            400, f"The requested version {given!r} of the resource is out of range.", "VssVersionOutOfRangeException"
        )


def need_type(call: Call, wanted: str) -> None:
    """Refuse a body of another type than the resource takes."""
    given = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != wanted:
        message = (
            f'The request indicated a Content-Type of "{given}" for method type "{call.method}" which is not '
            f"supported. Valid content types for this method are: {wanted}."
        )
        raise refuse(400, message, "VssRequestContentTypeNotSupportedException")


def read_json(call: Call) -> Any:
    """The request's body."""
    try:
        return json.loads(call.body)
    except ValueError:
        raise refuse(
            400, "You must pass a valid patch document in the body of the request.", "VssPropertyValidationException"
        ) from None


def read_object(call: Call) -> dict[str, Any]:
    """The request's body, which must be an object of JSON."""
    need_type(call, JSON)
    data = read_json(call)
    if not isinstance(data, dict):
        raise refuse(400, "Value cannot be null. Parameter name: body", "ArgumentNullException")
    return data


def whole(call: Call, name: str, default: int, most: int) -> int:
    """A number in the query."""
    try:
        return max(0, min(int(call.query.get(name, default)), most))
    except ValueError:
        raise refuse(400, f"The value for {name} is not a number.", "ArgumentException") from None


def only_query(call: Call, *known: str) -> None:
    """Parameters that the simulator does not implement must not be ignored in silence."""
    if unknown := set(call.query) - set(known) - {"api-version"}:
        raise Unsupported(f"query parameters {', '.join(sorted(unknown))} of {call.method} {call.path}")
