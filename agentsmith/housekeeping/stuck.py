"""Tickets whose label says that somebody has them, though nobody does: no lease, and no request on the queue."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Tracker
from agentsmith.housekeeping.passes import PassTools, Result, labelled
from agentsmith.housekeeping.side_by_side import share


@dataclass(frozen=True, slots=True)
class Stuck:
    """Reads every ticket whose label says `status`, and brings back those that nobody has in hand."""

    shared: PassTools
    status: Status

    async def run_once(self) -> Result:
        """Look at every ticket with the label."""
        result = Result()
        await self.shared.on_every_tracker(self.status.value, result, partial(self._look, result))
        return result

    async def _look(self, result: Result, tracker: Tracker) -> None:
        listed = await labelled(tracker, self.status)
        found = [ticket for ticket in listed if await self._is_stuck(tracker, ticket)]
        await share(partial(self.shared.recover, result, tracker.name, t.key, t.id, t) for t in found)

    async def _is_stuck(self, tracker: Tracker, ticket: Ticket) -> bool:
        """Whether a listed ticket deserves a read of its own: nobody has it, or it shows several labels."""
        store = self.shared.store
        if self.shared.is_foreign(ticket):
            return False
        if len(tracker.labels.statuses(ticket.labels)) > 1:
            return True
        if await store.runs.lease(ticket.id) is not None:
            return False
        return self.status is not Status.ENQUEUED or not await store.queue.holds(ticket.id)
