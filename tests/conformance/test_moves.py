"""T4 to T11: moving a ticket, against people, other writers and the clock."""

from __future__ import annotations

import asyncio

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.lifecycle import EDGES, Status
from agentsmith.domain.tracker import AlreadySo, Applied, Gone, LostRace, Unknown
from tests.conformance.harness import Fault, Platform
from tests.conformance.steps import (
    DONE,
    ENQUEUED,
    FAIL,
    FAILED,
    FINISH,
    IN_PROGRESS,
    LABELS,
    PENDING,
    START,
    TRIGGER,
    WAITING,
    edge,
)
from tests.support.wait import wait_until

needs = pytest.mark.needs

FOREIGN = (TRIGGER, "bug", "agent-smith:donex", "agent-smith:done:later", "not-agent-smith:done")
PUBLISHED = sorted({(e.source, e.to) for e in EDGES if e.source is not e.to}, key=lambda pair: (pair[0], str(pair[1])))


@pytest.mark.parametrize(
    ("expect", "to", "label"),
    [
        (Status.ENQUEUED, Status.IN_PROGRESS, IN_PROGRESS),
        (Status.ENQUEUED, Status.ENQUEUED, ENQUEUED),
        (Status.IN_PROGRESS, Status.PENDING, PENDING),
        (Status.IN_PROGRESS, Status.DONE, "old-smith:done"),
        (Status.IN_PROGRESS, None, TRIGGER),
        (Status.IN_PROGRESS, Status.PENDING, TRIGGER),  # no label at all means pending
    ],
)
async def test_T4_what_is_so_already_is_not_written(
    platform: Platform, expect: Status, to: Status | None, label: str
) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(label, "bug")))
    before = await platform.writes()
    outcome = await platform.tracker.move(ticket, edge(expect, to))
    assert isinstance(outcome, AlreadySo)
    assert outcome.ticket.labels == {label, "bug"}
    assert await platform.writes() == before
    assert await platform.labels(ticket.key) == {label, "bug"}


async def test_T4_what_became_so_since_the_read_is_not_written(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,)))
    await platform.person_adds(ticket.key, IN_PROGRESS)
    await platform.person_removes(ticket.key, ENQUEUED)
    before = await platform.writes()
    outcome = await platform.tracker.move(ticket, edge(*START))
    assert isinstance(outcome, AlreadySo)
    assert outcome.ticket.labels == {IN_PROGRESS}
    assert await platform.writes() == before


@pytest.mark.parametrize(
    "labels",
    [(DONE,), (FAILED, "bug"), (WAITING,), ("bug",), (PENDING,), ("old-smith:done",), (ENQUEUED, FAILED)],
    ids=" ".join,
)
async def test_T5_a_ticket_that_shows_something_else_is_left_alone(platform: Platform, labels: tuple[str, ...]) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=labels))
    before = await platform.writes()
    outcome = await platform.tracker.move(ticket, edge(*START))
    assert isinstance(outcome, LostRace)
    assert outcome.ticket.labels == set(labels)
    assert await platform.writes() == before
    assert await platform.labels(ticket.key) == set(labels)


async def test_T5_a_status_that_changed_since_the_read_is_left_alone(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(IN_PROGRESS,)))
    await platform.person_adds(ticket.key, FAILED)
    await platform.person_removes(ticket.key, IN_PROGRESS)
    outcome = await platform.tracker.move(ticket, edge(*FINISH))
    assert isinstance(outcome, LostRace)
    assert outcome.ticket.labels == {FAILED}
    assert await platform.labels(ticket.key) == {FAILED}


async def test_T4_T5_the_answer_is_never_from_an_old_look(platform: Platform) -> None:
    reached = await platform.tracker.get(await platform.open_ticket(labels=(IN_PROGRESS,)))
    await platform.person_adds(reached.key, FAILED)
    await platform.person_removes(reached.key, IN_PROGRESS)
    assert isinstance(await platform.tracker.move(reached, edge(*START)), LostRace)
    lost = await platform.tracker.get(await platform.open_ticket(labels=(FAILED,)))
    await platform.person_adds(lost.key, ENQUEUED)
    await platform.person_removes(lost.key, FAILED)
    assert isinstance(await platform.tracker.move(lost, edge(*START)), Applied)
    assert await platform.labels(lost.key) == {IN_PROGRESS}


