"""Moves on GitHub when people, permissions and the clock interfere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import Refused, TrackerUnavailable
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import AlreadySo, Applied, Forbidden, LostRace, Unknown
from tests.support.edges import CLAIM, FINISH, MEMO, START, TRIGGER, applied, edge
from tests.support.simulated_github import REPOSITORY, SimulatedGitHub, simulated_github
from tests.support.wait import wait_until

BUSY = "agent-smith:in-progress"
DONE = "agent-smith:done"
WRITE = "POST|DELETE|PATCH"


@pytest.fixture
async def github() -> AsyncIterator[SimulatedGitHub]:
    async with simulated_github() as started:
        yield started


async def test_a_write_that_is_dropped_in_silence_is_forbidden(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = await tracker.get("1")
    github.fail("silent_permission_loss", times=None)
    outcome = await tracker.move(ticket, edge(*CLAIM))
    assert isinstance(outcome, Forbidden)
    assert "did not add the label agent-smith:enqueued" in outcome.reason
    with pytest.raises(Refused, match="did not add"):
        await tracker.tidy(ticket, keep=Status.DONE, deadline=boottime() + 20)
    github.simulator.clear_faults()
    applied(await tracker.move(ticket, edge(*CLAIM)))


@pytest.mark.parametrize("to", [Status.DONE, None])
async def test_a_removal_that_is_dropped_in_silence_is_forbidden(github: SimulatedGitHub, to: Status | None) -> None:
    tracker = github.tracker()
    github.issue(BUSY)
    ticket = await tracker.get("1")
    github.fail("silent_permission_loss", method="DELETE", times=None)
    outcome = await tracker.move(ticket, edge(Status.IN_PROGRESS, to))
    assert isinstance(outcome, Forbidden)
    assert "is still there" in outcome.reason


async def test_a_reader_is_forbidden_to_write(github: SimulatedGitHub) -> None:
    github.simulator.set_permission(REPOSITORY, "smith-bot", "read")
    tracker = github.tracker()
    github.issue(TRIGGER)
    assert isinstance(await tracker.move(await tracker.get("1"), edge(*CLAIM)), Forbidden)


async def test_a_label_that_somebody_removes_under_our_hands_is_simply_gone(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(BUSY)
    ticket = await tracker.get("1")
    hold = github.fail("slow", method="DELETE")
    moving = asyncio.create_task(tracker.move(ticket, edge(*FINISH)))
    await wait_until(lambda: hold.struck > 0, what="the removal to arrive")
    github.simulator.remove_label(REPOSITORY, 1, BUSY)
    hold.release()
    assert applied(await moving).ticket.labels == {DONE}


@pytest.mark.parametrize("kind", ["lenient_delete", ""])
async def test_withdrawing_what_is_withdrawn_already(github: SimulatedGitHub, kind: str) -> None:
    """Our own last write stands for a read here, so the removal meets a label that is gone."""
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.simulator.remove_label(REPOSITORY, 1, "agent-smith:enqueued")
    if kind:
        github.fail(kind, times=None)
    outcome = await tracker.move(ticket, edge(Status.ENQUEUED, None))
    assert applied(outcome).ticket.labels == {TRIGGER}


async def test_withdrawing_what_somebody_finished_meanwhile_is_a_lost_race(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.simulator.remove_label(REPOSITORY, 1, "agent-smith:enqueued")
    github.simulator.add_label(REPOSITORY, 1, DONE)
    outcome = await tracker.move(ticket, edge(Status.ENQUEUED, None))
    assert isinstance(outcome, LostRace)
    assert github.labels("1") == {TRIGGER, DONE} == outcome.ticket.labels


async def test_a_person_who_fails_a_run_by_hand_is_seen_in_the_answer(github: SimulatedGitHub) -> None:
    """No read before the last edge: the answer to the first write shows it, and nothing is removed."""
    tracker = github.tracker()
    github.issue(TRIGGER, "agent-smith:enqueued")
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    github.simulator.add_label(REPOSITORY, 1, "agent-smith:failed")
    github.sent()
    outcome = await tracker.move(ticket, edge(*FINISH))
    assert github.sent() == ["POST /repos/acme/web/issues/1/labels 200"]
    assert isinstance(outcome, LostRace)
    assert outcome.ticket.labels == {TRIGGER, BUSY, DONE, "agent-smith:failed"}


async def test_a_person_who_removed_the_label_of_a_run_is_seen_in_the_answer(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER, "agent-smith:enqueued")
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    github.simulator.remove_label(REPOSITORY, 1, BUSY)
    outcome = await tracker.move(ticket, edge(*FINISH))
    assert isinstance(outcome, LostRace)
    assert outcome.ticket.labels == {TRIGGER, DONE}


async def test_an_old_ticket_is_always_read_again(github: SimulatedGitHub) -> None:
    """Only the newest thing that this process knows of an issue may stand for a read."""
    tracker = github.tracker()
    github.issue(TRIGGER, "agent-smith:enqueued")
    old = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    github.simulator.add_label(REPOSITORY, 1, "agent-smith:failed")
    await tracker.get("1")
    github.sent()
    outcome = await tracker.move(old, edge(*FINISH))
    assert github.sent() == ["GET /repos/acme/web/issues/1 304"]
    assert isinstance(outcome, LostRace)


async def test_after_an_unknown_outcome_the_issue_is_read_before_anything_is_written(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER, "agent-smith:enqueued")
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    github.fail("applied_then_lost", method="DELETE")
    assert isinstance(await tracker.move(ticket, edge(*FINISH)), Unknown)
    github.sent()
    assert isinstance(await tracker.move(ticket, edge(*FINISH)), AlreadySo)
    assert github.sent() == ["GET /repos/acme/web/issues/1 200"]


async def test_a_move_that_was_cancelled_half_way_is_finished_after_a_read(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER, "agent-smith:enqueued")
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    hold = github.fail("slow", method="DELETE")
    moving = asyncio.create_task(tracker.move(ticket, edge(*FINISH)))
    await wait_until(lambda: hold.struck > 0, what="the removal to arrive")
    moving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await moving
    github.simulator.clear_faults()
    github.sent()
    # A request that was on the wire may still have landed.
    assert isinstance(await tracker.move(ticket, edge(*FINISH)), Applied | AlreadySo)
    assert github.sent()[0] == "GET /repos/acme/web/issues/1 200"
    assert github.labels("1") == {TRIGGER, DONE}


async def test_no_write_outlives_the_deadline(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = await tracker.get("1")
    github.fail("slow", method=WRITE, times=None)  # it answers never
    outcome = await tracker.move(ticket, edge(*CLAIM, within=0.1))
    assert isinstance(outcome, Unknown)
    with pytest.raises(TrackerUnavailable):
        await tracker.write_sticky(ticket, "x", MEMO, known=None, deadline=boottime() + 0.1)
