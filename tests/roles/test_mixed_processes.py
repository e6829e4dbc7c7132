"""Processes of different configurations and releases on one Redis: none stops or buries what another one runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agentsmith.config import Consumer as ConsumerSettings
from agentsmith.config import Grace, Step
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import PipelineRequest
from agentsmith.intake.poller import Poller
from agentsmith.store import Store
from tests.support.stores import Settled
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world, sh, world_config

OTHER = "other-trigger"


@asynccontextmanager
async def two_worlds(tmp_path: Path, store: Store, redis_url: str, *steps: Step) -> AsyncIterator[tuple[World, World]]:
    """The same tracker and Redis; the second has another trigger, and no pipeline that the first one knows."""
    settings = ConsumerSettings(kill_grace=Grace(0.5), drain_timeout=Grace(0))
    config = world_config(tmp_path / "data", *steps, consumer=settings)
    pipelines = {"else": config.pipelines["work"]}
    triggers = tuple(t.model_copy(update={"label": OTHER, "pipeline": "else"}) for t in config.triggers)
    other = config.model_copy(update={"triggers": triggers, "pipelines": pipelines})
    async with (
        open_world(tmp_path, store, redis_url, config=config) as ours,
        open_world(tmp_path, store, redis_url, config=other) as theirs,
    ):
        yield ours, theirs


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[None]:
    task = asyncio.create_task(world.consumer.serve())
    try:
        yield
    finally:
        await world.consumer.drain(timeout=0)
        await task


async def polled(world: World) -> None:
    poller = Poller(world.store, world.trackers, world.parts.triggers, {"local": 60.0})
    await poller.poll(world.trackers["local"])


async def test_a_look_with_another_configuration_does_not_stop_a_live_run(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    started, go_on = tmp_path / "started", tmp_path / "go-on"
    step = sh(f"touch {started}; while [ ! -e {go_on} ]; do sleep 0.02; done")
    async with two_worlds(tmp_path, store, redis_url, step) as (ours, theirs), serving(ours):
        key = await ours.open_ticket()
        await ours.claim(key)
        await wait_until(started.exists, what="the run to begin")
        await polled(theirs)
        await theirs.drain_signals()
        await theirs.claim(key)
        assert await store.runs.stop_requested(ours.ticket_id(key)) is None
        go_on.touch()
        await wait_until(lambda: shows(ours, key, Status.DONE), what="the run to end")


async def shows(world: World, key: str, status: Status) -> bool:
    return await world.statuses(key) == {status}


async def test_a_look_with_another_configuration_does_not_take_a_ticket_off_the_queue(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    async with two_worlds(tmp_path, store, redis_url) as (ours, theirs):
        key = await ours.open_ticket()
        await ours.claim(key)
        await polled(theirs)
        await theirs.drain_signals()
        await theirs.claim(key)
        assert await shows(ours, key, Status.ENQUEUED)
        await ours.run_queue()
        assert await shows(ours, key, Status.DONE)


async def test_only_the_label_that_started_it_withdraws_a_run(tmp_path: Path, store: Store, redis_url: str) -> None:
    async with two_worlds(tmp_path, store, redis_url) as (ours, theirs):
        key = await ours.open_ticket(OTHER)
        assert type(await ours.claim(key)).__name__ == "Claimed"
        await ours.desk.unlabel(key, OTHER, actor="mona")
        await ours.claim(key)
        assert await shows(ours, key, Status.ENQUEUED), "that label had not started it"
        await ours.desk.label(key, OTHER, actor="mona")
        await ours.desk.unlabel(key, TRIGGER, actor="mona")
        await theirs.claim(key)
        assert await ours.statuses(key) == frozenset(), "and this one had, whoever looks"
        assert not await ours.queued()


async def test_a_consumer_of_another_configuration_starts_what_it_knows_how_to_run(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    """It has the pipeline, and not the trigger: that is for whoever claims."""
    async with two_worlds(tmp_path, store, redis_url) as (ours, theirs):
        theirs.parts.book.pipelines["work"] = ours.config.pipelines["work"]
        key = await ours.open_ticket()
        await ours.claim(key)
        await theirs.run_queue()
        assert await shows(ours, key, Status.DONE)


async def test_a_pipeline_that_only_others_know_is_left_to_them(tmp_path: Path, store: Store, redis_url: str) -> None:
    async with two_worlds(tmp_path, store, redis_url) as (ours, theirs):
        key = await ours.open_ticket()
        await ours.claim(key)
        knows = replace(ours.process, runs=("work", "local:"))
        await store.presence.tick(knows, ttl=30, running={})
        async with serving(theirs):
            await wait_until(lambda: was_handed_back(theirs), what="it to be handed back")
            async with serving(ours):
                await wait_until(lambda: shows(ours, key, Status.DONE), what="the other one to run it")
        assert await store.queue.count_dead_letters() == 0


async def was_handed_back(world: World) -> bool:
    waiting = await world.queued()
    return bool(waiting) and bool(json.loads(waiting[0]).get("entry")) and not world.consumer._scopes


async def test_a_pipeline_that_nobody_knows_fails_at_once(tmp_path: Path, store: Store, redis_url: str) -> None:
    async with two_worlds(tmp_path, store, redis_url) as (ours, theirs):
        key = await ours.open_ticket()
        await ours.claim(key)
        await theirs.run_queue()
        assert await shows(ours, key, Status.FAILED)


async def test_a_request_of_a_newer_release_is_buried_by_nobody(tmp_path: Path, store: Store, redis_url: str) -> None:
    async with two_worlds(tmp_path, store, redis_url) as (ours, _):
        key = await ours.open_ticket()
        await ours.claim(key)
        [payload] = await ours.queued()
        newer = json.dumps({**json.loads(payload), "version": 2, "ticket": ours.ticket_id(key)}, separators=(",", ":"))
        await store.redis.delete(store.keys.queue)
        await store.redis.rpush(store.keys.queue, newer)
        await store.redis.hset(store.keys.queue_index, ours.ticket_id(key), newer)  # type: ignore[attr-defined]
        async with serving(ours):
            await wait_until(lambda: was_handed_back(ours), what="it to be left to others")
        assert await store.queue.count_dead_letters() == 0
        [left] = [*await ours.queued(), *await store.queue.in_hand(ours.process.name)]
        assert json.loads(left)["version"] == 2
        assert await store.queue.request_of(ours.ticket_id(key)) == left


@pytest.mark.parametrize("status", [Status.ENQUEUED, Status.IN_PROGRESS])
async def test_what_another_configuration_lost_is_brought_back_and_not_withdrawn(
    tmp_path: Path, store: Store, redis_url: str, settled: Settled, status: Status
) -> None:
    async with two_worlds(tmp_path, store, redis_url) as (ours, theirs):
        await settled()
        key = await ours.open_ticket()
        await ours.claim(key)
        [payload] = await ours.queued()
        if status is Status.IN_PROGRESS:
            request = PipelineRequest.from_json(payload)
            taken = await store.queue.take("dead", wait=1)
            assert taken is not None
            acquired = await store.runs.acquire(request, taken, consumer="dead", ttl=5, max_deliveries=3)
            await ours.desk.label(key, ours.config.labels.label(status), actor="mona")
            await ours.desk.unlabel(key, ours.config.labels.label(Status.ENQUEUED), actor="mona")
            lock = store.keys.claim_lock("local", request.ticket)
            await store.runs.release_dead(acquired.lease, lock_key=lock)  # type: ignore[union-attr]
        await store.redis.delete(store.keys.queue, store.keys.queue_index, store.keys.queue_processing("dead"))
        await theirs.parts.looks.repair("local", key, ours.ticket_id(key))
        assert (await ours.statuses(key)) <= {Status.PENDING}, "not withdrawn: its trigger is there"
        await ours.drain_signals()
        await ours.run_queue()
        assert await shows(ours, key, Status.DONE)
