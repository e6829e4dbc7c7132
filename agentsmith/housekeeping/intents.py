"""What was decided and is not on the ticket yet is finished."""

from __future__ import annotations

from functools import partial

from agentsmith.domain.ticket import TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.housekeeping.passes import PassTools, Result
from agentsmith.housekeeping.side_by_side import Task


async def finish_intents(shared: PassTools, result: Result, *, postpone: float) -> None:
    """Finish what can be published; what is about a tracker that we do not know is looked at again much later."""
    intents = shared.store.intents
    found: dict[str, list[Task]] = {}

    async def finish(tracker: Tracker, ticket: TicketId) -> None:
        await shared.looks.finish(tracker, ticket)
        result.finished += 1

    for ticket in await intents.to_look_at(now=await shared.store.clock()):
        intent = await intents.of(ticket)
        tracker = shared.trackers.get(intent.tracker) if intent else None
        if intent is None or tracker is None:
            await intents.postpone(ticket, wait=postpone)
            continue
        task = partial(shared.attempt, result, ticket, partial(finish, tracker, ticket))
        found.setdefault(tracker.name, []).append(task)
    await shared.at_once.do_each("sweep", found)
