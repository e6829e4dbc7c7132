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
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import structlog

from agentsmith import __version__, logs, privacy
from agentsmith.config import Config
from agentsmith.daemon.build import Opened, open_forges, open_store, open_trackers, webhook_readers
from agentsmith.daemon.leader import lead
from agentsmith.daemon.reload import ConfigFile
from agentsmith.domain.errors import StoreRefused, TrackerError
from agentsmith.domain.forge import Forge
from agentsmith.domain.tracker import Tracker
from agentsmith.guard import cgroups, strays
from agentsmith.housekeeping.retention import Retention
from agentsmith.housekeeping.sweep import Housekeeping, Intervals
from agentsmith.intake.comment_commands import CommentCommands
from agentsmith.intake.poller import Poller
from agentsmith.intake.signals import Intake
from agentsmith.pipelines.context import Limits
from agentsmith.pipelines.machine import Machine, try_out
from agentsmith.pipelines.runner import user_called
from agentsmith.running.consumer import Consumer
from agentsmith.running.run_work import RunContext
from agentsmith.store import AWAY, Process, Store
from agentsmith.tickets.live_rules import LiveTriggers, Rulebook
from agentsmith.tickets.look import Looks
from agentsmith.tickets.publish import Publisher
from agentsmith.tickets.read_only import ReadOnly
from agentsmith.web.access import Doorkeeper
from agentsmith.web.app import Answers, Ready, make_app
from agentsmith.web.receiver import Desk, Receiver
from agentsmith.web.server import WebServer, listen

log = structlog.get_logger()


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
    looks: Looks
    commands: CommentCommands
    book: Rulebook

    @property
    def triggers(self) -> LiveTriggers:
        """The triggers in force."""
        return self.book.triggers


def assemble(config: Config, store: Store, trackers: Mapping[str, Tracker], *, shadow: bool = False) -> Parts:
    """Build what looks at tickets, on top of a store and trackers."""
    book = Rulebook(config)
    publisher = Publisher(store, trackers, book.triggers)
    looks = Looks(store, trackers, publisher, book, max_attempts=config.consumer.max_attempts, shadow=shadow)
    commands = CommentCommands(store, trackers, looks, book, shadow=shadow)
    return Parts(publisher, looks, commands, book)


