"""The lock around Jira's label write: one holder among all replicas, for a bounded time, and never a silent miss."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from agentsmith.boottime import boottime
from agentsmith.domain.errors import StoreUnavailable, TrackerUnavailable
from agentsmith.domain.ticket import TicketId
from agentsmith.store import Store
from agentsmith.tickets.lock import LabelLocks
from tests.support.stores import MakeStore, PrivateServer

TICKET = TicketId("acme.atlassian.net/WEB-1")


async def test_of_many_replicas_one_is_inside_at_a_time(make_store: MakeStore) -> None:
    inside, most, entered = 0, 0, 0

    async def write(lock: LabelLocks) -> None:
        nonlocal inside, most, entered
        async with lock(TICKET, deadline=boottime() + 30):
            inside, entered = inside + 1, entered + 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(write(LabelLocks(make_store())) for _ in range(20)))
    assert (entered, most) == (20, 1)


async def test_it_is_held_under_its_own_key_and_trusted_for_less_than_it_lives(store: Store, raw: Redis) -> None:
    begun = boottime()
    async with LabelLocks(store)(TICKET, deadline=begun + 60) as until:
        key = store.keys.jira_label_lock(TICKET)
        assert key.endswith(":jira-label-lock:acme.atlassian.net/WEB-1")
        assert 9_000 < await raw.pttl(key) <= 10_000
        assert begun < until < begun + 10
    assert await store.redis.get(key) is None


async def test_whoever_waits_too_long_is_told_so(store: Store) -> None:
    lock = LabelLocks(store)
    async with lock(TICKET, deadline=boottime() + 30):
        with pytest.raises(TrackerUnavailable, match="somebody else"):
            async with lock(TICKET, deadline=boottime() + 0.05):
                pytest.fail("two are inside")
        async with lock(TicketId("acme.atlassian.net/WEB-2"), deadline=boottime()):
            pass  # every ticket has its own


async def test_a_holder_whose_time_is_over_takes_nothing_from_the_next(store: Store) -> None:
    lock = LabelLocks(store)
    first = lock(TICKET, deadline=boottime() + 30)
    await first.__aenter__()
    await store.redis.delete(store.keys.jira_label_lock(TICKET))  # it lapsed
    async with lock(TICKET, deadline=boottime() + 30):
        await first.__aexit__(None, None, None)
        assert await store.redis.get(store.keys.jira_label_lock(TICKET)) is not None


async def test_without_redis_nobody_gets_it(make_store: MakeStore, private_server: PrivateServer) -> None:
    server = private_server()
    store = Store(server.url, times=make_store().times, namespace="agentsmith")
    server.close()
    with pytest.raises(StoreUnavailable):
        async with LabelLocks(store)(TICKET, deadline=boottime() + 5):
            pytest.fail("nobody holds it")
    await store.aclose()
