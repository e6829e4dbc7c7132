"""Claiming: one door, every gate with its remedy, and never a second request for one ticket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentsmith.config import Claim, LoopLimit
from agentsmith.domain.errors import TrackerUnavailable
from agentsmith.domain.gates import Gate
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import Claimed, Deferred, Held, NothingToDo, Rejected
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.signal import SignalKind
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access, Forbidden, Limited, Move, MoveOutcome, Unknown
from agentsmith.domain.vetting import OPENING, Deed, DeedKind, History
from agentsmith.store import Store
from agentsmith.tickets.claiming import turned_away
from tests.support.world import TRIGGER, World, open_world, world_config


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url) as world:
        yield world


async def test_a_triggered_ticket_is_enqueued_with_its_text_pinned(world: World) -> None:
    key = await world.open_ticket("keep", title="Crash on start", body="It crashes.")
    outcome = await world.claim(key)
    assert isinstance(outcome, Claimed)
    assert await world.statuses(key) == {Status.ENQUEUED}
    [payload] = await world.queued()
    request = PipelineRequest.from_json(payload)
    assert (request.pipeline, request.run, request.fence) == ("work", outcome.run, outcome.fence)
    assert (request.pinned.title, request.pinned.body) == ("Crash on start", "It crashes.")
    assert {TRIGGER, "keep"} <= (await world.desk.show(key)).ticket.labels
    assert "waiting for a free slot" in (await world.comments(key))[0]


async def test_a_claim_tells_what_every_gate_saw(world: World) -> None:
    outcome = await world.claim(await world.open_ticket())
    assert isinstance(outcome, Claimed)
    assert [result.gate for result in outcome.gates] == list(Gate)
    assert all(result.passed and result.saw for result in outcome.gates)
    assert [result.saw for result in outcome.gates[-2:]] == [
        "not claimed within 1 h, claim.loop_limit is 10",
        "no limit is set",
    ]


async def test_a_second_look_claims_nothing(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    assert isinstance(await world.claim(key), NothingToDo)
    assert len(await world.queued()) == 1


async def test_fifty_looks_at_once_make_one_request(world: World) -> None:
    key = await world.open_ticket()
    outcomes = await asyncio.gather(*(world.claim(key) for _ in range(50)))
    assert sum(isinstance(outcome, Claimed) for outcome in outcomes) == 1
    assert len(await world.queued()) == 1


@pytest.mark.parametrize(
    ("labels", "closed", "gate", "remedy"),
    [
        ((TRIGGER,), True, Gate.OPEN, "reopen"),
        ((), False, Gate.TRIGGER, "add one of: 'agent-smith'"),
        (("agent-smith:pending",), False, Gate.TRIGGER, "add one of"),
        ((TRIGGER, "agent-smith:done"), False, Gate.STATUS, "agentsmith retry"),
        ((TRIGGER, "agent-smith:failed"), False, Gate.STATUS, "remove the label 'agent-smith:failed'"),
        ((TRIGGER, "agent-smith:waiting"), False, Gate.STATUS, "agentsmith retry"),
    ],
)
async def test_a_closed_gate_names_what_it_saw_and_the_remedy(
    world: World, labels: tuple[str, ...], closed: bool, gate: Gate, remedy: str
) -> None:
    key = (await world.desk.new(title="t", labels=labels, actor="mona")).key
    if closed:
        await world.desk.close(key, actor="mona")
    before = (await world.desk.show(key)).ticket
    outcome = await world.claim(key)
    assert isinstance(outcome, Rejected)
    shut = next(result for result in outcome.gates if not result.passed)
    assert (shut.gate, remedy in shut.remedy) == (gate, True)
    assert (await world.desk.show(key)).ticket == before
    assert not await world.queued()


@pytest.mark.parametrize(
    ("setter", "access"),
    [
        (None, Access.WRITE),
        (Actor("9", "renovate", bot=True), Access.WRITE),
        (Actor("8", "passer-by"), Access.READ),
    ],
)
async def test_P7_who_set_the_trigger_is_checked(
    world: World, monkeypatch: pytest.MonkeyPatch, setter: Actor | None, access: Access
) -> None:
    key = await world.open_ticket()

    async def told(_: Ticket, label: str) -> History:
        return History((Deed(DeedKind.LABELLED, setter, OPENING, "1", label),))

    async def access_of(_: Actor) -> Access:
        return access

    monkeypatch.setattr(world.trackers["local"], "history", told)
    monkeypatch.setattr(world.trackers["local"], "access_of", access_of)
    outcome = await world.claim(key)
    assert isinstance(outcome, Rejected)
    assert outcome.gates[-1].gate is Gate.ACTOR
    assert outcome.gates[-1].remedy
    assert await world.statuses(key) == frozenset()


async def test_a_rejected_ticket_is_remembered_until_it_changes(world: World) -> None:
    key = (await world.desk.new(title="t", labels=("agent-smith:done", TRIGGER), actor="mona")).key
    await world.claim(key)
    ticket = (await world.desk.show(key)).ticket
    remembered = turned_away(ticket, world.parts.book.rules)
    assert await world.store.signals.rejected([ticket.id]) == {ticket.id: remembered}


async def test_the_loop_limit_parks_a_ticket(tmp_path: Path, store: Store, redis_url: str) -> None:
    config = world_config(tmp_path / "data", claim=Claim(loop_limit=LoopLimit(claims=2)))
    async with open_world(tmp_path, store, redis_url, config=config) as world:
        key = await world.open_ticket()
        for _ in range(2):
            assert isinstance(await world.claim(key), Claimed)
            await world.run_queue()
            await world.desk.unlabel(key, "agent-smith:done", actor="mona")
        outcome = await world.claim(key)
        assert isinstance(outcome, Rejected)
        assert outcome.gates[-1].gate is Gate.LOOP
        assert outcome.gates[-1].saw == "claimed 2 times within 1 h, claim.loop_limit is 2"
        assert await world.statuses(key) == {Status.WAITING}
        [comment] = await world.comments(key)
        assert "claimed 2 times within 1 h, claim.loop_limit is 2" in comment
        assert "raise claim.loop_limit, or retry after 20" in comment
        assert isinstance(await world.claim(key), Rejected)
        assert not await world.queued()

        # No more than that, whoever asks: a program may well say retry in a person's name.
        await world.parts.looks.on_signal(world.signal(key, kind=SignalKind.RETRY, by="mona"))
        await world.drain_signals()
        assert await world.statuses(key) == {Status.WAITING}
        assert len(await world.comments(key)) == 1

        # What the comment names does help: raising the limit, or time.
        raised = config.model_copy(update={"claim": Claim(loop_limit=LoopLimit(claims=3))})
        world.parts.book.replace(raised)
        await world.desk.unlabel(key, "agent-smith:waiting", actor="mona")
        assert isinstance(await world.claim(key), Claimed)
        await world.run_queue()
        await world.desk.unlabel(key, "agent-smith:done", actor="mona")
        claims = store.keys.claims(world.ticket_id(key))
        long_ago = (time.time() - 3601) * 1e6
        await store.redis.zadd(claims, dict.fromkeys(await store.redis.zrange(claims, 0, -1), long_ago))
        assert isinstance(await world.claim(key), Claimed)


async def test_a_full_house_holds_a_ticket_back_until_there_is_room(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    config = world_config(tmp_path / "data", claim=Claim(capacity=1))
    async with open_world(tmp_path, store, redis_url, config=config) as world:
        first, second = await world.open_ticket(), await world.open_ticket()
        assert isinstance(await world.claim(first), Claimed)
        assert isinstance(await world.claim(second), Held)
        assert await world.statuses(second) == frozenset()
        await world.run_queue()
        assert isinstance(await world.claim(second), Claimed)


async def test_a_label_taken_off_a_queued_ticket_is_put_back(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    await world.desk.unlabel(key, "agent-smith:enqueued", actor="mona")
    assert isinstance(await world.claim(key), NothingToDo)
    assert await world.statuses(key) == {Status.ENQUEUED}
    assert len(await world.queued()) == 1


@pytest.mark.parametrize("how", ["unlabel", "close"])
async def test_a_queued_ticket_that_is_withdrawn_leaves_the_queue(world: World, how: str) -> None:
    key = await world.open_ticket("keep")
    await world.claim(key)
    if how == "unlabel":
        await world.desk.unlabel(key, TRIGGER, actor="mona")
    else:
        await world.desk.close(key, actor="mona")
    await world.claim(key)
    assert await world.statuses(key) == frozenset()
    assert not await world.queued()
    assert "keep" in (await world.desk.show(key)).ticket.labels


async def test_a_retry_makes_a_finished_ticket_pending_and_claims_it(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    await world.run_queue()
    assert await world.statuses(key) == {Status.DONE}
    await world.parts.looks.on_signal(world.signal(key, kind=SignalKind.RETRY, by="mona"))
    assert await world.statuses(key) == {Status.PENDING}
    await world.drain_signals()
    assert await world.statuses(key) == {Status.ENQUEUED}


class Moody:
    """A tracker that answers the next move as told; everything else is the real thing's."""

    def __init__(self, world: World, answer: MoveOutcome, *, write: bool = False) -> None:
        self._real, self._answer, self._write = world.trackers["local"], answer, write
        world.trackers["local"] = self  # type: ignore[assignment]  # delegates all but move

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        if self._write:
            await self._real.move(ticket, move)
        return self._answer


async def test_an_answer_that_was_lost_is_settled_by_reading(world: World) -> None:
    key = await world.open_ticket()
    Moody(world, Unknown("connection reset"), write=True)
    assert isinstance(await world.claim(key), Claimed)
    assert len(await world.queued()) == 1


@pytest.mark.parametrize(
    "answer", [Unknown("reset"), Forbidden("no write access"), Limited(retry_at=4e9, reason="limit")]
)
async def test_a_write_that_did_not_happen_is_tried_again_later(world: World, answer: MoveOutcome) -> None:
    key = await world.open_ticket()
    real = world.trackers["local"]
    Moody(world, answer)
    assert isinstance(await world.claim(key), Deferred)
    assert not await world.queued()
    world.trackers["local"] = real
    assert isinstance(await world.claim(key), Claimed)


async def test_a_tracker_that_is_away_defers_and_never_raises(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    key = await world.open_ticket()

    async def fail(_: str) -> Ticket:
        raise TrackerUnavailable("time-out")

    monkeypatch.setattr(world.trackers["local"], "get", fail)
    outcome = await world.claim(key)
    assert isinstance(outcome, Deferred)
    assert "time-out" in outcome.why
