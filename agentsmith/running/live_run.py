"""A run in its consumer's hands: what may befall it from outside, and what the consumer has to know of it."""

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
    """All that changes about a run from outside of its flow, or is read there."""

    def __init__(self, run: LeasedRun) -> None:
        self.run = run
        self.lease = KeptLease(run.store, run.acquired, self._interrupt)
        self.stop_reason: StopReason | None = None
        self.draining = False
        self.acknowledged = False
        """Whether the request is out of our consumer's list."""
        self.served = False
        """Whether the run came to an end of its own: this machine is fit for work."""
        self.settled: Settled | None = None
        """How it ended, once that stands in Redis; what is given back has not."""
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
        """Redis lost its memory: put back the request, if it is not acknowledged, and the lease, now."""
        run = self.run
        if not self.acknowledged:
            await run.store.queue.restore(run.lease.consumer, run.ticket, run.payload)
        self.lease.renew_now()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do what a stop, a drain or the loss of the lease interrupts."""
        doing = self._doing = asyncio.create_task(work)
        if self.draining:
            doing.cancel()
        return doing

    def _interrupt(self) -> None:
        if self._doing is not None:
            self._doing.cancel()
