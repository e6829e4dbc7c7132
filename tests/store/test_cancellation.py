"""A task that waits for Redis can be cancelled at any moment: what shutdown, locks and leadership rest on."""

from __future__ import annotations

import asyncio

import pytest

from agentsmith.store import Store


async def _ask_for_ever(store: Store) -> None:
    while True:
        await store.redis.get(f"{store.keys.namespace}:fence:x")


@pytest.mark.parametrize("moment", range(24))
async def test_no_cancellation_is_lost(store: Store, moment: int) -> None:
    for _ in range(20):
        task = asyncio.create_task(_ask_for_ever(store))
        await asyncio.sleep(0.002)
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=2)
        assert task.cancelled()
