"""Housekeeping: one leader that walks the path from behind and brings back whatever got stuck on it.

Each pass returns what it did, for the log and for tests. A tracker that fails or is slow never holds up the work on
others: everything that asks a tracker is done for all trackers at once, and one that is not done in time goes on by
itself while the next passes are made without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog

from agentsmith.boottime import boottime
from agentsmith.bounded import Bounded
from agentsmith.domain.actions import Nothing, NotOurs
from agentsmith.domain.errors import LeaseLost, TrackerError
from agentsmith.domain.facts import Life
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.store import LeaderLease, Store
from agentsmith.store.healing import align_intents
from agentsmith.ticker import Beat, beating, repeat
from agentsmith.tickets.lock import LockBusy
from agentsmith.tickets.look import Looks
from agentsmith.trackers.http import spending_for

log = structlog.get_logger()

_HANDS: Final = 4
"""Tickets of one tracker that are looked after at once."""
_PATIENCE: Final = 5.0
"""Seconds for which a pass waits for a tracker; the others' next pass need not wait for it any more."""
_LONGEST_ROUND: Final = 60.0
"""Seconds after which the rest of what was found for one tracker is left to the next pass, which finds it anew."""

Task = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Swept:
    """What one pass did."""

    put_back: int = 0
    finished: int = 0
    recovered: int = 0
    recalled: int = 0
    woken: int = 0
    troubles: list[str] = field(default_factory=list)

    @property
    def anything(self) -> bool:
        """Whether there was something to do."""
        return bool(self.counts or self.troubles)

    @property
    def counts(self) -> dict[str, int]:
        """What was done, how often."""
        names = ("put_back", "finished", "recovered", "recalled", "woken")
        return {name: count for name in names if (count := getattr(self, name))}


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
    looks: Looks
    intervals: Intervals
    lease: LeaderLease | None = None
    """The leadership under which cycles are noted; without one nobody contends."""
    _was_settling: bool = False
    _patience: float | None = None
    """How long a pass waits for trackers: as long as it takes, unless we keep house in a rhythm."""
    _under_way: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)
    """What is done for each tracker now, by pass."""
    _lost: dict[str, str] = field(default_factory=dict)
    """Requests that were in no list when we last looked."""
    _foreign: Bounded[TicketId, str] = field(default_factory=lambda: Bounded(10_000))
    """Revisions of tickets that turned out to be another installation's: until they change, they stay so."""

    async def work(self) -> None:
        """Keep house for ever; the leader's work."""
        self._patience = _PATIENCE
        try:
            with spending_for("housekeeping"):
                await self._keep_house()
        finally:
            await self._drop()

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
            await self.store.presence.find_owners()
            await self._heal()
            self._tell("enqueued reconciler", await self.look_at(Status.ENQUEUED))
            self._tell("due times", await self.look_at_waiting())

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
        fence = self.lease.fence if self.lease is not None else 0
        done = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in swept.counts.items())
        troubles = f"; {len(swept.troubles)} in trouble" if swept.troubles else ""
        await self.store.presence.note_cycle("housekeeping", (done or "nothing to do") + troubles, fence=fence)
        return swept

    async def look_at(self, status: Status) -> Swept:
        """Read every ticket whose label says `status`, and bring back those that nobody has in hand."""
        swept = Swept()

        async def look(tracker: Tracker) -> None:
            listed = await _labelled(tracker, status)
            found = [ticket for ticket in listed if await self._is_stuck(tracker, ticket, status)]
            await _share(self._recovering(swept, tracker.name, ticket.key, ticket.id, ticket) for ticket in found)

        await self._on_every_tracker(status.value, swept, look)
        return swept

    async def look_at_waiting(self) -> Swept:
        """Read the times that waiting tickets wait for off the tickets, where Redis forgot them."""
        swept = Swept()

        async def look(tracker: Tracker) -> None:
            for ticket in await _labelled(tracker, Status.WAITING):
                if await self.store.runs.remembers(ticket.id):
                    await self.store.intents.keep_where(ticket.id, tracker.name, ticket.key)
                elif not self._is_foreign(ticket):
                    await self._attempt(swept, ticket.id, self._recalling(swept, tracker, ticket))

        await self._on_every_tracker("due times", swept, look)
        return swept

    async def _on_every_tracker(
        self, what: str, swept: Swept, look: Callable[[Tracker], Coroutine[Any, Any, None]]
    ) -> None:
        """Do it for all trackers at once; one that fails is noted, and nothing is concluded from it (P9)."""

        async def on(tracker: Tracker) -> None:
            try:
                await look(tracker)
            except TrackerError as error:
                swept.troubles.append(f"{tracker.name}: {error}")

        await self._side_by_side(what, {tracker.name: partial(on, tracker) for tracker in self.trackers.values()})

    async def _share_each(self, tasks: Mapping[str, list[Task]]) -> None:
        """Do the tasks of all trackers at once."""
        await self._side_by_side("sweep", {name: partial(_share, of_tracker) for name, of_tracker in tasks.items()})

    async def _side_by_side(self, what: str, work: Mapping[str, Task]) -> None:
        """Do the work of each tracker; the first failure ends all of it, and is raised as it is.

        A tracker that is still at an earlier round of this gets no more, and is not waited for (P5).
        """
        begun: list[asyncio.Task[None]] = []
        for tracker, do in work.items():
            former = self._under_way.get((what, tracker))
            if former is None or former.done():
                begun.append(asyncio.ensure_future(do()))
                self._under_way[what, tracker] = begun[-1]
        try:
            if begun:
                await asyncio.wait(begun, timeout=self._patience, return_when=asyncio.FIRST_EXCEPTION)
            for key, task in list(self._under_way.items()):
                if task.done():
                    del self._under_way[key]
                    task.result()
        except BaseException:
            await self._drop()
            raise

    async def _drop(self) -> None:
        """End what is under way: we no longer lead, or something failed that is not a tracker's."""
        left = list(self._under_way.values())
        self._under_way.clear()
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    async def _is_stuck(self, tracker: Tracker, ticket: Ticket, status: Status) -> bool:
        """Whether a listed ticket deserves a read of its own: nobody has it, or it shows several labels."""
        if self._is_foreign(ticket):
            return False
        if len(tracker.labels.statuses(ticket.labels)) > 1:
            return True
        if await self.store.runs.lease(ticket.id) is not None:
            return False
        return status is not Status.ENQUEUED or not await self.store.queue.holds(ticket.id)

    def _is_foreign(self, ticket: Ticket) -> bool:
        return not self.looks.remembered.routes(ticket) and self._foreign.get(ticket.id) == ticket.revision

    async def _put_back(self, swept: Swept) -> None:
        alive = {process.name for process in await self.store.presence.alive()}
        for name in await self.store.presence.known():
            if name in alive:
                continue
            requests, signals = await self.store.queue.put_back(name), await self.store.signals.put_back(name)
            swept.put_back += max(0, requests) + max(0, signals)

    async def _heal(self) -> None:
        """Let nothing that is kept beside something else outlive it: it would keep a ticket out for ever."""
        owners = await self.store.presence.known()
        lost = await self.store.queue.lost(owners)
        twice = {ticket: request for ticket, request in lost.items() if self._lost.get(ticket) == request}
        self._lost = lost
        healed = await self.store.queue.forget_lost(owners, twice) + await self.store.signals.heal(owners)
        if healed := healed + await align_intents(self.store.redis, self.store.keys):
            log.warning("what stood side by side and disagreed was put right", entries=healed)

    async def _finish_intents(self, swept: Swept) -> None:
        found: dict[str, list[Task]] = {}
        for ticket in await self.store.intents.to_look_at(now=await self.store.clock()):
            intent = await self.store.intents.of(ticket)
            tracker = self.trackers.get(intent.tracker) if intent else None
            if intent is None or tracker is None:
                await self.store.intents.postpone(ticket, wait=self.intervals.stale)
                continue
            found.setdefault(tracker.name, []).append(self._finishing(swept, tracker, ticket))
        await self._share_each(found)

    def _finishing(self, swept: Swept, tracker: Tracker, ticket: TicketId) -> Task:
        async def finish() -> None:
            await self.looks.finish(tracker, ticket)
            swept.finished += 1

        return lambda: self._attempt(swept, ticket, finish)

    async def _bring_back(self, swept: Swept) -> None:
        # The marks first: what is marked later is found the next time, with its run.
        marked = (*await self.store.runs.released(), *await self.store.runs.suspects())
        running = {lease.ticket: lease for lease in await self.store.runs.running()}
        alive = {process.name for process in await self.store.presence.alive()}
        orphaned = [lease.ticket for lease in running.values() if lease.consumer not in alive]
        found: dict[str, list[Task]] = {}
        for ticket in dict.fromkeys((*marked, *orphaned)):
            lease = running.get(ticket)
            where = (lease.tracker, lease.key) if lease else await self.store.intents.where(ticket)
            if where is None:
                await self.store.runs.forget_suspicion(ticket)
            elif await self.store.runs.look(ticket, patient=True) is Life.DEAD:
                # Only now is the tracker asked: a consumer that merely fell silent costs no requests.
                found.setdefault(where[0], []).append(self._recovering(swept, *where, ticket))
        await self._share_each(found)

    def _recovering(self, swept: Swept, tracker: str, key: str, ticket: TicketId, listed: Ticket | None = None) -> Task:
        async def recover() -> None:
            action = await self.looks.repair(tracker, key, ticket)
            if isinstance(action, NotOurs) and listed is not None:
                self._foreign[ticket] = listed.revision
            elif not isinstance(action, Nothing | NotOurs):
                swept.recovered += 1
                log.info("recovered", ticket=ticket, action=type(action).__name__)

        return lambda: self._attempt(swept, ticket, recover)

    def _recalling(self, swept: Swept, tracker: Tracker, ticket: Ticket) -> Task:
        async def recall() -> None:
            if await self.looks.remembered.restore_due(tracker, ticket):
                swept.recalled += 1
            elif not await self.store.runs.remembers(ticket.id):
                self._foreign[ticket.id] = ticket.revision

        return recall

    async def _wake(self, swept: Swept) -> None:
        found: dict[str, list[Task]] = {}
        for ticket, tracker, key in await self.store.intents.due(now=await self.store.clock()):
            found.setdefault(tracker, []).append(self._waking(swept, tracker, key, ticket))
        await self._share_each(found)

    def _waking(self, swept: Swept, tracker: str, key: str, ticket: TicketId) -> Task:
        async def wake() -> None:
            await self.looks.wake(tracker, key, ticket)
            swept.woken += 1

        return lambda: self._attempt(swept, ticket, wake)

    async def _attempt(self, swept: Swept, ticket: TicketId, task: Task) -> None:
        try:
            await task()
        except (LockBusy, LeaseLost):
            return  # somebody is at it
        except TrackerError as error:
            swept.troubles.append(f"{ticket}: {error}")

    def _tell(self, name: str, swept: Swept) -> None:
        if swept.anything:
            log.info(name, **swept.counts, troubles=swept.troubles or None)


async def _labelled(tracker: Tracker, status: Status) -> list[Ticket]:
    """Every open ticket that shows `status`, also under a former prefix."""
    return [ticket async for ticket in tracker.find(*tracker.labels.spellings(status))]


async def _share(tasks: Iterable[Task]) -> None:
    """Do the tasks, a few at a time, in order; what is not begun in time is left."""
    left, give_up = iter(tasks), boottime() + _LONGEST_ROUND

    async def hand() -> None:
        for task in left:
            if boottime() > give_up:
                return
            await task()

    await _together(hand() for _ in range(_HANDS))


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all of it at once; the first failure ends the rest, and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in work:
                group.create_task(part)
    except BaseExceptionGroup as failures:
        first: BaseException = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
