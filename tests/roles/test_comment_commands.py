"""Commands in comments: obeyed once, for people who may, and on what the comment says now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.errors import Refused, TrackerUnavailable
from agentsmith.domain.gates import Gate
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import Deferred, LookOutcome, NothingToDo, Rejected, WouldClaim
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access
from agentsmith.intake.comment_commands import CommentCommands
from agentsmith.store import Seen, Store
from tests.support.world import TRIGGER, World, open_world


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url) as world:
        yield world


async def says(world: World, key: str, text: str, *, actor: str = "mona") -> Signal:
    """Somebody comments; answers the signal that a webhook would be."""
    await world.desk.comment(key, text, actor=actor)
    comment = (await world.desk.show(key)).comments[-1]
    return Signal("local", key, world.ticket_id(key), SignalKind.COMMAND, "webhook", remark=str(comment.id))


async def obey(world: World, signal: Signal) -> LookOutcome:
    return await world.parts.commands.carry_out(signal)


async def signals(world: World) -> list[Signal]:
    return [Signal.from_json(text) for text in await world.store.redis.lrange(world.store.keys.inbox, 0, -1)]


async def test_retry_runs_a_ticket_again_and_says_by_whom(world: World) -> None:
    key = await world.open_ticket("agent-smith:failed")
    outcome = await obey(world, await says(world, key, "/agent-smith retry\nthe server is back"))
    assert isinstance(outcome, NothingToDo)
    [signal] = await signals(world)
    assert (signal.kind, signal.by, signal.cause) == (SignalKind.RETRY, "mona", "retried by mona")
    await world.drain_signals()
    await world.drain_signals()
    assert await world.statuses(key) == {Status.ENQUEUED}
    # The built-in tracker has no reactions: a short comment answers, once.
    assert sum("it will run again" in text for text in await world.comments(key)) == 1


async def test_a_command_is_never_run_twice(world: World) -> None:
    key = await world.open_ticket("agent-smith:failed")
    signal = await says(world, key, "/agent-smith retry")
    await obey(world, signal)
    before = await world.comments(key)
    again = await obey(world, signal)
    assert isinstance(again, NothingToDo)
    assert "before" in again.why
    assert len(await signals(world)) == 1
    assert await world.comments(key) == before


async def test_a_command_whose_process_died_in_the_middle_is_carried_out(world: World) -> None:
    key = await world.open_ticket("agent-smith:failed")
    signal = await says(world, key, "/agent-smith retry")
    assert await world.store.seen_commands.begin("local", signal.remark) is Seen.NEW
    await obey(world, signal)
    assert len(await signals(world)) == 1
    assert await world.store.seen_commands.begin("local", signal.remark) is Seen.DONE


async def test_a_retry_that_cannot_be_says_why(world: World) -> None:
    key = (await world.desk.new(title="t", labels=("agent-smith:done",), actor="mona")).key
    await obey(world, await says(world, key, "/agent-smith retry"))
    assert not await signals(world)
    assert "no trigger label is on the ticket" in (await world.comments(key))[-1]


async def test_cancel_takes_a_ticket_off_the_queue(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    await obey(world, await says(world, key, "/agent-smith cancel"))
    assert await world.statuses(key) == {Status.FAILED}
    assert not await world.queued()
    assert any("cancelled by mona" in text for text in await world.comments(key))


async def test_cancel_stops_a_run(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    payload = await world.store.queue.take(world.process.name, wait=1)
    assert payload is not None
    from agentsmith.domain.request import PipelineRequest

    request = PipelineRequest.from_json(payload)
    await world.store.runs.acquire(request, payload, consumer=world.process.name, ttl=60, max_deliveries=3)
    await obey(world, await says(world, key, "/agent-smith cancel"))
    assert await world.store.runs.stop_requested(world.ticket_id(key)) == StopReason.cancelled_by("mona")


async def test_cancel_of_nothing_says_so(world: World) -> None:
    key = await world.open_ticket("agent-smith:done")
    await obey(world, await says(world, key, "/agent-smith cancel"))
    assert "nothing to cancel" in (await world.comments(key))[-1]
    assert await world.store.runs.stop_requested(world.ticket_id(key)) is None


async def test_why_answers_on_the_ticket(world: World) -> None:
    key = await world.open_ticket("agent-smith:done")
    await world.store.signals.send([world.signal(key)])
    payload = await world.store.signals.take(world.process.name, wait=1)
    assert payload is not None
    await world.intake._deal_with(payload)
    await obey(world, await says(world, key, "/agent-smith why"))
    answer = (await world.comments(key))[-1]
    assert "status is pending: **no**: it is done" in answer
    assert "remove the label 'agent-smith:done'" in answer
    assert "loop limit: not looked at" in answer


async def test_why_of_what_nobody_looked_at_is_unknown(world: World) -> None:
    key = (await world.desk.new(title="t", actor="mona")).key
    await obey(world, await says(world, key, "/agent-smith why"))
    assert "unknown" in (await world.comments(key))[-1]


async def test_an_unknown_word_is_told_what_there_is(world: World) -> None:
    key = await world.open_ticket()
    await obey(world, await says(world, key, "/agent-smith dance"))
    assert "retry, answer, cancel, why" in (await world.comments(key))[-1]


async def test_P7_a_stranger_gets_neither_obedience_nor_an_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def only_reads(_: Actor) -> Access:
        return Access.READ

    monkeypatch.setattr(world.trackers["local"], "access_of", only_reads)
    key = await world.open_ticket("agent-smith:failed")
    signal = await says(world, key, "/agent-smith retry", actor="mallory")
    before = await world.comments(key)
    outcome = await obey(world, signal)
    assert isinstance(outcome, Rejected)
    assert outcome.gates[0].gate is Gate.ACTOR
    assert "'mallory' wrote '/agent-smith retry' and has read access" in outcome.gates[0].saw
    assert not await signals(world)
    assert await world.comments(key) == before


async def test_P7_a_comment_is_read_again_before_it_is_believed(world: World) -> None:
    key = await world.open_ticket("agent-smith:failed")
    other = await world.open_ticket()
    elsewhere = await says(world, other, "/agent-smith retry")
    harmless = await says(world, key, "What about a retry?")
    forged = [
        harmless,  # a webhook may say that it was a command
        Signal("local", key, world.ticket_id(key), SignalKind.COMMAND, remark="4711"),
        Signal("local", key, world.ticket_id(key), SignalKind.COMMAND, remark=elsewhere.remark),
    ]
    for signal in forged:
        assert isinstance(await obey(world, signal), NothingToDo)
    assert not await signals(world)


async def test_a_reaction_is_all_that_is_said_where_there_are_reactions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reacts(_: Ticket, __: str, *, deadline: float) -> Acknowledged:
        return Acknowledged.NOW

    monkeypatch.setattr(world.trackers["local"], "acknowledge", reacts)
    key = await world.open_ticket("agent-smith:failed")
    signal = await says(world, key, "/agent-smith retry")
    before = await world.comments(key)
    await obey(world, signal)
    assert len(await signals(world)) == 1
    assert await world.comments(key) == before


async def test_what_redis_forgot_the_reaction_remembers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def reacted(_: Ticket, __: str, *, deadline: float) -> Acknowledged:
        return Acknowledged.BEFORE

    monkeypatch.setattr(world.trackers["local"], "acknowledge", reacted)
    key = await world.open_ticket("agent-smith:failed")
    outcome = await obey(world, await says(world, key, "/agent-smith retry"))
    assert isinstance(outcome, NothingToDo)
    assert "before" in outcome.why
    assert not await signals(world)


async def test_whoever_may_not_react_obeys_none_the_less(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_: Ticket, __: str, *, deadline: float) -> Acknowledged:
        raise Refused("reactions are not for you")

    monkeypatch.setattr(world.trackers["local"], "acknowledge", refused)
    key = await world.open_ticket("agent-smith:failed")
    await obey(world, await says(world, key, "/agent-smith retry"))
    assert len(await signals(world)) == 1


async def test_a_tracker_that_is_away_is_asked_again_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    key = await world.open_ticket("agent-smith:failed")
    signal = await says(world, key, "/agent-smith retry")

    async def away(_: Ticket, __: str, *, deadline: float) -> Acknowledged:
        raise TrackerUnavailable("connection refused")

    with monkeypatch.context() as patched:
        patched.setattr(world.trackers["local"], "acknowledge", away)
        assert isinstance(await obey(world, signal), Deferred)
        assert not await signals(world)
    assert isinstance(await obey(world, signal), NothingToDo)
    assert len(await signals(world)) == 1


async def test_a_shadow_obeys_nothing(world: World) -> None:
    key = await world.open_ticket("agent-smith:failed", TRIGGER)
    commands = CommentCommands(world.store, world.trackers, world.parts.looks, world.parts.rules, shadow=True)
    signal = await says(world, key, "/agent-smith retry")
    before = await world.comments(key)
    assert isinstance(await commands.carry_out(signal), WouldClaim)
    assert not await signals(world)
    assert await world.comments(key) == before


async def strangers(world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ticket that a stranger changed after its trigger was set."""

    async def access_of(actor: Actor) -> Access:
        return {"mallory": Access.READ, "gil": Access.TRIAGE}.get(actor.name, Access.WRITE)

    monkeypatch.setattr(world.trackers["local"], "access_of", access_of)
    key = await world.open_ticket("agent-smith:failed")
    await world.desk.edit(key, body="mine", actor="mallory")
    return key


