"""Leadership: work only while trusted, awaited when it ends, given up when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from agentsmith.daemon.leader import lead
from agentsmith.store import LeaseTimes, Store
from tests.support.redis_server import RedisServer
from tests.support.stores import TIMES, MakeStore
from tests.support.wait import wait_until


class Work:
    """Counts who works, and notes when it was told to stop."""

    def __init__(self) -> None:
        self.working = self.most = self.begun = self.ended = 0
        self.fail: Exception | None = None

    async def __call__(self) -> None:
        self.begun += 1
        self.working += 1
        self.most = max(self.most, self.working)
        try:
            if self.fail is not None:
                raise self.fail
            await asyncio.Event().wait()
        finally:
            self.working -= 1
            self.ended += 1


def following(store: Store, name: str, work: Work) -> asyncio.Task[None]:
    return asyncio.create_task(lead("poller", store.leadership("poller", name), work, store.outage))


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_one_of_many_leads_and_another_takes_over(make_store: MakeStore) -> None:
    store, work = make_store(leader=0.3), Work()
    tasks = {name: following(store, name, work) for name in ("a", "b", "c")}
    await wait_until(lambda: work.working == 1, what="somebody to lead")
    leader = await store.presence.leader("poller")
    assert leader is not None
    await stop(tasks.pop(leader.holder))
    await wait_until(lambda: work.begun == 2, what="somebody else to lead")
    await stop(*tasks.values())
    assert (work.most, work.working) == (1, 0)
    assert await store.presence.leader("poller") is None


async def test_work_that_fails_gives_the_lease_up(make_store: MakeStore) -> None:
    store, broken, sound = make_store(leader=0.3), Work(), Work()
    broken.fail = RuntimeError("boom")
    first = following(store, "broken", broken)
    await wait_until(lambda: broken.begun > 0, what="the broken one to lead")
    second = following(store, "sound", sound)
    await wait_until(lambda: sound.working == 1, what="the sound one to lead")
    await stop(first, second)


async def test_whoever_failed_lets_others_be_first(make_store: MakeStore) -> None:
    store, broken, sound = make_store(leader=0.6), Work(), Work()
    broken.fail = RuntimeError("boom")
    both = [following(store, "sound", sound), following(store, "broken", broken)]
    # Whoever came first: in the end the sound one leads, and the broken one stands by.
    await wait_until(lambda: sound.working == 1, what="the sound one to lead")
    tried = broken.begun
    leader = await store.presence.leader("poller")
    assert leader is not None
    assert leader.holder == "sound"
    await stop(*both)
    assert tried <= 2


async def test_every_leader_has_a_higher_fence_than_the_one_before(make_store: MakeStore) -> None:
    store, work, fences = make_store(leader=0.3), Work(), []
    for name in ("a", "b", "a"):
        task = following(store, name, work)
        await wait_until(lambda: work.working == 1, what=f"{name} to lead")
        leader = await store.presence.leader("poller")
        assert leader is not None
        fences.append(leader.fence)
        await stop(task)
    assert fences == sorted(set(fences))


async def test_redis_going_away_is_no_failure_of_the_work(private_server: Callable[..., RedisServer]) -> None:
    server = private_server()
    async with Store(server.url, times=replace(TIMES, leader=0.6)) as store:
        work = Work()

        async def ask() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(work())
                while True:
                    await store.redis.ping()

        with structlog.testing.capture_logs() as lines:
            task = asyncio.create_task(lead("poller", store.leadership("poller", "a"), ask, store.outage))
            await wait_until(lambda: work.working == 1, what="a to lead")
            server.kill()
            await wait_until(lambda: work.working == 0, what="the work to end")
            server.start()
            await wait_until(lambda: work.working == 1, what="a to lead again")
            await stop(task)
        assert [line["event"] for line in lines if line["log_level"] in ("warning", "error")] == [
            "redis is away, trying again until it is back"
        ]


async def test_a_lease_that_somebody_took_ends_the_work(make_store: MakeStore) -> None:
    store, work = make_store(leader=0.3), Work()
    task = following(store, "a", work)
    await wait_until(lambda: work.working == 1, what="a to lead")
    await store.redis.delete(store.keys.leader("poller"))
    thief = make_store().leadership("poller", "thief")
    await thief.take()
    await wait_until(lambda: work.ended == 1, what="a to stop")
    assert await thief.renew(), "the release of a left the thief's lease alone"
    await stop(task)


async def test_a_frozen_redis_ends_the_work_before_the_lease_can_pass_on(
    private_server: Callable[..., RedisServer],
) -> None:
    server = private_server()
    times: LeaseTimes = replace(TIMES, leader=3.0)
    async with Store(server.url, times=times) as store:
        work = Work()
        task = following(store, "a", work)
        await wait_until(lambda: work.working == 1, what="a to lead")
        server.freeze()
        try:
            await wait_until(lambda: work.ended == 1, what="the work to be stopped", within=times.leader)
        finally:
            server.thaw()
        await stop(task)
