"""The consumer: takes requests while it has a free slot, and carries each out under its own lease.

`take → parse → lease → RunScope`. A request that cannot be read goes to the dead letters; it never stops the
consumer and is never lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from agentsmith.boottime import boottime
from agentsmith.bounded import Bounded
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Owner, Status, edge
from agentsmith.domain.request import MalformedRequest, NewerRequest, PipelineRequest
from agentsmith.domain.ticket import TicketId
from agentsmith.running.run import RunScope
from agentsmith.running.run_work import RunContext
from agentsmith.store import AWAY, Acquired, DeadLetter, NotAcquired, Process, RunLease, Settled, Store
from agentsmith.tickets.lock import LockBusy, holding
from agentsmith.trackers.http import spending_for

log = structlog.get_logger()

_SETTLE_WITHIN: Final = 15.0
"""How long a process that ends tries to give its runs back, once their children have had their grace."""


_OTHERS_FIRST: Final = 0.5
"""Seconds for which a slot takes nothing after it left a request to others."""


@dataclass(slots=True)
class Consumer:
    """N slots of one process."""

    context: RunContext
    process: Process
    slots: int
    max_deliveries: int
    take_wait: float
    _scopes: dict[str, RunScope] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _leases: dict[str, RunLease] = field(default_factory=dict)
    _draining: asyncio.Event = field(default_factory=asyncio.Event)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)
    _taking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _adopt: bool = True
    _doubted: set[str] = field(default_factory=set)
    """Requests that were in hand when Redis last lost its memory: it may have forgotten that one of them ended."""

    _settled: Bounded[int, Settled] = field(default_factory=lambda: Bounded(10_000))
    """How our runs ended, by fence, for as long as a lease lasts: Redis may forget it."""
    _forgotten: list[Settled] = field(default_factory=list)
    """Those that Redis may have forgotten."""

    @property
    def store(self) -> Store:
        return self.context.store

    async def serve(self) -> None:
        """Take and run until drained; ends when the last run has settled."""
        try:
            async with self._taking:
                await self._keep_taking()
            if self._tasks:
                await asyncio.wait(self._tasks.values())
        except BaseException:
            # A role died, this one or another, and the process goes down: nobody would wait for the end of a run.
            await self._end_runs()
            raise

    async def _keep_taking(self) -> None:
        while not self._draining.is_set():
            await self.context.machine.until_well(self._draining)
            if self._draining.is_set():
                return
            self._freed.clear()
            free = self.slots - len(self._tasks)
            if free <= 0:
                await self._freed.wait()
                continue
            try:
                payloads = await self._take(free)
                self.store.outage.over()
            except AWAY as error:
                # The answer to a take may be lost while the request already stands in our list.
                self._adopt = True
                await asyncio.sleep(self.store.outage.noticed(error))
                continue
            for payload in payloads:
                self._begin(payload)

    async def drain(self, *, timeout: float) -> None:
        """Take no more; let runs finish for `timeout` seconds, then give back what is left."""
        self._draining.set()
        self._freed.set()
        with contextlib.suppress(TimeoutError):
            # Until a blocked take has ended, so that we do not take again what we give back; Redis may be silent.
            async with asyncio.timeout(2 * self.take_wait), self._taking:
                pass
        if self._tasks:
            log.info("draining", runs=len(self._tasks), timeout=timeout)
            await asyncio.wait(self._tasks.values(), timeout=timeout)
        await self._end_runs()

    @property
    def running(self) -> dict[TicketId, int]:
        """The tickets in hand, each with the fence of its run."""
        return {lease.ticket: lease.fence for lease in self._leases.values()}

    async def run(self, payload: str) -> None:
        """Carry out one request that is in our hands, to its end."""
        self._begin(payload)
        await asyncio.wait({self._tasks[payload]})

    def stop_runs(self, reasons: Mapping[TicketId, str], *, asked: Mapping[TicketId, int]) -> None:
        """End the runs that are to stop. `asked` is what `running` said when the question was sent.

        A run may have ended since and the next one of its ticket begun: the answer does not concern that one.
        """
        for payload, scope in self._scopes.items():
            ticket = scope.request.ticket
            if ticket in reasons and asked.get(ticket) == self._leases[payload].fence:
                scope.stop(reasons[ticket])

    async def restore(self) -> None:
        """Redis lost its memory: put the requests in hand back; leases are put back by their renewal."""
        self._doubted.update(self._tasks)
        ended = [*self._settled.values(), *(scope.settled for scope in self._scopes.values() if scope.settled)]
        self._forgotten = [end for end in ended if boottime() - end.at < self.store.times.ttl]
        for payload, scope in list(self._scopes.items()):
            await self.store.places.occupy(scope.request)
            await scope.restore(self.process.name, payload)
        self._adopt = True

    async def settle_again(self) -> None:
        """Tell Redis of the runs whose end it may have forgotten, so that nobody does their work again."""
        while self._forgotten:
            end = self._forgotten[0]
            word = await self.store.runs.settle_again(end)
            if word == "settling":
                return  # the others are asked for with it, when everybody has put back what they hold
            if word == "settled":
                log.warning("redis had lost the end of a run; it is noted again", ticket=end.lease.ticket)
            self._forgotten = [other for other in self._forgotten if other is not end]

    async def _end_runs(self) -> None:
        """Give back what still runs; not for ever, because Redis may stay away. Housekeeping finds what is left."""
        self._draining.set()
        for scope in self._scopes.values():
            scope.drain()
        if not self._tasks:
            return
        _, left = await asyncio.wait(self._tasks.values(), timeout=self.context.kill_grace + _SETTLE_WITHIN)
        if left:
            log.error(
                "leaving before the end of all runs was noted; housekeeping brings their tickets back", runs=len(left)
            )
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=_SETTLE_WITHIN)

    async def _take(self, free: int) -> list[str]:
        queue, name = self.store.queue, self.process.name
        if self._adopt:
            await self._disown()
            held = [p for p in await queue.in_hand(name) if p not in self._tasks]
            self._adopt = len(held) > free
            if held:
                return held[:free]
        taken = await queue.acknowledge_and_take(name, (), room=free)
        if taken:
            return taken
        # A blocked take is left by cancelling nothing: drain is noticed at the latest when the wait is over.
        payload = await queue.take(name, wait=self.take_wait)
        return [payload] if payload is not None else []

    async def _disown(self) -> None:
        """Let go of runs that stand under our name and are not in our hands.

        There are some when a run could not be settled, or Redis went back to what it knew before a run had settled.
        While we live nobody else would doubt them.
        """
        running = [lease for lease in await self.store.runs.running() if lease.consumer == self.process.name]
        for lease in running:
            end = self._settled.get(lease.fence)
            if end is not None and await self.store.runs.settle_again(end) == "settled":
                continue
            tracker = self.context.trackers.get(lease.tracker)
            if tracker is not None and lease.run not in map(_run_of, self._tasks):
                log.warning("a run that we do not carry out is let go", ticket=lease.ticket, run=lease.run)
                lock_key = self.store.keys.claim_lock(tracker.platform, lease.ticket)
                await self.store.runs.release_dead(lease, lock_key=lock_key)

    def _begin(self, payload: str) -> None:
        if payload in self._tasks:
            return
        task = asyncio.create_task(self._run(payload))
        self._tasks[payload] = task
        task.add_done_callback(lambda _: self._end(payload))

    def _end(self, payload: str) -> None:
        task = self._tasks.pop(payload)
        scope = self._scopes.pop(payload, None)
        self._leases.pop(payload, None)
        self._freed.set()
        self._remember(scope.settled if scope is not None else None)
        if scope is not None and scope.served:
            self.context.machine.served()
        if scope is not None and scope.holds_request:
            # The lease was lost before the request was acknowledged. Nobody but us may take it out of our list.
            self._adopt = True
        if payload in self._doubted:
            # It may have settled before Redis forgot that, and then it runs again there, under our name.
            self._doubted.discard(payload)
            self._adopt = True
        if not task.cancelled() and (error := task.exception()) is not None:
            # Housekeeping brings the ticket back; the consumer goes on with the others.
            log.error("the end of a run could not be noted; housekeeping brings its ticket back", exc_info=error)
            self._adopt = True

    def _remember(self, end: Settled | None) -> None:
        if end is not None:
            self._settled[end.lease.fence] = end
        oldest = boottime() - self.store.times.ttl
        while self._settled and self._settled[first := next(iter(self._settled))].at < oldest:
            del self._settled[first]

    async def _run(self, payload: str) -> None:
        try:
            request = PipelineRequest.from_json(payload)
        except NewerRequest as error:
            await self._leave_to_others(payload, str(error))
            return
        except MalformedRequest as error:
            log.error("a request that nobody can read goes to the dead letters", reason=str(error))
            letter = DeadLetter(payload, str(error), time.time())
            await self.store.outage.outlast(lambda: self.store.queue.bury(self.process.name, "", payload, letter))
            return
        # It was put back and given to us again: the earlier run, whose lease is gone, may still be at its folder.
        if earlier := [self._tasks[p] for p, scope in self._scopes.items() if scope.request.ticket == request.ticket]:
            await asyncio.wait(earlier)
        if self._draining.is_set():
            return
        if not self._knows(request) and await self._others_may_know(request):
            why = f"this configuration has no pipeline {request.pipeline!r}, or no tracker {request.tracker!r}"
            await self._leave_to_others(payload, why)
            return
        times = self.store.times
        acquired = await self.store.outage.outlast(
            lambda: self.store.runs.acquire(
                request,
                payload,
                consumer=self.process.name,
                ttl=times.ttl,
                max_deliveries=self.max_deliveries,
            )
        )
        match acquired:
            case Acquired():
                scope = self._scopes[payload] = RunScope(self.context, request, payload, acquired)
                self._leases[payload] = acquired.lease
                if self._draining.is_set():
                    scope.drain()
                with spending_for("run"):
                    await scope.carry_out()
            case NotAcquired(word="poison", count=count):
                await self._give_up(request, payload, count)
            case NotAcquired(word=word):
                log.info("not run", ticket=request.ticket, run=request.run, why=word)
                done = [(request.ticket, payload)]
                await self.store.outage.outlast(
                    lambda: self.store.queue.acknowledge_and_take(self.process.name, done, room=0)
                )

    def _knows(self, request: PipelineRequest) -> bool:
        return request.pipeline in self.context.pipelines and request.tracker in self.context.trackers

    async def _others_may_know(self, request: PipelineRequest) -> bool:
        alive = await self.store.outage.outlast(self.store.presence.alive)
        return any(p.may_run(request.tracker, request.pipeline) for p in alive if p.name != self.process.name)

    async def _leave_to_others(self, payload: str, why: str) -> None:
        """A process of another release or configuration can run it; nothing is counted, and nothing buried."""
        log.info("a request is left to others", run=_run_of(payload), why=why)
        await self.store.outage.outlast(lambda: self.store.queue.hand_back(self.process.name, payload))
        with contextlib.suppress(TimeoutError):  # the slot stays taken meanwhile, or we would take it again at once
            async with asyncio.timeout(_OTHERS_FIRST):
                await self._draining.wait()

    async def _give_up(self, request: PipelineRequest, payload: str, deliveries: int) -> None:
        """Poison: note the failure for housekeeping to publish, and put the request among the dead letters."""
        why = f"taken {deliveries - 1} times, and each time its consumer died, or lost its lease, before it could start"
        log.error("poison: giving up", ticket=request.ticket, run=request.run, why=why)
        letter = DeadLetter(payload, why, time.time())
        if await self._note_failure(request, letter):
            done = [(request.ticket, payload)]
            await self.store.outage.outlast(
                lambda: self.store.queue.acknowledge_and_take(self.process.name, done, room=0)
            )
        else:
            await self.store.outage.outlast(
                lambda: self.store.queue.bury(self.process.name, request.ticket, payload, letter)
            )

    async def _note_failure(self, request: PipelineRequest, letter: DeadLetter) -> bool:
        """Record that the ticket failed, and the letter with it; True when both stand, whoever recorded them."""
        tracker = self.context.trackers.get(request.tracker)
        if tracker is None:
            return False
        intent = Intent(
            ticket=request.ticket,
            tracker=request.tracker,
            key=request.key,
            fence=0,
            edge=edge(Status.ENQUEUED, Status.FAILED, Owner.HOUSEKEEPING),
            run=request.run,
            outcome="deliveries used up",
            note=f"It was {letter.reason}.",
        )
        try:
            async with holding(self.store, tracker.platform, request.ticket, wait=self.store.times.lock) as lock:
                begun = await self.store.intents.decide(
                    request.ticket, intent, lock_key=lock.key, token=lock.token, look_in=0, letter=letter
                )
        except LockBusy:
            return False
        # Unpublished: we gave it up before, and died before the request was out of our hands.
        return begun.word in ("decided", "unpublished")


def _run_of(payload: str) -> str:
    try:
        return PipelineRequest.from_json(payload).run
    except MalformedRequest:
        return ""
