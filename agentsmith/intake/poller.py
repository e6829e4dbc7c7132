"""The poller: finds tickets by their trigger labels and signals those that deserve a look. One leader at a time.

What nobody announced is found here, so P2 rests on it: it can be slowed, not switched off. While nothing changes on a
tracker, and nothing of it is in hand, polls become rarer up to a bound, because each of them costs a request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import structlog

from agentsmith import metrics
from agentsmith.bounded import Bounded
from agentsmith.domain.errors import AgentSmithError
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.intake.labels import prepare_labels
from agentsmith.intake.unannounced import report_unannounced
from agentsmith.store import LeaderLease, Store
from agentsmith.ticker import Job, Ticker
from agentsmith.tickets.claiming import turned_away
from agentsmith.tickets.live_rules import LiveTriggers
from agentsmith.tickets.refusals import FAILS_ALL, LACKING, Doing, refused, works
from agentsmith.trackers.http import spending_for

log = structlog.get_logger()

T = TypeVar("T")

_LONGEST_BACKOFF: Final = 8
"""A failing tracker is asked at most this many intervals apart."""
_AT_ONCE: Final = 500
"""Tickets that are dealt with before the event loop has its turn."""
_SLOWER: Final = 1.5
"""Each poll that shows nothing new makes the pause to the next so much longer."""


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll of one tracker found."""

    found: int
    signalled: int
    revisions: Mapping[TicketId, str] = field(default_factory=dict, repr=False, compare=False)
    """The revision of each ticket that was found."""
    in_hand: int = field(default=0, compare=False)
    """How many tickets of the tracker are queued or running."""


@dataclass(slots=True)
class IdleBackoff:
    """How long to wait for the next poll: the longer a tracker has shown nothing new, the longer."""

    every: float
    slowest: float
    _pause: float = 0.0
    _last: Mapping[TicketId, str] | None = None

    def after(self, polled: Polled) -> float:
        """Seconds until the next poll, given what this one found."""
        busy = polled.signalled or polled.in_hand or polled.revisions != self._last
        self._last = polled.revisions
        self._pause = self.every if busy else min(self.slowest, max(self.every, self._pause) * _SLOWER)
        return self._pause


@dataclass(slots=True)
class Poller:
    """Polls one tracker at its own interval."""

    store: Store
    tracker: Tracker
    triggers: LiveTriggers
    every: float
    slowest: float = 0.0
    """How far apart polls may be while nothing changes; `every` where that is longer."""
    leading: LeaderLease | None = None
    """What is found counts only while this stands: a leader that was paused may wake up long after it was replaced."""
    announced: bool = False
    """Whether we take the tracker's webhooks, so that a poll should find nothing new."""
    _failures: int = 0
    _prepared: bool = False
    _unannounced: Bounded[TicketId, str] = field(default_factory=lambda: Bounded(10_000))
    """Tickets of which was told that no webhook announced them, by the revision that they had."""

    def job(self) -> Job:
        """For one term of a leader."""
        backoff = IdleBackoff(self.every, max(self.every, self.slowest))
        return Job(self.tracker.name, Ticker(self.every, jitter=self.every / 10), partial(self.run_once, backoff))

    async def run_once(self, backoff: IdleBackoff) -> None:
        """Poll, note how it went, and wait for longer than the interval where that is called for."""
        name = self.tracker.name
        try:
            with spending_for("poll"):
                if not self._prepared:
                    await prepare_labels(self.tracker)
                    self._prepared = True
                polled = await self.poll()
        except FAILS_ALL:
            raise
        except Exception as error:
            await self._failed(error)
            return
        await works(self.store, self.tracker, Doing.FINDING)
        if self._failures:
            log.info("polling works again", tracker=name)
        self._failures = 0
        metrics.POLLS.labels(name, "done").inc()
        fence = self.leading.fence if self.leading is not None else 0
        await self.store.presence.note_cycle("poller", f"{name}: {polled.found} found", fence=fence)
        pause = backoff.after(polled)
        if pause > self.every:
            # The ticker has ticked meanwhile, so this is the whole pause.
            await asyncio.sleep(pause * random.uniform(0.9, 1.0))  # noqa: S311 - spreads load

    async def _failed(self, error: Exception) -> None:
        """Note it, and wait for the longer the more often it failed."""
        failures, self._failures = self._failures, self._failures + 1
        metrics.POLLS.labels(self.tracker.name, "failed").inc()
        if isinstance(error, LACKING):
            await refused(self.store, self.tracker, Doing.FINDING, error)
        elif failures == 0:
            unforeseen = None if isinstance(error, AgentSmithError) else error
            name = self.tracker.name
            log.warning("polling failed, trying again", tracker=name, error=str(error), exc_info=unforeseen)
        pause = self.every * min(_LONGEST_BACKOFF, 2.0**failures)
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load

    async def poll(self) -> Polled:
        """Look for tickets once; any error raises, so that an outage is never an empty list (P9)."""
        tracker = self.tracker
        found: dict[TicketId, str] = {}
        pending: dict[TicketId, Ticket] = {}
        async for ticket in tracker.find(*self._labels()):
            found[ticket.id] = ticket.revision
            if len(found) % _AT_ONCE == 0:
                await asyncio.sleep(0)  # some trackers yield a list that they remember, without ever waiting
            statuses = tracker.labels.statuses(ticket.labels)
            # Several labels at once are to be repaired; here they are seen without asking for anything more.
            if resolve(statuses) is Status.PENDING or len(statuses) > 1:
                pending[ticket.id] = ticket
        # What we have in hand and did not find lost its trigger or was closed: it wants to be stopped.
        in_hand, lost = await self._in_hand(found)
        signals = {id_: Signal(tracker.name, key, id_, cause="poll: its trigger is gone") for id_, key in lost}
        signalled = 0
        for some in _batches(list(pending.values())):
            fresh = await self._fresh(some)
            signals |= {t.id: Signal(tracker.name, t.key, t.id, cause="poll") for t in fresh}
            if self.announced:
                await report_unannounced(self.store, tracker, fresh, self._unannounced)
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

    def _labels(self) -> list[str]:
        here = (t for t in self.triggers if not t.trackers or self.tracker.name in t.trackers)
        return sorted({trigger.label for trigger in here})

    async def _in_hand(self, found: Collection[TicketId]) -> tuple[int, list[tuple[TicketId, str]]]:
        """How many tickets of the tracker are queued or running, and which of those are not among the `found`."""
        tracker = self.tracker
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
