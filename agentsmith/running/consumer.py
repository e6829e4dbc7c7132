"""The consumer: takes requests while it has a free slot, and carries each out under its own lease.

`take → parse → lease → run`. A request that cannot be read goes to the dead letters: it does not stop the consumer, and
is not lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from agentsmith.domain.request import MalformedRequest, NewerRequest, PipelineRequest
from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import TicketId
from agentsmith.running.context import RunContext
from agentsmith.running.ended_runs import EndedRuns
from agentsmith.running.live_run import LiveRun
from agentsmith.running.poison import bury_unreadable, give_up
from agentsmith.running.run import carry_out
from agentsmith.running.stages import LeasedRun
from agentsmith.store import AWAY, Acquired, NotAcquired, Process, Store
from agentsmith.trackers.http import spending_for

log = structlog.get_logger()

_SETTLE_WITHIN: Final = 15.0
"""Seconds for which a process that ends tries to give its runs back, after the grace of their children."""


_OTHERS_FIRST: Final = 0.5
"""Seconds for which a slot takes nothing after it left a request to others."""


@dataclass(slots=True)
class Consumer:
    """Runs up to `slots` requests at once in one process."""

    context: RunContext
    process: Process
    slots: int
    max_deliveries: int
    take_wait: float
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """One per request that this consumer holds, by its wire form."""
    _live: dict[str, LiveRun] = field(default_factory=dict)
    """The runs among them that have their lease."""
    _draining: asyncio.Event = field(default_factory=asyncio.Event)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)
    _taking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _adopt: bool = True
    _doubted: set[str] = field(default_factory=set)
    """Requests that we held when Redis last lost its data: it may not know that one of them ended."""

    _ended: EndedRuns = field(init=False)

    def __post_init__(self) -> None:
        self._ended = EndedRuns(self.store)

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
            # A role of this process failed, and the process ends: nobody would wait for the end of a run.
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
        """The tickets that run here, each with the fence of its run."""
        return {live.run.ticket: live.run.lease.fence for live in self._live.values()}

    async def run(self, payload: str) -> None:
        """Carry out one request that this consumer holds, to its end."""
        self._begin(payload)
        await asyncio.wait({self._tasks[payload]})

    def stop_runs(self, reasons: Mapping[TicketId, StopReason], *, asked: Mapping[TicketId, int]) -> None:
        """End the runs that are to stop. `asked` is what `running` said when the question was sent.

        A run may have ended since and the next one of its ticket begun: the answer does not concern that one.
        """
        for live in self._live.values():
            ticket = live.run.ticket
            if ticket in reasons and asked.get(ticket) == live.run.lease.fence:
                live.stop(reasons[ticket])

    async def restore(self) -> None:
        """Redis lost its data: put the requests that we hold back; leases are put back by their renewal."""
        self._doubted.update(self._tasks)
        self._ended.doubt(live.settled for live in self._live.values() if live.settled)
        for live in list(self._live.values()):
            await self.store.capacity.occupy(live.run.request)
            await live.restore()
        self._adopt = True

    async def settle_again(self) -> None:
        """Settle the runs again whose end Redis may have lost, so that nobody does their work again."""
        await self._ended.settle_doubted()

    async def _end_runs(self) -> None:
        """Give back what still runs, for a bounded time: Redis may stay away. Housekeeping recovers what is left."""
        self._draining.set()
        for live in self._live.values():
            live.drain()
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
        # A blocked take is never cancelled: it could lose its request. A drain is noticed when the wait is over.
        payload = await queue.take(name, wait=self.take_wait)
        return [payload] if payload is not None else []

    async def _disown(self) -> None:
        """Release leases of ours that no task here runs.

        There are some when a run could not be settled, or Redis went back to a state from before a run had settled. As
        long as this process is alive, nobody else takes them for dead.
        """
        running = [lease for lease in await self.store.runs.running() if lease.consumer == self.process.name]
        for lease in running:
            if await self._ended.settled_again(lease.fence):
                continue
            tracker = self.context.trackers.get(lease.tracker)
            if tracker is not None and lease.run not in map(_run_of, self._tasks):
                log.warning("releasing a lease of ours that nothing here runs", ticket=lease.ticket, run=lease.run)
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
        live = self._live.pop(payload, None)
        self._freed.set()
        self._ended.remember(live.settled if live is not None else None)
        if live is not None and live.served:
            self.context.machine.served()
        if live is not None and not live.acknowledged:
            # The lease was lost before the request was acknowledged. Only we take requests out of our list.
            self._adopt = True
        if payload in self._doubted:
            # It may have settled before Redis lost that, and then Redis shows it as ours again.
            self._doubted.discard(payload)
            self._adopt = True
        if not task.cancelled() and (error := task.exception()) is not None:
            # Housekeeping brings the ticket back; the consumer goes on with the others.
            log.error("the end of a run could not be noted; housekeeping brings its ticket back", exc_info=error)
            self._adopt = True

    async def _run(self, payload: str) -> None:
        try:
            request = PipelineRequest.from_json(payload)
        except NewerRequest as error:
            await self._leave_to_others(payload, str(error))
            return
        except MalformedRequest as error:
            await bury_unreadable(self.context, self.process.name, payload, str(error))
            return
        # It was put back and given to us again: the earlier run, whose lease is gone, may still use its folder.
        if earlier := [self._tasks[p] for p, live in self._live.items() if live.run.ticket == request.ticket]:
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
                live = self._live[payload] = LiveRun(LeasedRun.of(self.context, request, payload, acquired))
                if self._draining.is_set():
                    live.drain()
                with spending_for("run"):
                    await carry_out(live)
            case NotAcquired(word="poison", count=count):
                await give_up(self.context, self.process.name, request, payload, deliveries=count)
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
        """A process of another release or configuration can run it: no delivery counts, and it is no dead letter."""
        log.info("a request is left to others", run=_run_of(payload), why=why)
        await self.store.outage.outlast(lambda: self.store.queue.hand_back(self.process.name, payload))
        with contextlib.suppress(TimeoutError):  # the slot stays busy meanwhile, or we would take it again at once
            async with asyncio.timeout(_OTHERS_FIRST):
                await self._draining.wait()


def _run_of(payload: str) -> str:
    try:
        return PipelineRequest.from_json(payload).run
    except MalformedRequest:
        return ""