async def test_T5_a_status_that_changes_between_read_and_write_wins(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(IN_PROGRESS,)))

    async def somebody_fails_it() -> None:
        await platform.person_adds(ticket.key, FAILED)
        await platform.person_removes(ticket.key, IN_PROGRESS)

    platform.between_read_and_write(somebody_fails_it)
    outcome = await platform.tracker.move(ticket, edge(*FINISH))
    assert isinstance(outcome, LostRace)
    assert FAILED in outcome.ticket.labels
    left = await platform.labels(ticket.key)
    # Without compare-and-set our label may have landed beside it; then repair, not this move, decides.
    assert left == {FAILED} if platform.capabilities.compare_and_set else FAILED in left


@pytest.mark.parametrize(("expect", "to"), PUBLISHED)
async def test_T6_T7_every_edge_leaves_one_lifecycle_label_and_all_foreign_ones(
    platform: Platform, expect: Status, to: Status | None
) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(LABELS.label(expect), *FOREIGN)))
    outcome = await platform.tracker.move(ticket, edge(expect, to))
    assert isinstance(outcome, Applied)
    assert outcome.ticket.labels == {*FOREIGN, *([LABELS.label(to)] if to else [])}
    assert outcome.ticket.revision != ticket.revision
    assert await platform.labels(ticket.key) == outcome.ticket.labels
    assert (await platform.tracker.get(ticket.key)).labels == outcome.ticket.labels


@pytest.mark.parametrize(
    ("labels", "left"),
    [
        ((), {IN_PROGRESS}),
        ((IN_PROGRESS,), {IN_PROGRESS}),  # half applied: `to` was added, `expect` is still there
        (("old-smith:enqueued",), {IN_PROGRESS}),
        (("old-smith:in-progress",), {IN_PROGRESS}),
        (("old-smith:bug",), {IN_PROGRESS, "old-smith:bug"}),
    ],
)
async def test_T6_half_applied_moves_and_former_prefixes_are_cleaned_up(
    platform: Platform, labels: tuple[str, ...], left: set[str]
) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, *labels)))
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Applied)
    assert await platform.labels(ticket.key) == left


async def test_T6_a_status_under_a_former_prefix_counts(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=("old-smith:enqueued", TRIGGER)))
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Applied)
    assert await platform.labels(ticket.key) == {IN_PROGRESS, TRIGGER}


async def test_T6_labels_are_ours_in_any_letters(platform: Platform) -> None:
    labels = ("Agent-Smith:Enqueued", "Agent-Smith:IN-PROGRESS")
    ticket = await platform.tracker.get(await platform.open_ticket(labels=labels))
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Applied)
    assert [LABELS.status_of(label) for label in await platform.labels(ticket.key)] == [Status.IN_PROGRESS]


async def test_T6_a_ticket_without_label_is_pending(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(TRIGGER,)))
    assert isinstance(await platform.tracker.move(ticket, edge(Status.PENDING, Status.ENQUEUED)), Applied)
    assert await platform.labels(ticket.key) == {ENQUEUED, TRIGGER}


async def test_T6_a_closed_ticket_moves_too(platform: Platform) -> None:
    key = await platform.open_ticket(labels=(ENQUEUED,))
    await platform.close(key)
    outcome = await platform.tracker.move(await platform.tracker.get(key), edge(Status.ENQUEUED, None))
    assert isinstance(outcome, Applied)
    assert not outcome.ticket.open
    assert await platform.labels(key) == set()


@pytest.mark.parametrize("label", ["urgent", TRIGGER, "agent-smith:donex"])
async def test_T7_label_added_by_a_person_between_read_and_write_survives(platform: Platform, label: str) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, "bug")))
    platform.between_read_and_write(lambda: platform.person_adds(ticket.key, label))
    outcome = await platform.tracker.move(ticket, edge(*START))
    assert isinstance(outcome, Applied)
    assert await platform.labels(ticket.key) == {IN_PROGRESS, "bug", label} == outcome.ticket.labels


async def test_T7_label_removed_by_a_person_between_read_and_write_stays_away(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, TRIGGER)))
    platform.between_read_and_write(lambda: platform.person_removes(ticket.key, TRIGGER))
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Applied)
    assert await platform.labels(ticket.key) == {IN_PROGRESS}


