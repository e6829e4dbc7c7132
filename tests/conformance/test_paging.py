"""Lists that need several pages are whole, whatever was read before and wherever something changed (T2, P2, P7).

Two lengths of a page: a tiny one, with a change at every position; and the platform's own hundred, where changes stand
at the borders. `warm` has read the list before and may have kept what it saw; `cold` sees it for the first time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import DefinesLabels, Tracker
from tests.conformance.harness import Platform
from tests.conformance.steps import LABELS, MEMO, TRIGGER, found, soon

pytestmark = pytest.mark.needs("cheap")

NOISE: Final = "noise"
BOUNDED: Final = ("azuredevops.people", "github.history", "gitlab.people", "jira.people")
"""Where it is said how many pages of a history are read at most."""
MOST_LABELS: Final = 100
"""No platform lets more labels stand on one ticket, so none is asked for more."""


def lengths(page: int) -> list[int]:
    """None, one, and everything around one and two full pages: 0, 1, 99, 100, 101, 199, 200, 201, 250 for a hundred."""
    return sorted({0, 1, *(full + near for full in (page, 2 * page) for near in (-1, 0, 1)), 5 * page // 2})


def positions(page: int, count: int) -> list[int]:
    """Where something may change: everywhere on tiny pages, else at both sides of each border."""
    borders = {0, page - 1, page, 2 * page - 1, 2 * page, count - 1}
    return sorted(p for p in (range(count) if page < 10 else borders) if 0 <= p < count)


async def keys(tracker: Tracker) -> set[str]:
    return {ticket.key for ticket in await found(tracker, TRIGGER)}


@pytest.mark.parametrize("page", [3, 100])
async def test_T2_every_ticket_is_found_at_every_length(platform: Platform, page: int) -> None:
    warm, there = platform.paged_by(page), set[str]()
    for count in lengths(page):
        while len(there) < count:
            there.add(await platform.open_ticket(labels=(TRIGGER,)))
        assert await keys(warm) == there, f"{count} tickets, seen before"
        if page < 10 or count == 2 * page:
            assert await keys(platform.paged_by(page)) == there, f"{count} tickets, seen for the first time"


@pytest.mark.parametrize("page", [3, 100])
async def test_T2_a_change_is_seen_at_every_position(platform: Platform, page: int) -> None:
    count = 2 * page
    there = [await platform.open_ticket(labels=(TRIGGER,)) for _ in range(count)]
    warm = platform.paged_by(page)
    assert await keys(warm) == set(there)
    for position in positions(page, count):
        key = there[position]
        await platform.person_removes(key, TRIGGER)
        assert await keys(warm) == set(there) - {key}, f"taken off ticket {position}"
        await platform.person_adds(key, TRIGGER)
        assert await keys(warm) == set(there), f"put on ticket {position}"
        await platform.edit(key, title=f"changed at {position}")
        titles = {ticket.key: ticket.title for ticket in await found(warm, TRIGGER)}
        assert titles[key] == f"changed at {position}"


@pytest.mark.needs("tells_who_labelled")
@pytest.mark.parametrize("page", [3, 100])
async def test_P7_who_labelled_last_is_told_at_every_length_of_the_history(platform: Platform, page: int) -> None:
    warm, events, last = platform.paged_by(page), 0, "alice"
    key = await platform.open_ticket(labels=(TRIGGER,), author=last)
    ticket = await warm.get(key)
    for count in lengths(page):
        while events < count:
            await (platform.person_adds if events % 2 == 0 else platform.person_removes)(key, NOISE, "carol")
            events += 1
        said = await warm.labelled_by(ticket, TRIGGER)
        assert said is not None
        assert said.actor.name == last, f"{count} events, nobody new"
        last = "bob" if last == "alice" else "alice"
        await platform.person_removes(key, TRIGGER, last)
        await platform.person_adds(key, TRIGGER, last)
        events += 2
        ticket = await warm.get(key)
        for tracker in (warm, platform.paged_by(page)):
            said = await tracker.labelled_by(ticket, TRIGGER)
            assert said is not None
            assert said.actor.name == last, f"{events} events, and a new hand"


@pytest.mark.needs("tells_who_labelled")
async def test_P7_beyond_what_we_look_at_nobody_has_set_a_label(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history may be longer than the pages we read of it, and may have grown since the ticket was read."""
    for module in BOUNDED:
        monkeypatch.setattr(f"agentsmith.trackers.{module}._MOST_PAGES", 3)
    tracker, told = platform.paged_by(2), list[str | None]()
    key = await platform.open_ticket(labels=(TRIGGER,), author="alice")
    for _ in range(3):
        await platform.person_adds(key, NOISE, "bob")
        await platform.person_removes(key, NOISE, "bob")
    long_ago = await tracker.get(key)
    for last in ("carol", "bob"):
        await platform.person_removes(key, TRIGGER, last)
        await platform.person_adds(key, TRIGGER, last)
        for turn in range(10):
            for ticket in (long_ago, await tracker.get(key)):
                deeds = (await tracker.history(ticket, TRIGGER)).deeds
                told.append(deeds[0].actor.name if deeds and deeds[0].actor else None)
                assert told[-1] in (last, None), f"{turn} events after {last}"
            assert turn or told[-1] == last, "what is new is seen"
            await (platform.person_adds if turn % 2 == 0 else platform.person_removes)(key, NOISE, "alice")


@pytest.mark.parametrize("page", [3, 100])
async def test_T13_our_comment_is_found_behind_any_number_of_others(platform: Platform, page: int) -> None:
    for count in lengths(page) if page < 10 else [page - 1, page, page + 1]:
        key = await platform.open_ticket(labels=(TRIGGER,))
        for n in range(count):
            await platform.person_comments(key, f"comment {n}")
        warm, other = platform.paged_by(page), platform.paged_by(page)
        ticket = await warm.get(key)
        assert await warm.read_sticky(ticket) is None
        written = await other.write_sticky(ticket, "here", MEMO, known=None, deadline=soon())
        for tracker in (warm, platform.paged_by(page)):
            assert await tracker.read_sticky(ticket) == written, f"behind {count} comments"
        changed = await other.write_sticky(ticket, "changed", MEMO, known=written, deadline=soon())
        assert await warm.read_sticky(ticket) == changed


async def test_T1_every_label_of_a_ticket_is_seen(platform: Platform) -> None:
    warm = platform.paged_by(3)
    for count in [n for n in lengths(100) if n < MOST_LABELS]:
        names = [f"area-{n}" for n in range(count)]
        key = await platform.open_ticket(labels=tuple(names))
        assert (await warm.get(key)).labels == set(names)
        changes: list[tuple[Callable[[str, str], Awaitable[None]], set[str]]] = [
            (platform.person_adds, {*names, "one-more"}),
            (platform.person_removes, set(names)),
        ]
        for change, left in changes:
            await change(key, "one-more")
            assert (await warm.get(key)).labels == left


@pytest.mark.needs("defines_labels")
async def test_labels_are_made_once_however_many_others_there_are(platform: Platform) -> None:
    warm, there = platform.paged_by(100), 0
    assert isinstance(warm, DefinesLabels)
    assert set(await warm.ensure_labels()) == {LABELS.label(status) for status in Status}
    for count in lengths(100):
        while there < count:  # their names come before ours, so that ours move on from page to page
            names = tuple(f"aaa-{n:03}" for n in range(there, min(count, there + MOST_LABELS)))
            await platform.open_ticket(labels=names)
            there += len(names)
        for tracker in (warm, platform.paged_by(100)):
            assert isinstance(tracker, DefinesLabels)
            assert await tracker.ensure_labels() == ()
