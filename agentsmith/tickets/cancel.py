"""Calling a ticket off: taking it from the queue, or asking its run to stop. On the command line and in comments."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import Final

from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.request import MalformedRequest, PipelineRequest
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.store import Lease, Store
from agentsmith.tickets.recover import Recovery

UNDER_WAY: Final = (Status.ENQUEUED, Status.IN_PROGRESS)


class CalledOff(StrEnum):
    """What became of it."""

    UNQUEUED = "unqueued"
    """It was taken off the queue, and its label says failed."""
    STOPPING = "stopping"
    """Its run was asked to stop."""
    NOTHING = "not running"


async def call_off(
    store: Store, recovery: Recovery, tracker: Tracker, ticket: Ticket, *, reason: str, lock: Lease
) -> CalledOff:
    """Call off a ticket that was just read under its lock."""
    status = resolve(tracker.labels.statuses(ticket.labels))
    leased, queued = await store.runs.lease(ticket.id) is not None, await store.queue.holds(ticket.id)
    if not leased and not queued and status not in UNDER_WAY:
        return CalledOff.NOTHING
    if queued and not leased:
        intent = Intent(
            ticket=ticket.id,
            tracker=tracker.name,
            key=ticket.key,
            fence=0,
            source=status,
            to=Status.FAILED,
            run=await _waiting_run(store, ticket.id) or "none",
            outcome=reason,
            note=f"Stopped before it started: {reason}.",
        )
        # The word says whether a consumer was faster.
        if await recovery.decide_and_publish(intent, ticket=ticket, lock=lock, unqueue=True) == "decided":
            return CalledOff.UNQUEUED
    await store.runs.withdraw_follow_up(ticket.id)
    # It may have ended in this very moment.
    return CalledOff.STOPPING if await store.runs.request_stop(ticket.id, reason) else CalledOff.NOTHING


async def _waiting_run(store: Store, ticket: TicketId) -> str | None:
    payload = await store.queue.request_of(ticket)
    with contextlib.suppress(MalformedRequest):
        return PipelineRequest.from_json(payload).run if payload else None
    return None
