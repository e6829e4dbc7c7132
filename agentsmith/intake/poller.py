"""The poller: finds tickets by their trigger labels and signals those that deserve a look. One leader at a time.

What nobody announced is found here, so P2 rests on it: it can be slowed, not switched off. While nothing changes on a
tracker, and nothing of it is in hand, the looks drift apart up to a bound, because each of them costs a request.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import structlog

from agentsmith import metrics
from agentsmith.domain.errors import Refused, TicketNotFound, TrackerError
from agentsmith.domain.hooks import KeepsDeliveries
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import DefinesLabels, Tracker
from agentsmith.store import LeaderLease, Store
from agentsmith.ticker import Beat, beating
from agentsmith.tickets.claiming import turned_away
from agentsmith.tickets.live_rules import LiveTriggers
from agentsmith.tickets.refusals import LACKING, Doing, refused, works
from agentsmith.trackers.http import spending_for

log = structlog.get_logger()

T = TypeVar("T")

_LONGEST_BACKOFF: Final = 8
"""A failing tracker is asked at most this many intervals apart."""
_MOST_NAMED: Final = 10
_AT_ONCE: Final = 500
"""Tickets that are dealt with before the event loop has its turn."""
_ON_ITS_WAY: Final = 10.0
"""A webhook about a change that is younger than this may still arrive."""
_CLOCKS_DIFFER: Final = 60.0
"""A platform's clock may be ahead of ours by as much."""
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
    triggers: LiveTriggers
    intervals: Mapping[str, float]
    slowest: Mapping[str, float] = field(default_factory=dict)
    """How far apart the looks may drift while nothing changes; for whoever is not named they do not."""
    leading: LeaderLease | None = None
    """What is found counts only while this stands: a leader that was paused may wake up long after it was replaced."""
    announced: frozenset[str] = frozenset()
    """The trackers whose webhooks we take, so that a poll should find nothing new."""
    heal_every: float = 300.0
    public_url: str | None = None
    _failures: dict[str, int] = field(default_factory=dict)
    _prepared: set[str] = field(default_factory=set)

    async def work(self) -> None:
        """Poll for ever; the leader's work."""
        beats = {name: Beat(self.intervals[name], jitter=self.intervals[name] / 10) for name in self.trackers}
        healing = {name: Beat(self.heal_every, jitter=self.heal_every / 10) for name in self.announced}
        every = beats | {f"{name} healer": beat for name, beat in healing.items()}
        async with beating(every), asyncio.TaskGroup() as group:
            for name, beat in beats.items():
                group.create_task(self._keep_polling(self.trackers[name], beat))
            for name, beat in healing.items():
                group.create_task(self._keep_healing(self.trackers[name], beat))

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
                metrics.POLLS.labels(tracker.name, "failed").inc()
                if isinstance(error, LACKING):
                    await refused(self.store, tracker, Doing.FINDING, error)
                elif failures == 0:
                    log.warning("polling failed, trying again", tracker=tracker.name, error=str(error))
                pause = beat.every * min(_LONGEST_BACKOFF, 2.0**failures)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load
                continue
            await works(self.store, tracker, Doing.FINDING)
            if failures:
                log.info("polling works again", tracker=tracker.name)
            self._failures[tracker.name] = 0
            metrics.POLLS.labels(tracker.name, "done").inc()
            fence = self.leading.fence if self.leading is not None else 0
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
            if len(found) % _AT_ONCE == 0:
                await asyncio.sleep(0)  # some trackers yield a list that they remember, without ever waiting
            statuses = tracker.labels.statuses(ticket.labels)
            # Several labels at once are to be repaired; here they are seen without asking for anything more.
            if resolve(statuses) is Status.PENDING or len(statuses) > 1:
                pending[ticket.id] = ticket
        # What we have in hand and did not find lost its trigger or was closed: it wants to be stopped.
        in_hand, lost = await self._in_hand(tracker, found)
        signals = {id_: Signal(tracker.name, key, id_, cause="poll: its trigger is gone") for id_, key in lost}
        signalled = 0
        for some in _batches(list(pending.values())):
            fresh = await self._fresh(some)
            signals |= {t.id: Signal(tracker.name, t.key, t.id, cause="poll") for t in fresh}
            await self._mind_silence(tracker, fresh)
        for sending in _batches(list(signals.values())):
            sent = await self.store.signals.send(sending, leading=self.leading)
            if sent is None:
                log.warning("what a poll found is dropped: somebody else leads by now", tracker=tracker.name)
                break
            signalled += sent
        return Polled(len(found), signalled, found, in_hand)

    async def _fresh(self, pending: Sequence[Ticket]) -> list[Ticket]:
        """Those that deserve a look.

        A ticket that was turned away and has not changed since would only be turned away again, and one that waits for
        room is looked at when there is some.
        """
        ids = [ticket.id for ticket in pending]
        rejected, held = await self.store.signals.rejected(ids), await self.store.signals.held(ids)
        rules = self.triggers.rules
        return [t for t in pending if t.id not in held and rejected.get(t.id) != turned_away(t, rules)]

    async def _mind_silence(self, tracker: Tracker, fresh: list[Ticket]) -> None:
        """Say so when a poll finds what a webhook should have told."""
        if tracker.name not in self.announced or not fresh:
            return
        told, now = await self.store.signals.announced([ticket.id for ticket in fresh]), time.time()
        silent = [
            ticket.id
            for ticket in fresh
            if (changed := ticket.updated_at.timestamp() if ticket.updated_at else 0.0) < now - _ON_ITS_WAY
            and told.get(ticket.id, 0.0) < changed - _CLOCKS_DIFFER
        ]
        if silent:
            metrics.UNANNOUNCED.labels(tracker.name).inc(len(silent))
            log.warning(
                "a poll found what no webhook announced; see: agentsmith webhooks check",
                tracker=tracker.name,
                count=len(silent),
                tickets=silent[:_MOST_NAMED],
            )

    async def _keep_healing(self, tracker: Tracker, beat: Beat) -> None:
        """Have failed deliveries sent again, where the platform keeps them."""
        while isinstance(tracker, KeepsDeliveries):
            await beat.next()
            try:
                with spending_for("heal"):
                    healed = await tracker.redeliver_failed(tracker.name, self.public_url)
            except (Refused, TicketNotFound) as error:
                log.info("failed deliveries cannot be asked for again", tracker=tracker.name, why=str(error))
                return
            except TrackerError as error:
                log.warning("healing failed, trying again", tracker=tracker.name, error=str(error))
                continue
            if healed:
                metrics.HEALED.labels(tracker.name).inc(healed)
                log.info("failed deliveries were asked for again", tracker=tracker.name, count=healed)

    def _labels_on(self, tracker: Tracker) -> list[str]:
        here = (t for t in self.triggers if not t.trackers or tracker.name in t.trackers)
        return sorted({trigger.label for trigger in here})

    async def _in_hand(self, tracker: Tracker, found: Collection[TicketId]) -> tuple[int, list[tuple[TicketId, str]]]:
        """How many tickets of the tracker are queued or running, and which of those are not among the `found`."""
        leases = {lease.ticket: lease.key for lease in await self.store.runs.running() if lease.tracker == tracker.name}
        count, lost = len(leases), [(ticket, key) for ticket, key in leases.items() if ticket not in found]
        # Their names say whose they are; the requests themselves are long, and may be many.
        for some in _batches([ticket for ticket in await self.store.queue.tickets() if ticket not in leases]):
            ours = [(ticket, tracker.identify(ticket)) for ticket in some if ticket.startswith(tracker.project)]
            count += sum(key is not None for _, key in ours)
            lost += [(ticket, key) for ticket, key in ours if key is not None and ticket not in found]
            await asyncio.sleep(0)
        return count, lost


def _batches(things: Sequence[T]) -> Iterator[Sequence[T]]:
    """So many at a time that the event loop has its turn every few milliseconds."""
    return (things[start : start + _AT_ONCE] for start in range(0, len(things), _AT_ONCE))
