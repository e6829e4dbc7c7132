"""The quick pass, over Redis alone: dead processes, unpublished intents, dead runs, due times."""

from __future__ import annotations

from dataclasses import dataclass

from agentsmith.housekeeping.dead_processes import put_back
from agentsmith.housekeeping.dead_runs import recover_dead_runs
from agentsmith.housekeeping.due import wake_due
from agentsmith.housekeeping.intents import finish_intents
from agentsmith.housekeeping.passes import PassTools, Result
from agentsmith.store import LeaderLease


@dataclass(frozen=True, slots=True)
class Sweep:
    """Trackers are asked only about tickets that Redis shows to be stuck."""

    shared: PassTools
    postpone: float
    """Seconds until an intent is looked at again that is about a tracker we do not know."""
    lease: LeaderLease | None = None
    """The leadership under which the cycle is noted; without one nobody contends."""

    async def run_once(self) -> Result:
        """Repair what is stuck, and note the cycle."""
        shared, result = self.shared, Result()
        await put_back(shared.store, result)
        await finish_intents(shared, result, postpone=self.postpone)
        await recover_dead_runs(shared, result)
        await wake_due(shared, result)
        fence = self.lease.fence if self.lease is not None else 0
        done = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in result.counts.items())
        troubles = f"; {len(result.troubles)} in trouble" if result.troubles else ""
        await shared.store.presence.note_cycle("housekeeping", (done or "nothing to do") + troubles, fence=fence)
        return result
