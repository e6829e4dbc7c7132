"""What a ticket costs on GitHub, request by request; the README quotes these numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.github.tracker import GitHubTracker
from agentsmith.trackers.http import LocalLedger, Shared, spending_for
from tests.support.contracts import ContractJudge
from tests.support.edges import CLAIM, FINISH, MEMO, START, TRIGGER, applied, edge
from tests.support.simulated_github import SimulatedGitHub, simulated_github

BUDGET = 9


@pytest.fixture
async def github() -> AsyncIterator[SimulatedGitHub]:
    async with simulated_github() as started:
        yield started


async def say(tracker: GitHubTracker, ticket: Ticket, text: str, known: Sticky | None) -> Sticky:
    """Write our comment, in time."""
    return await tracker.write_sticky(ticket, text, MEMO, known=known, deadline=boottime() + 30)


async def carry_through(tracker: GitHubTracker, number: str) -> None:
    """From the label that a person set to done, as the daemon does it."""
    with spending_for("claim"):
        ticket = await tracker.get(number)
        ticket = applied(await tracker.move(ticket, edge(*CLAIM))).ticket
        known = await say(tracker, ticket, "queued", None)
    with spending_for("run"):
        ticket = await tracker.get(number)
        ticket = applied(await tracker.move(ticket, edge(*START))).ticket
        known = await say(tracker, ticket, "running", known)
    with spending_for("settle"):
        ticket = applied(await tracker.move(ticket, edge(*FINISH))).ticket
        await say(tracker, ticket, "done", known)


async def test_from_label_to_done_costs_at_most_nine_requests(github: SimulatedGitHub) -> None:
    ledger = LocalLedger()
    tracker = github.tracker(shared=Shared(ledger=ledger))
    await tracker.ensure_labels()
    number = github.issue(TRIGGER)
    github.sent()
    await carry_through(tracker, number)
    assert len(github.simulator.counted_requests()) == BUDGET
    issue = f"/repos/acme/web/issues/{number}"
    requests = github.sent()
    comment = next(line.split()[1] for line in requests if line.startswith("PATCH"))
    assert requests == [
        f"GET {issue} 200",
        f"GET {issue} 304",
        f"POST {issue}/labels 200",
        f"POST {issue}/comments 201",
        f"GET {issue} 200",
        f"GET {issue} 304",
        "POST /graphql 200",
        f"PATCH {comment} 200",
        f"POST {issue}/labels 200",
        f"DELETE {issue}/labels/agent-smith:in-progress 200",
        f"PATCH {comment} 200",
    ]
    assert github.labels(number) == {TRIGGER, "agent-smith:done"}
    (said,) = github.simulator.comments("acme/web", int(number))
    assert said["body"].endswith("\ndone")
    spent = {s.purpose: (s.counted, s.free) for s in ledger.spent()}
    assert spent == {"other": (7, 0), "claim": (3, 1), "run": (3, 1), "settle": (3, 0)}


async def test_the_order_in_which_the_daemon_settles_costs_the_same(github: SimulatedGitHub) -> None:
    """It writes the comment before the last label, from the ticket that the start of the run left."""
    tracker = github.tracker()
    await tracker.ensure_labels()
    number = github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get(number), edge(*CLAIM))).ticket
    known = await say(tracker, ticket, "queued", None)
    ticket = applied(await tracker.move(await tracker.get(number), edge(*START))).ticket
    known = await say(tracker, ticket, "running", known)
    github.sent()
    await say(tracker, ticket, "done", known)
    applied(await tracker.move(ticket, edge(*FINISH)))
    assert len(github.simulator.counted_requests()) == 3


async def test_the_first_ticket_of_a_process_that_prepared_nothing_costs_one_more(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    for expected in (BUDGET + 1, BUDGET):
        number = github.issue(TRIGGER)
        github.sent()
        await carry_through(tracker, number)
        assert len(github.simulator.counted_requests()) == expected


@pytest.mark.parametrize("explicit", ["agent-smith:pending", None])
async def test_an_explicit_pending_label_costs_nothing_more(github: SimulatedGitHub, explicit: str | None) -> None:
    tracker = github.tracker()
    await tracker.ensure_labels()
    number = github.issue(TRIGGER, *([explicit] if explicit else []))
    github.sent()
    await carry_through(tracker, number)
    assert len(github.simulator.counted_requests()) == BUDGET
    assert github.labels(number) == {TRIGGER, "agent-smith:done"}


async def test_an_issue_that_people_have_commented_on_costs_one_more(github: SimulatedGitHub) -> None:
    """Our comment might be among theirs: one look. Who we are is asked only if something looks like ours."""
    tracker = github.tracker()
    await tracker.ensure_labels()
    number = github.issue(TRIGGER)
    github.simulator.comment("acme/web", int(number), "any news?")
    github.sent()
    await carry_through(tracker, number)
    assert len(github.simulator.counted_requests()) == BUDGET + 1


async def test_an_idle_poll_costs_nothing(github: SimulatedGitHub) -> None:
    tracker = github.tracker(page_size=3)
    numbers = [github.issue(TRIGGER) for _ in range(8)]
    assert [t.key async for t in tracker.find(TRIGGER)] == numbers
    github.sent()
    for _ in range(3):
        assert [t.key async for t in tracker.find(TRIGGER)] == numbers
        assert [t.key async for t in tracker.find("agent-smith:enqueued")] == []
    assert len(github.simulator.counted_requests()) == 1  # the first look at a list that was never read before
    assert github.sent().count("GET /repos/acme/web/issues 304") == 3 * 3 + 2


async def test_replicas_share_what_they_have_read(github: SimulatedGitHub) -> None:
    shared = Shared()
    one, two = github.tracker(shared=shared), github.tracker(shared=shared)
    number = github.issue(TRIGGER)
    await one.get(number)
    assert (await two.get(number)).labels == {TRIGGER}
    assert len(github.simulator.counted_requests()) == 1


async def test_asking_who_did_what_is_booked_apart_and_never_answered_from_a_cache(github: SimulatedGitHub) -> None:
    ledger = LocalLedger()
    tracker = github.tracker(shared=Shared(ledger=ledger))
    number = github.issue(TRIGGER)
    ticket = await tracker.get(number)
    with spending_for("claim"):
        await tracker.labelled_by(ticket, TRIGGER)
    assert [(s.purpose, s.counted) for s in ledger.spent()] == [("actor", 2), ("other", 1)]
    assert github.sent() == [
        f"GET /repos/acme/web/issues/{number} 200",
        "POST /graphql 200",
        "GET /repos/acme/web/collaborators/mona/permission 200",
    ]
    await tracker.labelled_by(ticket, TRIGGER)
    asked = github.recorded()
    assert [entry.path.rpartition("/")[2] for entry in asked] == ["graphql", "permission"]
    assert not any("if-none-match" in entry.headers for entry in asked)


async def test_an_idle_poll_of_full_pages_costs_nothing(github: SimulatedGitHub) -> None:
    """The page behind a full one is looked at, because a 304 does not tell whether there is one; that is free too."""
    tracker = github.tracker(page_size=3)
    numbers = [github.issue(TRIGGER) for _ in range(6)]
    for _ in range(2):  # the second look is the first at the page behind the last
        assert [t.key async for t in tracker.find(TRIGGER)] == numbers
    github.sent()
    assert [t.key async for t in tracker.find(TRIGGER)] == numbers
    assert github.sent() == ["GET /repos/acme/web/issues 304"] * 3


async def test_everything_that_was_said_is_what_github_published(github: SimulatedGitHub) -> None:
    judge = ContractJudge("github")
    tracker = github.tracker(page_size=3)
    await tracker.ensure_labels()
    number = github.issue(TRIGGER, "agent-smith:pending", "bug")
    for n in range(4):
        github.simulator.comment("acme/web", int(number), f"comment {n}")
    await tracker.me()
    await carry_through(tracker, number)
    ticket = await tracker.get(number)
    await tracker.labelled_by(ticket, TRIGGER)
    await tracker.read_sticky(ticket)
    assert [t.key async for t in tracker.find("bug")] == [number]
    for entry in github.recorded():
        judge.check_recorded(entry)
    assert judge.judged >= 15
    assert {path.split("/")[-1] for path in judge.undescribed} <= {"graphql", "permission", "web"}
