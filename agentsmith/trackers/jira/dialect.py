"""Jira's HTTP: why a limit struck, error bodies, and answers that were given to nobody in particular."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from agentsmith.trackers.http.dialect import Dialect, Limit, retry_after, whole_number
from agentsmith.trackers.http.governor import Quota

SEARCH: Final = "search"
PER_ISSUE: Final = "jira-per-issue-on-write"
_LOGIN: Final = "x-seraph-loginreason"
_FAILED: Final = ("AUTHENTICATED_FAILED", "AUTHENTICATION_DENIED", "AUTHORISATION_FAILED")


def bucket(key: str) -> str:
    """Writes to one issue have a limit of their own: reaching it must not hold back the others."""
    return f"issue {key}"


def quota(headers: Mapping[str, str]) -> Quota | None:
    """The allowance that an answer reports with the time of its reset; Data Center tells no such time."""
    limit = whole_number(headers, "x-ratelimit-limit")
    remaining = whole_number(headers, "x-ratelimit-remaining")
    reset = _moment(headers.get("x-ratelimit-reset", ""))
    if limit is None or remaining is None or reset is None:
        return None
    # The header does not name the allowance; what is used up is also refused with a 429, which does.
    return Quota("core", limit, max(remaining, 1), reset)


def limit(status: int, headers: Mapping[str, str], message: str) -> Limit | None:
    """A 429 is a limit; `RateLimit-Reason` tells whether of one issue or of everything."""
    if status != 429:
        return None
    why = headers.get("ratelimit-reason", "").strip() or "its limit"
    asked = retry_after(headers)
    seconds = None if asked is None else max(asked, 1.0)
    wait = "" if asked is None else f" and asked to wait {asked:g} s"
    return Limit(seconds, everywhere=why != PER_ISSUE, reason=f"Jira named {why}{wait}: {message}")


def message(data: object) -> str:
    """`errorMessages`, and `errors` by field; some gateways send `message` instead."""
    if not isinstance(data, dict):
        return ""
    messages = data.get("errorMessages")
    parts = [text for text in messages if isinstance(text, str)] if isinstance(messages, list) else []
    fields = data.get("errors")
    if isinstance(fields, dict):
        parts += [f"{name}: {text}" for name, text in list(fields.items())[:10] if isinstance(text, str)]
    if not parts and isinstance(data.get("message"), str):
        parts.append(data["message"])
    return "; ".join(parts)


def signed_out(status: int, headers: Mapping[str, str], body: bytes) -> bool:  # noqa: ARG001
    """Whether Jira took us for a stranger: with a bad token it may answer like to anybody, with an empty list (P9)."""
    reason = headers.get(_LOGIN, "").upper()
    return any(word in reason for word in _FAILED) or headers.get("x-ausername", "").lower() == "anonymous"


def _moment(text: str) -> float | None:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return when.timestamp() if when.tzinfo else None


DIALECT: Final = Dialect(
    name="Jira",
    headers={"Accept": "application/json"},
    quota=quota,
    limit=limit,
    message=message,
    signed_out=signed_out,
)
