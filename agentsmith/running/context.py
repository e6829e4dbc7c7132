"""What every run of this process shares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentsmith.config import Agent, Pipeline, Run
from agentsmith.domain.forge import Forge
from agentsmith.domain.gates import Policy, Trigger
from agentsmith.domain.tracker import Tracker
from agentsmith.guard.client import Guard, User
from agentsmith.pipelines.context import Limits
from agentsmith.pipelines.machine import Machine
from agentsmith.store import Store
from agentsmith.tickets.publish import Publisher

OpenGuard = Callable[..., Awaitable[Guard]]
"""Start a guard; see `Guard.open`."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """The services and settings of one process, as its runs use them."""

    store: Store
    redis_url: str
    trackers: Mapping[str, Tracker]
    publisher: Publisher
    pipelines: Mapping[str, Pipeline]
    triggers: Iterable[Trigger]
    policy: Callable[[str], Policy]
    """Who may start work on the tickets of a tracker, by the rules in force now."""
    limits: Limits
    kill_grace: float
    data_dir: Path
    settings: Run = field(default_factory=Run)
    agents: Mapping[str, Agent] = field(default_factory=dict)
    forges: Mapping[str, Forge] = field(default_factory=dict)
    """Where the code of each tracker's tickets lives."""
    user: User | None = None
    """The user that commands run as, if not our own."""
    open_guard: OpenGuard = Guard.open
    """Tests of the protocol put workers of their own in place of processes."""
    machine: Machine = field(default_factory=Machine)
