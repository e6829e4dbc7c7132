"""A daemon that works for months: what its parts hold does not grow with the tickets that have ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentsmith.domain.signal import Signal
from agentsmith.intake.poller import Poller
from agentsmith.intake.signals import Intake
from agentsmith.store import Store
from agentsmith.store.keys import HOUR_MS
from tests.support.holdings import holdings
from tests.support.redis_server import RedisServer
from tests.support.roles_on_simulator import roles_on_simulator
from tests.support.world import open_world

BATCH = 3
MOST_BYTES = 500
"""What Redis may hold of a ticket an hour after its end."""
DELIVERIES = 12
"""Webhooks that tell of it and of what we do to it."""


async def test_tickets_that_have_ended_leave_nothing_behind_in_the_process(
    tmp_path: Path, store: Store, redis_server: RedisServer
) -> None:
    async with open_world(tmp_path, store, redis_server.url) as world:
        poller = Poller(store, world.trackers["local"], world.parts.triggers, 60.0)
        roots = (world.parts, world.consumer, world.intake, world.housekeeping, world.trackers, poller, store)

        async def finish_some() -> None:
            for _ in range(BATCH):
                await world.open_ticket()
            await poller.poll()
            while (payload := await store.signals.take(world.process.name, wait=0.01)) is not None:
                await world.intake._deal_with(payload)
            await world.run_queue()
            await poller.poll()

        await finish_some()
        before = holdings(*roots)
        await finish_some()
        grown = {name: count for name, count in holdings(*roots).items() if count - before[name] >= BATCH}
        assert grown == {}


@pytest.mark.parametrize("script", ["true", "false"])
async def test_an_hour_after_its_end_redis_holds_little_of_a_ticket(
    tmp_path: Path, store: Store, redis_server: RedisServer, script: str
) -> None:
    async with roles_on_simulator(
        "github",
        tmp_path,
        store,
        redis_server.url,
        sections={"pipelines": {"work": {"steps": [{"run": script}]}}},
    ) as world:
        key = world.stage.tickets.open("x" * 200, ["agent-smith"])
        ticket = world.tracker.ticket_id(key)
        await world.poller.poll()
        intake = Intake(store, world.parts.looks, world.consumer.process, commands=world.parts.commands)
        while (payload := await store.signals.take(world.consumer.process.name, wait=0.01)) is not None:
            await intake._deal_with(payload)
        await world.run_queue()
        for number in range(DELIVERIES):
            signal = Signal("github", key, ticket, cause="webhook")
            assert await store.signals.hand_over(signal, delivery=f"delivery {number}") != "seen"
        assert (await store.looks.of(ticket))[-1].gates, "until then why tells of every gate"
        with redis_server.admin() as redis:
            keys = redis.keys(f"{store.keys.namespace}:*")
            of_it = [name for name in keys if ticket in name or ":delivery:" in name]
            left = {n: redis.memory_usage(n) for n in of_it if redis.pttl(n) not in range(HOUR_MS + 1)}
            assert left
            assert sum(left.values()) <= MOST_BYTES, left
