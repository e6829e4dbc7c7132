"""The daemon: builds everything once, runs the roles it was given, and ends them in order.

Any role that dies ends the process with its cause. An unreachable tracker, or Redis going away, is no such death.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import structlog

from agentsmith import __version__
from agentsmith.claim import ClaimRules, Claims, new_request, new_run_id
from agentsmith.config import Config
from agentsmith.consumer import Consumer
from agentsmith.domain.forge import Forge
from agentsmith.domain.gates import Policy, Trigger
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Tracker
from agentsmith.housekeeping import Housekeeping, Intervals
from agentsmith.intake import Intake
from agentsmith.leadership import lead
from agentsmith.opening import Opened, open_forges, open_store, open_trackers, webhook_readers
from agentsmith.pipelines import cgroups
from agentsmith.pipelines.context import Limits
from agentsmith.pipelines.record import prune
from agentsmith.pipelines.runner import user_called
from agentsmith.poller import Poller
from agentsmith.publish import Publisher
from agentsmith.recover import Recovery
from agentsmith.store import AWAY, Process, Store
from agentsmith.web.app import make_app
from agentsmith.web.receiver import Desk, Receiver
from agentsmith.web.server import WebServer, listen
from agentsmith.work import RunContext

log = structlog.get_logger()

_PRUNE_EVERY: Final = 3600.0


class Role(StrEnum):
    """What a process can do; all of it unless told otherwise."""

    RECEIVER = "receiver"
    POLLER = "poller"
    CONSUMER = "consumer"
    HOUSEKEEPING = "housekeeping"


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything between the store and the trackers, built once."""

    publisher: Publisher
    recovery: Recovery
    claims: Claims
    triggers: tuple[Trigger, ...]


def triggers_of(config: Config) -> tuple[Trigger, ...]:
    """The configured triggers as the domain knows them."""
    return tuple(Trigger(t.label, t.pipeline, frozenset(t.tracker or ())) for t in config.triggers)


def assemble(config: Config, store: Store, trackers: Mapping[str, Tracker]) -> Parts:
    """Build claim and recovery on top of a store and trackers."""
    triggers = triggers_of(config)
    publisher = Publisher(store, trackers)
    recovery = Recovery(
        store,
        trackers,
        publisher,
        triggers=triggers,
        max_attempts=config.consumer.max_attempts,
        make_request=_request_again,
    )
    policies = {}
    for name in trackers:
        allow = config.allow_for(name)
        policies[name] = Policy(allow.access, frozenset(allow.users), allow.bots)
    rules = ClaimRules(
        triggers=triggers,
        policies=policies,
        loop_limit=config.claim.loop_limit.claims,
        loop_window=config.claim.loop_limit.per,
        capacity=config.claim.capacity,
        retry_backoff=config.claim.retry_backoff,
    )
    claims = Claims(store, trackers, publisher, recovery, rules)
    return Parts(publisher, recovery, claims, triggers)


def _request_again(ticket: Ticket, pipeline: str, fence: int, attempts: int) -> PipelineRequest:
    return new_request(ticket, pipeline, run=new_run_id(), fence=fence, attempt=attempts, wake="re-enqueued")


def run_context(
    config: Config,
    opened: Opened,
    trackers: Mapping[str, Tracker],
    parts: Parts,
    forges: Mapping[str, Forge] | None = None,
) -> RunContext:
    """What the runs of this process share."""
    cgroups.check(config.run.limits)
    return RunContext(
        store=opened.store,
        redis_url=opened.url,
        trackers=trackers,
        publisher=parts.publisher,
        pipelines=config.pipelines,
        triggers=parts.triggers,
        limits=Limits.of(config),
        kill_grace=config.consumer.kill_grace,
        data_dir=config.data_dir,
        settings=config.run,
        agents=config.agents,
        forges=forges or {},
        user=user_called(config.run.user),
    )


def this_process(config: Config, roles: frozenset[Role]) -> Process:
    """How this process calls itself; the name is unique and fit for a key."""
    host = re.sub(r"[^A-Za-z0-9.-]+", "-", socket.gethostname()) or "host"
    return Process(
        name=f"{host}-{os.getpid()}-{uuid.uuid4().hex[:6]}",
        host=host,
        pid=os.getpid(),
        roles=tuple(sorted(roles)),
        slots=config.consumer.slots if Role.CONSUMER in roles else 0,
        started=time.time(),
        version=__version__,
    )


@dataclass(frozen=True, slots=True)
class Up:
    """What `on_ready` is told."""

    process: Process
    redis: str
    port: int | None


