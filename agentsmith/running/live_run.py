"""A run as its consumer sees it: what can interrupt it from outside, and what the consumer has to know of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentsmith.domain.stop import StopKind, StopReason
from agentsmith.running.run_lease import KeptLease
from agentsmith.running.stages import LeasedRun
from agentsmith.store import Settled

T = TypeVar("T")


class LiveRun:
    """The mutable state of a run, shared by the consumer and the run's own task."""

    def __init__(self, run: LeasedRun) -> None:
        self.run = run
        self.lease = KeptLease(run.store, run.acquired, self._interrupt)
        self.stop_reason: StopReason | None = None
        self.draining = False
        self.acknowledged = False
        """Whether the request is no longer in our consumer's list."""
        self.served = False
        """Whether the run ended by itself, which shows that this machine works."""
        self.settled: Settled | None = None
        """How it ended, once Redis has it; None for a run that is given back."""
        self._doing: asyncio.Task[Any] | None = None

    def stop(self, reason: StopReason) -> None:
        """A person cancelled or withdrew the ticket, or somebody took it over: end the work."""
        if reason.kind is StopKind.TAKEN_OVER:
            self.lease.lose(reason.text)  # no outcome: whoever took it over decides
        elif self.stop_reason is None and self.lease.lost is None:
            self.stop_reason = reason
            self._interrupt()

    def drain(self) -> None:
        """The process ends: give the run back."""
        self.draining = True
        self._interrupt()

    async def restore(self) -> None:
        """Redis lost its data: put back the request, if it is not acknowledged, and the lease, now."""
        run = self.run
        if not self.acknowledged:
            await run.store.queue.restore(run.lease, run.payload, run.acquired.request)
        self.lease.renew_now()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start the task that a stop, a drain or the loss of the lease cancels."""
        doing = self._doing = asyncio.create_task(work)
        if self.draining:
            doing.cancel()
        return doing

    def _interrupt(self) -> None:
        if self._doing is not None:
            self._doing.cancel()
