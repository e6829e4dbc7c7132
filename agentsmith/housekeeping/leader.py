"""The leader of housekeeping: its passes, and when each of them runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import Tracker
from agentsmith.housekeeping.dead_processes import Leftovers
from agentsmith.housekeeping.due import DueTimes
from agentsmith.housekeeping.passes import PassTools
from agentsmith.housekeeping.stuck import Stuck
from agentsmith.housekeeping.sweep import Sweep
from agentsmith.store import LeaderLease, Store
from agentsmith.ticker import Job, Ticker, run_jobs
from agentsmith.tickets.look import Looks
from agentsmith.trackers.http import spending_for

_PATIENCE: Final = 5.0
"""Seconds for which a pass waits for a tracker; the others' next pass need not wait for it any more."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often the passes run, in seconds."""

    sweep: float
    stale: float
    reconcile: float


class Housekeeping:
    """Every pass by itself, and all of them in their intervals."""

    def __init__(
        self,
        store: Store,
        trackers: Mapping[str, Tracker],
        looks: Looks,
        intervals: Intervals,
        lease: LeaderLease | None = None,
    ) -> None:
        """`lease` is the leadership under which cycles are noted; without one nobody contends."""
        self.intervals, self._store, self._was_settling = intervals, store, False
        self._shared = shared = PassTools(store, trackers, looks)
        self.sweep = Sweep(shared, intervals.stale, lease)
        self.stuck = {status: Stuck(shared, status) for status in (Status.IN_PROGRESS, Status.ENQUEUED)}
        self.leftovers, self.due = Leftovers(store), DueTimes(shared)

    async def work(self) -> None:
        """Run every pass in its interval, for ever; the leader's work."""
        self._shared.at_once.patience = _PATIENCE
        try:
            with spending_for("housekeeping"):
                await run_jobs(*self.jobs())
        finally:
            await self._shared.at_once.cancel_all()

    def jobs(self) -> tuple[Job, ...]:
        """What is done, and when."""
        stale, reconcile = Ticker(self.intervals.stale), Ticker(self.intervals.reconcile)

        async def sweep() -> None:
            (await self.sweep.run_once()).log("sweep")
            settling = await self._store.presence.settling()
            if self._was_settling and not settling:
                # What Redis forgot is looked for as soon as everybody had time to put back what they hold.
                stale.due.set()
                reconcile.due.set()
            self._was_settling = settling

        return (
            Job("sweep", Ticker(self.intervals.sweep), sweep),
            Job("stale", stale, self._find_stale),
            Job("reconcile", reconcile, self._reconcile),
        )

    async def _find_stale(self) -> None:
        (await self.stuck[Status.IN_PROGRESS].run_once()).log("stale detector")

    async def _reconcile(self) -> None:
        await self._store.presence.find_owners()
        await self.leftovers.run_once()
        (await self.stuck[Status.ENQUEUED].run_once()).log("enqueued reconciler")
        (await self.due.run_once()).log("due times")
