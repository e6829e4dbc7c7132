"""The values that the stages of a run pass on.

`start -> Started | Dropped | Ended`, `work(Started) -> Ended`, then `Decided | Dropped`, which is settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import structlog

from agentsmith.config import Agent, Pipeline
from agentsmith.domain.asking import Wake
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.guard.client import Guard
from agentsmith.pipelines.outcome import Outcome
from agentsmith.running.context import RunContext
from agentsmith.store import Acquired, DeadLetter, Key, Lease, RunLease, Store
from agentsmith.tickets.lock import holding

if TYPE_CHECKING:
    from agentsmith.running.work import PipelineRun

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LeasedRun:
    """One request with the lease that was acquired for it."""

    context: RunContext
    request: PipelineRequest
    """As it was pushed, the text of its ticket included."""
    payload: str
    """Its entry in our consumer's list, which names it in Redis."""
    acquired: Acquired
    tracker: Tracker | None
    log: Any = field(compare=False)

    @classmethod
    def of(cls, context: RunContext, taken: PipelineRequest, payload: str, acquired: Acquired) -> LeasedRun:
        """The run for which the lease was acquired, for what was taken under this name."""
        request = taken if acquired.request == payload else PipelineRequest.from_json(acquired.request)
        bound = log.bind(ticket=request.ticket, run=request.run, fence=acquired.lease.fence)
        return cls(context, request, payload, acquired, context.trackers.get(request.tracker), bound)

    @property
    def store(self) -> Store:
        return self.context.store

    @property
    def lease(self) -> RunLease:
        return self.acquired.lease

    @property
    def ticket(self) -> TicketId:
        return self.request.ticket

    @property
    def lock_key(self) -> Key:
        """The key of the ticket's lock."""
        return self.store.keys.claim_lock(self.tracker.platform if self.tracker else "", self.ticket)

    def lock(self, tracker: Tracker) -> AbstractAsyncContextManager[Lease]:
        """The ticket's lock under our fence: LeaseLost when a newer one stands (P6)."""
        holder, wait = self.lease.lock_holder, self.store.times.lock * 2
        return holding(self.store, tracker.platform, self.ticket, holder=holder, fence=self.lease.fence, wait=wait)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; what its end has to write and to close depends on it."""

    request: PipelineRequest
    """With its delivery, and once the attempt is counted with that."""
    attempt: int
    wake: Wake
    guard: Guard | None = None
    """It is closed in the end."""
    ticket: Ticket | None = None
    """As it was last read or written."""
    counted: bool = False
    """Whether this run was counted as an attempt."""
    shown: bool = False
    """Whether we set the label to in-progress."""
    pipeline_run: PipelineRun | None = None
    """Its folders and its record, which are closed in the end."""

    @property
    def step(self) -> str:
        """The step that runs now, or ran last."""
        return self.pipeline_run.step if self.pipeline_run is not None else ""

    @classmethod
    def none(cls, run: LeasedRun) -> Progress:
        """Nothing is done but that the lease is ours."""
        request = replace(run.request, delivery=run.acquired.deliveries)
        return cls(request, run.acquired.attempts, Wake(request.wake_reason or ""))


@dataclass(frozen=True, slots=True)
class Started:
    """The label says in-progress, the request is acknowledged: the pipeline may run."""

    at: Progress
    tracker: Tracker
    ticket: Ticket
    pipeline: Pipeline
    agents: Mapping[str, Agent]
    """Those that were in force together with the pipeline."""
    guard: Guard


@dataclass(frozen=True, slots=True)
class Dropped:
    """The request is not to be run; nothing is written. `look` asks for a signal after so many seconds."""

    at: Progress
    why: str
    look: float | None = None
    uncount: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """The run does nothing any more: it has an outcome, or an error, or was interrupted where there is neither."""

    at: Progress
    outcome: Outcome | None = None
    error: Exception | None = None
    letter: DeadLetter | None = None
    """What goes to the dead letters with it."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Where the ticket goes after the run."""

    at: Progress
    outcome: Outcome
    letter: DeadLetter | None = None
