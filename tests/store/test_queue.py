"""The queue: once each, in order, never lost between taking and acknowledging."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agentsmith.domain.request import MalformedRequest, PipelineRequest
from agentsmith.store import DeadLetter, Pushed, Store
from tests.support.entries import all_bare, bare
from tests.support.stores import (
    Flush,
    MakeStore,
    Settled,
    a_process,
    a_request,
    all_queued,
    an_intent,
    begin,
    locked,
    ticket_id,
)


async def pushed(store: Store, *numbers: int) -> list[str]:
    """Push a request per number; answers the payloads."""
    requests = [a_request(number) for number in numbers]
    for request in requests:
        assert await store.queue.push(request) is Pushed.PUSHED
    return [request.to_json() for request in requests]


async def drained(store: Store, consumer: str = "c1") -> list[str]:
    """Take everything that waits."""
    return await store.queue.acknowledge_and_take(consumer, (), room=10_000)


# Pushing.


async def test_first_in_first_out(store: Store) -> None:
    payloads = await pushed(store, 3, 1, 2)
    assert await all_queued(store) == payloads
    assert [await store.queue.take("c1", wait=1) for _ in payloads] == payloads


async def test_the_first_are_read_without_the_rest(store: Store) -> None:
    await pushed(store, 1, 2, 3)
    assert [json.loads(payload)["key"] for payload in await store.queue.next_ones(2)] == ["1", "2"]
    assert await store.queue.depth() == 3


async def test_a_request_given_back_goes_to_the_front(store: Store) -> None:
    (first,) = await pushed(store, 1)
    assert await store.queue.push(a_request(2), front=True) is Pushed.PUSHED
    assert await all_queued(store) == [a_request(2).to_json(), first]


async def test_the_same_push_again_is_pushed_once(store: Store) -> None:
    await pushed(store, 1)
    assert await store.queue.push(a_request(1)) is Pushed.PUSHED
    assert len(await all_queued(store)) == 1


async def test_the_same_push_again_counts_as_one_claim(store: Store, raw: Any) -> None:
    for _ in range(3):
        await store.queue.push(a_request(1), loop_window=60)
    assert await raw.zcard(store.keys.claims(ticket_id(1))) == 1


async def test_a_second_request_for_the_ticket_is_refused_while_the_first_waits(store: Store) -> None:
    await pushed(store, 1)
    assert await store.queue.push(a_request(1, run="other")) is Pushed.QUEUED


async def test_a_second_request_is_refused_while_the_first_is_in_flight(store: Store) -> None:
    await pushed(store, 1)
    payload = await store.queue.take("c1", wait=1)
    assert await store.queue.push(a_request(1, run="other")) is Pushed.QUEUED
    assert await store.queue.push(a_request(1)) is Pushed.PUSHED, "a lost answer is answered again"
    assert await all_queued(store) == []
    await store.queue.acknowledge_and_take("c1", [(ticket_id(1), str(payload))], room=0)
    assert await store.queue.push(a_request(1, run="other")) is Pushed.PUSHED


async def test_a_running_ticket_is_not_queued(store: Store) -> None:
    lease, payload = await begin(store)
    await store.queue.acknowledge_and_take("c1", [(lease.ticket, payload)], room=0)
    assert await store.queue.push(a_request(1, run="other", fence=lease.fence)) is Pushed.LEASED
    assert await all_queued(store) == []


async def test_a_push_below_the_newest_fence_is_refused(store: Store) -> None:
    lock = await locked(store)
    begun = await store.intents.decide(ticket_id(1), None, lock=lock, look_in=1)
    assert await store.queue.push(a_request(1, fence=begun.fence - 1)) is Pushed.FENCED
    assert await store.queue.push(a_request(1, fence=begun.fence)) is Pushed.PUSHED


async def test_a_recovery_pushes_nothing_while_redis_settles(store: Store, flush: Flush, settled: Settled) -> None:
    await flush()
    assert await store.queue.push(a_request(1), after_settling=True) is Pushed.SETTLING
    assert await store.queue.push(a_request(2)) is Pushed.PUSHED, "a claim read the tracker, it need not wait"
    await settled()
    assert await store.queue.push(a_request(1), after_settling=True) is Pushed.PUSHED


async def test_a_push_ends_the_claim_that_led_to_it(store: Store) -> None:
    lock = await locked(store)
    begun = await store.intents.begin_claim(an_intent(), lock=lock, loop_limit=9, loop_window=60)
    assert await store.queue.push(a_request(1, fence=begun.fence), loop_window=60) is Pushed.PUSHED
    assert await store.intents.of(ticket_id(1)) is None
    assert await store.intents.to_look_at(now=1e12) == []
    assert await store.redis.zcard(store.keys.reservations) == 0
    assert await store.intents.last_published(ticket_id(1)) == "enqueued"


# Taking and acknowledging.


async def test_taking_from_an_empty_queue_waits_for_the_next_push(store: Store, make_store: MakeStore) -> None:
    taking = asyncio.create_task(store.queue.take("c1", wait=5))
    (payload,) = await pushed(make_store(), 1)
    assert await taking == payload


async def test_taking_gives_up_after_its_wait(store: Store) -> None:
    assert await store.queue.take("c1", wait=0.01) is None


async def test_what_was_taken_stays_in_hand_until_acknowledged(store: Store, make_store: MakeStore) -> None:
    payloads = await pushed(store, 1, 2)
    await store.queue.take("c1", wait=1)  # and here the taker dies, or its answer is lost
    again = make_store()
    assert await again.queue.in_hand("c1") == payloads[:1]
    assert await again.queue.holds(ticket_id(1))
    assert await again.queue.acknowledge_and_take("c1", [(ticket_id(1), payloads[0])], room=1) == payloads[1:]
    assert await again.queue.in_hand("c1") == payloads[1:]
    assert not await again.queue.holds(ticket_id(1))


async def test_acknowledging_and_taking_is_one_step_for_many(store: Store) -> None:
    payloads = await pushed(store, 1, 2, 3, 4, 5)
    first = await store.queue.acknowledge_and_take("c1", (), room=2)
    assert first == payloads[:2]
    done = [(ticket_id(n), p) for n, p in enumerate(first, start=1)]
    assert await store.queue.acknowledge_and_take("c1", done, room=9) == payloads[2:]
    assert await store.queue.in_hand("c1") == payloads[2:]


async def test_acknowledging_twice_harms_nothing(store: Store) -> None:
    (payload,) = await pushed(store, 1)
    await drained(store)
    for _ in range(2):
        await store.queue.acknowledge_and_take("c1", [(ticket_id(1), payload)], room=0)
    assert await store.queue.in_hand("c1") == []
    newer = a_request(1, run="newer")
    assert await store.queue.push(newer) is Pushed.PUSHED
    await store.queue.acknowledge_and_take("c1", [(ticket_id(1), payload)], room=0)
    assert await store.queue.holds(ticket_id(1)), "a late acknowledge does not touch a newer request"
    assert await store.queue.push(a_request(1, run="newest")) is Pushed.QUEUED


async def test_no_room_takes_nothing(store: Store) -> None:
    payloads = await pushed(store, 1)
    assert await store.queue.acknowledge_and_take("c1", (), room=0) == []
    assert await all_queued(store) == payloads


async def test_two_takers_never_get_the_same_request(make_store: MakeStore, store: Store) -> None:
    jobs, takers = 2000, 6
    await asyncio.gather(*(pushed(store, *range(first, jobs, 10)) for first in range(10)))

    async def taker(name: str) -> list[str]:
        mine, got, done = make_store(), [], list[tuple[str, str]]()
        while batch := (
            await mine.queue.acknowledge_and_take(name, done, room=7)
            or [p for p in [await mine.queue.take(name, wait=0.01)] if p]
        ):
            got += batch
            done = [(PipelineRequest.from_json(p).ticket, p) for p in batch]
        return got

    taken = await asyncio.gather(*(taker(f"c{n}") for n in range(takers)))
    everything = [payload for got in taken for payload in got]
    assert len(everything) == jobs
    assert len(set(everything)) == jobs
    assert await store.redis.hgetall(store.keys.queue_index) == {}


async def test_a_payload_that_is_no_text_survives_the_round_trip(store: Store, raw: Any) -> None:
    await raw.rpush(store.keys.queue, b'{"version":1,"ticket":"\xff\xfe"')
    payload = await store.queue.take("c1", wait=1)
    assert payload is not None
    with pytest.raises(MalformedRequest):
        PipelineRequest.from_json(payload)
    assert await store.queue.bury("c1", "", payload, DeadLetter(payload, "not JSON", 1.0))
    assert await store.queue.in_hand("c1") == []
    (letter,) = await store.queue.dead_letters()
    assert letter.payload.encode("utf-8", "surrogateescape") == b'{"version":1,"ticket":"\xff\xfe"'


# After a loss of memory, and after a death.


async def test_a_request_in_hand_is_put_back_after_redis_forgot_it(store: Store, flush: Flush) -> None:
    lease, payload = await begin(store, 1)
    await flush()
    assert await store.queue.restore(lease, payload, payload)
    assert not await store.queue.restore(lease, payload, payload), "once is enough"
    assert await store.queue.in_hand("c1") == [payload]
    assert await store.queue.holds(ticket_id(1))


async def test_what_was_queued_anew_is_not_restored_over(store: Store, flush: Flush) -> None:
    lease, payload = await begin(store, 1)
    await flush()
    assert await store.queue.push(a_request(1, run="newer")) is Pushed.PUSHED
    assert not await store.queue.restore(lease, payload, payload)
    assert await store.queue.in_hand("c1") == []


async def test_P6_a_request_of_a_run_that_was_taken_over_is_not_put_back(store: Store, flush: Flush) -> None:
    lease, payload = await begin(store, 1)
    await flush()
    assert (await store.intents.decide(ticket_id(1), None, lock=await locked(store), look_in=1)).word == "decided"
    assert not await store.queue.restore(lease, payload, payload)
    assert await store.queue.in_hand("c1") == []
    assert not await store.queue.holds(ticket_id(1))


async def test_a_dead_consumers_requests_go_back_to_the_head_in_order(store: Store) -> None:
    payloads = await pushed(store, 1, 2, 3, 4)
    await store.presence.tick(a_process("c1"), ttl=60, running={})
    await store.queue.acknowledge_and_take("c1", (), room=3)
    assert await store.queue.put_back("c1") == -1, "it said that it is alive"
    assert await all_queued(store) == payloads[3:]
    await store.presence.leave("c1")
    assert await store.queue.put_back("c1") == 3
    assert all_bare(await all_queued(store)) == payloads
    assert await store.queue.in_hand("c1") == []
    assert await store.presence.known() == []
    assert await store.queue.put_back("c1") == 0


async def test_nobody_is_dead_while_redis_settles(store: Store, flush: Flush, settled: Settled, raw: Any) -> None:
    await flush()
    await raw.rpush(store.keys.queue_processing("c1"), "x")
    assert await store.queue.put_back("c1") == -1
    assert await store.queue.in_hand("c1") == ["x"]
    await settled()
    assert await store.queue.put_back("c1") == 1


async def test_a_request_whose_lease_stands_waits_for_it(store: Store, raw: Any) -> None:
    _, leased = await begin(store, 1)
    (free,) = await pushed(store, 2)
    await drained(store)
    await store.presence.tick(a_process("c1"), ttl=60, running={})
    await store.presence.leave("c1")
    assert await store.queue.put_back("c1") == 1
    assert all_bare(await all_queued(store)) == [free]
    assert await store.queue.in_hand("c1") == [leased]
    assert await store.presence.known() == ["c1"], "it still owns a list"
    await raw.delete(store.keys.heartbeat(ticket_id(1)))
    assert await store.queue.put_back("c1") == 1
    assert all_bare(await all_queued(store)) == [leased, free]
    assert await store.presence.known() == []


async def test_a_dead_process_is_remembered_while_its_signals_are_not_put_back(store: Store, raw: Any) -> None:
    await store.presence.tick(a_process("c1"), ttl=60, running={})
    await raw.rpush(store.keys.inbox_processing("c1"), "a signal")
    await store.presence.leave("c1")
    assert await store.queue.put_back("c1") == 0
    assert await store.presence.known() == ["c1"]
    assert await store.signals.put_back("c1") == 1
    assert await store.queue.put_back("c1") == 0
    assert await store.presence.known() == []


@pytest.mark.parametrize(
    "garbage", [b"", b"not json", b"\xff", b"null", b"7", b"[]", b"{}", b'{"ticket":5}', b"[" * 2000]
)
async def test_what_nobody_can_read_is_put_back_to_be_buried(store: Store, raw: Any, garbage: bytes) -> None:
    await raw.rpush(store.keys.queue_processing("c1"), garbage)
    assert await store.queue.put_back("c1") == 1
    (payload,) = await all_queued(store)
    assert payload.encode("utf-8", "surrogateescape") == garbage


async def test_a_request_that_was_withdrawn_or_replaced_is_not_put_back(store: Store, raw: Any) -> None:
    (old,) = await pushed(store, 1)
    await drained(store)
    await raw.hdel(store.keys.queue_index, ticket_id(1))
    (new,) = await pushed(store, 2)
    await raw.hset(store.keys.queue_index, ticket_id(1), "its replacement")
    assert await store.queue.put_back("c1") == 0
    assert await store.queue.in_hand("c1") == []
    assert await all_queued(store) == [new]
    assert old not in await all_queued(store)


async def test_two_housekeepers_put_a_request_back_once(store: Store, make_store: MakeStore) -> None:
    payloads = await pushed(store, *range(50))
    await drained(store)
    counts = await asyncio.gather(*(make_store().queue.put_back("c1") for _ in range(4)))
    assert sorted(counts) == [0, 0, 0, 50]
    assert all_bare(await all_queued(store)) == payloads


async def test_who_was_taken_for_dead_has_nothing_to_say_about_what_was_put_back(store: Store) -> None:
    (before,) = await pushed(store, 1)
    await drained(store)
    assert await store.queue.put_back("c1") == 1
    again = await store.queue.take("c1", wait=1)
    assert again is not None
    assert bare(again) == before
    await store.queue.acknowledge_and_take("c1", [(ticket_id(1), before)], room=0)
    assert await store.queue.in_hand("c1") == [again]
    assert await store.queue.request_of(ticket_id(1)) == again


async def test_who_does_not_have_a_request_does_not_take_it_off_the_index(store: Store) -> None:
    """After a failover it may stand in the queue again while its taker gives it up."""
    (payload,) = await pushed(store, 1)
    await store.queue.acknowledge_and_take("c1", [(ticket_id(1), payload)], room=0)
    assert await store.queue.holds(ticket_id(1))


async def test_a_request_that_is_in_no_list_is_lost(store: Store, raw: Any) -> None:
    await pushed(store, 1, 2)
    await store.queue.take("c1", wait=1)
    assert await store.queue.lost(["c1"]) == {}
    stray = a_request(3).to_json()
    await raw.hset(store.keys.queue_index, ticket_id(3), stray)
    assert await store.queue.push(a_request(3, run="newer")) is Pushed.QUEUED
    lost = await store.queue.lost(["c1"])
    assert lost == {ticket_id(3): stray}
    assert await store.queue.forget_lost(["c1"], {ticket_id(3): "another one", ticket_id(2): stray}) == 0
    assert await store.queue.forget_lost(["c1"], lost) == 1
    assert [await store.queue.holds(ticket_id(n)) for n in (1, 2, 3)] == [True, True, False]


# Looking, and giving up.


async def test_the_position_counts_those_before(store: Store) -> None:
    await pushed(store, 1, 2, 3)
    assert [await store.queue.position(ticket_id(n)) for n in (1, 2, 3, 4)] == [0, 1, 2, None]
    await store.queue.take("c1", wait=1)
    assert [await store.queue.position(ticket_id(n)) for n in (1, 2, 3)] == [None, 0, 1]


async def test_burying_moves_a_request_once(store: Store) -> None:
    (payload,) = await pushed(store, 1)
    letter = DeadLetter(payload, "poison", 2.5)
    assert not await store.queue.bury("c1", ticket_id(1), payload, letter), "only what we hold"
    await drained(store)
    assert await store.queue.bury("c1", ticket_id(1), payload, letter)
    assert not await store.queue.bury("c1", ticket_id(1), payload, letter), "a lost answer makes no second letter"
    assert await store.queue.dead_letters() == [letter]
    assert not await store.queue.holds(ticket_id(1))
    assert await store.queue.in_hand("c1") == []


async def test_burying_leaves_a_newer_request_in_the_index(store: Store, raw: Any) -> None:
    (payload,) = await pushed(store, 1)
    await drained(store)
    await raw.hset(store.keys.queue_index, ticket_id(1), "newer")
    assert await store.queue.bury("c1", ticket_id(1), payload, DeadLetter(payload, "old", 1.0))
    assert await raw.hget(store.keys.queue_index, ticket_id(1)) == "newer"


async def test_a_ticket_that_was_given_up_leaves_a_letter(store: Store) -> None:
    letters = [DeadLetter("", f"reason {n}", float(n)) for n in range(3)]
    for letter in letters:
        await store.redis.rpush(store.keys.dead_letters, letter.to_json())
    assert await store.queue.dead_letters() == letters
