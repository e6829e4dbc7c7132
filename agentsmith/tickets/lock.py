"""Holding a ticket's lock: every read-then-write of a ticket's label, whoever does it, happens inside.

`LabelLocks` is a second, shorter one inside it, for trackers whose platform lets the last of two label writes win.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, TypeVar

from agentsmith.boottime import boottime
from agentsmith.domain.errors import AgentSmithError, LeaseLost, StoreUnavailable, TrackerUnavailable
from agentsmith.domain.ticket import TicketId
from agentsmith.store import AWAY, Lease, Store

_FIRST_WAIT: Final = 0.005
_LONGEST_WAIT: Final = 0.1
T = TypeVar("T")


class LabelLocks:
    """Label locks that all replicas share; trackers are handed this, and know nothing of Redis."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @contextlib.asynccontextmanager
    async def __call__(self, ticket: TicketId, *, deadline: float) -> AsyncIterator[float]:
        """Hold the lock around one label write; answers until when the holder may write under it.

        It is not renewed: whoever cannot write within its time must look again before writing.
        """
        lock = self._store.label_lock(ticket, uuid.uuid4().hex)
        try:
            await _take(self._store, lock, ticket, None, deadline - boottime())
        except LockBusy as busy:
            raise TrackerUnavailable(str(busy)) from None
        except AWAY as error:
            raise StoreUnavailable(f"the label lock of {ticket} cannot be had: {error}") from None
        try:
            yield lock.trust.until
        finally:
            with contextlib.suppress(*AWAY):
                await lock.release()


class LockBusy(AgentSmithError):
    """Somebody else reads or writes this ticket right now."""


@contextlib.asynccontextmanager
async def holding(
    store: Store, platform: str, ticket: TicketId, *, holder: str = "", fence: int | None = None, wait: float = 0
) -> AsyncIterator[Lease]:
    """Hold the ticket's lock, renewed while the tracker is slow, released on every way out.

    With a fence this is begin-write: LeaseLost when a newer fence stands (P6). LockBusy after `wait` seconds. Each
    holding has a token of its own, which begins with `holder`: what lands late of one cannot touch the next.
    """
    lock = store.ticket_lock(platform, ticket, holder + uuid.uuid4().hex)
    await _take(store, lock, ticket, fence, wait)
    renewing = asyncio.create_task(_renew(lock))
    try:
        yield lock
    finally:
        renewing.cancel()
        await _leave(lock, renewing)


async def _take(store: Store, lock: Lease, ticket: TicketId, fence: int | None, wait: float) -> None:
    give_up, pause = boottime() + wait, _FIRST_WAIT
    while True:
        if fence is None:
            held = await _answer(lock, lock.take())
        else:
            word = await _answer(lock, lock.take_fenced(store.keys.fence(ticket), fence))
            if word == "fenced":
                raise LeaseLost(f"somebody else has taken {ticket} over")
            held = word == "held"
        if held:
            return
        if boottime() + pause > give_up:
            raise LockBusy(f"{ticket} is being read or written by somebody else")
        await asyncio.sleep(pause)
        pause = min(_LONGEST_WAIT, pause * 2)


async def _answer(lock: Lease, taking: Coroutine[Any, Any, T]) -> T:
    """What the taking answers. Who does not hear it gives the lock back: it may be held, and nobody would know."""
    try:
        return await _to_its_end(taking)
    except (Exception, asyncio.CancelledError):
        await _give_back(lock)
        raise


async def _leave(lock: Lease, renewing: asyncio.Task[None]) -> None:
    try:
        # Waited for, not awaited: to suppress its cancellation would be to suppress our own in the same moment.
        await asyncio.wait({renewing})
    except asyncio.CancelledError:
        await _give_back(lock)
        raise
    await _give_back(lock)


async def _give_back(lock: Lease) -> None:
    # The lock lapses by itself; a Redis that is away must not hide what happened inside.
    with contextlib.suppress(*AWAY):
        await _to_its_end(lock.release())


async def _to_its_end(asking: Coroutine[Any, Any, T]) -> T:
    """Wait for the answer also when we are cancelled: what was sent would land all the same, at some later time."""
    asked = asyncio.ensure_future(asking)
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        await asyncio.wait({asked})
        raise


async def _renew(lock: Lease) -> None:
    while True:
        await asyncio.sleep(lock.ttl / 3)
        # Failing to renew ends the trust by itself when the window closes.
        with contextlib.suppress(*AWAY):
            if not await lock.renew():
                return
