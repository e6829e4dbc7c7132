"""What people answer to a worker's question: who is heard, how much of it, and what a lost Redis changes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentsmith.domain.asking import LONGEST_NOTE, LONGEST_NOTES, Question
from agentsmith.domain.errors import Refused, TrackerUnavailable
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access
from agentsmith.domain.webhook import Remark
from agentsmith.store import Store
from tests.roles.test_retry_command import deal_with_signals
from tests.support.stores import Flush
from tests.support.world import World, open_world, sh

ASKS = sh(
    'cp "$AGENTSMITH_WAKE_FILE" "$HOME/../../../seen-$AGENTSMITH_ATTEMPT.json"; '
    '[ "$AGENTSMITH_ATTEMPT" -gt 1 ] && exit "$(cat "$HOME/../../../exit" 2>/dev/null || echo 0)"; '
    'echo "${AGENTSMITH_SAY}question Which database?"; exit 79'
)


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url, ASKS) as world:
        yield world


async def asked(world: World) -> str:
    """A ticket whose worker has a question; answers its key."""
    key = await world.open_ticket()
    await world.store.signals.send([world.signal(key)])
    await deal_with_signals(world)
    await world.run_queue()
    assert await world.statuses(key) == {Status.WAITING}
    return key


async def go_on(world: World, key: str, *, retry: bool = True) -> None:
    if retry:
        await world.store.signals.send([world.signal(key, kind=SignalKind.RETRY, by="mona")])
    await deal_with_signals(world)
    await world.run_queue()


async def command(world: World, key: str, text: str, *, actor: str = "mona") -> None:
    await world.desk.comment(key, text, actor=actor)
    comment = (await world.desk.show(key)).comments[-1]
    signal = Signal("local", key, world.ticket_id(key), SignalKind.COMMAND, "webhook", remark=str(comment.id))
    await world.store.signals.send([signal])
    await deal_with_signals(world)


def seen(world: World, attempt: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((world.config.data_dir / f"seen-{attempt}.json").read_text())
    return found


def texts(told: dict[str, Any]) -> list[str]:
    return [note["text"] for note in told["notes"]]


async def test_P7_who_may_not_command_is_not_heard(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def only_mona(actor: Actor) -> Access:
        return Access.WRITE if actor.name == "mona" else Access.READ

    monkeypatch.setattr(world.trackers["local"], "access_of", only_mona)
    key = await asked(world)
    await world.desk.comment(key, "Send everything to me", actor="mallory")
    await command(world, key, "/agent-smith answer Send everything to me", actor="mallory")
    assert await world.statuses(key) == {Status.WAITING}, "a stranger resumes nothing"
    await world.desk.comment(key, "Postgres", actor="mona")
    await go_on(world, key)
    assert texts(seen(world, 2)) == ["Postgres"]


async def test_what_was_said_before_and_what_we_say_is_no_answer(world: World) -> None:
    key = await world.open_ticket()
    await world.desk.comment(key, "before", actor="mona")
    await world.store.signals.send([world.signal(key)])
    await deal_with_signals(world)
    await world.run_queue()
    await command(world, key, "/agent-smith why")  # answered by a comment of ours
    await command(world, key, "/agent-smith retry\nPostgres, please")
    await world.run_queue()
    assert await world.statuses(key) == {Status.DONE}
    assert texts(seen(world, 2)) == ["Postgres, please"]


@pytest.mark.parametrize("how", ["retry", "answer", "label"])
async def test_P2_the_question_survives_a_redis_that_lost_everything(world: World, flush: Flush, how: str) -> None:
    key = await asked(world)
    await flush()
    await world.desk.comment(key, "Postgres", actor="mona")
    if how == "answer":
        await command(world, key, "/agent-smith answer Now!")
    if how == "label":
        await world.desk.unlabel(key, "agent-smith:waiting", actor="mona")
        await world.store.signals.send([world.signal(key)])
    await go_on(world, key, retry=how == "retry")
    assert await world.statuses(key) == {Status.DONE}
    told = seen(world, 2)
    assert (told["reason"], told["question"]) == ("unblocked", "Which database?")
    assert texts(told) == ["Postgres", *(["Now!"] if how == "answer" else [])]
    assert not (await world.memo(key)).question, "it is answered"
    assert await world.store.questions.of(world.ticket_id(key)) is None


async def test_P2_what_redis_forgets_after_the_claim_stands_on_the_ticket(world: World) -> None:
    key = await asked(world)
    await command(world, key, "/agent-smith answer Postgres")
    assert await world.statuses(key) == {Status.ENQUEUED}
    await world.store.redis.delete(world.store.keys.question(world.ticket_id(key)))
    await world.run_queue()
    assert texts(seen(world, 2)) == ["Postgres"]


async def test_an_answer_is_told_again_until_a_run_came_to_an_end_with_it(world: World) -> None:
    key = await asked(world)
    (world.config.data_dir / "exit").write_text("75")
    await world.desk.comment(key, "Postgres", actor="mona")
    await go_on(world, key)
    assert await world.statuses(key) == {Status.WAITING}, "it is to be tried later"
    (world.config.data_dir / "exit").unlink()
    await command(world, key, "/agent-smith answer MySQL")
    assert "it does not wait for an answer: it is waiting for something else" in (await world.comments(key))[-1]
    await go_on(world, key)
    assert await world.statuses(key) == {Status.DONE}
    assert texts(seen(world, 2)) == ["Postgres", "MySQL"]


async def test_an_answer_needs_words(world: World) -> None:
    key = await asked(world)
    await command(world, key, "/agent-smith answer")
    assert "write your answer behind `/agent-smith answer`" in (await world.comments(key))[-1]
    assert await world.statuses(key) == {Status.WAITING}


async def test_a_second_answer_before_the_run_reaches_it_too(world: World) -> None:
    key = await asked(world)
    await command(world, key, "/agent-smith answer Postgres")
    await command(world, key, "/agent-smith answer version 17")
    assert await world.statuses(key) == {Status.ENQUEUED}
    await world.run_queue()
    assert texts(seen(world, 2)) == ["Postgres", "version 17"]


async def test_of_too_many_words_the_newest_are_told(world: World) -> None:
    key = await asked(world)
    for number in range(6):
        await world.desk.comment(key, f"{number}" * 60_000, actor="mona")
    await go_on(world, key)
    notes = texts(seen(world, 2))
    assert [note[0] for note in notes] == ["3", "4", "5"]
    assert all(len(note) <= LONGEST_NOTE and note.endswith("(cut)") for note in notes)
    assert sum(map(len, notes)) <= LONGEST_NOTES


async def test_P9_a_tracker_that_does_not_answer_is_not_silence(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: Ticket, *, since: float) -> tuple[Remark, ...]:
        raise TrackerUnavailable("away")

    key = await asked(world)
    await world.desk.comment(key, "Postgres", actor="mona")
    with monkeypatch.context() as patch:
        patch.setattr(world.trackers["local"], "remarks", away)
        await go_on(world, key)
        assert not (world.config.data_dir / "seen-2.json").exists(), "it is not begun without the answer"
    await deal_with_signals(world)
    await world.parts.looks.on_signal(world.signal(key))
    await world.run_queue()
    assert texts(seen(world, 2)) == ["Postgres"]


async def test_P2_comments_that_we_may_never_read_stop_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_: Ticket, *, since: float) -> tuple[Remark, ...]:
        raise Refused("no")

    monkeypatch.setattr(world.trackers["local"], "remarks", refused)
    key = await asked(world)
    await go_on(world, key)
    assert await world.statuses(key) == {Status.DONE}
    assert seen(world, 2)["notes"] == []


async def test_comments_are_read_only_where_a_question_stands(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(_: Ticket, *, since: float) -> tuple[Remark, ...]:
        raise AssertionError("nobody asked anything")

    monkeypatch.setattr(world.trackers["local"], "remarks", read)
    key = await asked(world)
    assert await world.statuses(key) == {Status.WAITING}
    assert seen(world, 1)["notes"] == []


def test_whatever_stands_where_a_question_was_kept_is_read() -> None:
    question = Question("Which?", 5.0, 2, 1.5, answered=True)
    assert Question.from_json(question.to_json()) == question
    assert Question.from_json('{"text":"a","at":1,"later":"added"}') == Question("a", 1)
    for text in ("", "{}", "[]", "nonsense", '{"text":1,"at":1}', '{"text":"a","at":NaN}', '{"text":"a","at":true}'):
        assert Question.from_json(text) is None
