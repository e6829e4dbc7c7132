"""The lease of a run: acquired once, renewed by compare, settled under its fence, dead only after doubt."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from agentsmith.domain.facts import Life
from agentsmith.domain.lifecycle import Status
from agentsmith.store import Acquired, DeadLetter, NotAcquired, Pushed, Store
from tests.support.stores import (
    Flush,
    MakeStore,
    Settled,
    a_process,
    a_request,
    acquired,
    an_intent,
    begin,
    locked,
    ticket_id,
)
from tests.support.wait import wait_until

TICKET = ticket_id(1)


async def try_acquire(store: Store, *, limit: int = 3, consumer: str = "c1", **changes: Any) -> Acquired | NotAcquired:
    request = a_request(1, **changes)
    return await store.runs.acquire(
        request, request.to_json(), consumer=consumer, ttl=store.times.ttl, max_deliveries=limit
    )


async def taken(store: Store, **changes: Any) -> None:
    """Push a request and take it, as consumer c1."""
    assert await store.queue.push(a_request(1, **changes)) is Pushed.PUSHED
    await store.queue.take("c1", wait=1)


async def taken_over(store: Store) -> int:
    """Somebody else raises the fence of the ticket."""
    lock = await locked(store, by="somebody else")
    await store.redis.delete(store.keys.heartbeat(TICKET))
    begun = await store.intents.decide(TICKET, None, lock_key=lock.key, token=lock.token, look_in=1)
    await lock.release()
    assert begun.word == "decided"
    return begun.fence


# Acquiring.


async def test_a_taken_request_becomes_a_lease(store: Store, raw: Any) -> None:
    await taken(store)
    answer = await try_acquire(store)
    assert isinstance(answer, Acquired)
    lease = answer.lease
    assert (lease.ticket, lease.tracker, lease.key) == (TICKET, "local", "1")
    assert (lease.run, lease.consumer, answer.attempts) == ("run-1", "c1", 0)
    assert abs(lease.since - time.time()) < 60
    assert await store.runs.lease(TICKET) == lease == await store.runs.unsettled(TICKET)
    assert await store.runs.running() == [lease]
    assert 0 < await raw.pttl(store.keys.heartbeat(TICKET)) <= store.times.ttl * 1000
    assert await store.queue.holds(TICKET), "it is acknowledged later"


async def test_the_same_acquisition_again_gives_the_same_lease(store: Store) -> None:
    await taken(store)
    first, second = await try_acquire(store, limit=1), await try_acquire(store, limit=1)
    assert isinstance(first, Acquired)
    assert isinstance(second, Acquired)
    assert first.lease == second.lease
    assert await store.redis.hget(store.keys.counters(TICKET), "deliveries") == "1", "counted once"


async def test_a_request_that_we_do_not_hold_is_superseded(store: Store) -> None:
    assert await try_acquire(store) == NotAcquired("superseded")
    await taken(store)
    assert await try_acquire(store, consumer="c2") == NotAcquired("superseded")
    assert await store.runs.lease(TICKET) is None


async def test_a_request_that_was_replaced_is_superseded(store: Store, raw: Any) -> None:
    await taken(store)
    await raw.hset(store.keys.queue_index, TICKET, "a newer request")
    assert await try_acquire(store) == NotAcquired("superseded")


async def test_a_request_that_was_put_back_meanwhile_is_superseded(store: Store) -> None:
    await taken(store)
    assert await store.queue.put_back("c1") == 1
    assert await try_acquire(store) == NotAcquired("superseded")
    payload = await store.queue.take("c2", wait=1)
    assert payload is not None
    again = await store.runs.acquire(a_request(1), payload, consumer="c2", ttl=60, max_deliveries=3)
    assert isinstance(again, Acquired)


async def test_a_ticket_that_runs_elsewhere_is_leased(store: Store, raw: Any) -> None:
    lease, payload = await begin(store)
    await store.queue.acknowledge_and_take("c1", [(TICKET, payload)], room=0)
    again = a_request(1, run="another").to_json()
    await raw.rpush(store.keys.queue_processing("c1"), again)
    await raw.hset(store.keys.queue_index, TICKET, again)
    assert await try_acquire(store, run="another") == NotAcquired("leased")
    assert await store.runs.lease(TICKET) == lease


async def test_deliveries_that_nobody_lived_to_tell_of_are_poison(store: Store, raw: Any) -> None:
    await taken(store)
    for _ in range(2):
        assert isinstance(await try_acquire(store, limit=2), Acquired)
        await raw.delete(store.keys.heartbeat(TICKET))  # its consumer died, the request was put back and taken again
    before = await raw.get(store.keys.fence(TICKET))
    assert await try_acquire(store, limit=2) == NotAcquired("poison", 3)
    assert await store.runs.lease(TICKET) is None
    assert await raw.get(store.keys.fence(TICKET)) == before


async def test_a_run_that_starts_resets_the_deliveries(store: Store, raw: Any) -> None:
    lease, _ = await begin(store)
    assert await raw.hget(store.keys.counters(TICKET), "deliveries") == "1"
    assert await store.runs.start(lease, max_attempts=3) == ("started", 1)
    assert await raw.hget(store.keys.counters(TICKET), "deliveries") == "0"


async def test_a_run_that_settles_resets_the_deliveries(store: Store, raw: Any) -> None:
    lease, payload = await begin(store)
    assert await store.runs.settle(lease, payload, None, look_in=1)
    assert await raw.hget(store.keys.counters(TICKET), "deliveries") is None


async def test_acquiring_ends_a_suspicion(store: Store, raw: Any) -> None:
    await raw.zadd(store.keys.suspects, {TICKET: 1})
    await raw.zadd(store.keys.released, {TICKET: 1})
    await begin(store)
    assert await store.runs.suspects() == []
    assert await store.runs.released() == []


async def test_many_takers_of_one_ticket_get_one_lease(make_store: MakeStore, store: Store, raw: Any) -> None:
    payload = a_request(1).to_json()
    for number in range(20):
        await raw.rpush(store.keys.queue_processing(f"c{number}"), payload)
    await raw.hset(store.keys.queue_index, TICKET, payload)
    answers = await asyncio.gather(*(try_acquire(make_store(), consumer=f"c{n}") for n in range(20)))
    assert sum(isinstance(answer, Acquired) for answer in answers) == 1
    assert sum(answer == NotAcquired("leased") for answer in answers) == 19


# Fences.


async def test_a_thousand_acquisitions_give_strictly_rising_whole_fences(store: Store, raw: Any) -> None:
    fences = []
    await taken(store)
    for _ in range(1000):
        fences.append((await acquired(store, a_request(1))).fence)
        await raw.delete(store.keys.heartbeat(TICKET), store.keys.counters(TICKET))
    assert fences == sorted(set(fences))
    assert all(re.fullmatch(r"\d{16}", str(fence)) for fence in fences)
    assert await raw.get(store.keys.fence(TICKET)) == str(fences[-1])


async def test_fences_rise_over_a_loss_of_memory(store: Store, flush: Flush) -> None:
    before, _ = await begin(store)
    await flush()
    after, _ = await begin(store)
    assert after.fence > before.fence


async def test_fences_rise_even_when_the_clock_stands_back(store: Store, raw: Any) -> None:
    ahead = 9_000_000_000_000_000  # from a server whose clock ran ahead
    await raw.set(store.keys.fence(TICKET), str(ahead), px=60_000)
    for step in (1, 2, 3):
        assert await taken_over(store) == ahead + step
    assert await raw.get(store.keys.fence(TICKET)) == str(ahead + 3)


# Renewing and starting.


async def test_a_lease_is_renewed(store: Store, raw: Any) -> None:
    lease, _ = await begin(store)
    await raw.pexpire(store.keys.heartbeat(TICKET), 1000)
    assert await store.runs.renew(lease, ttl=60) == "renewed"
    assert await raw.pttl(store.keys.heartbeat(TICKET)) > 50_000


async def test_a_forgotten_lease_is_put_back_with_its_fence(store: Store, flush: Flush, raw: Any) -> None:
    lease, _ = await begin(store)
    await flush()
    assert await store.runs.renew(lease, ttl=5) == "restored"
    assert await store.runs.lease(TICKET) == lease == await store.runs.unsettled(TICKET)
    assert await raw.get(store.keys.fence(TICKET)) == str(lease.fence)
    assert await store.queue.push(a_request(1, fence=lease.fence - 1)) is Pushed.FENCED
    assert await store.runs.renew(lease, ttl=5) == "renewed"


async def test_a_lapsed_lease_is_put_back_while_nobody_took_over(store: Store, raw: Any) -> None:
    lease, _ = await begin(store)
    await raw.delete(store.keys.heartbeat(TICKET))
    assert await store.runs.renew(lease, ttl=5) == "restored"


async def test_a_lease_below_a_newer_fence_is_lost(store: Store) -> None:
    lease, _ = await begin(store)
    await taken_over(store)
    assert await store.runs.renew(lease, ttl=5) == "lost"
    assert await store.runs.lease(TICKET) is None, "nothing was put back"


async def test_a_lease_that_somebody_else_holds_is_lost(store: Store, raw: Any) -> None:
    lease, _ = await begin(store)
    await raw.set(store.keys.heartbeat(TICKET), lease.value.replace("c1", "c2"), px=5000)
    assert await store.runs.renew(lease, ttl=5) == "lost"


async def test_a_late_renewal_does_not_bring_a_settled_run_back(store: Store) -> None:
    lease, payload = await begin(store)
    assert await store.runs.settle(lease, payload, None, look_in=1)
    assert await store.runs.renew(lease, ttl=5) == "lost"
    assert await store.runs.running() == []
    assert await store.runs.lease(TICKET) is None


async def test_a_late_renewal_does_not_bring_a_released_run_back(store: Store) -> None:
    lease, _ = await begin(store)
    assert await store.runs.release_dead(lease, lock_key=store.keys.claim_lock("local", TICKET))
    assert await store.runs.renew(lease, ttl=5) == "lost"
    assert await store.runs.look(TICKET, patient=True) is Life.DEAD


async def test_starting_counts_attempts_up_to_the_limit(store: Store) -> None:
    lease, _ = await begin(store)
    assert await store.runs.attempts(TICKET) is None
    assert await store.runs.start(lease, max_attempts=2) == ("started", 1)
    assert await store.runs.start(lease, max_attempts=2) == ("started", 2)
    assert await store.runs.start(lease, max_attempts=2) == ("poison", 3)
    assert await store.runs.attempts(TICKET) == 3


async def test_a_run_without_its_lease_does_not_start(store: Store, raw: Any) -> None:
    lease, _ = await begin(store)
    await taken_over(store)
    assert await store.runs.start(lease, max_attempts=2) == ("lost", 0)
    lapsed, _ = await begin(store, 2)
    await raw.delete(store.keys.heartbeat(ticket_id(2)))
    assert await store.runs.start(lapsed, max_attempts=2) == ("lost", 0)
    fenced, _ = await begin(store, 3)
    await raw.set(store.keys.fence(ticket_id(3)), str(fenced.fence + 1), px=60_000)
    assert await store.runs.start(fenced, max_attempts=2) == ("lost", 0)
    assert await store.runs.attempts(TICKET) is None


async def test_the_next_run_learns_how_many_attempts_were_begun(store: Store) -> None:
    lease, payload = await begin(store)
    await store.runs.start(lease, max_attempts=3)
    await store.runs.settle(lease, payload, None, look_in=1)
    await taken(store, fence=lease.fence)
    answer = await try_acquire(store, fence=lease.fence)
    assert isinstance(answer, Acquired)
    assert answer.attempts == 1


async def test_attempts_are_restored_only_where_redis_forgot_them(store: Store) -> None:
    assert await store.runs.restore_attempts(TICKET, 2) == 2
    assert await store.runs.restore_attempts(TICKET, 1) == 2
    assert await store.runs.attempts(TICKET) == 2


# Settling.

DONE = an_intent(source=Status.IN_PROGRESS, to=Status.DONE, outcome="all steps succeeded", attempt=1)


async def test_settling_frees_everything_and_records_the_outcome(store: Store) -> None:
    lease, payload = await begin(store)
    await store.runs.request_stop(TICKET, "cancelled")
    assert await store.runs.settle(lease, payload, DONE, look_in=0)
    assert await store.runs.lease(TICKET) is None
    assert await store.runs.running() == []
    assert await store.runs.stop_requested(TICKET) is None
    assert await store.queue.in_hand("c1") == []
    assert not await store.queue.holds(TICKET)
    intent = await store.intents.of(TICKET)
    assert intent is not None
    assert (intent.fence, intent.outcome, intent.to, intent.attempt) == (lease.fence, DONE.outcome, DONE.to, 1)
    assert await store.intents.to_look_at(now=time.time() + 1) == [TICKET]


async def test_settling_again_after_a_lost_answer_changes_nothing(store: Store) -> None:
    lease, payload = await begin(store)
    await store.runs.start(lease, max_attempts=9)
    await store.runs.start(lease, max_attempts=9)
    for _ in range(3):
        assert await store.runs.settle(lease, payload, DONE, look_in=0, uncount=True)
        assert await store.runs.attempts(TICKET) == 1, "a run that is given back is uncounted once"
    assert await store.intents.to_look_at(now=time.time() + 1) == [TICKET]


async def test_dropping_again_after_a_lost_answer_uncounts_once(store: Store) -> None:
    lease, payload = await begin(store)
    await store.runs.start(lease, max_attempts=9)
    for _ in range(2):
        assert await store.runs.settle(lease, payload, None, look_in=0, uncount=True)
    assert await store.runs.attempts(TICKET) == 0
    assert await store.intents.of(TICKET) is None


async def test_a_run_that_was_taken_over_settles_nothing(store: Store) -> None:
    lease, payload = await begin(store)
    await taken_over(store)
    assert not await store.runs.settle(lease, payload, DONE, look_in=0)
    assert await store.intents.of(TICKET) is None
    assert await store.queue.in_hand("c1") == [payload], "nothing was changed"


async def test_a_run_whose_heartbeat_is_somebody_elses_settles_nothing(store: Store, raw: Any) -> None:
    lease, payload = await begin(store)
    await raw.set(store.keys.heartbeat(TICKET), lease.value.replace("run-1", "run-2"), px=5000)
    assert not await store.runs.settle(lease, payload, DONE, look_in=0)
    assert await store.intents.of(TICKET) is None


async def test_a_ticket_that_is_given_up_leaves_one_letter_however_often_it_is_settled(store: Store) -> None:
    lease, payload = await begin(store)
    letter = DeadLetter(payload, "started 3 times", 1.5)
    for _ in range(2):
        assert await store.runs.settle(lease, payload, DONE, look_in=0, letter=letter)
    assert await store.queue.dead_letters() == [letter]


async def test_a_run_that_was_fenced_off_leaves_no_letter(store: Store, raw: Any) -> None:
    lease, payload = await begin(store)
    await raw.set(store.keys.fence(TICKET), str(lease.fence + 1), px=60_000)
    assert not await store.runs.settle(lease, payload, DONE, look_in=0, letter=DeadLetter(payload, "late", 1.5))
    assert await store.queue.dead_letters() == []


async def test_settled_but_not_answered_before_a_take_over_counts_as_settled(store: Store, raw: Any) -> None:
    lease, payload = await begin(store)
    assert await store.runs.settle(lease, payload, DONE, look_in=0)
    await raw.set(store.keys.fence(TICKET), str(lease.fence + 1), px=60_000)
    assert await store.runs.settle(lease, payload, DONE, look_in=0)


async def test_finished_work_is_settled_after_redis_forgot_it(store: Store, flush: Flush) -> None:
    lease, payload = await begin(store)
    await flush()
    assert await store.runs.settle(lease, payload, DONE, look_in=0)
    intent = await store.intents.of(TICKET)
    assert intent is not None
    assert intent.fence == lease.fence
    assert await store.queue.push(a_request(1, fence=lease.fence - 1)) is Pushed.FENCED, "the fence was put back"


async def test_nobody_begins_a_request_that_was_put_back_and_then_settled(store: Store, raw: Any) -> None:
    lease, payload = await begin(store)
    await raw.delete(store.keys.heartbeat(TICKET))
    assert await store.queue.put_back("c1") == 1
    assert await store.runs.settle(lease, payload, DONE, look_in=0)
    assert await store.queue.waiting() == []
    assert not await store.queue.holds(TICKET)


async def test_a_request_that_was_put_back_does_not_get_the_lease_of_its_earlier_run(store: Store, raw: Any) -> None:
    """The same run of the same consumer: only the name of the entry tells a second taking from a lost answer."""
    lease, _ = await begin(store)
    await raw.delete(store.keys.heartbeat(TICKET))
    assert await store.queue.put_back("c1") == 1
    assert await store.runs.renew(lease, ttl=60) == "restored"
    payload = await store.queue.take("c1", wait=1)
    assert payload is not None
    again = await store.runs.acquire(a_request(1), payload, consumer="c1", ttl=60, max_deliveries=3)
    assert again == NotAcquired("leased")


async def test_settling_takes_a_request_along_that_was_put_back(store: Store, raw: Any) -> None:
    lease, payload = await begin(store)
    await raw.delete(store.keys.heartbeat(TICKET))
    assert await store.queue.put_back("c1") == 1
    assert await store.runs.settle(lease, payload, DONE, look_in=0)
    assert await store.queue.depth() == 0
    assert not await store.queue.holds(TICKET)


async def test_settling_leaves_a_newer_request_alone(store: Store, raw: Any) -> None:
    lease, payload = await begin(store)
    await store.queue.acknowledge_and_take("c1", [(TICKET, payload)], room=0)
    await raw.hset(store.keys.queue_index, TICKET, "newer")
    assert await store.runs.settle(lease, payload, DONE, look_in=0)
    assert await raw.hget(store.keys.queue_index, TICKET) == "newer"


async def test_the_note_of_an_outcome_may_hold_anything(store: Store) -> None:
    lease, payload = await begin(store)
    note = "ünï\ncode \U0001f600 \x00 " + "x" * 100_000
    await store.runs.settle(lease, payload, an_intent(outcome="failed", note=note, due=1.25), look_in=0)
    intent = await store.intents.of(TICKET)
    assert intent is not None
    assert (intent.note, intent.due) == (note, 1.25)


# Giving a dead run's lease back.


async def test_a_guard_releases_the_lease_and_the_runs_lock(store: Store) -> None:
    lease, _ = await begin(store)
    lock = await locked(store, by=lease.lock_holder + "1")
    assert await store.runs.release_dead(lease, lock_key=lock.key)
    assert await store.runs.lease(TICKET) is None
    assert await store.runs.released() == [TICKET]
    assert await store.redis.get(lock.key) is None
    assert await store.runs.unsettled(TICKET) == lease, "housekeeping still learns whose it was"
    assert await store.runs.look(TICKET, patient=True) is Life.DEAD
    assert await store.runs.release_dead(lease, lock_key=lock.key), "the same again after a lost answer"
    await store.runs.forget_suspicion(TICKET)
    assert await store.runs.released() == [TICKET], "who looked before that does not know of it"
    await store.runs.forget(TICKET)
    assert await store.runs.released() == []


async def test_a_guard_does_not_touch_somebody_elses_lease_or_lock(store: Store, raw: Any) -> None:
    old, payload = await begin(store)
    lock = await locked(store, by="somebody else")
    await store.runs.settle(old, payload, None, look_in=0)
    new, _ = await begin(store, consumer="c2")
    assert not await store.runs.release_dead(old, lock_key=lock.key)
    assert await store.runs.lease(TICKET) == new
    assert await store.redis.get(lock.key) == "somebody else"
    assert await store.runs.released() == []
    await raw.hset(store.keys.running, TICKET, old.value)  # a lost update of `running` does not make it ours either
    assert not await store.runs.release_dead(old, lock_key=lock.key)
    assert await store.runs.lease(TICKET) == new


async def test_a_guard_does_not_release_the_lock_of_a_later_run_of_the_same_request(store: Store, raw: Any) -> None:
    await taken(store)
    old = await acquired(store, a_request(1))
    await raw.delete(store.keys.heartbeat(TICKET))  # it lapsed, and the request was taken again
    new = await acquired(store, a_request(1))
    assert (old.run, old.lock_holder) != (new.run, new.lock_holder)
    lock = await locked(store, by=new.lock_holder + "1")
    assert not await store.runs.release_dead(old, lock_key=lock.key)
    assert await store.redis.get(lock.key) == lock.token


async def test_a_dead_run_that_needs_nothing_is_forgotten(store: Store, raw: Any) -> None:
    lease, _ = await begin(store)
    await store.runs.forget(TICKET)
    assert await store.runs.running() == [lease], "it lives"
    await raw.delete(store.keys.heartbeat(TICKET))
    await raw.zadd(store.keys.suspects, {TICKET: 1})
    await raw.zadd(store.keys.released, {TICKET: 1})
    await store.runs.forget(TICKET)
    assert await store.runs.running() == []
    assert await store.runs.suspects() == await store.runs.released() == []


async def test_a_guard_that_comes_after_the_settling_releases_nothing(store: Store) -> None:
    lease, payload = await begin(store)
    await store.runs.settle(lease, payload, DONE, look_in=0)
    assert not await store.runs.release_dead(lease, lock_key=store.keys.claim_lock("local", TICKET))
    assert await store.runs.released() == []


# Looking whether a run lives.


async def test_a_heartbeat_is_life(store: Store) -> None:
    await begin(store)
    assert await store.runs.look(TICKET, patient=True) is Life.ALIVE
    assert await store.runs.look(TICKET, patient=False) is Life.ALIVE


async def test_a_host_that_is_gone_is_dead_after_two_looks_a_renewal_apart(make_store: MakeStore, raw: Any) -> None:
    store = make_store(renew_every=0.05)
    await store.presence.settling()
    await raw.delete(store.keys.settling)
    await begin(store)
    await raw.delete(store.keys.heartbeat(TICKET))
    started = time.monotonic()
    assert await store.runs.look(TICKET, patient=True) is Life.SUSPECTED
    assert await store.runs.suspects() == [TICKET]
    looks = []

    async def dead() -> bool:
        looks.append(await store.runs.look(TICKET, patient=True))
        return looks[-1] is Life.DEAD

    await wait_until(dead, what="it is declared dead")
    assert time.monotonic() - started >= 0.05
    assert set(looks[:-1]) <= {Life.SUSPECTED}


async def test_a_second_look_too_early_decides_nothing(make_store: MakeStore, store: Store, raw: Any) -> None:
    patient = make_store(renew_every=60)
    await begin(store)
    await raw.delete(store.keys.heartbeat(TICKET))
    assert [await patient.runs.look(TICKET, patient=True) for _ in range(5)] == [Life.SUSPECTED] * 5


async def test_a_consumer_that_lives_vouches_for_its_run(store: Store, raw: Any) -> None:
    await begin(store)
    await raw.delete(store.keys.heartbeat(TICKET))
    assert await store.runs.look(TICKET, patient=True) is Life.SUSPECTED
    await store.presence.tick(a_process("c1"), ttl=60, running={})
    assert await store.runs.look(TICKET, patient=True) is Life.ALIVE
    assert await store.runs.suspects() == [], "the doubt starts anew"


async def test_a_consumer_that_lives_vouches_no_longer_than_a_lease_lasts(make_store: MakeStore, raw: Any) -> None:
    store = make_store(ttl=0.05, renew_every=0.01)
    await store.presence.settling()
    await raw.delete(store.keys.settling)
    await begin(store)
    await store.presence.tick(a_process("c1"), ttl=600, running={})
    await raw.delete(store.keys.heartbeat(TICKET))
    assert await store.runs.look(TICKET, patient=True) is Life.ALIVE

    async def dead() -> bool:
        return await store.runs.look(TICKET, patient=True) is Life.DEAD

    await wait_until(dead, what="nobody believes that it runs any more")


async def test_a_renewal_or_another_run_ends_what_was_held_against_a_living_consumer(
    make_store: MakeStore, raw: Any
) -> None:
    store = make_store(ttl=0.05, renew_every=0.01)
    await store.presence.settling()
    await raw.delete(store.keys.settling)
    lease, _ = await begin(store)
    await store.presence.tick(a_process("c1"), ttl=600, running={})
    for again in (lease, replace(lease, fence=lease.fence + 1)):
        value = json.dumps({**json.loads(lease.value), "fence": str(again.fence)})
        await raw.hset(store.keys.running, TICKET, value)
        await raw.delete(store.keys.heartbeat(TICKET))
        await raw.set(store.keys.unrenewed(TICKET), f"1 {lease.fence}")
        if again is lease:
            await store.runs.renew(lease, ttl=60)
            await raw.delete(store.keys.heartbeat(TICKET))
        assert await store.runs.look(TICKET, patient=True) is Life.ALIVE


async def test_a_heartbeat_ends_the_doubt(store: Store, raw: Any) -> None:
    lease, _ = await begin(store)
    await raw.delete(store.keys.heartbeat(TICKET))
    assert await store.runs.look(TICKET, patient=True) is Life.SUSPECTED
    await store.runs.renew(lease, ttl=5)
    assert await store.runs.look(TICKET, patient=True) is Life.ALIVE
    assert await store.runs.suspects() == []


async def test_a_ticket_that_nobody_runs_needs_no_patience(store: Store) -> None:
    assert await store.runs.look(TICKET, patient=False) is Life.DEAD
    assert await store.runs.suspects() == []


async def test_an_empty_redis_proves_nothing(store: Store, flush: Flush, settled: Settled) -> None:
    lease, _ = await begin(store)
    await flush()
    assert await store.runs.look(TICKET, patient=False) is Life.SETTLING
    assert await store.runs.look(TICKET, patient=True) is Life.SETTLING
    await store.runs.renew(lease, ttl=5)
    assert await store.runs.look(TICKET, patient=True) is Life.ALIVE, "a lease that was put back needs no waiting"
    await settled()
    assert await store.runs.look(TICKET, patient=True) is Life.ALIVE


async def test_nothing_released_is_dead_while_redis_settles(store: Store, flush: Flush, raw: Any) -> None:
    await flush()
    await raw.zadd(store.keys.released, {TICKET: 1})
    assert await store.runs.look(TICKET, patient=True) is Life.SETTLING


# Stop requests and follow-ups.


async def test_a_stop_that_comes_after_the_end_stops_nobody(store: Store) -> None:
    """Neither when it was meant for the run that has just settled, nor the run that somebody asks for next."""
    lease, payload = await begin(store)
    assert await store.runs.settle(lease, payload, DONE, look_in=0)
    assert not await store.runs.request_stop(TICKET, "cancelled by Ann")
    assert await store.runs.stop_requested(TICKET) is None


async def test_a_stop_survives_the_death_of_its_run(store: Store) -> None:
    """Whoever goes on with the work hears of it."""
    lease, _ = await begin(store)
    assert await store.runs.release_dead(lease, lock_key=store.keys.claim_lock("local", TICKET))
    assert await store.runs.request_stop(TICKET, "cancelled by Ann")
    assert await store.runs.stop_requested(TICKET) == "cancelled by Ann"


async def test_a_stop_request_stands_until_withdrawn_or_settled(store: Store) -> None:
    assert await store.runs.stop_requested(TICKET) is None
    await store.runs.request_stop(TICKET, "cancelled by Ann")
    assert await store.runs.stop_requested(TICKET) == "cancelled by Ann"
    await store.runs.withdraw_stop(TICKET)
    assert await store.runs.stop_requested(TICKET) is None


@pytest.mark.parametrize(("by", "kept"), [("Ann", "Ann"), ("", "someone")])
async def test_a_follow_up_is_noted(store: Store, by: str, kept: str) -> None:
    assert await store.runs.follow_up(TICKET) is None
    await store.runs.note_follow_up(TICKET, by)
    assert await store.runs.follow_up(TICKET) == kept


async def test_the_lease_names_run_consumer_and_fence(store: Store) -> None:
    lease, _ = await begin(store)
    told = json.loads(lease.value)
    assert (told["run"], told["consumer"], told["fence"]) == ("run-1", "c1", str(lease.fence))
