"""Issues that are not where they were: deleted, transferred, renamed, out of sight."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import Refused, TicketNotFound
from agentsmith.domain.tracker import Gone, Unknown
from tests.support.edges import CLAIM, MEMO, START, TRIGGER, applied, edge
from tests.support.simulated_github import REPOSITORY, SimulatedGitHub, simulated_github

BUSY = "agent-smith:in-progress"
DONE = "agent-smith:done"
WRITE = "POST|DELETE|PATCH"


@pytest.fixture
async def github() -> AsyncIterator[SimulatedGitHub]:
    async with simulated_github() as started:
        yield started


async def test_a_deleted_issue(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.simulator.delete_issue(REPOSITORY, 1)
    with pytest.raises(TicketNotFound, match="This issue was deleted"):
        await tracker.get("1")
    assert isinstance(await tracker.move(ticket, edge(*START)), Gone)
    with pytest.raises(TicketNotFound):
        await tracker.labelled_by(ticket, TRIGGER)
    with pytest.raises(TicketNotFound):
        await tracker.blockers(ticket)


async def test_a_transferred_issue_is_another_ticket_and_is_not_touched_there(github: SimulatedGitHub) -> None:
    github.simulator.add_repository("acme/api")
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    there = github.simulator.transfer_issue(REPOSITORY, 1, "acme/api")
    before = github.simulator.labels("acme/api", there)
    assert isinstance(await tracker.move(ticket, edge(*START)), Unknown)
    assert isinstance(await tracker.move(ticket, edge(*START)), Gone)
    with pytest.raises(TicketNotFound, match=r"moved to .*/acme/api/issues/1"):
        await tracker.get("1")
    assert github.simulator.labels("acme/api", there) == before


async def test_a_renamed_repository_is_followed_and_tickets_keep_their_names(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    name = (await tracker.get("1")).id
    github.simulator.rename_repository(REPOSITORY, "site")
    ticket = await tracker.get("1")
    assert ticket.id == name == tracker.ticket_id("1")
    ticket = applied(await tracker.move(ticket, edge(*CLAIM))).ticket
    await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)
    assert [t.id async for t in tracker.find(TRIGGER)] == [name]
    assert set(github.simulator.labels("acme/site", 1)) == {TRIGGER, "agent-smith:enqueued"}


async def test_a_repository_without_issues_or_out_of_sight_is_no_empty_list(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    github.simulator.set_permission(REPOSITORY, "smith-bot", "none")
    with pytest.raises(Refused, match="Not Found"):
        _ = [t async for t in tracker.find(TRIGGER)]
    with pytest.raises(TicketNotFound):
        await tracker.get("1")
    github.simulator.set_permission(REPOSITORY, "smith-bot", "write")
    github.simulator.disable_issues(REPOSITORY)
    with pytest.raises(TicketNotFound, match="disabled"):
        await tracker.get("1")
