"""What HTTP means on one platform: header names, limits, error bodies. Plain functions, no state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from agentsmith.domain.pacing import LONGEST_BACKOFF
from agentsmith.trackers.http.governor import Quota

Shorten = Callable[[Any], Any]
"""From a parsed answer to what we read of it; the rest would only fill the memory."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The platform refused a request only because there were too many. `seconds` None: it named no time."""

    seconds: float | None
    everywhere: bool
    """Whether other buckets of the credential are held back too."""
    reason: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one platform speaks HTTP."""

    name: str
    """As people know it, for messages: `GitHub`."""
    headers: Mapping[str, str]
    """Sent with every request."""
    quota: Callable[[Mapping[str, str]], Quota | None]
    """What the headers of an answer say about the allowance."""
    limit: Callable[[int, Mapping[str, str], str], Limit | None]
    """Whether this status, with these headers and this message, is a limit and not a refusal."""
    message: Callable[[object], str]
    """The platform's own words in a parsed error body; empty where there are none."""
    signed_out: Callable[[int, Mapping[str, str], bytes], bool] = lambda *_: False
    """Whether an answer that is no 401 says that the credential is refused: some send a sign-in page instead."""
    reusable: Callable[[str], Shorten | None] = lambda _: None
    """How the answer of a path is shortened, to be kept and used again when the platform says "unchanged" (304).

    None: it is not kept. This is the only place where that is decided, and by default nothing is kept. Who did
    something, and what somebody may, is never among it: those answers are read afresh, with the headers that belong to
    them.
    """
    hosts: frozenset[str] = field(default_factory=frozenset)
    """Other hosts that a redirect may lead to; they never see the credential."""


def reported_quota(headers: Mapping[str, str], prefix: str, bucket: str) -> Quota | None:
    """The allowance that an answer reports in `PREFIX-limit`, `-remaining` and `-reset`; None where one is missing."""
    limit, remaining, reset = (whole_number(headers, f"{prefix}-{name}") for name in ("limit", "remaining", "reset"))
    if limit is None or remaining is None or reset is None:
        return None
    return Quota(bucket, limit, remaining, float(reset))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to stay away for, by a Retry-After header; None where there is none.

    At most `LONGEST_BACKOFF`, whatever is asked for: one wrong header must not silence us for a week. Whoever comes
    back after that and is still not welcome is told so again.
    """
    asked = asked_wait(headers)
    return None if asked is None else min(asked, LONGEST_BACKOFF)


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that a Retry-After header asks for, in either of its two forms; None where it is absent."""
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def http_date(headers: Mapping[str, str]) -> float | None:
    """What time the server says it is, in seconds since the epoch."""
    try:
        return parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, OverflowError):
        return None


def whole_number(headers: Mapping[str, str], name: str) -> int | None:
    """A header that must be a whole number; None for anything else."""
    value = headers.get(name, "").strip()
    return int(value) if value.isdecimal() and len(value) < 19 else None
