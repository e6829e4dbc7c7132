"""The poller: finds tickets by their trigger labels and signals those that deserve a look. One leader at a time.

What nobody announced is found here, so P2 rests on it: it can be slowed, not switched off. While nothing changes on a
tracker, and nothing of it is in hand, the looks drift apart up to a bound, because each of them costs a request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from agentsmith.domain.errors import Refused, TicketNotFound, TrackerError
from agentsmith.domain.gates import Trigger
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.request import MalformedRequest, PipelineRequest
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import DefinesLabels, Tracker
from agentsmith.rhythm import Beat, beating
from agentsmith.store import LeaderLease, Store
from agentsmith.trackers.http import spending_for

log = structlog.get_logger()

_LONGEST_BACKOFF: Final = 8
"""A failing tracker is asked at most this many intervals apart."""
_DRIFT: Final = 1.5
"""Each look that shows nothing new makes the pause to the next so much longer."""


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll of one tracker found."""

    found: int
    signalled: int
    looks: Mapping[TicketId, str] = field(default_factory=dict, repr=False, compare=False)
    """The revision of each ticket that was found."""
    in_hand: int = field(default=0, compare=False)
    """How many tickets of the tracker are queued or running."""


@dataclass(slots=True)
class Calm:
    """How long a tracker has shown nothing new: the longer, the rarer it is worth a look."""

    every: float
    slowest: float
    _pause: float = 0.0
    _last: Mapping[TicketId, str] | None = None

    def after(self, polled: Polled) -> float:
        """Seconds until the next look, given what this one found."""
        busy = polled.signalled or polled.in_hand or polled.looks != self._last
        self._last = polled.looks
        self._pause = self.every if busy else min(self.slowest, max(self.every, self._pause) * _DRIFT)
        return self._pause


@dataclass(slots=True)
class Poller:
    """Polls every tracker at its own interval; one that fails never delays another."""

    store: Store
    trackers: Mapping[str, Tracker]
    triggers: tuple[Trigger, ...]
    intervals: Mapping[str, float]
    slowest: Mapping[str, float] = field(default_factory=dict)
    """How far apart the looks may drift while nothing changes; for whoever is not named they do not."""
    lease: LeaderLease | None = None
    """The leadership under which cycles are noted; without one nobody contends."""
    _failures: dict[str, int] = field(default_factory=dict)
    _prepared: set[str] = field(default_factory=set)

    async def work(self) -> None:
        """Poll for ever; the leader's work."""
        beats = {name: Beat(self.intervals[name], jitter=self.intervals[name] / 10) for name in self.trackers}
        async with beating(beats), asyncio.TaskGroup() as group:
            for name, beat in beats.items():
                group.create_task(self._keep_polling(self.trackers[name], beat))

    async def _keep_polling(self, tracker: Tracker, beat: Beat) -> None:
        calm = Calm(beat.every, max(beat.every, self.slowest.get(tracker.name, beat.every)))
        while True:
            await beat.next()
            failures = self._failures.get(tracker.name, 0)
            try:
                with spending_for("poll"):
                    await self._prepare(tracker)
                    polled = await self.poll(tracker)
            except TrackerError as error:
                self._failures[tracker.name] = failures + 1
                if failures == 0:
                    log.warning("polling failed, trying again", tracker=tracker.name, error=str(error))
                pause = beat.every * min(_LONGEST_BACKOFF, 2.0**failures)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load
                continue
            if failures:
                log.info("polling works again", tracker=tracker.name)
            self._failures[tracker.name] = 0
            fence = self.lease.fence if self.lease is not None else 0
            await self.store.presence.note_cycle("poller", f"{tracker.name}: {polled.found} found", fence=fence)
            pause = calm.after(polled)
            if pause > beat.every:
                # The beat has rung meanwhile, so this is the whole pause.
                await asyncio.sleep(pause * random.uniform(0.9, 1.0))  # noqa: S311 - spreads load

    async def _prepare(self, tracker: Tracker) -> None:
        """Give the lifecycle labels their colours, once; who may not make labels is told so and polls on."""
        if tracker.name in self._prepared or not isinstance(tracker, DefinesLabels):
            return
        try:
            if made := await tracker.ensure_labels():
                log.info("labels made", tracker=tracker.name, labels=list(made))
        except (Refused, TicketNotFound) as error:
            log.warning("the labels could not be prepared", tracker=tracker.name, error=str(error))
        self._prepared.add(tracker.name)

    async def poll(self, tracker: Tracker) -> Polled:
        """Look for tickets once; any error raises, so that an outage is never an empty list (P9)."""
        found: dict[TicketId, str] = {}
        pending: dict[TicketId, Ticket] = {}
        async for ticket in tracker.find(*self._labels_on(tracker)):
            found[ticket.id] = ticket.revision
            statuses = tracker.labels.statuses(ticket.labels)
            # Several labels at once are to be repaired; here they are seen without asking for anything more.
            if resolve(statuses) is Status.PENDING or len(statuses) > 1:
                pending[ticket.id] = ticket
        # A ticket that was turned away and has not changed since would only be turned away again.
        rejected = await self.store.signals.rejected(tuple(pending))
        signals = {
            ticket.id: Signal(tracker.name, ticket.key, ticket.id, cause="poll")
            for ticket in pending.values()
            if rejected.get(ticket.id) != ticket.revision
        }
        # What we have in hand and did not find lost its trigger or was closed: it wants to be stopped.
        in_hand = await self._in_hand(tracker.name)
        for ticket_id, key in in_hand:
            if ticket_id not in found:
                signals[ticket_id] = Signal(tracker.name, key, ticket_id, cause="poll: its trigger is gone")
        signalled = await self.store.signals.send(signals.values())
        return Polled(len(found), signalled, found, len(in_hand))

    def _labels_on(self, tracker: Tracker) -> list[str]:
        here = (t for t in self.triggers if not t.trackers or tracker.name in t.trackers)
        return sorted({trigger.label for trigger in here})

    async def _in_hand(self, tracker: str) -> list[tuple[TicketId, str]]:
        held = [(lease.ticket, lease.key) for lease in await self.store.runs.running() if lease.tracker == tracker]
        for payload in await self.store.queue.waiting():
            try:
                request = PipelineRequest.from_json(payload)
            except MalformedRequest:
                continue  # the consumer that takes it buries it
            if request.tracker == tracker:
                held.append((request.ticket, request.key))
        return held
