"""Who spent what: requests per credential and purpose, and whether they counted against the quota."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

ACTOR: Final = "actor"
"""What look-ups of people are booked under, whoever asks for them."""
_purpose: ContextVar[str] = ContextVar("agentsmith_request_purpose", default="other")


@contextmanager
def spending_for(purpose: str) -> Iterator[None]:
    """Book every request made inside the block, also by tasks started there, under `purpose` (claim, poll, …)."""
    token = _purpose.set(purpose)
    try:
        yield
    finally:
        _purpose.reset(token)


def current_purpose() -> str:
    """What requests are booked under right now."""
    return _purpose.get()


class Spent(NamedTuple):
    """What one credential spent on one purpose since `since` (seconds since the epoch)."""

    credential: str
    purpose: str
    counted: int
    free: int
    since: float


class Ledger(Protocol):
    """Counts requests, so that people can be told who spent what."""

    async def record(self, credential: str, purpose: str, *, counted: bool) -> None:
        """One request was sent. `counted`: the platform takes it off the quota (a 304 is free)."""


class LocalLedger:
    """A ledger for one process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._since = clock()
        self._spent: dict[tuple[str, str], Spent] = {}

    async def record(self, credential: str, purpose: str, *, counted: bool) -> None:
        """See Ledger."""
        key = (credential, purpose)
        old = self._spent.get(key) or Spent(credential, purpose, counted=0, free=0, since=self._since)
        self._spent[key] = old._replace(counted=old.counted + counted, free=old.free + (not counted))

    def spent(self) -> list[Spent]:
        """All counts, ordered by credential and purpose."""
        return [self._spent[key] for key in sorted(self._spent)]
