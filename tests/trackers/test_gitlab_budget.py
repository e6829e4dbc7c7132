"""What a ticket costs on GitLab, request by request; the README quotes these numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.gitlab.listing import FULL_EVERY
from agentsmith.trackers.gitlab.tracker import GitLabTracker
from agentsmith.trackers.http import LocalLedger, Pace, Shared, spending_for
from tests.support.edges import CLAIM, FINISH, MEMO, START, TRIGGER, applied, edge
from tests.support.simulated_gitlab import PROJECT, SimulatedGitLab, simulated_gitlab

BUDGET = 8


@pytest.fixture
async def gitlab() -> AsyncIterator[SimulatedGitLab]:
    async with simulated_gitlab() as started:
        yield started


async def say(tracker: GitLabTracker, ticket: Ticket, text: str, known: Sticky | None) -> Sticky:
    """Write our comment, in time."""
    return await tracker.write_sticky(ticket, text, MEMO, known=known, deadline=boottime() + 30)


async def carry_through(tracker: GitLabTracker, iid: str) -> None:
    """From the label that a person set to done, as the daemon does it."""
    with spending_for("claim"):
        ticket = await tracker.get(iid)
        ticket = applied(await tracker.move(ticket, edge(*CLAIM))).ticket
        known = await say(tracker, ticket, "queued", None)
    with spending_for("run"):
        ticket = await tracker.get(iid)
        ticket = applied(await tracker.move(ticket, edge(*START))).ticket
        known = await say(tracker, ticket, "running", known)
    with spending_for("settle"):
        ticket = applied(await tracker.move(ticket, edge(*FINISH))).ticket
        await say(tracker, ticket, "done", known)


async def test_from_label_to_done_costs_eight_requests(gitlab: SimulatedGitLab) -> None:
    ledger = LocalLedger()
    tracker = gitlab.tracker(shared=Shared(ledger=ledger))
    iid = gitlab.issue(TRIGGER)
    await carry_through(tracker, iid)
    assert len(gitlab.simulator.counted_requests()) == BUDGET
    requests = gitlab.sent()
    issue = f"/issues/{iid}"
    note = next(line.split()[1] for line in requests if line.startswith(f"PUT {issue}/notes"))
    assert requests == [
        f"GET {issue} 200",
        f"PUT {issue} 200",
        f"POST {issue}/notes 201",
        f"GET {issue} 200",
        f"PUT {issue} 200",
        f"PUT {note} 200",
        f"PUT {issue} 200",
        f"PUT {note} 200",
    ]
    assert gitlab.labels(iid) == {TRIGGER, "agent-smith:done"}
    assert gitlab.notes(iid) == ["done"]
    spent = {s.purpose: (s.counted, s.free) for s in ledger.spent()}
    assert spent == {"claim": (3, 0), "run": (3, 0), "settle": (2, 0)}


@pytest.mark.parametrize("explicit", ["agent-smith:pending", None])
async def test_an_explicit_pending_label_costs_nothing_more(gitlab: SimulatedGitLab, explicit: str | None) -> None:
    iid = gitlab.issue(TRIGGER, *([explicit] if explicit else []))
    await carry_through(gitlab.tracker(), iid)
    assert len(gitlab.simulator.counted_requests()) == BUDGET
    assert gitlab.labels(iid) == {TRIGGER, "agent-smith:done"}


async def test_a_long_run_costs_the_same(gitlab: SimulatedGitLab) -> None:
    """What our own last write left behind is not read again, however long ago that was."""
    clock = [1000.0]
    tracker = gitlab.tracker(pace=Pace(now=lambda: clock[0]))
    iid = gitlab.issue(TRIGGER, "agent-smith:enqueued")
    ticket = applied(await tracker.move(await tracker.get(iid), edge(*START, within=1e6))).ticket
    gitlab.sent()
    clock[0] += 7200
    applied(await tracker.move(ticket, edge(*FINISH, within=1e6)))
    assert gitlab.sent() == [f"PUT /issues/{iid} 200"]


async def test_a_read_that_is_some_seconds_old_is_read_again(gitlab: SimulatedGitLab) -> None:
    clock = [1000.0]
    tracker = gitlab.tracker(pace=Pace(now=lambda: clock[0]))
    iid = gitlab.issue(TRIGGER)
    ticket = await tracker.get(iid)
    gitlab.sent()
    clock[0] += 5
    applied(await tracker.move(ticket, edge(*CLAIM, within=1e6)))
    assert gitlab.sent() == [f"GET /issues/{iid} 200", f"PUT /issues/{iid} 200"]


async def test_the_order_in_which_the_daemon_settles_costs_the_same(gitlab: SimulatedGitLab) -> None:
    """It writes the comment before the last label, from the ticket that the start of the run left."""
    tracker = gitlab.tracker()
    iid = gitlab.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get(iid), edge(*CLAIM))).ticket
    known = await say(tracker, ticket, "queued", None)
    ticket = applied(await tracker.move(await tracker.get(iid), edge(*START))).ticket
    known = await say(tracker, ticket, "running", known)
    gitlab.sent()
    await say(tracker, ticket, "done", known)
    applied(await tracker.move(ticket, edge(*FINISH)))
    assert len(gitlab.sent()) == 2


async def test_an_issue_that_people_have_commented_on_costs_one_more(gitlab: SimulatedGitLab) -> None:
    """Our comment might be among theirs: one look. Who we are is asked only if something looks like ours."""
    iid = gitlab.issue(TRIGGER)
    gitlab.simulator.comment(PROJECT, int(iid), "any news?")
    await carry_through(gitlab.tracker(), iid)
    assert len(gitlab.simulator.counted_requests()) == BUDGET + 1


async def test_who_may_what_costs_five_requests_and_then_four(gitlab: SimulatedGitLab) -> None:
    """Whether somebody is a program does not change; what they may do does."""
    tracker = gitlab.tracker()
    iid = gitlab.issue(TRIGGER)
    ticket = await tracker.get(iid)
    mona = gitlab.simulator.hub.world.user("mona").id
    gitlab.sent()
    await tracker.labelled_by(ticket, TRIGGER)
    history, renames, person, edits, member = gitlab.sent()
    assert history == f"GET /issues/{iid}/resource_label_events 200"
    assert renames == "POST /api/graphql 200"
    assert person == f"GET /users/{mona} 200"
    assert edits == f"GET /issues/{iid}/notes 200"
    assert member == f"GET /members/all/{mona} 200"
    await tracker.labelled_by(ticket, TRIGGER)
    assert len(gitlab.sent()) == 4


async def test_an_idle_poll_of_one_page_costs_one_request(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    iids = [gitlab.issue(TRIGGER) for _ in range(8)]
    for _ in range(3):
        gitlab.sent()
        assert [t.key async for t in tracker.find(TRIGGER)] == iids
        assert gitlab.sent() == ["GET /issues 200"]


async def test_an_idle_poll_of_many_pages_costs_one_request_too(gitlab: SimulatedGitLab) -> None:
    clock = [1000.0]
    tracker = gitlab.tracker(page_size=3, pace=Pace(now=lambda: clock[0]))
    iids = [gitlab.issue(TRIGGER) for _ in range(8)]
    assert [t.key async for t in tracker.find(TRIGGER)] == iids
    assert len(gitlab.sent()) == 3
    gitlab.simulator.clock.advance(600)
    assert [t.key async for t in tracker.find(TRIGGER)] == iids
    # Whatever changed within the overlap is seen again; after that the answer is empty.
    gitlab.sent()
    gitlab.simulator.clock.advance(600)
    for _ in range(3):
        assert [t.key async for t in tracker.find(TRIGGER)] == iids
        assert gitlab.sent() == ["GET /issues 200"]
    clock[0] += FULL_EVERY
    assert [t.key async for t in tracker.find(TRIGGER)] == iids
    assert len(gitlab.sent()) == 3
