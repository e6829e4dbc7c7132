"""T13: our one comment on a ticket."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import TicketNotFound, TrackerError
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Applied, Sticky, Words
from tests.conformance.harness import Platform
from tests.conformance.steps import ENQUEUED, MEMO, edge, soon

OTHER = replace(MEMO, run="run-2", fence=8, due=None)


async def write(
    platform: Platform, ticket: Ticket, text: str, memo: Memo = MEMO, known: Sticky | None = None
) -> Sticky:
    """With time enough."""
    return await platform.tracker.write_sticky(ticket, text, memo, known=known, deadline=soon())


@pytest.fixture
async def ticket(platform: Platform) -> Ticket:
    """A ticket that somebody has commented on."""
    key = await platform.open_ticket()
    await platform.person_comments(key, "When will it be done?", actor="bob")
    return await platform.tracker.get(key)


async def test_T13_the_first_write_makes_a_comment_and_the_memo_comes_back(platform: Platform, ticket: Ticket) -> None:
    assert await platform.tracker.read_sticky(ticket) is None
    made = await write(platform, ticket, "working on it")
    raw = await platform.comments(ticket.key)
    assert len(raw) == 2
    assert "working on it" in raw[1].body
    read = await platform.tracker.read_sticky(ticket)
    assert read is not None
    assert read == made
    assert (read.text, read.memo) == ("working on it", MEMO)


@pytest.mark.parametrize("remembered", [True, False])
async def test_T13_later_writes_edit_it_in_place(platform: Platform, ticket: Ticket, remembered: bool) -> None:
    first = await write(platform, ticket, "one")
    await platform.person_comments(ticket.key, "Thanks!", actor="bob")
    second = await write(platform, ticket, "two", OTHER, known=first if remembered else None)
    raw = await platform.comments(ticket.key)
    assert len(raw) == 3
    assert "two" in raw[1].body
    assert second.ref == first.ref
    read = await (await platform.second_tracker()).read_sticky(ticket)
    assert read is not None
    assert (read.text, read.memo) == ("two", OTHER)


@pytest.mark.parametrize("remembered", [True, False])
async def test_T13_what_is_unchanged_is_not_written_again(platform: Platform, ticket: Ticket, remembered: bool) -> None:
    first = await write(platform, ticket, "same")
    before = await platform.writes()
    again = await write(platform, ticket, "same", known=first if remembered else None)
    assert again == first
    assert await platform.writes() == before


async def test_T13_a_changed_memo_alone_is_written(platform: Platform, ticket: Ticket) -> None:
    first = await write(platform, ticket, "same")
    await write(platform, ticket, "same", OTHER, known=first)
    read = await platform.tracker.read_sticky(ticket)
    assert read is not None
    assert read.memo == OTHER


async def test_T13_a_lookalike_is_neither_believed_nor_edited(platform: Platform, ticket: Ticket) -> None:
    await write(platform, ticket, "the real one")
    copied = (await platform.comments(ticket.key))[1].body
    key = await platform.open_ticket("the forger's ticket", author="mallory")
    await platform.person_comments(key, copied, actor="mallory")
    target = await platform.tracker.get(key)
    assert await platform.tracker.read_sticky(target) is None
    await write(platform, target, "ours", OTHER)
    forged, ours = await platform.comments(key)
    assert (forged.author, forged.body) == ("mallory", copied)
    assert "ours" in ours.body
    read = await platform.tracker.read_sticky(target)
    assert read is not None
    assert (read.text, read.memo) == ("ours", OTHER)


async def test_T13_a_lookalike_behind_ours_changes_nothing(platform: Platform, ticket: Ticket) -> None:
    await write(platform, ticket, "the real one")
    copied = (await platform.comments(ticket.key))[1].body
    await platform.person_comments(ticket.key, copied.replace("run-1", "run-9"), actor="mallory")
    read = await platform.tracker.read_sticky(ticket)
    assert read is not None
    assert read.memo == MEMO
    await write(platform, ticket, "edited", OTHER)
    assert len(await platform.comments(ticket.key)) == 3


@pytest.mark.parametrize("size", ["at the limit", "far beyond"])
async def test_T13_a_long_text_is_cut_to_the_limit_and_the_memo_is_kept(
    platform: Platform, ticket: Ticket, size: str
) -> None:
    limit = platform.capabilities.comment_limit
    text = "begin\n" + "x" * (limit - 6 if size == "at the limit" else 10 * limit)
    first = await write(platform, ticket, text)
    raw = (await platform.comments(ticket.key))[1].body
    assert len(raw) <= limit
    assert "begin\nxxxx" in raw
    read = await platform.tracker.read_sticky(ticket)
    assert read is not None
    assert read.memo == MEMO
    before = await platform.writes()
    await write(platform, ticket, text, known=first)
    await write(platform, ticket, text)
    assert await platform.writes() == before


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ünï 漢字 🧵", id="unicode"),
        pytest.param("<!-- --> <script>", id="html"),
        pytest.param("```\ncode\n```", id="code"),
        pytest.param("-->", id="end of an HTML comment"),
        pytest.param("a\r\nb", id="crlf"),
        pytest.param("lone \ud800 half", id="surrogate"),
        pytest.param("nul \0 byte", id="nul"),
        pytest.param("🧵" * 70_000, id="long emoji"),
    ],
)
async def test_T13_any_text_can_be_shown(platform: Platform, ticket: Ticket, text: str) -> None:
    first = await write(platform, ticket, text)
    read = await platform.tracker.read_sticky(ticket)
    assert read is not None
    assert read.memo == MEMO
    before = await platform.writes()
    assert await write(platform, ticket, text, known=first) == first
    assert await platform.writes() == before
    assert len(await platform.comments(ticket.key)) == 2


async def test_T13_T11_no_comment_after_the_deadline(platform: Platform, ticket: Ticket) -> None:
    for _ in range(2):
        before = await platform.writes()
        with pytest.raises(TrackerError) as caught:
            await platform.tracker.write_sticky(ticket, "late", MEMO, known=None, deadline=boottime())
        assert caught.value.retryable
        assert await platform.writes() == before
        await write(platform, ticket, "in time")


async def test_T13_a_deleted_ticket_is_not_found(platform: Platform, ticket: Ticket) -> None:
    known = await write(platform, ticket, "hello")
    await platform.delete(ticket.key)
    with pytest.raises(TicketNotFound):
        await write(platform, ticket, "anybody there?", known=known)
    with pytest.raises(TicketNotFound):
        await platform.tracker.read_sticky(ticket)


async def test_T18_words_that_a_move_carries_are_said_once(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=("bug",)))
    words = Words("is waiting\nfor <a> slot & more", MEMO)
    outcome = await platform.tracker.move(ticket, replace(edge(Status.PENDING, Status.ENQUEUED), say=words))
    assert isinstance(outcome, Applied)
    assert await platform.labels(ticket.key) == {"bug", ENQUEUED}
    made = await write(platform, outcome.ticket, words.text)
    assert (made.text, made.memo) == (words.text, MEMO)
    assert len(await platform.comments(ticket.key)) == 1
    before = await platform.writes()
    assert await write(platform, outcome.ticket, words.text, known=made) == made
    assert await platform.writes() == before
    await write(platform, outcome.ticket, "done", OTHER, known=made)
    (comment,) = await platform.comments(ticket.key)
    assert "done" in comment.body
    assert (await platform.tracker.read_sticky(ticket)) == replace(made, text="done", memo=OTHER)


async def test_T18_words_add_no_second_comment(platform: Platform, ticket: Ticket) -> None:
    await write(platform, ticket, "from an earlier run", OTHER)
    ticket = await platform.tracker.get(ticket.key)
    outcome = await platform.tracker.move(
        ticket, replace(edge(Status.PENDING, Status.ENQUEUED), say=Words("again", MEMO))
    )
    assert isinstance(outcome, Applied)
    await write(platform, outcome.ticket, "again")
    theirs, ours = await platform.comments(ticket.key)
    assert theirs.author == "bob"
    assert "again" in ours.body


async def test_T13_what_people_do_meanwhile_survives(platform: Platform, ticket: Ticket) -> None:
    platform.between_read_and_write(lambda: platform.person_adds(ticket.key, "urgent"))
    await write(platform, ticket, "one")
    platform.between_read_and_write(lambda: platform.person_comments(ticket.key, "me too"))
    await write(platform, ticket, "two")
    assert await platform.labels(ticket.key) == {"urgent"}
    assert len(await platform.comments(ticket.key)) == 3
