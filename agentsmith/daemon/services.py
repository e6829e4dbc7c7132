"""Everything that a process runs, as one list: for which roles, and in which order it ends.

Services start in the order of the list. They end stage by stage: all of a stage are asked to end and waited for before
the next stage is asked. To add one, write what runs and give it a line in `SERVICES`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from agentsmith import privacy, redaction
from agentsmith.config import Config
from agentsmith.daemon.build import Parts, Role
from agentsmith.daemon.leader import lead
from agentsmith.daemon.open import Opened
from agentsmith.daemon.presence import leave, report
from agentsmith.daemon.reload import ConfigFile
from agentsmith.domain.errors import StoreRefused, TrackerError
from agentsmith.domain.hooks import KeepsDeliveries
from agentsmith.domain.tracker import Tracker
from agentsmith.guard import strays
from agentsmith.housekeeping.leader import Housekeeping, Intervals
from agentsmith.housekeeping.retention import Retention
from agentsmith.intake.healer import Healer
from agentsmith.intake.poller import Poller
from agentsmith.intake.signals import Intake
from agentsmith.running.consumer import Consumer
from agentsmith.store import AWAY, Process
from agentsmith.ticker import run_jobs
from agentsmith.web.receiver import Endpoint
from agentsmith.web.server import WebServer

Work = Coroutine[Any, Any, None]


class Stage(IntEnum):
    """The stages of a shutdown, in order."""

    RECEIVING = 1
    """No request is accepted any more; those under way are answered."""
    FINDING = 2
    """Nothing more is looked for, taken on or tidied up; leaders give their leases up."""
    RUNNING = 3
    """Runs get time to finish; what is left is given back."""
    PRESENCE = 4
    """Others may know that we are gone; what is left in our lists is put back."""
    REDIS = 5
    """Our own server, if we keep one, which everything before needs."""


@dataclass(slots=True)
class Node:
    """One process, as its services know it."""

    config: Config
    process: Process
    opened: Opened
    trackers: Mapping[str, Tracker]
    parts: Parts
    consumer: Consumer | None = None
    intake: Intake | None = None
    web: WebServer | None = None
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    file: ConfigFile | None = None

    @property
    def heard(self) -> list[Endpoint]:
        """The endpoints of the trackers whose webhooks are taken."""
        return [endpoint for endpoint in self.endpoints.values() if endpoint.reader is not None]

    def about(self) -> Process:
        """What we say of ourselves."""
        runs = (*sorted(self.parts.rules.pipelines), *(f"{tracker}:" for tracker in sorted(self.config.trackers)))
        trouble = self.consumer.context.machine.trouble if self.consumer is not None else ""
        return replace(self.process, trouble=trouble, runs=runs)

    async def not_ready(self) -> str | None:
        """What keeps this process from its work; None when nothing does."""
        if trouble := self.about().trouble:
            return f"this machine is in trouble: {trouble}"
        try:
            async with asyncio.timeout(1):
                await self.opened.store.prove()
        except StoreRefused as refused:
            return f"Redis refuses: {refused}"
        except (*AWAY, TimeoutError):
            return "Redis does not answer"
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """Something that a process does until it is told to end. When it fails, the process ends with its cause."""

    name: str
    roles: frozenset[Role]
    """Who wants it: a process with any of these roles."""
    stage: Stage
    """When it is asked to end."""
    run: Callable[[Node], Work | None]
    """Does it; None where there is nothing to do here."""
    stop: Callable[[Node], Awaitable[None]] | None = None
    """Asks it to end; where there is none, it is cancelled."""
    afterwards: Callable[[Node], Awaitable[None]] | None = None
    """What is left to do once all of its stage have ended."""


class StartedServices:
    """Services at work, in tasks that `start` makes."""

    def __init__(self, services: Iterable[Service], node: Node, start: Callable[..., asyncio.Task[None]]) -> None:
        self._node = node
        self._tasks = {
            service: start(work, name=service.name) for service in services if (work := service.run(node)) is not None
        }

    async def stop(self) -> None:
        """End them, stage by stage."""
        for stage in Stage:
            ending = {service: task for service, task in self._tasks.items() if service.stage is stage}
            for service, task in ending.items():
                if service.stop is not None:
                    await service.stop(self._node)
                else:
                    task.cancel()
            if ending:
                await asyncio.wait(ending.values())
            for service in ending:
                if service.afterwards is not None:
                    await service.afterwards(self._node)


def _report(node: Node) -> Work:
    return report(node.config, node.opened.store, node.about, node.consumer, node.intake)


async def _leave(node: Node) -> None:
    await leave(node.opened.store, node.process)


def _poll(node: Node) -> Work:
    config, store = node.config, node.opened.store
    lease = store.leadership(Role.POLLER, node.process.name)
    heard = frozenset(endpoint.tracker.name for endpoint in node.heard)
    found: list[Poller | Healer] = [
        Poller(
            store,
            tracker,
            node.parts.triggers,
            every=config.trackers[name].poll_interval,
            slowest=config.trackers[name].slowest_poll,
            leading=lease,
            announced=name in heard,
        )
        for name, tracker in node.trackers.items()
    ]
    found += [
        Healer(name, tracker, config.housekeeping.heal_every, config.server.public_url)
        for name, tracker in node.trackers.items()
        if name in heard and isinstance(tracker, KeepsDeliveries)
    ]
    return lead(Role.POLLER, lease, lambda: run_jobs(*(each.job() for each in found)), store.outage)


def _keep_house(node: Node) -> Work:
    store, every = node.opened.store, node.config.housekeeping
    lease = store.leadership(Role.HOUSEKEEPING, node.process.name)
    intervals = Intervals(every.sweep_every, every.stale_every, every.reconcile_every)
    housekeeping = Housekeeping(store, node.trackers, node.parts.looks, intervals, lease)
    return lead(Role.HOUSEKEEPING, lease, housekeeping.work, store.outage)


async def _learn_own_accounts(endpoints: Iterable[Endpoint]) -> None:
    async with asyncio.TaskGroup() as group:
        for endpoint in endpoints:
            group.create_task(_learn_own_account(endpoint))


async def _learn_own_account(endpoint: Endpoint) -> None:
    """Learn which account is ours, so that what we say ourselves is no news to us. Nothing waits for it."""
    pause = 1.0
    while endpoint.me is None:
        try:
            endpoint.me = await endpoint.tracker.me()
        except (TrackerError, *AWAY):  # it asks Redis how much it may ask the platform
            await asyncio.sleep(pause)
            pause = min(300.0, pause * 2)


async def _reload(node: Node, file: ConfigFile) -> None:
    """Put the file's rules in force whenever it changes; what is wrong with it is shown until it is right."""

    def apply(config: Config) -> list[str]:
        for secret in config.secrets():
            redaction.register_secret(secret)
        waiting = node.parts.rules.replace(config)
        privacy.keep(config.variables)
        return waiting

    async for problem in file.changes(apply):
        node.process = replace(node.process, problem=problem)