class Daemon:
    """One process of agentsmith."""

    def __init__(self, config: Config, roles: frozenset[Role]) -> None:
        self._config, self._roles = config, roles
        self._stop = asyncio.Event()
        self._process = this_process(config, roles)

    def stop(self) -> None:
        """Begin the bounded, draining shutdown; `run` returns when it is over."""
        self._stop.set()

    async def run(self, on_ready: Callable[[Up], None] = lambda _: None) -> None:
        """Serve the roles until stopped."""
        listener = None
        if Role.RECEIVER in self._roles:
            listener = listen(self._config.server.host, self._config.server.port)
        with contextlib.ExitStack() as held:
            if listener is not None:
                held.callback(listener.close)
            async with (
                open_store(self._config) as opened,
                open_trackers(self._config, opened.store) as trackers,
                open_forges(self._config, opened.store) as forges,
            ):
                web = None
                if listener is not None:
                    readers = webhook_readers(self._config)
                    desks = {name: Desk(tracker, readers[name]) for name, tracker in trackers.items()}
                    app = make_app(Receiver(opened.store, desks), ready=lambda: _ready(opened.store))
                    web = WebServer(app, listener)
                await self._serve(opened, trackers, forges, web, on_ready)

    async def _serve(
        self,
        opened: Opened,
        trackers: Mapping[str, Tracker],
        forges: Mapping[str, Forge],
        web: WebServer | None,
        on_ready: Callable[[Up], None],
    ) -> None:
        store, parts = opened.store, assemble(self._config, opened.store, trackers)
        consumer = None
        if Role.CONSUMER in self._roles:
            consumer = Consumer(
                context=run_context(self._config, opened, trackers, parts, forges),
                process=self._process,
                slots=self._config.consumer.slots,
                max_deliveries=self._config.consumer.max_deliveries,
                take_wait=min(1.0, self._config.lease.renew_every),
            )
        async with asyncio.TaskGroup() as group:

            def start(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
                return group.create_task(work, name=name)

            keeping = start("redis", opened.server.keep()) if opened.server is not None else None
            ticking = start("presence", tick(self._config, store, self._process, consumer))
            leaders = [start(role, work) for role, work in self._leading(store, trackers, parts)]
            if {Role.RECEIVER, Role.POLLER} & self._roles:
                leaders.append(start("intake", Intake(store, parts.claims, self._process).serve()))
            serving = start("receiver", web.serve()) if web is not None else None
            consuming = start("consumer", consumer.serve()) if consumer is not None else None
            pruning = start("pruning", prune_records(self._config, consumer)) if consumer is not None else None
            log.info("up", process=self._process.name, roles=self._process.roles, redis=opened.version)
            on_ready(Up(self._process, opened.version, web.port if web else None))
            await self._stop.wait()
            log.info("stopping")
            if web is not None and serving is not None:
                web.stop()
                await asyncio.wait({serving})
            for task in leaders:
                task.cancel()
            if leaders:
                await asyncio.wait(leaders)
            if consumer is not None and consuming is not None:
                await consumer.drain(timeout=self._config.consumer.drain_timeout)
                await asyncio.wait({consuming})
            for task in filter(None, (ticking, pruning)):
                task.cancel()
                await asyncio.wait({task})
            await leave(store, self._process)
            if keeping is not None:
                keeping.cancel()
        log.info("stopped")

    def _leading(
        self, store: Store, trackers: Mapping[str, Tracker], parts: Parts
    ) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        config, found = self._config, []
        if Role.POLLER in self._roles:
            intervals = {name: float(settings.poll_interval) for name, settings in config.trackers.items()}
            slowest = {name: float(settings.slowest_poll) for name, settings in config.trackers.items()}
            poller = Poller(store, trackers, parts.triggers, intervals, slowest)
            lease = store.leadership(Role.POLLER, self._process.name)
            found.append((Role.POLLER.value, lead(Role.POLLER, lease, poller.work, store.outage)))
        if Role.HOUSEKEEPING in self._roles:
            every = config.housekeeping
            intervals_ = Intervals(every.sweep_every, every.stale_every, every.reconcile_every)
            keeper = Housekeeping(store, trackers, parts.recovery, intervals_)
            lease = store.leadership(Role.HOUSEKEEPING, self._process.name)
            found.append((Role.HOUSEKEEPING.value, lead(Role.HOUSEKEEPING, lease, keeper.work, store.outage)))
        return found


async def tick(config: Config, store: Store, process: Process, consumer: Consumer | None) -> None:
    """Say that we live, hear what is to stop, and notice when Redis lost its memory; until cancelled."""
    every, ttl = config.consumer.stop_poll, config.lease.renew_every
    epoch: str | None = None
    while True:
        running = consumer.running if consumer is not None else ()
        try:
            told = await store.presence.tick(process, ttl=ttl, running=running)
            if consumer is not None:
                if epoch not in (None, told.epoch):
                    log.warning("redis lost its memory, putting back what we hold", runs=len(running))
                    await consumer.restore()
                consumer.stop_runs(told.stops)
            epoch = told.epoch
            store.outage.over()
        except AWAY as error:
            await asyncio.sleep(store.outage.noticed(error))
            continue
        await asyncio.sleep(every)


async def prune_records(config: Config, consumer: Consumer) -> None:
    """Keep the records and logs of this machine's runs within their bounds, now and every hour; until cancelled."""
    keep = config.run
    while True:
        gone = await asyncio.to_thread(
            prune,
            config.data_dir,
            keep_for=keep.keep_for,
            keep_size=keep.keep_size,
            alive=frozenset(consumer.runs),
            now=time.time(),
        )
        if gone:
            log.info("old records of runs are gone", runs=gone)
        await asyncio.sleep(_PRUNE_EVERY)


async def leave(store: Store, process: Process) -> None:
    """Put back what is left in our lists, so that others need not wait until we are missed."""
    with contextlib.suppress(*AWAY, TimeoutError):
        async with asyncio.timeout(2):
            await store.presence.leave(process.name)
            await store.queue.put_back(process.name)
            await store.signals.put_back(process.name)


async def _ready(store: Store) -> str | None:
    try:
        async with asyncio.timeout(1):
            await store.redis.ping()
    except (*AWAY, TimeoutError):
        return "Redis does not answer"
    return None
