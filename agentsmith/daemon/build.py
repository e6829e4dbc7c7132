"""Built once per process: what stands between the store and the trackers, and what its runs share."""

from __future__ import annotations

import os
import re
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agentsmith import __version__
from agentsmith.config import Config
from agentsmith.daemon.open import Opened
from agentsmith.domain.forge import Forge
from agentsmith.domain.tracker import Tracker
from agentsmith.guard import cgroups
from agentsmith.intake.comment_commands import CommentCommands
from agentsmith.pipelines.context import Limits
from agentsmith.pipelines.machine import Machine, try_out
from agentsmith.pipelines.runner import user_called
from agentsmith.running.context import RunContext
from agentsmith.store import Process, Store
from agentsmith.tickets.live_rules import LiveRules, LiveTriggers
from agentsmith.tickets.look import Looks
from agentsmith.tickets.publish import Publisher


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
    rules: LiveRules

    @property
    def triggers(self) -> LiveTriggers:
        """The triggers in force."""
        return self.rules.triggers


def assemble(config: Config, store: Store, trackers: Mapping[str, Tracker], *, shadow: bool = False) -> Parts:
    """Build what looks at tickets, on top of a store and trackers."""
    rules = LiveRules(config)
    publisher = Publisher(store, trackers, rules.triggers)
    looks = Looks(store, trackers, publisher, rules, max_attempts=config.consumer.max_attempts, shadow=shadow)
    commands = CommentCommands(store, trackers, looks, rules, shadow=shadow)
    return Parts(publisher, looks, commands, rules)


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
        pipelines=parts.rules.pipelines,
        triggers=parts.triggers,
        policy=lambda tracker: parts.rules.in_force.policies[tracker],
        limits=Limits.of(config),
        kill_grace=config.consumer.kill_grace,
        data_dir=config.data_dir,
        settings=config.run,
        agents=parts.rules.agents,
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
