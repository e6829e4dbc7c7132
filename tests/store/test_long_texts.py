"""The long text of a queued ticket is kept once, in the index: the lists have entries without it, and nothing is lost.

Earlier releases put all of it into the lists too; their entries are read as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from agentsmith.domain.request import PinnedText, PipelineRequest
from agentsmith.store import Acquired, DeadLetter, Pushed, RunLease, Store
from tests.support.entries import bare
from tests.support.stores import Flush, a_request, all_queued, an_intent, locked, ticket_id

TEXT = 'long "text" ' * 5000
REQUEST = a_request(1, pinned=PinnedText.of("title", TEXT))
TICKET = REQUEST.ticket

Push = Callable[[], Awaitable[None]]


@pytest.fixture(params=["as it is now", "by an earlier release"])
def push(request: pytest.FixtureRequest, store: Store) -> Push:
    """Pushes the request."""

    async def pushing() -> None:
        assert await store.queue.push(REQUEST) is Pushed.PUSHED
        if request.param == "by an earlier release":
            await store.redis.lset(store.keys.queue, -1, REQUEST.to_json())  # type: ignore[attr-defined]

    return pushing


async def taken(store: Store, consumer: str = "c1") -> str:
    entry = await store.queue.take(consumer, wait=1)
    assert entry is not None
    return entry


async def begun(store: Store, entry: str, consumer: str = "c1") -> RunLease:
    """Acquires the lease, and shows that the taker has the whole text."""
    request = PipelineRequest.from_json(entry)
    acquired = await store.runs.acquire(request, entry, consumer=consumer, ttl=60, max_deliveries=3)
    assert isinstance(acquired, Acquired)
    assert PipelineRequest.from_json(acquired.request) == REQUEST
    return acquired.lease


async def nothing_is_left(store: Store) -> bool:
    lists = [await store.queue.in_hand(name) for name in ("c1", "c2")]
    return not (any(lists) or await store.queue.depth() or await store.queue.holds(TICKET))


async def test_a_long_text_is_kept_once(store: Store, redis_server: Any) -> None:
    assert await store.queue.push(REQUEST) is Pushed.PUSHED
    [entry] = await all_queued(store)
    assert len(entry) < 1000
    listed = PipelineRequest.from_json(entry)
    assert listed == replace(REQUEST, pinned=replace(REQUEST.pinned, body=""))
    assert await store.queue.push(REQUEST) is Pushed.PUSHED, "it stands there already"
    assert await store.queue.depth() == 1


async def test_nobody_who_asks_for_a_request_is_given_its_long_text(store: Store, push: Push) -> None:
    await push()
    asked = [await store.queue.request_of(TICKET), *await store.queue.next_ones(1)]
    asked += [payload async for payload in store.queue.in_flight()]
    assert len(asked) == 3
    assert all(len(payload or "") in range(1, 1000) for payload in asked)


async def test_it_runs_and_ends(store: Store, push: Push) -> None:
    await push()
    entry = await taken(store)
    lease = await begun(store, entry)
    assert await store.runs.settle(lease, entry, None, look_in=1)
    assert await nothing_is_left(store)


async def test_it_is_acknowledged(store: Store, push: Push) -> None:
    await push()
    await store.queue.acknowledge_and_take("c1", [(TICKET, await taken(store))], room=0)
    assert await nothing_is_left(store)


@pytest.mark.parametrize("by", ["put_back", "hand_back"])
async def test_whoever_is_given_it_next_has_all_of_it(store: Store, push: Push, by: str) -> None:
    await push()
    entry = await taken(store)
    if by == "put_back":
        assert await store.queue.put_back("c1") == 1
    else:
        assert await store.queue.hand_back("c1", entry)
    again = await taken(store, "c2")
    assert len(again) < 1000
    assert bare(again) != again
    lease = await begun(store, again, "c2")
    assert await store.runs.settle(lease, again, None, look_in=1)
    assert await nothing_is_left(store)


async def test_who_ends_it_after_it_was_put_back_takes_it_off_the_queue(store: Store, push: Push) -> None:
    await push()
    entry = await taken(store)
    lease = await begun(store, entry)
    await store.redis.delete(store.keys.heartbeat(TICKET))
    assert await store.queue.put_back("c1") == 1
    assert await store.runs.settle(lease, entry, None, look_in=1)
    assert await nothing_is_left(store)


async def test_it_is_withdrawn(store: Store, push: Push) -> None:
    await push()
    decided = await store.intents.decide(TICKET, an_intent(1), lock=await locked(store), look_in=1, unqueue=True)
    assert decided.word == "decided"
    assert await nothing_is_left(store)


async def test_it_has_a_position_and_is_not_lost(store: Store, push: Push, raw: Any) -> None:
    await store.queue.push(a_request(2))
    await push()
    await raw.hset(store.keys.queue_index, ticket_id(3), "stray")
    assert await store.queue.position(TICKET) == 1
    assert await store.queue.lost(["c1"]) == {ticket_id(3): "stray"}


async def test_it_is_buried(store: Store, push: Push) -> None:
    await push()
    entry = await taken(store)
    assert await store.queue.bury("c1", TICKET, entry, DeadLetter(entry, "why", 1.0))
    assert await nothing_is_left(store)


async def test_all_of_it_is_put_back_after_redis_forgot_it(store: Store, push: Push, flush: Flush) -> None:
    await push()
    entry = await taken(store)
    lease = await begun(store, entry)
    await flush()
    assert await store.queue.restore(lease, entry, REQUEST.to_json())
    assert await store.queue.in_hand("c1") == [entry]
    await begun(store, entry)
