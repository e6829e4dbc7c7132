"""T17: labels that are not ours, changed on behalf of a pipeline."""

from __future__ import annotations

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import ConfigError, Refused, TicketNotFound, TrackerError
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import Applied
from tests.conformance.harness import Fault, Platform
from tests.conformance.steps import DONE, ENQUEUED, IN_PROGRESS, START, TRIGGER, edge, soon


async def test_T17_adds_and_removes_what_it_is_told_and_nothing_else(platform: Platform) -> None:
    labels = (TRIGGER, ENQUEUED, "bug", "needs-triage", "agent-smith:donex")
    ticket = await platform.tracker.get(await platform.open_ticket(labels=labels))
    after = await platform.tracker.relabel(
        ticket, add=["has-fix", "area/web"], remove=["needs-triage"], deadline=soon()
    )
    wanted = {TRIGGER, ENQUEUED, "bug", "agent-smith:donex", "has-fix", "area/web"}
    assert after.labels == wanted
    assert await platform.labels(ticket.key) == wanted


async def test_T17_what_is_so_already_is_not_written(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=("bug",)))
    before = await platform.writes()
    after = await platform.tracker.relabel(ticket, add=["bug", " bug "], remove=["elsewhere"], deadline=soon())
    assert (await platform.tracker.relabel(after, deadline=soon())).labels == {"bug"}
    assert await platform.writes() == before


@pytest.mark.parametrize("way", ["add", "remove"])
@pytest.mark.parametrize(
    "label",
    [
        *(f"agent-smith:{status.value}" for status in Status),
        "old-smith:done",
        "Agent-Smith:DONE",
        " agent-smith:done ",
        "bug,agent-smith:done",
        "bug; agent-smith:done",
        "",
        "  ",
        "two\nlines",
        "nul\0",
        "x" * 256,
        "half\ud800",
    ],
)
async def test_T17_P3_lifecycle_labels_and_what_is_no_label_are_refused(
    platform: Platform, label: str, way: str
) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED, "bug")))
    before = await platform.writes()
    names = ["fine", label]
    add, remove = (names, []) if way == "add" else ([], names)
    with pytest.raises(ConfigError):
        await platform.tracker.relabel(ticket, add=add, remove=remove, deadline=soon())
    assert await platform.writes() == before
    assert await platform.labels(ticket.key) == {ENQUEUED, "bug"}


async def test_T17_one_label_cannot_come_and_go(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket())
    with pytest.raises(ConfigError, match="at once"):
        await platform.tracker.relabel(ticket, add=["bug"], remove=["Bug"], deadline=soon())


async def test_T17_T7_what_people_do_meanwhile_survives(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=("old", ENQUEUED)))
    platform.between_read_and_write(lambda: platform.person_adds(ticket.key, "urgent"))
    await platform.tracker.relabel(ticket, add=["new"], remove=["old"], deadline=soon())
    assert await platform.labels(ticket.key) == {"new", "urgent", ENQUEUED}


async def test_T17_moves_go_on_from_what_it_answered(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(TRIGGER, ENQUEUED)))
    after = await platform.tracker.relabel(ticket, add=["has-fix"], deadline=soon())
    moved = await platform.tracker.move(after, edge(*START))
    assert isinstance(moved, Applied)
    assert await platform.labels(ticket.key) == {TRIGGER, IN_PROGRESS, "has-fix"}


async def test_T17_a_stale_ticket_is_no_hindrance(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=("old",)))
    await platform.edit(ticket.key, title="another title")
    await platform.person_removes(ticket.key, "old")
    after = await platform.tracker.relabel(ticket, add=["new"], remove=["old"], deadline=soon())
    assert after.labels == {"new"} == await platform.labels(ticket.key)


async def test_T17_T11_nothing_is_written_after_the_deadline(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(DONE,)))
    before = await platform.writes()
    with pytest.raises(TrackerError) as caught:
        await platform.tracker.relabel(ticket, add=["late"], deadline=boottime())
    assert caught.value.retryable
    assert await platform.writes() == before


@pytest.mark.needs(Fault.LOST_ANSWER)
async def test_T17_T9_a_lost_answer_raises_and_the_same_again_writes_nothing(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket())
    await platform.inject(Fault.LOST_ANSWER)
    with pytest.raises(TrackerError) as caught:
        await platform.tracker.relabel(ticket, add=["has-fix"], deadline=soon())
    assert caught.value.retryable
    before = await platform.writes()
    assert (await platform.tracker.relabel(ticket, add=["has-fix"], deadline=soon())).labels == {"has-fix"}
    assert await platform.writes() == before


@pytest.mark.needs(Fault.FORBIDDEN)
async def test_T17_who_may_not_write_labels_is_told_so(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket())
    await platform.inject(Fault.FORBIDDEN)
    with pytest.raises(Refused) as caught:
        await platform.tracker.relabel(ticket, add=["has-fix"], deadline=soon())
    assert not any(secret in str(caught.value) for secret in platform.secrets)


@pytest.mark.needs("deletes")
async def test_T17_a_deleted_ticket_is_not_found(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket())
    await platform.delete(ticket.key)
    with pytest.raises(TicketNotFound):
        await platform.tracker.relabel(ticket, add=["has-fix"], deadline=soon())
