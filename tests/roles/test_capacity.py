"""Capacity: as many tickets as there is room for, in all, per tracker and per pipeline; others wait and are told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentsmith.config import Claim, Pipeline, Trigger
from agentsmith.domain.gates import Gate
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import Claimed, Held
from agentsmith.intake.poller import Poller
from agentsmith.store import Store
from agentsmith.tickets import explain
from agentsmith.trackers.local.settings import LocalSettings
from tests.support.stores import Flush, Settled
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world, sh, world_config

LIMITS: dict[str, dict[str, Any]] = {
    "claim.capacity": {"claim": Claim(capacity=1)},
    "trackers.local.capacity": {"trackers": {"local": LocalSettings(capacity=1)}},
    "pipelines.work.capacity": {"pipelines": {"work": Pipeline(steps=(sh("true"),), capacity=1)}},
}


@asynccontextmanager
async def limited(tmp_path: Path, store: Store, redis_url: str, **changes: Any) -> AsyncIterator[World]:
    config = world_config(tmp_path / "data", **changes)
    async with open_world(tmp_path, store, redis_url, config=config) as world:
        yield world


@pytest.mark.parametrize("setting", LIMITS)
async def test_a_full_house_names_its_setting(tmp_path: Path, store: Store, redis_url: str, setting: str) -> None:
    async with limited(tmp_path, store, redis_url, **LIMITS[setting]) as world:
        first, second = await world.open_ticket(), await world.open_ticket()
        assert isinstance(await world.claim(first), Claimed)
        outcome = await world.claim(second)
        assert isinstance(outcome, Held)
        shut = outcome.gates[-1]
        assert (shut.gate, shut.passed) == (Gate.CAPACITY, False)
        assert f"{setting} is 1" in shut.saw
        assert setting in shut.remedy
        assert await world.statuses(second) == frozenset(), "it stays pending"
        await world.run_queue()
        assert isinstance(await world.claim(second), Claimed)


async def test_a_full_pipeline_does_not_keep_others_waiting(tmp_path: Path, store: Store, redis_url: str) -> None:
    pipelines = {"work": Pipeline(steps=(sh("true"),), capacity=1), "other": Pipeline(steps=(sh("true"),))}
    triggers = (Trigger(label=TRIGGER, pipeline="work"), Trigger(label="other", pipeline="other"))
    made = world_config(tmp_path / "data")
    config = type(made)(data_dir=made.data_dir, trackers=made.trackers, pipelines=pipelines, triggers=triggers)
    async with open_world(tmp_path, store, redis_url, config=config) as world:
        assert isinstance(await world.claim(await world.open_ticket()), Claimed)
        assert isinstance(await world.claim(await world.open_ticket()), Held)
        key = (await world.desk.new(title="t", labels=("other",), actor="mona")).key
        assert isinstance(await world.claim(key), Claimed)


@asynccontextmanager
async def taking_in(world: World) -> AsyncIterator[None]:
    serving = asyncio.create_task(world.intake.serve())
    try:
        yield
    finally:
        serving.cancel()
        await asyncio.wait({serving})


async def test_held_tickets_come_in_as_room_appears_oldest_first_and_never_too_many(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    async with limited(tmp_path, store, redis_url, claim=Claim(capacity=2)) as world:
        keys = [await world.open_ticket() for _ in range(6)]
        async with taking_in(world):
            for count, key in enumerate(keys):
                await store.signals.send([world.signal(key)])
                await wait_until(partial(_dealt_with, store, count + 1), what="the signal to be dealt with")
            assert await store.redis.zcard(store.keys.held) == 4
            ran: list[str] = []
            while len(ran) < len(keys):
                await wait_until(lambda: _some(store), what="somebody to be queued")
                assert len(await store.queue.waiting()) <= 2
                payload = await store.queue.take(world.process.name, wait=1)
                assert payload is not None
                world.consumer._begin(payload)
                await asyncio.wait(world.consumer._tasks.values())
                ran = [key for key in keys if Status.DONE in await world.statuses(key)]
            assert ran == keys
        assert not await store.redis.zcard(store.keys.held)


async def _dealt_with(store: Store, count: int) -> bool:
    return len(await store.queue.waiting()) + await store.redis.zcard(store.keys.held) >= count


async def _some(store: Store) -> bool:
    return bool(await store.queue.waiting())


async def test_why_says_what_it_waits_for_and_polls_do_not_ask_again(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    async with limited(tmp_path, store, redis_url, claim=Claim(capacity=1)) as world:
        first, second = await world.open_ticket(), await world.open_ticket()
        async with taking_in(world):
            await store.signals.send([world.signal(first)])
            await wait_until(lambda: _dealt_with(store, 1), what="the first to be queued")
            await store.signals.send([world.signal(second)])
            await wait_until(lambda: _dealt_with(store, 2), what="the second to be held back")
        told = await explain.known(store, world.ticket_id(second))
        assert told.where == "held back until there is room"
        assert "claim.capacity is 1" in explain.summary(told.looks[-1])
        poller = Poller(store, world.trackers, world.parts.triggers, {"local": 60.0})
        assert (await poller.poll(world.trackers["local"])).signalled == 0


async def test_a_forgetful_redis_counts_what_runs_again(
    tmp_path: Path, store: Store, redis_url: str, flush: Flush, settled: Settled
) -> None:
    async with limited(tmp_path, store, redis_url, claim=Claim(capacity=1)) as world:
        first, second = await world.open_ticket(), await world.open_ticket()
        await world.claim(first)
        await flush()
        await settled()
        # The label says enqueued: the reconciler pushes it again, and so it takes up its room again.
        await world.housekeeping.look_at(Status.ENQUEUED)
        assert len(await store.queue.waiting()) == 1
        assert isinstance(await world.claim(second), Held)
