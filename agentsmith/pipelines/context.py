"""What a step is given: the ticket, the folders, the ways to act, and what earlier steps left.

Steps change nothing here but the few fields under "left by steps".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

import structlog

from agentsmith.boottime import boottime
from agentsmith.config import Agent, Config, Pipeline, Step
from agentsmith.domain.asking import Wake
from agentsmith.domain.forge import Forge, PullRequest
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import Ticket
from agentsmith.git import Checkout, GitShell, OtherName
from agentsmith.pipelines.record import Recorder
from agentsmith.pipelines.runner import Runner
from agentsmith.pipelines.worker import SAY
from agentsmith.pipelines.workplace import Memory, Workplace

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a run, in seconds and bytes."""

    run_timeout: float
    step_timeout: float
    stall_timeout: float
    log_limit: int
    artifact_limit: int
    retry_backoff: float
    max_attempts: int

    @classmethod
    def of(cls, config: Config) -> Self:
        """The configured ones."""
        run = config.run
        return cls(
            run_timeout=run.timeout,
            step_timeout=run.step_timeout,
            stall_timeout=run.stall_timeout,
            log_limit=run.log_limit,
            artifact_limit=run.artifact_limit,
            retry_backoff=run.retry_backoff,
            max_attempts=config.consumer.max_attempts,
        )


class WritePermit(Protocol):
    """Whether this run may write anything outside this machine. That may end at any moment (P6)."""

    async def begin_write(self) -> None:
        """Called right before a write begins; raises LeaseLost when this run may write no more."""

    @property
    def until(self) -> float:
        """When the permit ends at the latest, on the boot-time clock: no write may last longer."""


class TicketWriter(Protocol):
    """Writes to the run's own ticket what its pipeline says there; lifecycle labels are not its business."""

    async def say(self, text: str) -> None:
        """Post a comment of its own."""

    async def relabel(self, *, add: Collection[str] = (), remove: Collection[str] = ()) -> None:
        """Add and remove labels of people's."""


Pen, Desk = WritePermit, TicketWriter  # as steps written for earlier releases import them


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Where the ticket's code lives, and what git needs to work on it."""

    forge: Forge
    root: Path
    """Holds mirrors, vaults and all workspaces."""
    branch: str
    shell: GitShell
    other: OtherName | None
    """What the branch may be called on the server, where nobody knows what it is called."""
    keep: Callable[[str], Awaitable[None]]
    """Remembers the branch that the work is on, so that later runs continue there whatever is configured then."""


@dataclass(slots=True)
class StepContext:
    """One run as its steps see it."""

    request: PipelineRequest
    ticket: Ticket
    platform: str
    pipeline: Pipeline
    place: Workplace
    runner: Runner
    shell: GitShell
    """For programs of ours: git, and what is evaluated apart."""
    limits: Limits
    agents: Mapping[str, Agent]
    default_agent: str
    ticket_writer: TicketWriter
    permit: WritePermit
    recorder: Recorder
    env: Mapping[str, str]
    """What every command of this run sees."""
    code: CodePlace | None = None
    """None where the tracker has no repository."""
    alongside: Callable[[], Awaitable[None]] | None = None
    """What runs beside each command, if anything does: it is started and cancelled with the command."""

    # Set by the engine for each step.
    step: Step = field(init=False)
    index: int = 0
    deadline: float = 0.0
    """When the step's time is over, on the boot-time clock."""

    wake: Wake = field(default_factory=Wake)
    """Why the run begins, and what people said."""

    # Left by steps for those after them.
    memory: Memory = field(default_factory=Memory)
    checkout: Checkout | None = None
    pull_request: PullRequest | None = None
    red: list[str] = field(default_factory=list)
    """What a `verify` that only asks for a draft found."""
    summary: str = ""
    """The worker's own words about what it did."""

    @property
    def pen(self) -> WritePermit:
        """The permit, under the name that steps written for earlier releases use."""
        return self.permit

    @property
    def desk(self) -> TicketWriter:
        """The ticket writer, under the name that steps written for earlier releases use."""
        return self.ticket_writer

    @property
    def say(self) -> str:
        """The prefix of a worker's lines that count."""
        return self.env.get(SAY, "")

    @property
    def left(self) -> float:
        """How many seconds the step still has."""
        return max(0.0, self.deadline - boottime())

    def warn(self, text: str) -> None:
        """Tell whoever wrote the pipeline, in log and record, once per run."""
        warnings = self.recorder.record.warnings
        if text not in warnings:
            warnings.append(text)
            log.warning("a run has a warning", run=self.request.run, step=self.step.name, warning=text)

    async def changed(self) -> bool:
        """Whether there is a checkout that differs from its base."""
        return self.checkout is not None and await self.checkout.changed()
