"""A task that waits for Redis can be cancelled at any moment: what shutdown, locks and leadership rest on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from agentsmith.store import Store
from agentsmith.ticketlock import holding
from tests.support.stores import ticket_id


async def _ask_for_ever(store: Store) -> None:
    while True:
        await store.redis.get(f"{store.keys.namespace}:fence:x")


async def _lock_for_ever(store: Store) -> None:
    while True:
        async with holding(store, "local", ticket_id(1), token="me"):
            await asyncio.sleep(0)


@pytest.mark.parametrize("moment", range(24))
@pytest.mark.parametrize("work", [_ask_for_ever, _lock_for_ever])
async def test_no_cancellation_is_lost(
    store: Store, moment: int, work: Callable[[Store], Coroutine[None, None, None]]
) -> None:
    for _ in range(20):
        task = asyncio.create_task(work(store))
        await asyncio.sleep(0.002)  # time: lets it come somewhere; wherever that is, it can be cancelled there
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=60)
        assert task.cancelled()
