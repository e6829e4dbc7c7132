"""What a ticket costs on Jira, request by request; the README quotes these numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.http import LocalLedger, Shared, spending_for
from agentsmith.trackers.jira.tracker import JiraTracker
from tests.support.edges import CLAIM, FINISH, MEMO, START, TRIGGER, applied, edge
from tests.support.jira_judge import JiraJudge
from tests.support.simulated_jira import SimulatedJira, simulated_jira

BUDGET = 8


@pytest.fixture
async def jira() -> AsyncIterator[SimulatedJira]:
    async with simulated_jira() as started:
        yield started


async def say(tracker: JiraTracker, ticket: Ticket, text: str, known: Sticky | None) -> Sticky:
    """Write our comment, in time."""
    return await tracker.write_sticky(ticket, text, MEMO, known=known, deadline=boottime() + 30)


async def carry_through(tracker: JiraTracker, key: str) -> None:
    """From the label that a person set to done, as the daemon does it."""
    with spending_for("claim"):
        ticket = await tracker.get(key)
        ticket = applied(await tracker.move(ticket, edge(*CLAIM))).ticket
        known = await say(tracker, ticket, "queued", None)
    with spending_for("run"):
        ticket = await tracker.get(key)
        ticket = applied(await tracker.move(ticket, edge(*START))).ticket
        known = await say(tracker, ticket, "running", known)
    with spending_for("settle"):
        ticket = applied(await tracker.move(ticket, edge(*FINISH))).ticket
        await say(tracker, ticket, "done", known)


@pytest.mark.parametrize("explicit", [(), ("agent-smith:pending",)], ids=["implicit", "explicit"])
async def test_from_label_to_done_costs_eight_requests(jira: SimulatedJira, explicit: tuple[str, ...]) -> None:
    ledger = LocalLedger()
    tracker = jira.tracker(shared=Shared(ledger=ledger))
    key = jira.issue(TRIGGER, *explicit)
    await carry_through(tracker, key)
    (said,) = jira.simulator.comments(key)
    assert said["body"] == "done"
    issue, comment = f"/issue/{key}", f"/issue/{key}/comment/{said['id']}"
    assert len(jira.simulator.counted_requests()) == BUDGET
    assert jira.sent() == [
        f"GET {issue} 200",
        f"PUT {issue} 200",
        f"POST {issue}/comment 201",
        f"GET {issue} 200",
        f"PUT {issue} 200",
        f"PUT {comment} 200",
        f"PUT {issue} 200",
        f"PUT {comment} 200",
    ]
    assert jira.labels(key) == {TRIGGER, "agent-smith:done"}
    spent = {s.purpose: s.counted for s in ledger.spent()}
    assert spent == {"claim": 3, "run": 3, "settle": 2}


async def test_the_order_in_which_the_daemon_settles_costs_the_same(jira: SimulatedJira) -> None:
    """It writes the comment before the last label, from the ticket that the start of the run left."""
    tracker = jira.tracker()
    key = jira.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get(key), edge(*CLAIM))).ticket
    known = await say(tracker, ticket, "queued", None)
    ticket = applied(await tracker.move(await tracker.get(key), edge(*START))).ticket
    known = await say(tracker, ticket, "running", known)
    jira.sent()
    await say(tracker, ticket, "done", known)
    applied(await tracker.move(ticket, edge(*FINISH)))
    assert len(jira.sent()) == 2


async def test_an_issue_that_people_have_commented_on_costs_one_more(jira: SimulatedJira) -> None:
    tracker = jira.tracker()
    key = jira.issue(TRIGGER)
    jira.simulator.comment(key, "any news?")
    await carry_through(tracker, key)
    assert len(jira.sent()) == BUDGET + 1


async def test_a_cloud_that_does_not_show_what_it_edited_costs_a_look_per_move() -> None:
    async with simulated_jira(returns_issue=False) as jira:
        key = jira.issue(TRIGGER)
        await carry_through(jira.tracker(), key)
        assert len(jira.sent()) == BUDGET + 3


async def test_status_mode_costs_a_transition_and_a_look_per_move(jira: SimulatedJira) -> None:
    tracker = jira.tracker(statuses={Status.IN_PROGRESS: "In Progress", Status.DONE: "Done"})
    for ways in (2, 0):  # which transitions there are is asked once per status
        key = jira.issue(TRIGGER)
        await carry_through(tracker, key)
        assert len(jira.sent()) == BUDGET + 2 * 2 + ways
        assert jira.simulator.status(key) == "Done"


async def test_data_center_reads_each_label_write_back() -> None:
    async with simulated_jira(cloud=False) as jira:
        key = jira.issue(TRIGGER)
        await carry_through(jira.tracker(), key)
        issue = f"/issue/{key}"
        sent = jira.sent()
        assert sent.count(f"PUT {issue} 204") == 3
        assert sent.count(f"GET {issue} 200") == 5
        # The property is written by itself where the answer does not show that it came with the comment.
        assert len(sent) == BUDGET + 3 + 3
        assert jira.labels(key) == {TRIGGER, "agent-smith:done"}


async def test_an_idle_poll_costs_one_request(jira: SimulatedJira) -> None:
    tracker = jira.tracker()
    await tracker.me()  # which a process asks once; the project's number comes with it
    jira.sent()
    keys = [jira.issue(TRIGGER) for _ in range(8)]
    assert [t.key async for t in tracker.find(TRIGGER)] == keys
    assert jira.sent() == ["POST /search/jql 200", "POST /issue/bulkfetch 200"]
    for _ in range(3):
        assert [t.key async for t in tracker.find(TRIGGER)] == keys
        assert jira.sent() == ["POST /search/jql 200"]
    assert [t.key async for t in tracker.find("agent-smith:enqueued")] == []
    assert jira.sent() == ["POST /search/jql 200"]


async def test_a_poll_reads_again_only_what_changed(jira: SimulatedJira) -> None:
    tracker = jira.tracker()
    keys = [jira.issue(TRIGGER) for _ in range(3)]
    assert len([t async for t in tracker.find(TRIGGER)]) == 3
    jira.simulator.edit_issue(keys[1], summary="new")
    jira.sent()
    assert [t.title async for t in tracker.find(TRIGGER)][1] == "new"
    _, fetched = jira.recorded()
    assert fetched.body["issueIdsOrKeys"] == [str(jira.simulator.issue(keys[1]).id)]


async def test_everything_that_was_said_is_what_atlassian_published(jira: SimulatedJira) -> None:
    judge = JiraJudge()
    tracker = jira.tracker(page_size=3, statuses={Status.IN_PROGRESS: "In Progress"})
    key = jira.issue(TRIGGER, "agent-smith:pending", "bug", description="Some *text*\n\nand more")
    other = jira.issue()
    jira.simulator.block(other, key)
    for n in range(4):
        jira.simulator.comment(key, f"comment {n}")
    await tracker.me()
    await carry_through(tracker, key)
    ticket = await tracker.get(key)
    await tracker.labelled_by(ticket, TRIGGER)
    await tracker.blockers(ticket)
    await tracker.read_sticky(ticket)
    assert [t.key async for t in tracker.find("bug")] == [key]
    for entry in jira.recorded():
        judge.check_recorded(entry)
    assert judge.judged >= 20
    assert {path.split("?")[0] for path in judge.undescribed} == {"GET /rest/api/3/user/permission/search"}
