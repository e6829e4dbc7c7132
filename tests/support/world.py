"""A small world for tests of the roles: a real store, the local tracker in a file, and the parts of a daemon."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentsmith.config import Config, Pipeline, Step
from agentsmith.config.models import for_platforms
from agentsmith.daemon.build import Opened
from agentsmith.daemon.process import Parts, Role, assemble, run_context, this_process
from agentsmith.domain.forge import Forge
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.ticket import TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.housekeeping.sweep import Housekeeping, Intervals
from agentsmith.intake.signals import Intake
from agentsmith.running.consumer import Consumer
from agentsmith.store import Process, Store
from agentsmith.trackers.local.desk import Desk
from agentsmith.trackers.local.settings import LocalSettings
from agentsmith.trackers.local.tracker import LocalTracker

TRIGGER = "agent-smith"


def sh(script: str, name: str = "work") -> Step:
    """A step that a shell runs."""
    return Step.read({"run": script, "name": name})


def world_config(data_dir: Path, *steps: Step, **changes: object) -> Config:
    """A configuration with one local tracker and one pipeline, `work`."""
    model = for_platforms({"local": LocalSettings})
    pipeline = Pipeline(steps=steps or (sh("true"),))
    config = model(
        data_dir=data_dir,
        trackers={"local": LocalSettings()},
        pipelines={"work": pipeline},
        triggers=({"label": TRIGGER, "pipeline": "work"},),  # type: ignore[arg-type]  # read as from a file
    )
    return config.model_copy(update=changes)


@dataclass(slots=True)
class World:
    """Everything that a role needs, and the person who sets labels."""

    config: Config
    store: Store
    url: str
    desk: Desk
    trackers: dict[str, Tracker]
    parts: Parts
    process: Process
    consumer: Consumer
    intake: Intake
    housekeeping: Housekeeping

    async def open_ticket(self, *labels: str, title: str = "Fix it", body: str = "please") -> str:
        """A ticket with the trigger and these labels; answers its key."""
        return (await self.desk.new(title=title, body=body, labels=(TRIGGER, *labels), actor="mona")).key

    def ticket_id(self, key: str) -> TicketId:
        return self.trackers["local"].ticket_id(key)

    async def statuses(self, key: str) -> frozenset[Status]:
        """What the ticket's lifecycle labels say."""
        return self.config.labels.statuses((await self.desk.show(key)).ticket.labels)

    async def comments(self, key: str) -> list[str]:
        return [comment.body for comment in (await self.desk.show(key)).comments]

    async def memo(self, key: str) -> Memo:
        """What our comment remembers."""
        sticky = await self.trackers["local"].read_sticky((await self.desk.show(key)).ticket)
        assert sticky is not None
        assert sticky.memo is not None
        return sticky.memo

    def signal(self, key: str, *, kind: SignalKind = SignalKind.LOOK, by: str = "") -> Signal:
        return Signal("local", key, self.ticket_id(key), kind, cause="test", by=by)

    async def claim(self, key: str) -> object:
        return await self.parts.looks.on_signal(self.signal(key))

    async def drain_signals(self) -> None:
        """Deal with every signal that waits now, those for later included."""
        for payload in await self.store.redis.lrange(self.store.keys.inbox, 0, -1):
            signal = Signal.from_json(payload)
            await self.store.signals.take(self.process.name, wait=0.01)
            await self.store.signals.opened(signal)
            await self.parts.looks.on_signal(signal)
            await self.store.signals.acknowledge(self.process.name, payload)

    async def run_queue(self) -> None:
        """Run everything on the queue, one after the other, to its end."""
        while (payload := await self.store.queue.take(self.process.name, wait=0.01)) is not None:
            self.consumer._begin(payload)
            await asyncio.wait(self.consumer._tasks.values())

    async def queued(self) -> Sequence[str]:
        return await self.store.queue.waiting()


@contextlib.asynccontextmanager
async def open_world(
    tmp_path: Path,
    store: Store,
    redis_url: str,
    *steps: Step,
    config: Config | None = None,
    forge: Forge | None = None,
    beside: str | None = None,
) -> AsyncIterator[World]:
    """A world on this store; `forge` has the code of its tickets, and of those of a tracker `beside` it."""
    config = config or world_config(tmp_path / "data", *steps)
    config.data_dir.mkdir(parents=True, exist_ok=True)
    path = LocalSettings().file(config.data_dir)
    tracker = LocalTracker(name="local", path=path, project="tickets", labels=config.labels)
    trackers: dict[str, Tracker] = {"local": tracker}
    if beside is not None:
        config = config.model_copy(update={"trackers": {**config.trackers, beside: LocalSettings(project=beside)}})
        trackers[beside] = LocalTracker(name=beside, path=path, project=beside, labels=config.labels)
    ours = tuple(trackers.values())  # tests may put others beside them
    parts = assemble(config, store, trackers)
    process = this_process(config, frozenset(Role))
    forges = dict.fromkeys(trackers, forge) if forge is not None else {}
    context = run_context(config, Opened(store, redis_url, None, "test"), trackers, parts, forges)
    consumer = Consumer(context, process, slots=2, max_deliveries=config.consumer.max_deliveries, take_wait=0.05)
    every = Intervals(sweep=0.05, stale=0.1, reconcile=0.1)
    async with Desk(path=path, project="tickets") as desk:
        try:
            yield World(
                config=config,
                store=store,
                url=redis_url,
                desk=desk,
                trackers=trackers,
                parts=parts,
                process=process,
                consumer=consumer,
                intake=Intake(store, parts.looks, process, commands=parts.commands),
                housekeeping=Housekeeping(store, trackers, parts.looks, every),
            )
        finally:
            for opened in ours:
                await opened.aclose()
