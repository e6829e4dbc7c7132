"""T1 to T3, T14, T15, and who did it: reading tickets, naming them, and failing honestly."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.boottime import boottime
from agentsmith.domain.errors import (
    BadAnswer,
    RateLimited,
    Refused,
    TicketNotFound,
    TrackerError,
    TrackerUnavailable,
    Unauthorized,
)
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import Access, Applied, Forbidden, Limited, Unknown
from tests.conformance.harness import Fault, Platform
from tests.conformance.steps import ENQUEUED, IN_PROGRESS, MEMO, START, TRIGGER, edge, found, soon

needs = pytest.mark.needs

UNICODE = "Ünïcode — 漢字 🧵 <b>&amp;</b> `$(touch x)` \u202edlrow"


@pytest.mark.needs("named_people")
async def test_T1_get_reads_everything_that_a_ticket_has(platform: Platform) -> None:
    key = await platform.open_ticket("Fix the door", "It squeaks.", (TRIGGER, "bug"), author="bob")
    ticket = await platform.tracker.get(key)
    assert (ticket.key, ticket.tracker) == (key, platform.tracker.name)
    assert ticket.id == platform.tracker.ticket_id(key)
    assert (ticket.title, ticket.body, ticket.author) == ("Fix the door", "It squeaks.", "bob")
    assert ticket.labels == {TRIGGER, "bug"}
    assert ticket.open
    assert not ticket.pull_request
    assert ticket.revision
    assert ticket.url
    assert ticket.updated_at is not None
    assert ticket.updated_at.tzinfo is not None


async def test_T1_get_shows_every_change_at_once(platform: Platform) -> None:
    key = await platform.open_ticket("before", "old")
    first = await platform.tracker.get(key)
    await platform.edit(key, title="after", body="new")
    await platform.person_adds(key, "bug")
    second = await platform.tracker.get(key)
    assert (second.title, second.body) == ("after", "new")
    assert second.labels == {"bug"}
    assert second.revision != first.revision
    await platform.close(key)
    assert not (await platform.tracker.get(key)).open
    await platform.reopen(key)
    assert (await platform.tracker.get(key)).open


async def test_T1_get_shows_what_another_client_wrote(platform: Platform) -> None:
    key = await platform.open_ticket(labels=(ENQUEUED,))
    other = await platform.second_tracker()
    before = await platform.tracker.get(key)
    assert isinstance(await other.move(await other.get(key), edge(*START)), Applied)
    after = await platform.tracker.get(key)
    assert after.labels == {IN_PROGRESS}
    assert after.revision != before.revision


@pytest.mark.needs("verbatim")
async def test_T1_unicode_and_huge_texts_arrive_whole(platform: Platform) -> None:
    body = f"{UNICODE}\r\n\ttabs\n" + "x" * 30_000 + "\n🧵 end"
    key = await platform.open_ticket(UNICODE, body)
    ticket = await platform.tracker.get(key)
    assert ticket.title == UNICODE
    assert ticket.body.replace("\r\n", "\n") == body.replace("\r\n", "\n")


@pytest.mark.needs("deletes")
async def test_T1_a_missing_ticket_is_an_error(platform: Platform) -> None:
    key = await platform.open_ticket()
    await platform.delete(key)
    with pytest.raises(TicketNotFound):
        await platform.tracker.get(key)


@pytest.mark.parametrize("key", ["", "0", "-1", "nonsense", "999999999999999999999", "1/../2", "\u0661", "1 OR 1=1"])
async def test_T1_a_key_that_cannot_be_one_is_a_missing_ticket(platform: Platform, key: str) -> None:
    await platform.open_ticket()
    with pytest.raises(TicketNotFound):
        await platform.tracker.get(key)


async def test_T2_find_pages_to_the_end_and_yields_each_once(platform: Platform) -> None:
    wanted = [await platform.open_ticket(f"ticket {n}", labels=(TRIGGER, "bug")) for n in range(8)]
    await platform.open_ticket("other", labels=("bug",))
    tickets = await found(platform.tracker, TRIGGER)
    assert sorted(t.key for t in tickets) == sorted(wanted)
    assert all(t.labels == {TRIGGER, "bug"} and t.open and t.title for t in tickets)


async def test_T2_find_and_get_name_a_ticket_as_it_stands_by_the_same_revision(platform: Platform) -> None:
    """What was turned away as it was read is known by it when a poll lists it."""
    key = await platform.open_ticket(labels=(TRIGGER, "bug"))
    await platform.edit(key, title="after", body="new")
    (listed,) = await found(platform.tracker, TRIGGER)
    assert (await platform.tracker.get(key)).revision == listed.revision
    await platform.time_passes()
    await platform.edit(key, body="newer")
    (edited,) = await found(platform.tracker, TRIGGER)
    assert (await platform.tracker.get(key)).revision == edited.revision != listed.revision


async def test_T2_find_yields_open_tickets_only(platform: Platform) -> None:
    closed, reopened = [await platform.open_ticket(labels=(TRIGGER,)) for _ in range(2)]
    await platform.close(closed)
    await platform.close(reopened)
    await platform.reopen(reopened)
    assert [t.key for t in await found(platform.tracker, TRIGGER)] == [reopened]


async def test_T2_find_takes_the_whole_label_and_nothing_near_it(platform: Platform) -> None:
    near = (f"{TRIGGER}-later", "agent-smith", "fix-bug", TRIGGER[:-1])
    await platform.open_ticket("near misses", labels=near)
    assert await found(platform.tracker, TRIGGER) == []
    assert await found(platform.tracker, "nowhere") == []


async def test_T2_find_yields_what_carries_any_of_several_labels_once(platform: Platform) -> None:
    first = [await platform.open_ticket(labels=("agent-smith",)) for _ in range(4)]
    second = [await platform.open_ticket(labels=(TRIGGER,)) for _ in range(4)]
    both = await platform.open_ticket(labels=("agent-smith", TRIGGER))
    await platform.open_ticket(labels=("bug",))
    for _ in range(2):  # the second look may be a cheaper one
        tickets = await found(platform.tracker, "agent-smith", TRIGGER)
        assert sorted(t.key for t in tickets) == sorted([*first, *second, both])
    await platform.person_removes(both, TRIGGER)
    await platform.person_removes(first[0], "agent-smith")
    await platform.close(second[0])
    new = await platform.open_ticket(labels=(TRIGGER, "bug"))
    tickets = await found(platform.tracker, TRIGGER, "agent-smith")
    assert sorted(t.key for t in tickets) == sorted([*first[1:], *second[1:], both, new])
    assert await found(platform.tracker) == []


async def test_T2_find_yields_each_once_while_tickets_are_edited_and_opened(platform: Platform) -> None:
    wanted = [await platform.open_ticket(f"ticket {n}", labels=(TRIGGER,)) for n in range(7)]
    seen: list[str] = []
    async for ticket in platform.tracker.find(TRIGGER):
        seen.append(ticket.key)
        if len(seen) == 1:
            for key in (wanted[0], wanted[-1]):
                await platform.edit(key, title="edited meanwhile")
            await platform.open_ticket("opened meanwhile", labels=(TRIGGER,))
    assert len(seen) == len(set(seen))
    assert set(wanted) <= set(seen)


async def test_T2_find_yields_none_twice_while_tickets_lose_the_label(platform: Platform) -> None:
    opened = [await platform.open_ticket(f"ticket {n}", labels=(TRIGGER,)) for n in range(7)]
    seen: list[str] = []
    async for ticket in platform.tracker.find(TRIGGER):
        seen.append(ticket.key)
        if len(seen) == 2:
            await platform.person_removes(opened[0], TRIGGER)
            await platform.close(opened[-1])
            await platform.person_removes(opened[1], TRIGGER)
            await platform.person_adds(opened[1], TRIGGER)
    assert len(seen) == len(set(seen))
    assert set(seen) <= set(opened)


@needs("pull_requests")
async def test_T2_pull_requests_are_no_tickets(platform: Platform) -> None:
    await platform.open_pull_request((TRIGGER,))
    key = await platform.open_ticket(labels=(TRIGGER,))
    assert [t.key for t in await found(platform.tracker, TRIGGER)] == [key]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param(fault, error, marks=needs(fault), id=fault.name)
        for fault, error in {
            Fault.UNAVAILABLE: TrackerUnavailable,
            Fault.UNREACHABLE: TrackerUnavailable,
            Fault.RATE_LIMITED: RateLimited,
            Fault.UNAUTHORIZED: Unauthorized,
        }.items()
    ],
)
async def test_T2_T14_an_outage_raises_and_is_never_an_empty_list(
    platform: Platform, fault: Fault, error: type[TrackerError]
) -> None:
    key = await platform.open_ticket("title", "the whole body", labels=(TRIGGER, ENQUEUED, IN_PROGRESS))
    ticket = await platform.tracker.get(key)
    await platform.inject(fault)
    for call in (
        found(platform.tracker, TRIGGER),
        found(platform.tracker, "nowhere"),
        platform.tracker.get(key),
        platform.tracker.tidy(ticket, keep=Status.ENQUEUED, deadline=soon()),
        platform.tracker.write_sticky(ticket, "hello", MEMO, known=None, deadline=soon()),
    ):
        with pytest.raises(error) as caught:
            await call
        assert caught.value.retryable == error.retryable
        assert not any(secret in str(caught.value) for secret in (*platform.secrets, "the whole body"))
    await platform.heal()
    assert [t.key for t in await found(platform.tracker, TRIGGER)] == [key]


@needs(Fault.UNAVAILABLE)
async def test_T2_an_outage_on_a_later_page_raises(platform: Platform) -> None:
    wanted = [await platform.open_ticket(f"ticket {n}", labels=(TRIGGER,)) for n in range(8)]
    seen: list[str] = []

    async def look() -> None:
        async for ticket in platform.tracker.find(TRIGGER):
            seen.append(ticket.key)
            if len(seen) == 1:
                await platform.inject(Fault.UNAVAILABLE)

    with pytest.raises(TrackerUnavailable):
        await look()
    assert len(seen) < len(wanted)


@needs(Fault.MALFORMED)
async def test_T3_a_malformed_record_fails_alone(platform: Platform) -> None:
    bad, *good = [await platform.open_ticket("title", "the whole body", labels=(TRIGGER,)) for _ in range(5)]
    await platform.inject(Fault.MALFORMED, bad)
    with pytest.raises(BadAnswer) as caught:
        await platform.tracker.get(bad)
    assert "the whole body" not in str(caught.value)
    assert sorted(t.key for t in await found(platform.tracker, TRIGGER)) == sorted(good)


@needs(Fault.UNAVAILABLE)
async def test_T14_a_move_in_an_outage_is_unknown_and_can_be_repeated(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,)))
    await platform.inject(Fault.UNAVAILABLE)
    outcome = await platform.tracker.move(ticket, edge(*START, deadline=boottime() + 2))
    assert isinstance(outcome, Unknown)
    assert not any(secret in outcome.reason for secret in platform.secrets)
    await platform.heal()
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Applied)


@needs(Fault.RATE_LIMITED)
async def test_T14_a_limit_says_until_when(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,)))
    await platform.inject(Fault.RATE_LIMITED)
    outcome = await platform.tracker.move(ticket, edge(*START, deadline=boottime() + 2))
    assert isinstance(outcome, Limited)
    assert outcome.retry_at > time.time()
    with pytest.raises(RateLimited) as caught:
        await platform.tracker.get(ticket.key)
    assert caught.value.retry_at is not None
    assert caught.value.retry_at > time.time()
    assert await platform.labels(ticket.key) == {ENQUEUED}


@needs(Fault.FORBIDDEN)
async def test_T14_a_write_without_permission_is_forbidden(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,)))
    await platform.inject(Fault.FORBIDDEN)
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Forbidden)
    with pytest.raises(Refused):
        await platform.tracker.write_sticky(ticket, "hello", MEMO, known=None, deadline=soon())
    assert await platform.labels(ticket.key) == {ENQUEUED}
    assert await platform.comments(ticket.key) == []


async def test_T15_identify_knows_its_own_tickets_by_key_id_and_url(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket())
    for text in (ticket.key, ticket.id, ticket.url):
        assert platform.tracker.identify(text) == ticket.key


async def test_T15_identify_answers_none_for_anything_else(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket())
    foreign = ["", " ", "nonsense", "#", "0", "-1", "https://example.org/1", "elsewhere.example/acme/other#1"]
    foreign += [f"{ticket.id}x", f"x{ticket.id}", f"{ticket.url}x", f"{ticket.key}\n", f"{ticket.id}\n"]
    foreign += [ticket.id.replace(platform.tracker.project, f"{platform.tracker.project}-other")]
    for text in foreign:
        assert platform.tracker.identify(text) is None, text

    @given(st.text() | st.text(alphabet="0123456789#/:.abc\u0661\ud800"))
    def never_raises(text: str) -> None:
        key = platform.tracker.identify(text)
        assert key is None or key in text

    never_raises()


@pytest.mark.needs("links")
async def test_links_that_block_a_ticket_are_read(platform: Platform) -> None:
    waiting, done, open_ = [await platform.open_ticket() for _ in range(3)]
    ticket = await platform.tracker.get(waiting)
    assert await platform.tracker.blockers(ticket) == ()
    await platform.block(waiting, by=done)
    await platform.close(done)
    (blocker,) = await platform.tracker.blockers(ticket)
    assert (blocker.id, blocker.open) == (platform.tracker.ticket_id(done), False)
    assert blocker.url == (await platform.tracker.get(done)).url
    await platform.reopen(done)
    (blocker,) = await platform.tracker.blockers(ticket)
    assert blocker.open
    # A link has two ends: what blocks another is not blocked by it.
    assert await platform.tracker.blockers(await platform.tracker.get(done)) == ()
    await platform.block(open_, by=waiting)
    assert len(await platform.tracker.blockers(ticket)) == 1


@pytest.mark.needs("named_people")
@needs("tells_who_labelled")
async def test_P7_labelled_by_tells_who_set_the_label_last(platform: Platform) -> None:
    key = await platform.open_ticket(labels=("bug",), author="alice")
    ticket = await platform.tracker.get(key)
    await platform.person_adds(key, TRIGGER, actor="bob")
    await platform.person_removes(key, TRIGGER, actor="alice")
    await platform.person_adds(key, TRIGGER, actor="carol")
    by = await platform.tracker.labelled_by(ticket, TRIGGER)
    assert by is not None
    assert (by.actor.name, by.actor.bot) == ("carol", False)
    assert by.access >= Access.WRITE
    at_opening = await platform.tracker.labelled_by(ticket, "bug")
    assert at_opening is not None
    assert at_opening.actor.name == "alice"
    assert await platform.tracker.labelled_by(ticket, "never-set") is None


@needs("tells_who_labelled")
async def test_a_label_that_is_set_again_is_told_from_one_that_stayed(platform: Platform) -> None:
    key = await platform.open_ticket(labels=(TRIGGER,))
    events: list[str] = []
    for _ in range(3):
        ticket = await platform.tracker.get(key)
        found = [await platform.tracker.labelled_by(ticket, TRIGGER) for _ in range(2)]
        assert found[0] == found[1]
        assert found[0] is not None
        events.append(found[0].event)
        await platform.person_adds(key, "bug")
        again = await platform.tracker.labelled_by(await platform.tracker.get(key), TRIGGER)
        assert again is not None
        assert again.event == events[-1], "other labels are other events"
        await platform.person_removes(key, TRIGGER)
        await platform.person_adds(key, TRIGGER)
    assert all(events)
    assert len(set(events)) == 3


@needs("tells_who_labelled")
async def test_P7_our_own_labels_are_known_as_ours(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,)))
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Applied)
    by = await platform.tracker.labelled_by(ticket, IN_PROGRESS)
    assert by is not None
    assert by.actor.id == (await platform.tracker.me()).id


async def test_the_filter_hint_names_the_label(platform: Platform) -> None:
    for status in Status:
        assert platform.tracker.labels.label(status) in platform.tracker.filter_hint(status)
