"""GitHub's HTTP: its headers, its two kinds of limits, and its error bodies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from agentsmith.trackers.http.dialect import Dialect, Limit, Shorten, reported_quota, retry_after
from agentsmith.trackers.http.governor import Quota

API_VERSION: Final = "2022-11-28"

_SECONDARY: Final = re.compile(r"secondary rate|abuse detection|abuse-rate", re.I)
_ANY_LIMIT: Final = re.compile(r"rate limit|too many requests", re.I)
_REFUSAL: Final = re.compile(
    r"not accessible|must have|permission|forbidden|saml|suspended|blocked|archived|locked", re.I
)
_BELOW: Final = re.compile(r".*?/(?:repos/[^/]+/[^/]+|repositories/\d+)")
_UNREAD: Final = frozenset({"url", "reactions", "performed_via_github_app", "author_association"})
_REUSABLE: Final = (
    (re.compile(r"/issues"), frozenset({"body"})),
    (re.compile(r"/issues/\d+|/issues/\d+/comments|/labels"), frozenset[str]()),
)
"""What lies below a repository and may be kept: issues, their comments, and the names of labels. Of each, what need not
be: a list of issues only hints at them, so their texts are left out (T2)."""


def reusable(path: str) -> Shorten | None:
    """How an answer is shortened to be kept for the next 304. No history, no permission, no account is among it."""
    repository = _BELOW.match(path)
    for pattern, left_out in _REUSABLE if repository else ():
        if repository and pattern.fullmatch(path, repository.end()):
            return partial(_short, left_out=left_out)
    return None


def _short(data: Any, *, left_out: frozenset[str]) -> Any:
    """The same without what nobody reads: most of an issue are addresses."""
    if isinstance(data, list):
        return [_short(each, left_out=left_out) for each in data]
    if not isinstance(data, dict):
        return data
    return {name: _short(value, left_out=left_out) for name, value in data.items() if _is_read(name, left_out)}


def _is_read(name: str, left_out: frozenset[str]) -> bool:
    if name in ("html_url", "issue_url"):
        return True
    return name not in _UNREAD and name not in left_out and not name.endswith("_url")


def quota(headers: Mapping[str, str]) -> Quota | None:
    """The allowance that an answer reports; None on servers without limits."""
    return reported_quota(headers, "x-ratelimit", headers.get("x-ratelimit-resource", "core"))


def limit(status: int, headers: Mapping[str, str], message: str) -> Limit | None:
    """Whether a 403 or 429 is a limit. A refusal that used up the last request of the hour is still a refusal."""
    if status not in (403, 429):
        return None
    wait = retry_after(headers)
    if wait is not None:
        return Limit(max(wait, 1.0), everywhere=True, reason=f"GitHub asked to wait {wait:g} s: {message}")
    if _SECONDARY.search(message):
        return Limit(None, everywhere=True, reason=f"GitHub's secondary limit: {message}")
    left = quota(headers)
    if left is not None and left.remaining == 0 and not _REFUSAL.search(message):
        # The reported quota itself holds everybody back until its reset; the second is for a clock that runs ahead.
        return Limit(1.0, everywhere=False, reason=f"GitHub's hourly limit: {message}")
    if status == 429 or _ANY_LIMIT.search(message):
        return Limit(None, everywhere=True, reason=f"GitHub's limit: {message}")
    return None


def message(data: object) -> str:
    """`message`, and what `errors` adds to it."""
    if not isinstance(data, dict):
        return ""
    parts = [data["message"]] if isinstance(data.get("message"), str) else []
    errors = data.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, str):
            parts.append(error)
        elif isinstance(error, dict):
            words = [error.get(name) for name in ("resource", "field", "code", "message")]
            parts.append(" ".join(word for word in words if isinstance(word, str)))
    return "; ".join(part for part in parts if part)


GITHUB: Final = Dialect(
    name="GitHub",
    headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION},
    quota=quota,
    limit=limit,
    message=message,
    reusable=reusable,
)
