"""What the steps of a run write to its own ticket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from agentsmith import redaction
from agentsmith.domain.errors import TrackerUnavailable
from agentsmith.running.live_run import LiveRun
from agentsmith.running.stages import Started
from agentsmith.tickets.lock import LockBusy


class LockedTicketWriter:
    """Writes only under the ticket's lock and our fence; see `pipelines.context.TicketWriter`."""

    def __init__(self, live: LiveRun, started: Started) -> None:
        self._live, self._tracker = live, started.tracker
        self.ticket = started.ticket
        """As it was last read or written."""

    async def say(self, text: str) -> None:
        """Post a comment."""
        async with self._writing() as deadline:
            await self._tracker.say(self.ticket, redaction.redact(text), deadline=deadline)

    async def relabel(self, *, add: Collection[str] = (), remove: Collection[str] = ()) -> None:
        """Add and remove labels of people's."""
        async with self._writing() as deadline:
            self.ticket = await self._tracker.relabel(self.ticket, add=add, remove=remove, deadline=deadline)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[float]:
        """Hold the ticket's lock; answers until when a write may last."""
        try:
            async with self._live.run.lock(self._tracker) as lock:
                yield min(lock.trust.until, self._live.lease.until)
        except LockBusy as error:
            raise TrackerUnavailable(str(error)) from None