async def test_P7_a_retry_by_comment_vets_the_text_that_its_author_saw(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await strangers(world, monkeypatch)
    await obey(world, await says(world, key, "/agent-smith retry"))
    await world.drain_signals()
    await world.drain_signals()
    assert await world.statuses(key) == {Status.ENQUEUED}


async def test_P7_text_that_was_changed_after_the_comment_was_not_seen_by_its_author(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await strangers(world, monkeypatch)
    signal = await says(world, key, "/agent-smith retry")
    await world.desk.edit(key, body="and more", actor="mallory")
    await obey(world, signal)
    assert await signals(world) == []
    assert "'mallory' changed the text" in (await world.comments(key))[-1]
    assert await world.statuses(key) == {Status.FAILED}


@pytest.mark.parametrize(("setter", "runs"), [("lisa", True), ("gil", False)])
async def test_P7_a_trigger_that_was_set_after_the_comment_does_not_hide_what_was_changed_before(
    world: World, monkeypatch: pytest.MonkeyPatch, setter: str, runs: bool
) -> None:
    """The history begins with the trigger: then only whoever set it has seen the text."""
    key = await strangers(world, monkeypatch)
    signal = await says(world, key, "/agent-smith retry")
    await world.desk.edit(key, body="and more", actor="mallory")
    await world.desk.unlabel(key, TRIGGER, actor=setter)
    await world.desk.label(key, TRIGGER, actor=setter)
    await obey(world, signal)
    assert len(await signals(world)) == runs
    if not runs:
        assert "'gil' set 'agent-smith'" in (await world.comments(key))[-1]


@pytest.mark.parametrize("text", ["/agent-smith retry", "  \n/agent-smith cancel"])
async def test_P7_what_an_agent_said_is_no_command_where_we_share_a_persons_account(
    world: World, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """`comment: "{{ summary }}"` posts it under our name, which here is that of somebody who may."""

    async def access_of(_: Actor) -> Access:
        return Access.ADMIN

    tracker = world.trackers["local"]
    monkeypatch.setattr(tracker, "access_of", access_of)
    monkeypatch.setattr("agentsmith.trackers.local.tracker.ME", Actor("mona", "mona"))
    key = await world.open_ticket("agent-smith:failed")
    await tracker.say(await tracker.get(key), text, deadline=float("inf"))
    comment = (await world.desk.show(key)).comments[-1]
    assert comment.author.name == "mona"
    signal = Signal("local", key, world.ticket_id(key), SignalKind.COMMAND, "webhook", remark=str(comment.id))
    outcome = await obey(world, signal)
    assert isinstance(outcome, NothingToDo)
    assert outcome.why == "the comment is no command"
    assert await signals(world) == []
