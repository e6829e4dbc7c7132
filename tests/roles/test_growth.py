"""A daemon that works for months: what its parts hold does not grow with the tickets that have ended."""

from __future__ import annotations

from pathlib import Path

from agentsmith.poller import Poller
from agentsmith.store import Store
from tests.support.holdings import holdings
from tests.support.redis_server import RedisServer
from tests.support.world import open_world

BATCH = 3


async def test_tickets_that_have_ended_leave_nothing_behind_in_the_process(
    tmp_path: Path, store: Store, redis_server: RedisServer
) -> None:
    async with open_world(tmp_path, store, redis_server.url) as world:
        poller = Poller(store, world.trackers, world.parts.triggers, {"local": 60.0})
        roots = (world.parts, world.consumer, world.intake, world.housekeeping, world.trackers, poller, store)

        async def finish_some() -> None:
            for _ in range(BATCH):
                await world.open_ticket()
            await poller.poll(world.trackers["local"])
            while (payload := await store.signals.take(world.process.name, wait=0.01)) is not None:
                await world.intake._deal_with(payload)
            await world.run_queue()
            await poller.poll(world.trackers["local"])

        await finish_some()
        before = holdings(*roots)
        await finish_some()
        grown = {name: count for name, count in holdings(*roots).items() if count - before[name] >= BATCH}
        assert grown == {}