async def _stop_receiving(node: Node) -> None:
    if node.web is not None:
        node.web.stop()


async def _drain(node: Node) -> None:
    if node.consumer is not None:
        await node.consumer.drain(timeout=node.config.consumer.drain_timeout)


_ALL: Final = frozenset(Role)
_SIGNALLED: Final = frozenset({Role.RECEIVER, Role.POLLER})
_POLLER, _HOUSEKEEPING = frozenset({Role.POLLER}), frozenset({Role.HOUSEKEEPING})
_RECEIVER, _CONSUMER = frozenset({Role.RECEIVER}), frozenset({Role.CONSUMER})

REDIS: Final = Service(
    "redis", _ALL, Stage.REDIS, lambda node: node.opened.server.keep() if node.opened.server else None
)
PRESENCE: Final = Service("presence", _ALL, Stage.PRESENCE, _report, afterwards=_leave)
STRAYS: Final = Service("strays", _CONSUMER, Stage.PRESENCE, lambda _: strays.keep_ending())

SERVICES: Final = (
    REDIS,
    PRESENCE,
    Service("poller", _POLLER, Stage.FINDING, _poll),
    Service("housekeeping", _HOUSEKEEPING, Stage.FINDING, _keep_house),
    Service("signals", _SIGNALLED, Stage.FINDING, lambda node: node.intake.serve() if node.intake else None),
    Service(
        "own accounts",
        _RECEIVER,
        Stage.FINDING,
        lambda node: _learn_own_accounts(node.heard) if node.heard else None,
    ),
    Service("configuration", _ALL, Stage.FINDING, lambda node: _reload(node, node.file) if node.file else None),
    Service("retention", _CONSUMER, Stage.FINDING, lambda node: Retention(node.opened.store, node.config).serve()),
    STRAYS,
    Service(
        "receiver", _RECEIVER, Stage.RECEIVING, lambda node: node.web.serve() if node.web else None, _stop_receiving
    ),
    Service(
        "consumer", _CONSUMER, Stage.RUNNING, lambda node: node.consumer.serve() if node.consumer else None, _drain
    ),
)


def services_of(roles: frozenset[Role]) -> list[Service]:
    """What a process with these roles runs."""
    return [service for service in SERVICES if service.roles & roles]