async def test_T8_the_ticket_is_at_no_moment_without_its_state(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, TRIGGER)))
    for expect, to in (START, FINISH):
        outcome = await platform.tracker.move(ticket, edge(expect, to))
        assert isinstance(outcome, Applied)
        ticket = outcome.ticket
    history = await platform.label_history(ticket.key)
    assert history[-1] == {DONE, TRIGGER}
    assert all(LABELS.statuses(labels) for labels in history)


async def test_T9_the_same_move_again_is_already_so(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,)))
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Applied)
    before = await platform.writes()
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), AlreadySo)
    assert await platform.writes() == before


@needs(Fault.LOST_ANSWER)
async def test_T9_a_lost_answer_is_unknown_and_the_same_move_again_ends_it(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, "bug")))
    await platform.inject(Fault.LOST_ANSWER)
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Unknown)
    # A move of two requests may have got only half-way: then the second call finishes it.
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), AlreadySo | Applied)
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), AlreadySo)
    assert await platform.labels(ticket.key) == {IN_PROGRESS, "bug"}


async def test_T10_an_unrelated_edit_since_the_read_is_no_lost_race(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,)))
    await platform.person_comments(ticket.key, "any news?")

    async def edit() -> None:
        await platform.edit(ticket.key, title="new title")

    platform.between_read_and_write(edit)
    outcome = await platform.tracker.move(ticket, edge(*START))
    assert isinstance(outcome, Applied)
    assert (await platform.tracker.get(ticket.key)).title == "new title"
    assert await platform.labels(ticket.key) == {IN_PROGRESS}


async def test_T11_no_write_begins_after_the_deadline(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,)))
    before = await platform.writes()
    assert isinstance(await platform.tracker.move(ticket, edge(*START, deadline=boottime())), Unknown)
    assert await platform.writes() == before
    assert await platform.labels(ticket.key) == {ENQUEUED}


async def test_T11_a_deadline_that_passes_before_the_write_makes_it_unknown(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, "bug")))
    deadline = boottime() + 0.05

    async def let_it_pass() -> None:
        # Past it, not on it: whoever stops at the deadline should have had the time to.
        await wait_until(lambda: boottime() >= deadline + 0.05, what="the deadline")

    platform.between_read_and_write(let_it_pass)
    assert isinstance(await platform.tracker.move(ticket, edge(*START, deadline=deadline)), Unknown)
    # What was on the wire may land elsewhere; the same move again settles it in any case.
    if platform.capabilities.compare_and_set:
        assert await platform.labels(ticket.key) == {ENQUEUED, "bug"}
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Applied | AlreadySo)
    assert await platform.labels(ticket.key) == {IN_PROGRESS, "bug"}


@pytest.mark.needs("deletes")
async def test_a_move_of_a_deleted_ticket_is_gone(platform: Platform) -> None:
    first, second = [await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,))) for _ in range(2)]
    await platform.delete(first.key)
    assert isinstance(await platform.tracker.move(first, edge(*START)), Gone)
    platform.between_read_and_write(lambda: platform.delete(second.key))
    assert isinstance(await platform.tracker.move(second, edge(*START)), Gone)


@pytest.mark.needs("cheap")
@needs("compare_and_set")
async def test_T5_T6_of_two_writers_with_different_aims_one_wins(platform: Platform) -> None:
    one, two = platform.tracker, await platform.second_tracker()
    for _ in range(25):
        ticket = await one.get(await platform.open_ticket(labels=(IN_PROGRESS, "bug")))
        outcomes = await asyncio.gather(one.move(ticket, edge(*FINISH)), two.move(ticket, edge(*FAIL)))
        assert {type(outcome) for outcome in outcomes} == {Applied, LostRace}
        won = DONE if isinstance(outcomes[0], Applied) else FAILED
        assert await platform.labels(ticket.key) == {won, "bug"}


@pytest.mark.needs("cheap")
@needs("compare_and_set")
async def test_T4_of_two_writers_with_one_aim_one_applies_it(platform: Platform) -> None:
    one, two = platform.tracker, await platform.second_tracker()
    key = await platform.open_ticket(labels=(ENQUEUED, "bug"))
    cycle = [START, (Status.IN_PROGRESS, Status.ENQUEUED)]
    for expect, to in cycle * 15:
        ticket = await one.get(key)
        outcomes = await asyncio.gather(one.move(ticket, edge(expect, to)), two.move(ticket, edge(expect, to)))
        assert {type(outcome) for outcome in outcomes} == {Applied, AlreadySo}
        assert await platform.labels(key) == {LABELS.label(to), "bug"}
