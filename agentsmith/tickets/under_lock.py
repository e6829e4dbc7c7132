"""One look at a ticket: under its lock, and whatever its tracker fails at is tried again later."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from agentsmith.domain.claiming import AlreadyClaimed, ClaimOutcome, Deferred
from agentsmith.domain.errors import TicketNotFound, TrackerError
from agentsmith.domain.signal import Signal
from agentsmith.domain.tracker import Tracker
from agentsmith.store import Lease, Store
from agentsmith.tickets.lock import LockBusy, holding
from agentsmith.tickets.refusals import LACKING, Doing, refused, works

_WHILE_BUSY: Final = 0.25
"""Seconds after which a ticket that somebody else was looking at is looked at again."""


async def under_lock(
    store: Store, tracker: Tracker, signal: Signal, backoff: float, look: Callable[[Lease], Awaitable[ClaimOutcome]]
) -> ClaimOutcome:
    """What `look` makes of the ticket that the signal names; what a tracker fails at is tried again later."""
    try:
        async with holding(store, tracker.platform, signal.ticket) as lock:
            seen = await look(lock)
        await works(store, tracker, Doing.READING)
        return seen
    except LockBusy:
        return Deferred("somebody else is looking at it", min(backoff, _WHILE_BUSY), failed=False, looked=False)
    except TicketNotFound as error:
        return AlreadyClaimed(f"there is no such ticket: {error}")
    except LACKING as error:
        return Deferred(await refused(store, tracker, Doing.READING, error), backoff, told=True)
    except TrackerError as error:
        wait = error.retry_at - time.time() if error.retry_at else backoff
        return Deferred(f"the tracker failed: {error}", max(wait, 0.0))
