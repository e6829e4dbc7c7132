"""The rate governor: when the next request of a credential may go. One per credential, shared by all replicas."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from agentsmith.domain.pacing import EVERYWHERE, FIRST_BACKOFF, FORGIVEN_AFTER, LONGEST_BACKOFF, SAME_WINDOW


class Quota(NamedTuple):
    """What the platform said about one allowance. `reset` is seconds since the epoch."""

    bucket: str
    limit: int
    remaining: int
    reset: float


class Hold(NamedTuple):
    """How long a request has to wait, until when (seconds since the epoch), and why."""

    seconds: float
    until: float
    reason: str


class Governor(Protocol):
    """Keeps all replicas of one credential within the platform's limits. Times are on the governor's own clock.

    Plain data only: whoever implements it need not know this package.
    """

    async def reserve(
        self, credential: str, bucket: str, *, spacing: float, patience: float
    ) -> tuple[float, float, str]:
        """How long to wait before sending (0: now), until when, and why; see Hold.

        A write asks for a slot by its `spacing` > 0: the next slot is `spacing` seconds later. The slot is taken
        only when the wait is at most `patience`; who would wait longer takes nothing and must not send.
        """

    async def report(self, credential: str, bucket: str, *, limit: int, remaining: int, reset: float) -> None:
        """Remember what the platform said is left; 0 holds everybody back until `reset` (since the epoch).

        Answers overtake each other, and resets waver by a second: within one window the lowest count holds, a window
        that begins at least `SAME_WINDOW` later replaces it, and 0 is believed in any case.
        """

    async def pause(self, credential: str, bucket: str, *, seconds: float | None, reason: str) -> None:
        """Hold the bucket (`*`: all) back. None: no time was named, so 60 s, doubling while it goes on."""


@dataclass(slots=True)
class _Account:
    quotas: dict[str, Quota] = field(default_factory=dict)
    pauses: dict[str, tuple[float, str]] = field(default_factory=dict)
    next_write: float = 0.0
    strikes: int = 0
    struck_until: float = 0.0


class LocalGovernor:
    """A governor for one process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._accounts: defaultdict[str, _Account] = defaultdict(_Account)

    async def reserve(self, credential: str, bucket: str, *, spacing: float, patience: float) -> Hold:
        """See Governor."""
        account, now = self._accounts[credential], self._clock()
        until, reason = now, ""
        for held, why in self._holds(account, bucket):
            if held > until:
                until, reason = held, why
        if spacing > 0 and account.next_write > until:
            until, reason = account.next_write, f"writes are kept {spacing:g} s apart"
        wait = until - now
        if spacing > 0 and wait <= patience:
            account.next_write = until + spacing
        return Hold(seconds=wait, until=until, reason=reason)

    async def report(self, credential: str, bucket: str, *, limit: int, remaining: int, reset: float) -> None:
        """See Governor."""
        quotas = self._accounts[credential].quotas
        known = quotas.get(bucket)
        if known is not None and known.reset > self._clock() and remaining > 0:
            if reset < known.reset - SAME_WINDOW:
                return
            if reset < known.reset + SAME_WINDOW:
                remaining, reset = min(remaining, known.remaining), max(reset, known.reset)
        quotas[bucket] = Quota(bucket, limit, remaining, reset)

    async def pause(self, credential: str, bucket: str, *, seconds: float | None, reason: str) -> None:
        """See Governor."""
        account, now = self._accounts[credential], self._clock()
        if seconds is None:
            if now > account.struck_until + FORGIVEN_AFTER:
                account.strikes = 0
            seconds = min(FIRST_BACKOFF * 2**account.strikes, LONGEST_BACKOFF)
            if now >= account.struck_until:  # several requests that were under way together are one strike
                account.strikes += 1
                account.struck_until = now + seconds
        until = now + seconds
        if until > account.pauses.get(bucket, (0.0, ""))[0]:
            account.pauses[bucket] = (until, reason)

    def quotas(self) -> dict[str, list[Quota]]:
        """What was last reported, by credential."""
        return {name: sorted(b.quotas.values(), key=lambda q: q.bucket) for name, b in self._accounts.items()}

    @staticmethod
    def _holds(account: _Account, bucket: str) -> list[tuple[float, str]]:
        holds = [account.pauses[name] for name in (bucket, EVERYWHERE) if name in account.pauses]
        quota = account.quotas.get(bucket)
        if quota is not None and quota.remaining <= 0:
            holds.append((quota.reset, f"the {bucket} quota of {quota.limit} requests is used up"))
        return holds
