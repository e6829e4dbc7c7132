"""Holding a ticket's lock: every read-then-write of a ticket's label, whoever does it, happens inside."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from agentsmith.boottime import boottime
from agentsmith.domain.errors import AgentSmithError, LeaseLost
from agentsmith.domain.ticket import TicketId
from agentsmith.store import AWAY, Lease, Store

_FIRST_WAIT: Final = 0.005
_LONGEST_WAIT: Final = 0.1


class LockBusy(AgentSmithError):
    """Somebody else reads or writes this ticket right now."""


@contextlib.asynccontextmanager
async def holding(
    store: Store, platform: str, ticket: TicketId, *, token: str, fence: int | None = None, wait: float = 0
) -> AsyncIterator[Lease]:
    """Hold the ticket's lock, renewed while the tracker is slow, released on every way out.

    With a fence this is begin-write: LeaseLost when a newer fence stands (P6). LockBusy after `wait` seconds.
    """
    lock = store.ticket_lock(platform, ticket, token)
    await _take(store, lock, ticket, fence, wait)
    renewing = asyncio.create_task(_renew(lock))
    try:
        yield lock
    finally:
        renewing.cancel()
        # Waited for, not awaited: to suppress its cancellation would be to suppress our own in the same moment.
        await asyncio.wait({renewing})
        # The lock lapses by itself; a Redis that is away must not hide what happened inside.
        with contextlib.suppress(*AWAY):
            await lock.release()


async def _take(store: Store, lock: Lease, ticket: TicketId, fence: int | None, wait: float) -> None:
    give_up, pause = boottime() + wait, _FIRST_WAIT
    while True:
        if fence is None:
            held = await lock.take()
        else:
            word = await lock.take_fenced(store.keys.fence(ticket), fence)
            if word == "fenced":
                raise LeaseLost(f"a newer fence than {fence} stands for {ticket}")
            held = word == "held"
        if held:
            return
        if boottime() + pause > give_up:
            raise LockBusy(f"{ticket} is being read or written by somebody else")
        await asyncio.sleep(pause)
        pause = min(_LONGEST_WAIT, pause * 2)


async def _renew(lock: Lease) -> None:
    while True:
        await asyncio.sleep(lock.ttl / 3)
        # Failing to renew ends the trust by itself when the window closes.
        with contextlib.suppress(*AWAY):
            if not await lock.renew():
                return
