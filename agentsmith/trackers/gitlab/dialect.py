"""GitLab's HTTP: its limits, which it may announce in plain text, and its many kinds of error bodies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from agentsmith.trackers.http.dialect import Dialect, Limit, reported_quota, retry_after
from agentsmith.trackers.http.governor import Quota

NOTES: Final = "notes"
"""The bucket of comments, which have a limit of their own."""
_ENDPOINT: Final = re.compile(r"this endpoint has been requested too many times", re.I)


def quota(headers: Mapping[str, str]) -> Quota | None:
    """The allowance per minute that an answer reports; None on servers without limits."""
    # Each throttle (`throttle_authenticated_api`, …) counts for itself; only the one that the answer names is known.
    return reported_quota(headers, "ratelimit", "core")


def limit(status: int, headers: Mapping[str, str], message: str) -> Limit | None:
    """A 429 is a limit, whatever its body; nothing else is."""
    if status != 429:
        return None
    wait = retry_after(headers)
    everywhere = not _ENDPOINT.search(message)
    if wait is not None:
        return Limit(max(wait, 1.0), everywhere=everywhere, reason=f"GitLab asked to wait {wait:g} s: {message}")
    return Limit(None, everywhere=everywhere, reason=f"GitLab's limit: {message}")


def message(data: object) -> str:
    """`message` (a text, a list, or texts by field), else `error` and what describes it."""
    if not isinstance(data, dict):
        return ""
    if "message" in data:
        return _words(data["message"])
    parts = [_words(data.get(name)) for name in ("error", "error_description")]
    return "; ".join(part for part in parts if part)


def _words(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(filter(None, map(_words, value[:10])))
    if isinstance(value, dict):
        return "; ".join(f"{field}: {_words(said)}" for field, said in list(value.items())[:10])
    return ""


DIALECT: Final = Dialect(
    name="GitLab",
    headers={"Accept": "application/json"},
    quota=quota,
    limit=limit,
    message=message,
)
