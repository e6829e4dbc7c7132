"""Requests that end no run: those that nobody can read, and those whose every taker died. They become dead letters."""

from __future__ import annotations

import time

import structlog

from agentsmith.domain.lifecycle import Owner, Status
from agentsmith.domain.request import PipelineRequest
from agentsmith.pipelines.outcome import Outcome, OutcomeKind
from agentsmith.running.context import RunContext
from agentsmith.running.intents import publishing
from agentsmith.store import DeadLetter
from agentsmith.tickets.lock import LockBusy, holding

log = structlog.get_logger()


async def bury_unreadable(context: RunContext, consumer: str, payload: str, why: str) -> None:
    """Move a request that nobody can read to the dead letters."""
    log.error("a request that nobody can read goes to the dead letters", reason=why)
    store, letter = context.store, DeadLetter(payload, why, time.time())
    await store.outage.outlast(lambda: store.queue.bury(consumer, "", payload, letter))


async def give_up(
    context: RunContext, consumer: str, request: PipelineRequest, payload: str, *, deliveries: int
) -> None:
    """A poison message: record the failure for housekeeping to publish, and bury it in the dead letters."""
    why = f"taken {deliveries - 1} times, and each time its consumer died, or lost its lease, before it could start"
    log.error("poison: giving up", ticket=request.ticket, run=request.run, why=why)
    store, letter = context.store, DeadLetter(payload, why, time.time())
    if await _note_failure(context, request, letter):
        done = [(request.ticket, payload)]
        await store.outage.outlast(lambda: store.queue.acknowledge_and_take(consumer, done, room=0))
    else:
        await store.outage.outlast(lambda: store.queue.bury(consumer, request.ticket, payload, letter))


async def _note_failure(context: RunContext, request: PipelineRequest, letter: DeadLetter) -> bool:
    """Record that the ticket failed, and the letter with it; True when both stand, whoever recorded them."""
    store, tracker = context.store, context.trackers.get(request.tracker)
    if tracker is None:
        return False
    outcome = Outcome(Status.FAILED, OutcomeKind.DELIVERIES_USED_UP, f"It was {letter.reason}.")
    intent = publishing(request, outcome, source=Status.ENQUEUED, owner=Owner.HOUSEKEEPING)
    try:
        async with holding(store, tracker.platform, request.ticket, wait=store.times.lock) as lock:
            begun = await store.intents.decide(request.ticket, intent, lock=lock, look_in=0, letter=letter)
    except LockBusy:
        return False
    # Unpublished: we gave it up before, and ended before the request was acknowledged.
    return begun.word in ("decided", "unpublished")
