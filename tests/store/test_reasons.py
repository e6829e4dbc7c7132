"""Why it did or did not run: looks that saw the same are one line, and the ledger is bounded."""

from __future__ import annotations

from agentsmith.domain.gates import Gate, GateResult
from agentsmith.domain.ticket import TicketId
from agentsmith.store import Store

TICKET = TicketId("local/tickets#1")
SHUT = GateResult(Gate.TRIGGER, False, 'no label "x" %d {} \\ \u2028', "add one of: 'agent-smith'")


async def note(store: Store, at: float, why: str = "", cause: str = "poll") -> None:
    await store.reasons.note(TICKET, at=at, cause=cause, outcome="Rejected", why=why, gates=[SHUT])


async def test_what_was_seen_is_told_again(store: Store) -> None:
    await note(store, 12.5, "because")
    [look] = await store.reasons.of(TICKET)
    assert (look.first, look.last, look.cause, look.outcome, look.why) == (12.5, 12.5, "poll", "Rejected", "because")
    assert look.gates == (SHUT,)


async def test_the_same_seen_again_moves_only_its_time(store: Store) -> None:
    for at in (1.0, 2.0, 3.0):
        await note(store, at)
    await note(store, 4.0, "something else")
    await note(store, 5.0)
    assert [(look.first, look.last) for look in await store.reasons.of(TICKET)] == [(1, 3), (4, 4), (5, 5)]


async def test_only_the_latest_are_kept(store: Store) -> None:
    for at in range(50):
        await note(store, at, why=str(at))
    looks = await store.reasons.of(TICKET)
    assert [look.why for look in looks] == [str(at) for at in range(20, 50)]


async def test_an_unknown_ticket_has_no_reasons(store: Store) -> None:
    assert await store.reasons.of(TicketId("local/tickets#404")) == []
