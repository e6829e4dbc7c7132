"""The daemon: builds everything once, runs the services of its roles, and ends them in order.

Any service that dies ends the process with its cause. An unreachable tracker, or Redis going away, is no such death.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from agentsmith.config import Config
from agentsmith.daemon.build import Role, assemble, run_context, this_process
from agentsmith.daemon.open import Opened, open_forges, open_store, open_trackers, webhook_readers
from agentsmith.daemon.reload import ConfigFile
from agentsmith.daemon.services import Node, StartedServices, services_of
from agentsmith.domain.forge import Forge
from agentsmith.domain.tracker import Tracker
from agentsmith.intake.signals import Intake
from agentsmith.running.consumer import Consumer
from agentsmith.store import AWAY, Process
from agentsmith.tickets.read_only import ReadOnly
from agentsmith.web.access import ReadAccess
from agentsmith.web.app import Answers, make_app
from agentsmith.web.receiver import Endpoint, Receiver
from agentsmith.web.server import WebServer, listen

log = structlog.get_logger()


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
        self._config, self._file, self._shadow = config, file, shadow
        self._roles = roles & {Role.RECEIVER, Role.POLLER} if shadow else roles
        self._stop = asyncio.Event()
        self.process = this_process(config, self._roles)

    def stop(self) -> None:
        """Begin the bounded, draining shutdown; `run` returns when it is over."""
        self._stop.set()

    async def run(self, on_ready: Callable[[Up], None] = lambda _: None) -> None:
        """Serve the roles until stopped."""
        with contextlib.ExitStack() as held:
            listener = None
            if Role.RECEIVER in self._roles:
                listener = listen(self._config.server.host, self._config.server.port)
                held.callback(listener.close)
            async with (
                open_store(self._config, until=self._stop) as opened,
                open_trackers(self._config, opened.store) as reached,
                open_forges(self._config, opened.store) as forges,
            ):
                trackers = {name: ReadOnly(t) for name, t in reached.items()} if self._shadow else reached
                node = self.node(opened, trackers, forges)
                readers = webhook_readers(self._config)
                node.endpoints = {name: Endpoint(trackers[name], reader) for name, reader in readers.items()}
                node.web = self._web(node, listener) if listener is not None else None
                await self.serve(node, on_ready)

    def node(self, opened: Opened, trackers: Mapping[str, Tracker], forges: Mapping[str, Forge] | None = None) -> Node:
        """Everything that the services of this process share."""
        parts = assemble(self._config, opened.store, trackers, shadow=self._shadow)
        node = Node(self._config, self.process, opened, trackers, parts, file=self._file)
        if Role.CONSUMER in self._roles:
            node.consumer = Consumer(
                context=run_context(self._config, opened, trackers, parts, forges),
                process=self.process,
                slots=self._config.consumer.slots,
                max_deliveries=self._config.consumer.max_deliveries,
                take_wait=min(1.0, self._config.lease.renew_every),
            )
        if self._roles & {Role.RECEIVER, Role.POLLER}:
            node.intake = Intake(opened.store, parts.looks, self.process, commands=parts.commands)
        return node

    def _web(self, node: Node, listener: socket.socket) -> WebServer:
        server, store = self._config.server, node.opened.store
        token = server.api_token.get_secret_value() if server.api_token is not None else None
        answers = Answers(store, node.trackers, ReadAccess(server.host, token))
        app = make_app(Receiver(store, node.endpoints), ready=node.not_ready, answers=answers)
        return WebServer(app, listener, trusted_proxies=server.trusted_proxies)

    async def serve(self, node: Node, on_ready: Callable[[Up], None] = lambda _: None) -> None:
        """Run the services until stopped; the first that fails ends the others."""
        async with asyncio.TaskGroup() as group:
            started = StartedServices(services_of(self._roles), node, group.create_task)
            redis, presence = node.opened.version, node.opened.store.presence
            with contextlib.suppress(*AWAY):  # whoever hears that we are up, and looks, is to find us
                await presence.tick(node.about(), ttl=self._config.lease.renew_every, running={})
            log.info("up", process=self.process.name, roles=self.process.roles, redis=redis)
            on_ready(Up(self.process, redis, node.web.port if node.web else None))
            await self._stop.wait()
            log.info("stopping")
            await started.stop()
        log.info("stopped")
