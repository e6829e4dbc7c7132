"""The shared governor and ledger: all replicas of a credential wait together, and somebody knows who spent what."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from agentsmith.store import Store
from agentsmith.store.quota import Quotas
from tests.support.stores import MakeStore


@pytest.fixture
def quotas(store: Store) -> Quotas:
    return store.quotas


async def test_nothing_known_means_no_wait(quotas: Quotas) -> None:
    wait, until, reason = await quotas.reserve("bot", "core", spacing=0, patience=10)
    assert (wait, reason) == (0, "")
    assert abs(until - time.time()) < 60


async def test_a_used_up_quota_holds_everybody_back_until_its_reset(quotas: Quotas, make_store: MakeStore) -> None:
    reset = int(time.time()) + 500  # in whole seconds, as platforms say it
    await quotas.report("bot", "core", limit=5000, remaining=0, reset=reset)
    wait, until, reason = await make_store().quotas.reserve("bot", "core", spacing=0, patience=10)
    assert 400 < wait <= 500
    assert until == reset
    assert reason == "the core quota of 5000 requests is used up"
    assert (await quotas.reserve("bot", "search", spacing=0, patience=10))[0] == 0
    assert (await quotas.reserve("other", "core", spacing=0, patience=10))[0] == 0


async def test_answers_that_overtake_each_other_do_not_bring_quota_back(quotas: Quotas) -> None:
    reset = time.time() + 500
    await quotas.report("bot", "core", limit=60, remaining=0, reset=reset)
    for wavering in (reset, reset + 1, reset - 1):
        await quotas.report("bot", "core", limit=60, remaining=7, reset=wavering)
    assert (await quotas.reserve("bot", "core", spacing=0, patience=10))[0] > 0
    await quotas.report("bot", "core", limit=60, remaining=60, reset=reset + 3600)
    assert (await quotas.reserve("bot", "core", spacing=0, patience=10))[0] == 0
    await quotas.report("bot", "core", limit=60, remaining=0, reset=reset)
    assert (await quotas.reserve("bot", "core", spacing=0, patience=10))[0] > 0


async def test_writes_of_all_replicas_are_kept_apart(quotas: Quotas, make_store: MakeStore) -> None:
    replicas = [quotas, make_store().quotas, make_store().quotas]
    holds = await asyncio.gather(*(q.reserve("bot", "core", spacing=1, patience=60) for q in replicas * 3))
    slots = sorted(until for _, until, _ in holds)
    assert all(later - earlier >= 0.999 for earlier, later in itertools.pairwise(slots))


async def test_who_will_not_wait_takes_no_slot(quotas: Quotas) -> None:
    await quotas.reserve("bot", "core", spacing=100, patience=0)
    first = await quotas.reserve("bot", "core", spacing=100, patience=1)
    second = await quotas.reserve("bot", "core", spacing=100, patience=1)
    assert first[0] > 90
    assert second[1] == pytest.approx(first[1])
    assert "100 s apart" in first[2]
    assert (await quotas.reserve("bot", "core", spacing=0, patience=1))[0] == 0


async def test_a_pause_holds_its_bucket_or_all_of_them(quotas: Quotas) -> None:
    await quotas.pause("bot", "core", seconds=30, reason="retry-after")
    assert (await quotas.reserve("bot", "search", spacing=0, patience=0))[0] == 0
    await quotas.pause("bot", "*", seconds=90, reason="secondary limit")
    wait, _, reason = await quotas.reserve("bot", "core", spacing=0, patience=0)
    assert 80 < wait <= 90
    assert reason == "secondary limit"
    await quotas.pause("bot", "*", seconds=1, reason="shorter")
    assert (await quotas.reserve("bot", "core", spacing=0, patience=0))[2] == "secondary limit"


async def test_pauses_without_a_time_double_but_a_burst_counts_once(quotas: Quotas, store: Store) -> None:
    for _ in range(5):
        await quotas.pause("bot", "*", seconds=None, reason="abuse")
    assert 100 < (await quotas.reserve("bot", "core", spacing=0, patience=0))[0] <= 120
    books = await store.redis.hgetall(store.keys.quota("bot"))
    assert books["strikes"] == "1"


async def test_the_account_tells_who_spent_what_and_what_is_left(quotas: Quotas) -> None:
    for purpose, counted in (("poll", False), ("poll", False), ("claim", True), ("poll", True)):
        await quotas.record("github:bot", purpose, counted=counted)
    reset = time.time() + 60
    await quotas.report("github:bot", "core", limit=5000, remaining=4998, reset=reset)
    await quotas.pause("github:bot", "core", seconds=5, reason="retry-after")
    [account] = await quotas.accounts()
    assert account.credential == "github:bot"
    assert account.counted == {"claim": 1, "poll": 1}
    assert account.free == {"poll": 2}
    [allowance] = account.allowances
    assert (allowance.bucket, allowance.limit, allowance.remaining) == ("core", 5000, 4998)
    assert allowance.reset == pytest.approx(reset, abs=0.01)
    assert account.paused_because == "retry-after"
    assert abs(account.since - time.time()) < 60
