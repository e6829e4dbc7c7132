"""Why it did or did not run: looks that saw the same are one line, and the ledger is bounded."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from agentsmith.domain.gates import Gate, GateResult
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import OutcomeName
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import TicketId
from agentsmith.store import Store
from agentsmith.store.keys import HOUR_MS
from tests.support.stores import an_edge

TICKET = TicketId("local/tickets#1")
SHUT = GateResult(Gate.TRIGGER, False, 'no label "x" %d {} \\ \u2028', "add one of: 'agent-smith'")


async def note(store: Store, at: float, why: str = "", cause: str = "poll") -> None:
    await store.looks.note(TICKET, at=at, cause=cause, outcome=OutcomeName.REJECTED, why=why, gates=[SHUT])


async def end(store: Store, status: Status = Status.DONE) -> None:
    intent = Intent(TICKET, "local", "1", 7, an_edge(Status.IN_PROGRESS, status), "run-1", outcome="done")
    wake = Signal("local", "1", TICKET, cause="test")
    assert await store.intents.published(intent, status, wake=wake, wake_now=False, fresh_start=True)


async def test_what_was_seen_is_told_again(store: Store) -> None:
    await note(store, 12.5, "because")
    [look] = await store.looks.of(TICKET)
    assert (look.first, look.last, look.cause, look.outcome, look.why) == (12.5, 12.5, "poll", "Rejected", "because")
    assert look.gates == (SHUT,)


async def test_the_same_seen_again_moves_only_its_time(store: Store) -> None:
    for at in (1.0, 2.0, 3.0):
        await note(store, at)
    await note(store, 4.0, "something else")
    await note(store, 5.0)
    assert [(look.first, look.last) for look in await store.looks.of(TICKET)] == [(1, 3), (4, 4), (5, 5)]


async def test_only_the_latest_are_kept(store: Store) -> None:
    for at in range(50):
        await note(store, at, why=str(at))
    looks = await store.looks.of(TICKET)
    assert [look.why for look in looks] == [str(at) for at in range(20, 50)]


async def test_an_unknown_ticket_has_no_reasons(store: Store) -> None:
    assert await store.looks.of(TicketId("local/tickets#404")) == []


async def test_nothing_that_was_seen_is_stored_twice(store: Store) -> None:
    await note(store, 1.0, why="w" * 500)
    [entry] = await store.redis.lrange(store.keys.reasons(TICKET), 0, -1)
    assert entry.count("w" * 500) == 1


async def test_an_entry_of_an_older_release_is_read(store: Store, raw: Redis) -> None:
    old = '{"last":2.000,"first":1.000,"cause":"poll","outcome":"Rejected","why":"","gates":[],"same":"[]"}'
    await store.redis.rpush(store.keys.reasons(TICKET), old)
    await raw.pexpire(store.keys.reasons(TICKET), 1000)
    await note(store, 3.0)
    assert [(look.first, look.last) for look in await store.looks.of(TICKET)] == [(1, 2), (3, 3)]


@pytest.mark.parametrize("status", [Status.DONE, Status.FAILED])
async def test_of_a_ticket_that_ended_the_account_is_kept_for_an_hour_and_its_end_for_longer(
    store: Store, raw: Redis, status: Status
) -> None:
    account, seen = store.keys.reasons(TICKET), GateResult(Gate.STATUS, False, "it is done")
    await note(store, 1.0)
    await end(store, status)
    assert 0 < await raw.pttl(account) <= HOUR_MS
    # Looks that see nothing but the end do not prolong it.
    await store.looks.note(TICKET, at=2.0, cause="webhook", outcome=OutcomeName.REJECTED, why="", gates=[seen])
    assert 0 < await raw.pttl(account) <= HOUR_MS
    await store.redis.delete(account)
    [look] = await store.looks.of(TICKET)
    assert (look.outcome, look.why, look.gates) == ("Ended", status.value, ())
    assert look.last > 1_000_000_000


async def test_who_wants_it_again_is_told_about_for_as_long_as_anybody(store: Store, raw: Redis) -> None:
    account = store.keys.reasons(TICKET)
    await end(store)
    await note(store, 3.0)
    assert await raw.pttl(account) > HOUR_MS
    await store.looks.note(TICKET, at=4.0, cause="poll", outcome=OutcomeName.CLAIMED, why="", gates=[])
    assert await store.redis.get(store.keys.last_word(TICKET)) is None
