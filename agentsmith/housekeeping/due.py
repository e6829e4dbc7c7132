"""Waiting tickets: those whose time has come are woken, and times that Redis forgot are read off the tickets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.housekeeping.passes import PassTools, Result, labelled
from agentsmith.housekeeping.side_by_side import Task


async def wake_due(shared: PassTools, result: Result) -> None:
    """Wake the tickets whose time has come."""
    store = shared.store
    found: dict[str, list[Task]] = {}

    async def wake(tracker: str, key: str, ticket: TicketId) -> None:
        await shared.looks.wake(tracker, key, ticket)
        result.woken += 1

    for ticket, tracker, key in await store.intents.due(now=await store.clock()):
        task = partial(shared.attempt, result, ticket, partial(wake, tracker, key, ticket))
        found.setdefault(tracker, []).append(task)
    await shared.at_once.do_each("sweep", found)


@dataclass(frozen=True, slots=True)
class DueTimes:
    """Reads the times that waiting tickets wait for off the tickets, where Redis forgot them."""

    shared: PassTools

    async def run_once(self) -> Result:
        """Look at every waiting ticket."""
        result = Result()
        await self.shared.on_every_tracker("due times", result, partial(self._look, result))
        return result

    async def _look(self, result: Result, tracker: Tracker) -> None:
        store = self.shared.store
        for ticket in await labelled(tracker, Status.WAITING):
            if await store.intents.knows_wait(ticket.id):
                await store.intents.keep_where(ticket.id, tracker.name, ticket.key)
            elif not self.shared.is_foreign(ticket):
                await self.shared.attempt(result, ticket.id, partial(self._recall, result, tracker, ticket))

    async def _recall(self, result: Result, tracker: Tracker, ticket: Ticket) -> None:
        if await self.shared.looks.remembered.restore_due(tracker, ticket):
            result.recalled += 1
        elif not await self.shared.store.intents.knows_wait(ticket.id):
            self.shared.foreign[ticket.id] = ticket.revision
