"""The lock around a label write, for platforms that let the last of two writers win and tell neither."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol
from weakref import WeakValueDictionary

from agentsmith.boottime import boottime
from agentsmith.domain.errors import TrackerUnavailable
from agentsmith.domain.ticket import TicketId


class LabelLock(Protocol):
    """One lock per ticket, shared by whoever writes its labels. Plain data only: the store need not know us."""

    def __call__(self, ticket: TicketId, *, deadline: float) -> AbstractAsyncContextManager[float]:
        """Hold the ticket's lock, and be told until when (on the boot-time clock) the holder may write under it.

        Raises TrackerUnavailable when it is not free by `deadline`, and StoreUnavailable when nobody can tell.
        """


class LocalLabelLock:
    """Locks for one process."""

    def __init__(self, now: Callable[[], float] = boottime) -> None:
        self._now = now
        self._locks: WeakValueDictionary[TicketId, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def __call__(self, ticket: TicketId, *, deadline: float) -> AsyncIterator[float]:
        """See LabelLock."""
        lock = self._locks.setdefault(ticket, asyncio.Lock())
        try:
            async with asyncio.timeout(max(0.0, deadline - self._now())):
                await lock.acquire()
        except TimeoutError:
            raise TrackerUnavailable(f"the labels of {ticket} are being written by somebody else") from None
        try:
            yield deadline
        finally:
            lock.release()
