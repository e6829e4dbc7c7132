"""T16: a comment of its own, beside our sticky one."""

from __future__ import annotations

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import Refused, TicketNotFound, TrackerError
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Applied
from tests.conformance.harness import Fault, Platform
from tests.conformance.steps import ENQUEUED, IN_PROGRESS, MEMO, START, TRIGGER, edge, soon


@pytest.fixture
async def ticket(platform: Platform) -> Ticket:
    """A ticket that somebody has commented on."""
    key = await platform.open_ticket(labels=(TRIGGER,))
    await platform.person_comments(key, "When will it be done?", actor="bob")
    return await platform.tracker.get(key)


@pytest.mark.needs("named_people")
async def test_T16_every_call_is_one_more_comment_by_us(platform: Platform, ticket: Ticket) -> None:
    for text in ("first", "second", "second"):
        await platform.tracker.say(ticket, text, deadline=soon())
    raw = await platform.comments(ticket.key)
    assert [c.author for c in raw[1:]] == ["agentsmith"] * 3
    for said, text in zip(raw[1:], ("first", "second", "second"), strict=True):
        assert text in said.body
    assert await platform.labels(ticket.key) == {TRIGGER}


async def test_T16_it_is_never_taken_for_our_sticky(platform: Platform, ticket: Ticket) -> None:
    await platform.tracker.say(ticket, "before", deadline=soon())
    assert await platform.tracker.read_sticky(ticket) is None
    sticky = await platform.tracker.write_sticky(ticket, "status", MEMO, known=None, deadline=soon())
    await platform.tracker.say(ticket, "after", deadline=soon())
    assert await (await platform.second_tracker()).read_sticky(ticket) == sticky
    assert len(await platform.comments(ticket.key)) == 4


@pytest.mark.parametrize("before", ["", " \n", "\n\n"])
async def test_T16_a_text_that_looks_like_our_sticky_is_not_believed(
    platform: Platform, ticket: Ticket, before: str
) -> None:
    """An agent that repeats what it read on another ticket must not plant a memo under our name."""
    other = await platform.tracker.get(await platform.open_ticket())
    await platform.tracker.write_sticky(other, "the real one", MEMO, known=None, deadline=soon())
    (copied,) = await platform.comments(other.key)
    for text in (copied.body, copied.body.replace("&amp;", "&"), f"{copied.body}\n"):
        await platform.tracker.say(ticket, before + text, deadline=soon())
    assert await (await platform.second_tracker()).read_sticky(ticket) is None
    assert len(await platform.comments(ticket.key)) == 4


@pytest.mark.parametrize("size", ["at the limit", "far beyond"])
async def test_T16_a_long_text_is_cut_to_the_limit(platform: Platform, ticket: Ticket, size: str) -> None:
    limit = platform.capabilities.comment_limit
    await platform.tracker.say(
        ticket, "begin\n" + "x" * (limit - 6 if size == "at the limit" else 10 * limit), deadline=soon()
    )
    raw = (await platform.comments(ticket.key))[1].body
    assert len(raw) <= limit
    assert "begin\nxxxx" in raw


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ünï 漢字 🧵", id="unicode"),
        pytest.param("<!-- --> <script>", id="html"),
        pytest.param("/close\n/label ~x", id="commands"),
        pytest.param("[~mona] {code} !image!", id="wiki"),
        pytest.param("lone \ud800 half, nul \0 byte, \x1b[31m", id="unspeakable"),
        pytest.param("🧵" * 70_000, id="long emoji"),
        pytest.param("", id="nothing"),
        pytest.param(" \n\t", id="blanks"),
    ],
)
async def test_T16_any_text_is_shown_and_nothing_in_it_is_carried_out(
    platform: Platform, ticket: Ticket, text: str
) -> None:
    await platform.tracker.say(ticket, text, deadline=soon())
    assert len(await platform.comments(ticket.key)) == 2
    after = await platform.tracker.get(ticket.key)
    assert after.open
    assert after.labels == {TRIGGER}


async def test_T16_T11_nothing_is_said_after_the_deadline(platform: Platform, ticket: Ticket) -> None:
    before = await platform.writes()
    with pytest.raises(TrackerError) as caught:
        await platform.tracker.say(ticket, "late", deadline=boottime())
    assert caught.value.retryable
    assert await platform.writes() == before


@pytest.mark.needs(Fault.LOST_ANSWER)
async def test_T16_a_lost_answer_raises_and_nothing_is_said_twice(platform: Platform, ticket: Ticket) -> None:
    await platform.inject(Fault.LOST_ANSWER)
    with pytest.raises(TrackerError) as caught:
        await platform.tracker.say(ticket, "once", deadline=soon())
    assert caught.value.retryable
    assert len(await platform.comments(ticket.key)) == 2


@pytest.mark.needs(Fault.FORBIDDEN)
async def test_T16_who_may_not_comment_is_told_so(platform: Platform, ticket: Ticket) -> None:
    await platform.inject(Fault.FORBIDDEN)
    with pytest.raises(Refused) as caught:
        await platform.tracker.say(ticket, "hello", deadline=soon())
    assert not any(secret in str(caught.value) for secret in platform.secrets)


@pytest.mark.needs("deletes")
async def test_T16_a_deleted_ticket_is_not_found(platform: Platform, ticket: Ticket) -> None:
    await platform.delete(ticket.key)
    with pytest.raises(TicketNotFound):
        await platform.tracker.say(ticket, "anybody there?", deadline=soon())


async def test_T16_moves_go_on_after_it(platform: Platform) -> None:
    """A comment changes the ticket's revision; the next edge must still be published from what the caller holds."""
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(TRIGGER, ENQUEUED)))
    await platform.tracker.say(ticket, "hello", deadline=soon())
    moved = await platform.tracker.move(ticket, edge(*START))
    assert isinstance(moved, Applied)
    await platform.tracker.say(moved.ticket, "started", deadline=soon())
    done = await platform.tracker.move(moved.ticket, edge(Status.IN_PROGRESS, Status.DONE))
    assert isinstance(done, Applied)
    assert IN_PROGRESS not in await platform.labels(ticket.key)
