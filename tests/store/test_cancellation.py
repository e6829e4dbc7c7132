"""A task that waits for Redis can be cancelled at any moment: what shutdown, locks and leadership rest on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from agentsmith.store import Lease, Store
from agentsmith.tickets.lock import LockBusy, holding
from tests.support.stores import ticket_id


async def _ask_for_ever(store: Store) -> None:
    while True:
        await store.redis.get(f"{store.keys.namespace}:fence:x")


async def _lock_for_ever(store: Store) -> None:
    while True:
        async with holding(store, "local", ticket_id(1)):
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


async def test_what_lands_late_of_one_holding_does_not_free_the_next(store: Store) -> None:
    async with holding(store, "local", ticket_id(1), holder="run.1.") as first:
        with pytest.raises(LockBusy):
            async with holding(store, "local", ticket_id(1), holder="run.1."):
                pytest.fail("two parts of one run held the lock at once")
    async with holding(store, "local", ticket_id(1), holder="run.1.") as second:
        await first.release()
        assert await second.renew(), "it is still held"


@pytest.mark.parametrize("fence", [None, 1])
async def test_a_taking_that_is_cancelled_on_its_way_leaves_nothing_locked(
    store: Store, monkeypatch: pytest.MonkeyPatch, fence: int | None
) -> None:
    sent, answered = asyncio.Event(), asyncio.Event()
    for name in ("take", "take_fenced"):
        monkeypatch.setattr(Lease, name, _slow(getattr(Lease, name), sent, answered))

    async def hold() -> None:
        async with holding(store, "local", ticket_id(1), fence=fence):
            pytest.fail("it was cancelled before")

    holding_it = asyncio.create_task(hold())
    await sent.wait()
    holding_it.cancel()
    await asyncio.sleep(0)
    answered.set()
    await asyncio.wait({holding_it})
    assert holding_it.cancelled()
    assert await store.redis.get(store.keys.claim_lock("local", ticket_id(1))) is None


async def test_a_release_that_is_cancelled_on_its_way_is_carried_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, answered = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(Lease, "release", _slow(Lease.release, sent, answered, before=True))

    async def hold() -> None:
        async with holding(store, "local", ticket_id(1)):
            pass

    holding_it = asyncio.create_task(hold())
    await sent.wait()
    holding_it.cancel()
    await asyncio.sleep(0)
    answered.set()
    await asyncio.wait({holding_it})
    assert holding_it.cancelled()
    assert await store.redis.get(store.keys.claim_lock("local", ticket_id(1))) is None


def _slow(ask: Any, sent: asyncio.Event, answered: asyncio.Event, *, before: bool = False) -> Any:
    """The same question, on a slow wire."""

    async def slowly(self: Lease, *args: Any) -> Any:
        answer = None if before else await ask(self, *args)
        sent.set()
        await answered.wait()
        return await ask(self, *args) if before else answer

    return slowly
