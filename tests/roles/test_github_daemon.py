"""The roles on GitHub's simulator: what a ticket really costs from label to done, and that faults lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentsmith.claim import Claimed
from agentsmith.consumer import Consumer
from agentsmith.daemon import Parts, Role, assemble, run_context, this_process
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.signal import Signal
from agentsmith.domain.tracker import Tracker
from agentsmith.housekeeping import Housekeeping, Intervals
from agentsmith.opening import Opened
from agentsmith.poller import Poller
from agentsmith.store import Store
from agentsmith.trackers.github.settings import GitHubSettings
from agentsmith.trackers.github.tracker import GitHubTracker
from tests.support.github_bench import TRIGGER, Bench, bench
from tests.support.world import sh, world_config

BUDGET = 9
ACTOR_LOOK_UPS = ("/events", "/timeline", "/permission")


@dataclass(slots=True)
class Hub:
    """Everything between a simulated repository and a consumer."""

    github: Bench
    tracker: GitHubTracker
    store: Store
    parts: Parts
    consumer: Consumer
    poller: Poller
    housekeeping: Housekeeping

    async def claim(self, number: str) -> object:
        return await self.parts.claims.consider(Signal("web", number, self.tracker.ticket_id(number), cause="test"))

    async def run_queue(self) -> None:
        while (payload := await self.store.queue.take(self.consumer.process.name, wait=0.01)) is not None:
            self.consumer._begin(payload)
            await asyncio.wait(self.consumer._tasks.values())


@pytest.fixture
async def hub(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[Hub]:
    async with bench() as github:
        tracker = github.tracker()
        settings = GitHubSettings.model_validate(
            {"platform": "github", "repository": "acme/web", "token": "t", "base_url": github.running.api_url}
        )
        config = world_config(tmp_path / "data", sh("true")).model_copy(update={"trackers": {"web": settings}})
        config = config.model_copy(
            update={"triggers": tuple(t.model_copy(update={"label": TRIGGER}) for t in config.triggers)}
        )
        trackers: dict[str, Tracker] = {"web": tracker}
        parts = assemble(config, store, trackers)
        context = run_context(config, Opened(store, redis_url, None, "test"), trackers, parts)
        process = this_process(config, frozenset(Role))
        yield Hub(
            github=github,
            tracker=tracker,
            store=store,
            parts=parts,
            consumer=Consumer(context, process, slots=2, max_deliveries=3, take_wait=0.05),
            poller=Poller(store, trackers, parts.triggers, {"web": 60.0}),
            housekeeping=Housekeeping(store, trackers, parts.recovery, Intervals(0.05, 0.1, 0.1)),
        )


async def test_from_label_to_done_costs_at_most_nine_requests(hub: Hub) -> None:
    await hub.tracker.ensure_labels()
    number = hub.github.issue(TRIGGER, "team-blue", actor="mona")
    hub.github.sent()
    assert isinstance(await hub.claim(number), Claimed)
    await hub.run_queue()
    assert hub.github.labels(number) == {TRIGGER, "team-blue", "agent-smith:done"}
    counted = hub.github.simulator.counted_requests()
    look_ups = [r for r in counted if r.path.endswith(ACTOR_LOOK_UPS)]
    assert len(counted) - len(look_ups) <= BUDGET, [f"{r.method} {r.path} {r.status}" for r in counted]
    assert len(look_ups) <= 2


async def test_an_idle_poll_costs_nothing(hub: Hub) -> None:
    hub.github.issue(TRIGGER, "agent-smith:done", actor="mona")
    await hub.poller.poll(hub.tracker)
    hub.github.sent()
    for _ in range(5):
        await hub.poller.poll(hub.tracker)
    assert hub.github.simulator.counted_requests() == []
    assert len(hub.github.sent()) == 5


async def test_the_poller_gives_the_labels_their_colours_once(hub: Hub) -> None:
    hub.github.sent()
    for _ in range(2):
        await hub.poller._prepare(hub.tracker)
    made = [line for line in hub.github.sent() if line.startswith("POST /repos/acme/web/labels")]
    assert len(made) == len(Status)


async def test_an_answer_lost_after_the_write_loses_nothing(hub: Hub) -> None:
    await hub.tracker.ensure_labels()
    for kind in ("POST", "DELETE", "PATCH"):
        number = hub.github.issue(TRIGGER, actor="mona")
        hub.github.fail("applied_then_lost", method=kind, path=f"issues/({number}|comments)")
        for _ in range(8):
            await hub.claim(number)
            await hub.run_queue()
            await hub.store.intents.postpone(hub.tracker.ticket_id(number), until=0)
            await hub.housekeeping.sweep()
            for status in (Status.ENQUEUED, Status.IN_PROGRESS):
                await hub.housekeeping.look_at(status)
        assert hub.github.labels(number) == {TRIGGER, "agent-smith:done"}, kind
