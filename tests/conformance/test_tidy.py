"""T12, and the property behind T6 and T7: whatever stands there, only lifecycle labels change."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentsmith.boottime import boottime
from agentsmith.domain.errors import TicketNotFound, TrackerError
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.tracker import Applied
from tests.conformance.harness import Platform
from tests.conformance.steps import (
    DONE,
    ENQUEUED,
    FAILED,
    IN_PROGRESS,
    LABELS,
    PENDING,
    TRIGGER,
    WAITING,
    edge,
    soon,
)


@pytest.mark.parametrize("keep", [*Status, None])
@pytest.mark.parametrize(
    "labels",
    [
        (),
        (DONE,),
        (ENQUEUED, IN_PROGRESS),
        (PENDING, ENQUEUED, IN_PROGRESS, WAITING, DONE, FAILED),
        ("old-smith:done", DONE),
        ("old-smith:done", "old-smith:failed"),
    ],
    ids=lambda labels: "+".join(labels) or "none",
)
async def test_T12_tidy_leaves_the_label_of_keep_and_touches_nothing_else(
    platform: Platform, labels: tuple[str, ...], keep: Status | None
) -> None:
    foreign = (TRIGGER, "bug", "agent-smith:donex")
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(*labels, *foreign)))
    tidied = await platform.tracker.tidy(ticket, keep=keep, deadline=soon())
    assert tidied.labels == {*foreign, *([LABELS.label(keep)] if keep else [])}
    assert await platform.labels(ticket.key) == tidied.labels
    before = await platform.writes()
    assert (await platform.tracker.tidy(tidied, keep=keep, deadline=soon())).labels == tidied.labels
    assert await platform.writes() == before


async def test_T12_T8_the_kept_label_is_never_away(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=("old-smith:done", ENQUEUED)))
    await platform.tracker.tidy(ticket, keep=Status.DONE, deadline=soon())
    history = await platform.label_history(ticket.key)
    assert history[-1] == {DONE}
    assert all(Status.DONE in LABELS.statuses(labels) for labels in history)


async def test_T12_a_label_in_other_letters_is_not_lost(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=("Agent-Smith:Done", ENQUEUED)))
    await platform.tracker.tidy(ticket, keep=Status.DONE, deadline=soon())
    assert [LABELS.status_of(label) for label in await platform.labels(ticket.key)] == [Status.DONE]


async def test_T12_T7_label_added_by_a_person_between_read_and_write_survives(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, IN_PROGRESS)))
    platform.between_read_and_write(lambda: platform.person_adds(ticket.key, "urgent"))
    tidied = await platform.tracker.tidy(ticket, keep=Status.IN_PROGRESS, deadline=soon())
    assert await platform.labels(ticket.key) == {IN_PROGRESS, "urgent"} == tidied.labels


async def test_T12_P4_a_status_that_appeared_since_the_read_is_not_swept_away(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, IN_PROGRESS)))
    platform.between_read_and_write(lambda: platform.person_adds(ticket.key, FAILED))
    await platform.tracker.tidy(ticket, keep=Status.IN_PROGRESS, deadline=soon())
    assert FAILED in await platform.labels(ticket.key)


async def test_T12_T11_nothing_is_tidied_after_the_deadline(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, IN_PROGRESS)))
    before = await platform.writes()
    with pytest.raises(TrackerError) as caught:
        await platform.tracker.tidy(ticket, keep=Status.ENQUEUED, deadline=boottime())
    assert caught.value.retryable
    assert await platform.writes() == before


@pytest.mark.needs("deletes")
async def test_T12_a_deleted_ticket_is_not_found(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, IN_PROGRESS)))
    await platform.delete(ticket.key)
    with pytest.raises(TicketNotFound):
        await platform.tracker.tidy(ticket, keep=Status.ENQUEUED, deadline=soon())


FOREIGN = st.sets(
    st.from_regex(r"[a-z][a-z0-9._-]{0,12}", fullmatch=True)
    | st.sampled_from(["agent-smith", TRIGGER, "agent-smith:donex", "agent-smith:done:later", "x:done"]),
    max_size=4,
)
OURS = st.sets(st.sampled_from([f"{p}:{s}" for p in ("agent-smith", "old-smith") for s in Status]), max_size=3)


@pytest.mark.needs("cheap")
def test_T6_T7_any_labels_any_moves(platform_type: type[Platform], tmp_path: Path) -> None:
    """Foreign labels never change, and one lifecycle label is left after every move that was applied."""

    async def follow(platform: Platform, foreign: set[str], ours: set[str], aims: list[Status]) -> None:
        key = await platform.open_ticket(labels=(*sorted(foreign), *sorted(ours)))
        for aim in aims:
            ticket = await platform.tracker.get(key)
            if len(LABELS.lifecycle(ticket.labels)) > 1:
                keep = resolve(LABELS.statuses(ticket.labels))
                ticket = await platform.tracker.tidy(ticket, keep=keep, deadline=soon())
            outcome = await platform.tracker.move(ticket, edge(resolve(LABELS.statuses(ticket.labels)), aim))
            labels = await platform.labels(key)
            assert labels - LABELS.lifecycle(labels) == foreign
            if isinstance(outcome, Applied):
                assert LABELS.lifecycle(labels) == {LABELS.label(aim)}
            assert resolve(LABELS.statuses(labels)) is aim
            assert outcome.ticket.labels == labels  # type: ignore[union-attr]

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        platform = runner.run(stack.enter_async_context(platform_type.start(tmp_path, LABELS)))

        @settings(max_examples=30, deadline=None)
        @given(FOREIGN, OURS, st.lists(st.sampled_from(Status), max_size=5))
        def holds(foreign: set[str], ours: set[str], aims: list[Status]) -> None:
            runner.run(follow(platform, foreign, ours, aims))

        try:
            holds()
        finally:
            runner.run(stack.aclose())
