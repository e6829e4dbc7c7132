"""The roles on a platform's simulator, put together from a configuration as the daemon does it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from agentsmith.config import load
from agentsmith.daemon.build import Opened, open_forges, open_trackers
from agentsmith.daemon.process import Parts, Role, assemble, run_context, this_process
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import LookOutcome
from agentsmith.domain.signal import Signal
from agentsmith.domain.tracker import Tracker
from agentsmith.housekeeping.sweep import Housekeeping, Intervals
from agentsmith.intake.poller import Poller
from agentsmith.running.consumer import Consumer
from agentsmith.simulators import Recorded, serve
from agentsmith.simulators.stage import Stage
from agentsmith.simulators.stages import STAGES
from agentsmith.store import Store
from agentsmith.trackers import forges as code_hosts
from agentsmith.trackers import registry
from agentsmith.trackers.http import spending_for

TRIGGERS: Final = ("agent-smith", "agent-smith:fix-bug")


@dataclass(slots=True)
class StageWorld:
    """Everything between a simulated project and a consumer."""

    stage: Stage
    tracker: Tracker
    store: Store
    parts: Parts
    consumer: Consumer
    poller: Poller
    housekeeping: Housekeeping

    def labels(self, key: str) -> set[str]:
        """What stands on the ticket."""
        return set(self.stage.labels(key))

    async def claim(self, key: str) -> LookOutcome:
        """Look at the ticket, as a webhook would have us do."""
        with spending_for("claim"):
            return await self.parts.looks.on_signal(
                Signal(self.tracker.name, key, self.tracker.ticket_id(key), cause="test")
            )

    async def run_queue(self) -> None:
        """Run everything on the queue, one after the other, to its end."""
        with spending_for("run"):
            while (payload := await self.store.queue.take(self.consumer.process.name, wait=0.01)) is not None:
                self.consumer._begin(payload)
                await asyncio.wait(self.consumer._tasks.values())

    async def keep_house(self) -> None:
        """One pass of everything that housekeeping does, with nothing put off."""
        for ticket in await self.store.intents.to_look_at(now=float("inf")):
            await self.store.intents.postpone(ticket, wait=-1)
        await self.housekeeping.sweep()
        for status in (Status.ENQUEUED, Status.IN_PROGRESS):
            await self.housekeeping.look_at(status)

    async def carry_through(self, key: str) -> None:
        """From the label to the end."""
        await self.claim(key)
        await self.run_queue()

    async def spent(self) -> Counter[str]:
        """Requests that counted, by purpose, since the store was made."""
        found: Counter[str] = Counter()
        for account in await self.store.quotas.accounts():
            found.update(account.counted)
        return found

    def sent(self) -> list[str]:
        """The requests since the last look, as `METHOD /path status`, and forget them."""
        return [f"{r.method} {r.path} {r.status}" for r in self.recorded()]

    def recorded(self) -> list[Recorded]:
        """The requests since the last look, whole."""
        found = list(self.stage.simulator.requests)
        self.stage.simulator.forget_requests()
        return found


@contextlib.asynccontextmanager
async def stage_world(
    platform: str,
    folder: Path,
    store: Store,
    redis_url: str,
    *,
    sections: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[StageWorld]:
    """The platform's simulator with the roles on it; every request must have been one that it knows.

    `settings` are the tracker's own, `sections` those of the rest of the configuration.
    """
    stage = STAGES[platform]()
    file = folder / "agentsmith.yaml"
    async with serve(stage.simulator):
        document = {
            "data_dir": str(folder / "data"),
            "trackers": {"web": {**stage.tracker(), **settings}},
            "triggers": [{"label": label, "pipeline": "work"} for label in TRIGGERS],
            "pipelines": {"work": {"steps": [{"run": "true"}]}},
            **(sections or {}),
        }
        file.write_text(yaml.safe_dump(document))
        config = load(file, platforms=registry.settings_models(), hosts=code_hosts.settings_models(), environ={})
        async with open_trackers(config, store) as trackers, open_forges(config, store) as forges:
            parts = assemble(config, store, trackers)
            context = run_context(config, Opened(store, redis_url, None, "test"), trackers, parts, forges)
            yield StageWorld(
                stage=stage,
                tracker=trackers["web"],
                store=store,
                parts=parts,
                consumer=Consumer(
                    context, this_process(config, frozenset(Role)), slots=2, max_deliveries=3, take_wait=0.05
                ),
                poller=Poller(store, trackers, parts.triggers, {"web": 60.0}, {"web": 240.0}),
                housekeeping=Housekeeping(store, trackers, parts.looks, Intervals(0.05, 0.1, 0.1)),
            )
    stage.simulator.assert_understood()