def run_context(
    config: Config,
    opened: Opened,
    trackers: Mapping[str, Tracker],
    parts: Parts,
    forges: Mapping[str, Forge] | None = None,
) -> RunContext:
    """What the runs of this process share."""
    cgroups.check(config.run.limits)
    user, forges = user_called(config.run.user), forges or {}
    return RunContext(
        store=opened.store,
        redis_url=opened.url,
        trackers=trackers,
        publisher=parts.publisher,
        pipelines=parts.book.pipelines,
        triggers=parts.triggers,
        policy=lambda tracker: parts.book.rules.policies[tracker],
        limits=Limits.of(config),
        kill_grace=config.consumer.kill_grace,
        data_dir=config.data_dir,
        settings=config.run,
        agents=parts.book.agents,
        forges=forges,
        user=user,
        machine=Machine(
            lambda: try_out(config.data_dir, limits=config.run.limits, user=user, git=bool(forges)),
        ),
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

    def __init__(
        self, config: Config, roles: frozenset[Role], *, file: ConfigFile | None = None, shadow: bool = False
    ) -> None:
        """`file` is watched for changes. A `shadow` decides and writes nothing: it takes signals in and polls."""
        self._config, self._roles, self._file, self._shadow = config, roles, file, shadow
        if shadow:
            self._roles = roles & {Role.RECEIVER, Role.POLLER}
        self._stop = asyncio.Event()
        self._process = this_process(config, self._roles)
        self._machine: Machine | None = None
        self._book: Rulebook | None = None

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
                open_store(self._config, until=self._stop) as opened,
                open_trackers(self._config, opened.store) as reached,
                open_forges(self._config, opened.store) as forges,
            ):
                trackers = {name: ReadOnly(t) for name, t in reached.items()} if self._shadow else reached
                desks = {name: Desk(trackers[name], reader) for name, reader in webhook_readers(self._config).items()}
                web = self._web(opened.store, trackers, desks, listener) if listener is not None else None
                await self._serve(opened, trackers, web, on_ready, desks, forges)

    def _web(
        self, store: Store, trackers: Mapping[str, Tracker], desks: Mapping[str, Desk], listener: socket.socket
    ) -> WebServer:
        server = self._config.server
        token = server.api_token.get_secret_value() if server.api_token is not None else None
        answers = Answers(store, trackers, Doorkeeper(server.host, token))
        app = make_app(Receiver(store, desks), ready=self._ready(store), answers=answers)
        return WebServer(app, listener, trusted_proxies=server.trusted_proxies)

    async def _serve(
        self,
        opened: Opened,
        trackers: Mapping[str, Tracker],
        web: WebServer | None,
        on_ready: Callable[[Up], None],
        desks: Mapping[str, Desk] | None = None,
        forges: Mapping[str, Forge] | None = None,
    ) -> None:
        desks = desks or {}
        store, parts = opened.store, assemble(self._config, opened.store, trackers, shadow=self._shadow)
        self._book = parts.book
        consumer = None
        if Role.CONSUMER in self._roles:
            consumer = Consumer(
                context=run_context(self._config, opened, trackers, parts, forges),
                process=self._process,
                slots=self._config.consumer.slots,
                max_deliveries=self._config.consumer.max_deliveries,
                take_wait=min(1.0, self._config.lease.renew_every),
            )
            self._machine = consumer.context.machine
        async with asyncio.TaskGroup() as group:

            def start(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
                return group.create_task(work, name=name)

            keeping = start("redis", opened.server.keep()) if opened.server is not None else None
            takes_signals = bool({Role.RECEIVER, Role.POLLER} & self._roles)
            intake = Intake(store, parts.looks, self._process, commands=parts.commands) if takes_signals else None
            ticking = start("presence", tick(self._config, store, self._about_us, consumer, intake))
            heard = frozenset(name for name, desk in desks.items() if desk.reader is not None)
            leaders = [start(role, work) for role, work in self._leading(store, trackers, parts, heard)]
            if intake is not None:
                leaders.append(start("intake", intake.serve()))
            if web is not None:
                leaders += [start("introduction", _introduce(desk)) for desk in desks.values() if desk.reader]
            if self._file is not None:
                leaders.append(start("configuration", self._watch(self._file, parts.book)))
            if consumer is not None:
                leaders.append(start("retention", Retention(store, self._config).serve()))
            ending = start("strays", strays.keep_ending()) if consumer is not None else None
            serving = start("receiver", web.serve()) if web is not None else None
            consuming = start("consumer", consumer.serve()) if consumer is not None else None
            with contextlib.suppress(*AWAY):  # whoever hears that we are up, and looks, is to find us
                await store.presence.tick(self._about_us(), ttl=self._config.lease.renew_every, running={})
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
            if ending is not None:
                ending.cancel()
            ticking.cancel()
            await asyncio.wait({ticking})
            await leave(store, self._process)
            if keeping is not None:
                keeping.cancel()
        log.info("stopped")

    def _about_us(self) -> Process:
        trouble = self._machine.trouble if self._machine is not None else ""
        return replace(self._process, trouble=trouble, runs=self._runs())

    def _runs(self) -> tuple[str, ...]:
        known = self._book.pipelines if self._book is not None else self._config.pipelines
        return (*sorted(known), *(f"{tracker}:" for tracker in sorted(self._config.trackers)))

    def _ready(self, store: Store) -> Ready:
        async def ready() -> str | None:
            if self._machine is not None and self._machine.trouble:
                return f"this machine is in trouble: {self._machine.trouble}"
            return await _answers(store)

        return ready

    def _leading(
        self, store: Store, trackers: Mapping[str, Tracker], parts: Parts, heard: frozenset[str]
    ) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        config, found = self._config, []
        if Role.POLLER in self._roles:
            intervals = {name: float(settings.poll_interval) for name, settings in config.trackers.items()}
            slowest = {name: float(settings.slowest_poll) for name, settings in config.trackers.items()}
            lease = store.leadership(Role.POLLER, self._process.name)
            poller = Poller(
                store,
                trackers,
                parts.triggers,
                intervals,
                slowest,
                lease,
                announced=heard,
                heal_every=config.housekeeping.heal_every,
                public_url=config.server.public_url,
            )
            found.append((Role.POLLER.value, lead(Role.POLLER, lease, poller.work, store.outage)))
        if Role.HOUSEKEEPING in self._roles:
            every = config.housekeeping
            intervals_ = Intervals(every.sweep_every, every.stale_every, every.reconcile_every)
            lease = store.leadership(Role.HOUSEKEEPING, self._process.name)
            keeper = Housekeeping(store, trackers, parts.looks, intervals_, lease)
            found.append((Role.HOUSEKEEPING.value, lead(Role.HOUSEKEEPING, lease, keeper.work, store.outage)))
        return found

    async def _watch(self, file: ConfigFile, book: Rulebook) -> None:
        """Put the file's rules in force whenever it changes; what is wrong with it is shown until it is right."""

        def apply(config: Config) -> list[str]:
            for secret in config.secrets():
                logs.register_secret(secret)
            waiting = book.replace(config)
            privacy.keep(config.variables)
            return waiting

        async for problem in file.changes(apply):
            self._process = replace(self._process, problem=problem)


async def tick(
    config: Config,
    store: Store,
    process: Callable[[], Process],
    consumer: Consumer | None,
    intake: Intake | None = None,
) -> None:
    """Say that we live, hear what is to stop, and notice when Redis lost its memory; until cancelled."""
    every, ttl = config.consumer.stop_poll, config.lease.renew_every
    epoch: str | None = None
    while True:
        running = consumer.running if consumer is not None else {}
        try:
            told = await store.presence.tick(process(), ttl=ttl, running=running)
            if epoch not in (None, told.epoch):
                log.warning("redis lost its memory, putting back what we hold", runs=len(running))
                if intake is not None:
                    intake.look_in_hand()
                if consumer is not None:
                    await consumer.restore()
            if consumer is not None:
                await consumer.settle_again()
                consumer.stop_runs(told.stops, asked=running)
            epoch = told.epoch
            store.outage.over()
        except AWAY as error:
            await asyncio.sleep(store.outage.noticed(error))
            continue
        await asyncio.sleep(every)


async def leave(store: Store, process: Process) -> None:
    """Put back what is left in our lists, so that others need not wait until we are missed."""
    with contextlib.suppress(*AWAY, TimeoutError):
        async with asyncio.timeout(2):
            await store.presence.leave(process.name)
            await store.queue.put_back(process.name)
            await store.signals.put_back(process.name)


async def _introduce(desk: Desk) -> None:
    """Learn which account is ours, so that what we say ourselves is no news to us. Nothing waits for it."""
    pause = 1.0
    while desk.me is None:
        try:
            desk.me = await desk.tracker.me()
        except TrackerError:
            await asyncio.sleep(pause)
            pause = min(300.0, pause * 2)


async def _answers(store: Store) -> str | None:
    try:
        async with asyncio.timeout(1):
            await store.prove()
    except StoreRefused as refused:
        return f"Redis refuses: {refused}"
    except (*AWAY, TimeoutError):
        return "Redis does not answer"
    return None
