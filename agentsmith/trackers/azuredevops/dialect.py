"""Azure DevOps' HTTP: its headers, its limits, its error bodies, and its habit of answering with a sign-in page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agentsmith.trackers.http.dialect import Dialect, Limit, reported_quota, retry_after
from agentsmith.trackers.http.governor import Quota

API_VERSION: Final = "7.1"
IDENTITY_VERSION: Final = "7.1-preview"
JSON_PATCH: Final = "application/json-patch+json"

_LIMIT: Final = re.compile(r"\bTF400733\b|\bVS402962\b|request was canceled.*usage", re.I)
_SIGN_IN: Final = re.compile(r"/_signin|spsprod[^/]*/|login\.microsoftonline|/_signedin", re.I)
_SIGN_IN_PAGE: Final = re.compile(rb"_signin|Sign In</title>|login\.microsoftonline", re.I)


def quota(headers: Mapping[str, str]) -> Quota | None:
    """The allowance that an answer reports, under the resource's own name.

    It is in units of load, not in requests, and when it is used up answers come late before any is refused; how long to
    stay away is in Retry-After. So it is shown to people and holds nobody back.
    """
    return reported_quota(headers, "x-ratelimit", headers.get("x-ratelimit-resource", "azure-devops"))


def limit(status: int, headers: Mapping[str, str], message: str) -> Limit | None:
    """429, and 503 that says it is about usage. A delayed answer (200 with Retry-After) is an answer."""
    if status != 429 and not (status in (403, 503) and _LIMIT.search(message)):
        return None
    wait = retry_after(headers)
    if wait is None:
        return Limit(None, everywhere=True, reason=f"Azure DevOps' limit: {message}")
    return Limit(max(wait, 1.0), everywhere=True, reason=f"Azure DevOps asked to wait {wait:g} s: {message}")


def message(data: object) -> str:
    """`message` of a wrapped exception, or of the value that an improper one hides it in."""
    if not isinstance(data, dict):
        return ""
    inner: Any = data.get("value")
    for shape in (data, inner if isinstance(inner, dict) else {}):
        for name in ("message", "Message"):
            if isinstance(shape.get(name), str):
                return str(shape[name])
    return ""


def type_key(data: object) -> str:
    """The name of the exception that an error body carries."""
    key = data.get("typeKey") if isinstance(data, dict) else None
    return key if isinstance(key, str) else ""


def signed_out(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a sign-in page came back: 203, a redirect to one, or the page itself with whatever status."""
    kind = headers.get("content-type", "").lower()
    if status == 203:
        return "json" not in kind
    if status in (301, 302, 303, 307):
        return bool(_SIGN_IN.search(headers.get("location", "")))
    return status in (200, 401, 403) and "html" in kind and bool(_SIGN_IN_PAGE.search(body[:20_000]))


AZURE_DEVOPS: Final = Dialect(
    name="Azure DevOps",
    headers={"Accept": "application/json", "X-TFS-FedAuthRedirect": "Suppress"},
    quota=quota,
    limit=limit,
    message=message,
    signed_out=signed_out,
)
