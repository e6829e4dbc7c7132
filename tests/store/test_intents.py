"""Decisions on their way to the tracker: reserved, recorded under a fence, finished by anybody, never twice."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.vetting import Pin
from agentsmith.store import Begun, DecideAnswer, Lease, Pushed, Store
from agentsmith.store.capacity import Place, places_of
from tests.support.stores import (
    Flush,
    MakeStore,
    Settled,
    a_request,
    a_signal,
    all_queued,
    an_edge,
    an_intent,
    begin,
    locked,
    ticket_id,
)

TICKET = ticket_id(1)
DONE = an_intent(source=Status.IN_PROGRESS, to=Status.DONE, outcome="all steps succeeded", note="fine", text="abc")


async def claim(store: Store, lock: Lease, number: int = 1, **changes: Any) -> Begun:
    rules: dict[str, Any] = {"loop_limit": 5, "loop_window": 60}
    places = [Place(name, changes.pop(name, None)) for name in places_of("local", "fix-bug")]
    return await store.intents.begin_claim(an_intent(number), lock=lock, places=places, **{**rules, **changes})


async def decide(store: Store, lock: Lease, intent: Intent | None, **changes: Any) -> DecideAnswer:
    return await store.intents.decide(TICKET, intent, lock=lock, **{"look_in": 0.0, **changes})


async def publish(store: Store, intent: Intent, *, wake_now: bool = False, fresh_start: bool = False) -> bool:
    return await store.intents.published(
        intent, intent.to, wake=a_signal(cause=intent.outcome), wake_now=wake_now, fresh_start=fresh_start
    )


async def waiting_signals(store: Store) -> list[Signal]:
    return [Signal.from_json(text) for text in await store.redis.lrange(store.keys.inbox, 0, -1)]


# Beginning a claim.


async def test_a_claim_begins_under_a_new_fence(store: Store) -> None:
    lock = await locked(store)
    first, second = await claim(store, lock), await claim(store, lock)
    assert (first.word, second.word) == ("begun", "begun")
    assert second.fence > first.fence
    intent = await store.intents.of(TICKET)
    assert intent == an_intent(fence=second.fence)
    assert not intent.decided
    assert await store.intents.to_look_at(now=time.time()) == [], "the claimer has its lock's time"
    assert await store.intents.to_look_at(now=time.time() + store.times.lock + 1) == [TICKET]


async def test_without_the_lock_nothing_begins(store: Store) -> None:
    lock = store.ticket_lock("local", TICKET, "me")
    assert await claim(store, lock) == Begun("unlocked")
    await locked(store, by="somebody else")
    assert await claim(store, lock) == Begun("unlocked")
    assert await store.intents.of(TICKET) is None


async def test_an_unpublished_outcome_comes_first(store: Store) -> None:
    lease, payload = await begin(store)
    await store.runs.settle(lease, payload, DONE, look_in=1)
    lock = await locked(store)
    assert await claim(store, lock) == Begun("unpublished")
    intent = await store.intents.of(TICKET)
    assert intent is not None
    assert intent.outcome == DONE.outcome


async def test_a_running_ticket_is_not_claimed(store: Store) -> None:
    lease, payload = await begin(store)
    await store.queue.acknowledge_and_take("c1", [(TICKET, payload)], room=0)
    assert await claim(store, await locked(store)) == Begun("leased")
    assert await store.runs.renew(lease, ttl=5) == "renewed", "and its fence was left alone"


async def test_a_queued_ticket_is_not_claimed(store: Store) -> None:
    await store.queue.push(a_request(1))
    assert await claim(store, await locked(store)) == Begun("queued")
    await store.queue.take("c1", wait=1)
    assert await claim(store, await locked(store)) == Begun("queued"), "nor one in flight"


async def test_a_ticket_in_a_loop_is_not_claimed(store: Store) -> None:
    lock = await locked(store)
    for number in range(2):
        begun = await claim(store, lock, loop_limit=2)
        assert begun.word == "begun"
        request = a_request(1, run=f"r{number}", fence=begun.fence)
        assert await store.queue.push(request, loop_window=60) is Pushed.PUSHED
        payload = await store.queue.take("c1", wait=1)
        await store.queue.acknowledge_and_take("c1", [(TICKET, str(payload))], room=0)
    begun = await claim(store, lock, loop_limit=2)
    assert (begun.word, begun.claims) == ("loop", 2)
    assert time.time() - 60 < begun.first_claim <= time.time() + 1
    assert (await claim(store, lock, loop_limit=3)).word == "begun"


async def test_claims_outside_the_window_do_not_count(store: Store, raw: Any) -> None:
    lock = await locked(store)
    old = (time.time() - 61) * 1_000_000
    await raw.zadd(store.keys.claims(TICKET), {"1": old, "2": old})
    await raw.pexpire(store.keys.claims(TICKET), 60_000)
    assert (await claim(store, lock, loop_limit=1)).word == "begun"


async def test_no_more_claims_than_there_is_room(store: Store) -> None:
    for number in (1, 2):
        assert (await claim(store, await locked(store, number), number, all=2)).word == "begun"
    third = await locked(store, 3)
    assert await claim(store, third, 3, all=2) == Begun("full", count=2, full=Place("all", 2))
    assert await store.intents.of(ticket_id(3)) is None
    again = await claim(store, await locked(store, 1), 1, all=2)
    assert again.word == "begun", "a ticket that has a place keeps it"
    assert await store.intents.drop(ticket_id(1), again.fence)
    assert (await claim(store, third, 3, all=2)).word == "begun"


async def test_queued_and_running_tickets_take_room(store: Store) -> None:
    lease, payload = await begin(store, 1)
    await store.queue.acknowledge_and_take("c1", [(lease.ticket, payload)], room=0)
    await store.queue.push(a_request(2))
    lock = await locked(store, 3)
    assert await claim(store, lock, 3, all=2) == Begun("full", count=2, full=Place("all", 2))
    await store.runs.settle(lease, payload, None, look_in=1)
    assert (await claim(store, lock, 3, all=2)).word == "begun"


@pytest.mark.parametrize("place", places_of("local", "fix-bug"))
async def test_room_is_counted_in_all_per_tracker_and_per_pipeline(store: Store, place: str) -> None:
    await store.queue.push(a_request(1))
    await store.queue.push(a_request(2, tracker="web", pipeline="docs"))
    limit = {place: 2 if place == "all" else 1}
    begun = await claim(store, await locked(store, 3), 3, **limit)
    assert (begun.word, begun.full) == ("full", Place(place, limit[place]))
    assert (await claim(store, await locked(store, 3), 3, **{place: limit[place] + 1})).word == "begun"


async def test_a_limit_that_is_set_later_counts_what_was_claimed_before(store: Store) -> None:
    assert (await claim(store, await locked(store, 1), 1)).word == "begun"
    assert (await claim(store, await locked(store, 2), 2, all=1)).word == "full"


async def test_places_are_forgotten_when_many_have_run(store: Store) -> None:
    await store.redis.eval(
        "for i = 1, 1000 do redis.call('HSET', KEYS[1], i, 1) end redis.call('PEXPIRE', KEYS[1], 60000)",
        1,
        store.keys.places("all"),
    )
    await claim(store, await locked(store, 1), 1)
    assert list(await store.redis.hgetall(store.keys.places("all"))) == [ticket_id(1)]


async def test_a_place_lapses_when_the_claimer_died(store: Store, raw: Any) -> None:
    await claim(store, await locked(store, 1), 1, all=1)
    lock = await locked(store, 2)
    assert await claim(store, lock, 2, all=1) == Begun("full", count=1, full=Place("all", 1))
    await raw.zadd(store.keys.reservations, {ticket_id(1): time.time() * 1000 - 1})
    assert (await claim(store, lock, 2, all=1)).word == "begun"


async def test_concurrent_claims_never_exceed_the_capacity(make_store: MakeStore, store: Store) -> None:
    capacity, tickets = 7, 60
    stores = [make_store() for _ in range(6)]

    async def one(number: int) -> str:
        mine = stores[number % len(stores)]
        lock = await locked(mine, number)
        begun = await claim(mine, lock, number, all=capacity)
        if begun.word == "begun" and number % 2:
            await mine.queue.push(a_request(number, fence=begun.fence))
        return begun.word

    words = await asyncio.gather(*(one(number) for number in range(tickets)))
    assert words.count("begun") == capacity
    assert words.count("full") == tickets - capacity
    queued, reserved = len(await all_queued(store)), await store.redis.zcard(store.keys.reservations)
    assert queued + reserved == capacity


async def test_of_many_claimers_only_the_one_with_the_lock_begins(make_store: MakeStore) -> None:
    async def one(name: str) -> str:
        mine = make_store()
        lock = mine.ticket_lock("local", TICKET, name)
        await lock.take()
        return (await claim(mine, lock)).word

    words = await asyncio.gather(*(one(f"claimer {n}") for n in range(12)))
    assert sorted(words) == ["begun"] + ["unlocked"] * 11


# Deciding about a ticket that nobody runs.


async def test_a_decision_raises_the_fence_and_is_recorded(store: Store, raw: Any) -> None:
    lease, _ = await begin(store)
    await store.runs.release_dead(lease, lock_key=store.keys.claim_lock("local", TICKET))
    await raw.zadd(store.keys.suspects, {TICKET: 1})
    await raw.zadd(store.keys.due, {TICKET: 1})
    lock = await locked(store)
    begun = await decide(store, lock, DONE)
    assert begun.word == "decided"
    assert begun.fence > lease.fence
    assert await store.intents.of(TICKET) == replace(DONE, fence=begun.fence)
    assert await store.runs.running() == []
    assert await store.runs.released() == await store.runs.suspects() == []
    assert await store.intents.waiting() == []
    assert await store.runs.renew(lease, ttl=5) == "lost"


async def test_a_decision_without_an_intent_only_takes_the_ticket_over(store: Store) -> None:
    begun = await decide(store, await locked(store), None)
    assert begun.word == "decided"
    assert await store.intents.of(TICKET) is None
    assert await store.intents.to_look_at(now=time.time() + 60) == []


async def test_a_decision_is_refused(store: Store, flush: Flush, settled: Settled) -> None:
    lock = store.ticket_lock("local", TICKET, "me")
    assert (await decide(store, lock, DONE)).word == "unlocked"
    await lock.take()
    assert (await decide(store, lock, DONE)).word == "decided"
    assert (await decide(store, lock, DONE)).word == "unpublished", "the first decision is finished first"
    await flush()
    await lock.take()
    assert (await decide(store, lock, DONE, after_settling=True)).word == "settling"
    await settled()
    await begin(store)
    assert (await decide(store, lock, DONE, after_settling=True)).word == "leased"


async def test_a_person_need_not_wait_for_redis_to_settle(store: Store, flush: Flush) -> None:
    await flush()
    assert (await decide(store, await locked(store), DONE)).word == "decided"


async def test_a_waiting_request_is_taken_off_the_queue_with_the_decision(store: Store) -> None:
    await store.queue.push(a_request(1))
    await store.queue.push(a_request(2))
    lock = await locked(store)
    assert (
        await decide(store, lock, replace(DONE, edge=an_edge(Status.IN_PROGRESS, None)), unqueue=True)
    ).word == "decided"
    assert await all_queued(store) == [a_request(2).to_json()]
    assert not await store.queue.holds(TICKET)


async def test_a_request_in_flight_cannot_be_taken_off(store: Store) -> None:
    lock = await locked(store)
    assert (await decide(store, lock, DONE, unqueue=True)).word == "in-flight", "nor one that is not there"
    await store.queue.push(a_request(1))
    await store.queue.take("c1", wait=1)
    assert (await decide(store, lock, DONE, unqueue=True)).word == "in-flight"
    assert await store.intents.of(TICKET) is None
    assert await store.queue.holds(TICKET)


async def test_withdrawing_and_taking_at_once_has_one_winner(make_store: MakeStore, store: Store) -> None:
    for round_ in range(30):
        fence = int(await store.redis.get(store.keys.fence(TICKET)) or 1)
        assert await store.queue.push(a_request(1, run=f"r{round_}", fence=fence)) is Pushed.PUSHED
        lock = await locked(store)
        withdrawn, taken = await asyncio.gather(
            decide(store, lock, None, unqueue=True), make_store().queue.acknowledge_and_take("c1", (), room=1)
        )
        assert (withdrawn.word, len(taken)) in (("decided", 0), ("in-flight", 1))
        await store.queue.acknowledge_and_take("c1", [(TICKET, payload) for payload in taken], room=0)


# Finishing what somebody else decided.


async def test_an_unpublished_decision_is_adopted_under_a_new_fence(store: Store) -> None:
    lease, payload = await begin(store)
    await store.runs.settle(lease, payload, DONE, look_in=0)
    lock = await locked(store)
    adopted = await store.intents.adopt(TICKET, lock=lock, look_in=60)
    assert adopted is not None
    assert adopted.fence > lease.fence
    assert adopted == replace(DONE, fence=adopted.fence)
    assert await store.intents.to_look_at(now=time.time()) == []
    assert await store.intents.to_look_at(now=time.time() + 61) == [TICKET]
    assert not await publish(store, replace(DONE, fence=lease.fence)), "the old owner is fenced off"
    assert await publish(store, adopted)


async def test_nothing_is_adopted_without_the_lock(store: Store) -> None:
    lease, payload = await begin(store)
    await store.runs.settle(lease, payload, DONE, look_in=0)
    lock = store.ticket_lock("local", TICKET, "me")
    assert await store.intents.adopt(TICKET, lock=lock, look_in=60) is None
    intent = await store.intents.of(TICKET)
    assert intent is not None
    assert intent.fence == lease.fence


async def test_an_intent_of_a_live_run_is_left_to_it(store: Store, raw: Any) -> None:
    lock = await locked(store)
    late = await decided(store)  # and its lock lapsed, a claim followed, and the ticket runs again
    fields = {**late.to_fields(), "fence": str(late.fence)}
    lease, _ = await begin(store, fence=late.fence)
    await raw.hset(store.keys.intent(TICKET), mapping=fields)
    await raw.zadd(store.keys.intents, {TICKET: 1})
    assert await store.intents.adopt(TICKET, lock=lock, look_in=60) is None
    assert await store.intents.to_look_at(now=time.time()) == [], "looked at again later"
    assert await store.runs.renew(lease, ttl=5) == "renewed", "its fence was not raised"


async def test_an_intent_that_is_gone_is_looked_at_no_more(store: Store) -> None:
    await store.redis.zadd(store.keys.intents, {TICKET: 1}, xx=False)
    lock = await locked(store)
    assert await store.intents.adopt(TICKET, lock=lock, look_in=60) is None
    assert await store.intents.to_look_at(now=1e12) == []


async def test_a_decision_is_looked_at_when_its_time_has_come_and_not_before(store: Store) -> None:
    await decide(store, await locked(store), DONE, look_in=60)
    now = time.time()
    assert await store.intents.to_look_at(now=now) == []
    assert await store.intents.to_look_at(now=now + 61) == [TICKET]
    await store.intents.postpone(TICKET, wait=120)
    assert await store.intents.to_look_at(now=now + 61) == []
    assert await store.intents.to_look_at(now=now + 180) == [TICKET]


async def test_postponing_what_is_not_there_makes_nothing(store: Store) -> None:
    await store.intents.postpone(TICKET, wait=1)
    assert await store.intents.to_look_at(now=1e12) == []


# Published.


async def decided(store: Store, intent: Intent = DONE) -> Intent:
    begun = await decide(store, await locked(store), intent)
    assert begun.word == "decided"
    return replace(intent, fence=begun.fence)


async def test_what_is_published_is_forgotten_and_remembered(store: Store) -> None:
    intent = await decided(store)
    assert await publish(store, intent)
    assert await store.intents.of(TICKET) is None
    assert await store.intents.to_look_at(now=1e12) == []
    assert await store.intents.last_published(TICKET) is Status.DONE
    assert await waiting_signals(store) == []
    assert await publish(store, intent), "and again after a lost answer"


async def test_no_label_is_remembered_as_pending(store: Store) -> None:
    assert await publish(store, await decided(store, replace(DONE, edge=an_edge(Status.IN_PROGRESS, None))))
    assert await store.intents.last_published(TICKET) is Status.PENDING
    await store.intents.note_published(TICKET, Status.IN_PROGRESS)
    assert await store.intents.last_published(TICKET) is Status.IN_PROGRESS


async def test_publishing_below_the_newest_fence_changes_nothing(store: Store, raw: Any) -> None:
    intent = await decided(store)
    await raw.set(store.keys.fence(TICKET), str(intent.fence + 1), px=60_000)
    assert not await publish(store, intent, wake_now=True)
    assert await store.intents.of(TICKET) == intent
    assert await store.intents.last_published(TICKET) is None
    assert await waiting_signals(store) == []


async def test_publishing_clears_the_counters_only_at_an_end(store: Store) -> None:
    await store.runs.restore_attempts(TICKET, 2)
    intent = await decided(store)
    await publish(store, intent)
    assert await store.runs.attempts(TICKET) == 2
    await publish(store, intent, fresh_start=True)
    assert await store.runs.attempts(TICKET) is None


@pytest.mark.parametrize(
    ("to", "stays"),
    [(Status.DONE, False), (Status.FAILED, False), (None, False), (Status.PENDING, True), (Status.WAITING, True)],
)
async def test_P7_what_was_vetted_goes_with_the_end_of_what_was_asked_for(
    store: Store, to: Status | None, stays: bool
) -> None:
    pin = Pin("0" * 64, by="mona")
    await store.pins.keep(TICKET, pin)
    assert await store.intents.published(await decided(store), to, wake=a_signal(1), wake_now=False, fresh_start=False)
    assert await store.pins.of(TICKET) == (pin if stays else None)


async def test_publishing_pending_signals_claim(store: Store) -> None:
    intent = await decided(store, replace(DONE, edge=an_edge(Status.IN_PROGRESS, Status.PENDING), outcome="recovered"))
    for _ in range(2):
        assert await publish(store, intent, wake_now=True)
    assert await waiting_signals(store) == [a_signal(cause="recovered")], "merged with the one that waits"


async def test_a_follow_up_is_over_once_the_ticket_is_pending(store: Store) -> None:
    await store.runs.note_follow_up(TICKET, "Ann")
    await publish(
        store, await decided(store, replace(DONE, edge=an_edge(Status.IN_PROGRESS, Status.PENDING))), wake_now=True
    )
    (signal,) = await waiting_signals(store)
    assert signal.kind is SignalKind.LOOK
    assert await store.runs.follow_up(TICKET) is None


async def test_a_follow_up_is_signalled_as_a_retry_and_once(store: Store) -> None:
    await store.runs.note_follow_up(TICKET, "Ann")
    intent = await decided(store)
    await publish(store, intent)
    (signal,) = await waiting_signals(store)
    assert (signal.kind, signal.ticket) == (SignalKind.RETRY, TICKET), "a finished ticket needs more than a look"
    payload = await store.signals.take("c1", wait=1)
    await store.signals.opened(signal)
    await store.signals.acknowledge("c1", str(payload))
    await publish(store, intent)
    assert await waiting_signals(store) == []


async def test_a_parked_ticket_is_due_at_its_time(store: Store) -> None:
    intent = await decided(store, replace(DONE, edge=an_edge(Status.IN_PROGRESS, Status.WAITING), due=2000.5))
    assert await publish(store, intent)
    assert await store.intents.waiting() == [(TICKET, 2000.5)]
    assert await store.intents.due(now=2000.4) == []
    assert await store.intents.due(now=2000.6) == [(TICKET, "local", "1")]
    await store.intents.forget_due(TICKET)
    assert await store.intents.due(now=2000.6) == []


async def test_where_a_ticket_lives_is_remembered(store: Store) -> None:
    assert await store.intents.where(TICKET) is None
    await store.intents.remember_where(TICKET, "web", "WEB-1")
    assert await store.intents.where(TICKET) == ("web", "WEB-1")


async def test_a_claim_that_did_not_come_about_is_dropped_by_its_own_fence(store: Store) -> None:
    lock = await locked(store)
    first, second = await claim(store, lock, all=1), await claim(store, lock, all=1)
    assert not await store.intents.drop(TICKET, first.fence)
    assert await store.redis.zcard(store.keys.reservations) == 1
    assert await store.intents.drop(TICKET, second.fence)
    assert not await store.intents.drop(TICKET, second.fence)
    assert await store.intents.of(TICKET) is None
    assert await store.intents.to_look_at(now=1e12) == []
    assert await store.redis.zcard(store.keys.reservations) == 0


@pytest.mark.parametrize("due", [None, 0.0, 1789.123456789])
async def test_an_intent_comes_back_as_it_was_recorded(store: Store, due: float | None) -> None:
    intent = Intent(
        ticket=TICKET,
        tracker="web",
        key="1",
        fence=0,
        edge=an_edge(Status.IN_PROGRESS, Status.ENQUEUED),
        run="r",
        outcome="given back",
        note="a\nnote",
        due=due,
        request=a_request().to_json(),
        attempt=2,
        text="0123",
        by_person=True,
    )
    begun = await decide(store, await locked(store), intent)
    assert await store.intents.of(TICKET) == replace(intent, fence=begun.fence)
