"""Housekeeping: one leader that walks the path from behind and brings back whatever got stuck on it.

Each pass returns what it did, for the log and for tests. A tracker that fails never stops the work on others.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from agentsmith.domain.errors import LeaseLost, TrackerError
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.recovery import Leave
from agentsmith.domain.ticket import TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.recover import Recovery
from agentsmith.rhythm import Beat, beating, repeat
from agentsmith.store import Store
from agentsmith.ticketlock import LockBusy, holding
from agentsmith.trackers.http import spending_for

log = structlog.get_logger()


@dataclass(slots=True)
class Swept:
    """What one pass did."""

    put_back: int = 0
    finished: int = 0
    recovered: int = 0
    woken: int = 0
    troubles: list[str] = field(default_factory=list)

    @property
    def anything(self) -> bool:
        """Whether there was something to do."""
        return bool(self.put_back or self.finished or self.recovered or self.woken or self.troubles)


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often each pass runs, in seconds."""

    sweep: float
    stale: float
    reconcile: float


@dataclass(slots=True)
class Housekeeping:
    """The passes, and the rhythm in which the leader makes them."""

    store: Store
    trackers: Mapping[str, Tracker]
    recovery: Recovery
    intervals: Intervals
    _was_settling: bool = False

    async def work(self) -> None:
        """Keep house for ever; the leader's work."""
        with spending_for("housekeeping"):
            await self._keep_house()

    async def _keep_house(self) -> None:
        sweep, stale = Beat(self.intervals.sweep), Beat(self.intervals.stale)
        reconcile = Beat(self.intervals.reconcile)

        async def sweep_and_notice() -> None:
            self._tell("sweep", await self.sweep())
            settling = await self.store.presence.settling()
            if self._was_settling and not settling:
                # What Redis forgot is looked for as soon as everybody had time to put back what they hold.
                stale.ring.set()
                reconcile.ring.set()
            self._was_settling = settling

        async def look_for_stale() -> None:
            self._tell("stale detector", await self.look_at(Status.IN_PROGRESS))

        async def look_for_orphans() -> None:
            self._tell("enqueued reconciler", await self.look_at(Status.ENQUEUED))

        beats = {"sweep": sweep, "stale": stale, "reconcile": reconcile}
        async with beating(beats), asyncio.TaskGroup() as group:
            group.create_task(repeat(sweep, sweep_and_notice))
            group.create_task(repeat(stale, look_for_stale))
            group.create_task(repeat(reconcile, look_for_orphans))

    async def sweep(self) -> Swept:
        """The quick pass, over Redis alone: dead processes, unpublished intents, released leases, due times."""
        swept = Swept()
        await self._put_back(swept)
        await self._finish_intents(swept)
        await self._bring_back(swept)
        await self._wake(swept)
        await self.store.presence.note_cycle("housekeeping", time.strftime("%H:%M:%S"))
        return swept

    async def look_at(self, status: Status) -> Swept:
        """Read every ticket whose label says `status`, and bring back those that nobody has in hand."""
        swept = Swept()
        for tracker in self.trackers.values():
            try:
                async for ticket in tracker.find(tracker.labels.label(status)):
                    leased = await self.store.runs.lease(ticket.id)
                    queued = status is Status.ENQUEUED and await self.store.queue.holds(ticket.id)
                    if (leased or queued) and len(tracker.labels.statuses(ticket.labels)) == 1:
                        continue
                    await self._recover(swept, tracker.name, ticket.key, ticket.id)
            except TrackerError as error:
                swept.troubles.append(f"{tracker.name}: {error}")
        return swept

    async def _put_back(self, swept: Swept) -> None:
        alive = {process.name for process in await self.store.presence.alive()}
        for name in await self.store.presence.known():
            if name in alive:
                continue
            requests, signals = await self.store.queue.put_back(name), await self.store.signals.put_back(name)
            swept.put_back += max(0, requests) + max(0, signals)

    async def _finish_intents(self, swept: Swept) -> None:
        for ticket in await self.store.intents.to_look_at(now=time.time()):
            intent = await self.store.intents.of(ticket)
            tracker = self.trackers.get(intent.tracker) if intent else None
            if intent is None or tracker is None:
                await self.store.intents.postpone(ticket, until=time.time() + self.intervals.stale)
                continue
            try:
                token = uuid.uuid4().hex
                async with holding(self.store, tracker.platform, ticket, token=token) as lock:
                    await self.recovery.finish_intent(ticket, tracker, lock)
                swept.finished += 1
            except (LockBusy, LeaseLost):
                continue  # somebody is at it
            except TrackerError as error:
                swept.troubles.append(f"{ticket}: {error}")

    async def _bring_back(self, swept: Swept) -> None:
        running = {lease.ticket: lease for lease in await self.store.runs.running()}
        alive = {process.name for process in await self.store.presence.alive()}
        orphaned = [lease.ticket for lease in running.values() if lease.consumer not in alive]
        for ticket in dict.fromkeys((*await self.store.runs.released(), *await self.store.runs.suspects(), *orphaned)):
            lease = running.get(ticket)
            where = (lease.tracker, lease.key) if lease else await self.store.intents.where(ticket)
            if where is None:
                await self.store.runs.forget_suspicion(ticket)
                continue
            await self._recover(swept, *where, ticket)

    async def _recover(self, swept: Swept, tracker: str, key: str, ticket: TicketId) -> None:
        try:
            action = await self.recovery.recover(tracker, key, ticket)
        except (LockBusy, LeaseLost):
            return  # somebody is at it
        except TrackerError as error:
            swept.troubles.append(f"{ticket}: {error}")
            return
        if not isinstance(action, Leave):
            swept.recovered += 1
            log.info("recovered", ticket=ticket, action=type(action).__name__)

    async def _wake(self, swept: Swept) -> None:
        for ticket, tracker, key in await self.store.intents.due(now=time.time()):
            try:
                await self.recovery.wake(tracker, key, ticket)
                swept.woken += 1
            except (LockBusy, LeaseLost):
                continue
            except TrackerError as error:
                swept.troubles.append(f"{ticket}: {error}")

    def _tell(self, name: str, swept: Swept) -> None:
        if swept.anything:
            log.info(
                name,
                put_back=swept.put_back,
                finished=swept.finished,
                recovered=swept.recovered,
                woken=swept.woken,
                troubles=swept.troubles or None,
            )
