"""How this consumer's runs ended: if Redis loses the end of one, it is settled again.

An end is dropped once Redis was heard a lease's time after it, and had lost nothing: as long as nobody hears Redis, it
may have lost it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog

from agentsmith.boottime import boottime
from agentsmith.bounded import Bounded
from agentsmith.store import Settled, Store
from agentsmith.store.keys import ENDED_MS

log = structlog.get_logger()

_LONGEST: Final = ENDED_MS / 1000
"""Seconds for which Redis itself knows of an end: later, nobody could tell whether it was lost."""


class EndedRuns:
    """Ends of runs by their fences."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ends: Bounded[int, Settled] = Bounded(10_000)
        self._doubted: list[Settled] = []
        self._heard = boottime()
        """When Redis was last heard, and knew of all ends before."""

    def remember(self, end: Settled | None) -> None:
        """A run is over; without an end it was given back, or could not be settled. Old ends are dropped."""
        if end is not None:
            self._ends[end.lease.fence] = end
        oldest = self._heard - self._store.times.ttl
        while self._ends and self._ends[first := next(iter(self._ends))].at < oldest:
            del self._ends[first]

    def doubt(self, ending: Iterable[Settled]) -> None:
        """Redis lost its data: these ends, and all that are remembered, may be lost."""
        ends = [*self._ends.values(), *ending]
        self._doubted = [end for end in ends if boottime() - end.at < _LONGEST]

    async def settle_doubted(self) -> None:
        """Redis was heard: settle the runs again whose end it may have lost, so that nobody does their work again."""
        while self._doubted:
            end = self._doubted[0]
            word = await self._store.runs.settle_again(end)
            if word == "settling":
                return  # the others too: wait until everybody has put back what they hold
            if word == "settled":
                log.warning("redis had lost the end of a run; it is noted again", ticket=end.lease.ticket)
            self._doubted = [other for other in self._doubted if other is not end]
        self._heard = boottime()

    async def settled_again(self, fence: int) -> bool:
        """Whether the run of this fence had ended, and is settled now; Redis shows it as running."""
        end = self._ends.get(fence)
        return end is not None and await self._store.runs.settle_again(end) == "settled"
