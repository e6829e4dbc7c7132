"""What a ticket costs on Azure DevOps, request by request and revision by revision; the docs quote these numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.azuredevops.tracker import AzureDevOpsTracker
from agentsmith.trackers.http import LocalLedger, Pace, Shared, spending_for
from tests.support.azuredevops_judge import AzureDevOpsJudge
from tests.support.edges import CLAIM, FINISH, START, TRIGGER, applied, edge
from tests.support.loopback import FAST
from tests.support.simulated_azuredevops import SimulatedAzureDevOps, say, simulated_azuredevops, warm

CALL_BY_CALL = 8
"""Eight calls of the contract, each of which must ask or be on record before the next begins: nothing to save."""
WITH_WORDS = 7
"""The same, if the claim's patch carries the first comment."""
BUDGET = 6
"""And if the comment is not edited only to say what the tag says: that the work has begun."""


@pytest.fixture
async def azure() -> AsyncIterator[SimulatedAzureDevOps]:
    async with simulated_azuredevops() as started:
        yield started


async def carry_through(tracker: AzureDevOpsTracker, number: str, *, words: bool = False, running: bool = True) -> None:
    """From the tag that a person set to done, as the daemon does it."""
    known: Sticky | None
    with spending_for("claim"):
        ticket = await tracker.get(number)
        ticket = applied(await tracker.move(ticket, edge(*CLAIM, say="queued" if words else None))).ticket
        known = await say(tracker, ticket, "queued", None)
    with spending_for("run"):
        ticket = await tracker.get(number)
        ticket = applied(await tracker.move(ticket, edge(*START))).ticket
        known = await say(tracker, ticket, "running", known) if running else known
    with spending_for("settle"):
        ticket = applied(await tracker.move(ticket, edge(*FINISH))).ticket
        await say(tracker, ticket, "done", known)


async def test_from_label_to_done_costs_six_requests_and_five_revisions(azure: SimulatedAzureDevOps) -> None:
    ledger = LocalLedger()
    tracker = azure.tracker(shared=Shared(ledger=ledger))
    await warm(tracker)
    number = azure.item(TRIGGER)
    azure.sent()
    await carry_through(tracker, number, words=True, running=False)
    (comment,) = azure.simulator.comments(int(number))
    assert azure.sent() == [
        f"GET /wit/workitems/{number} 200",
        f"PATCH /wit/workitems/{number} 200",
        f"GET /wit/workitems/{number} 200",
        f"PATCH /wit/workitems/{number} 200",
        f"PATCH /wit/workitems/{number} 200",
        f"PATCH /wit/workItems/{number}/comments/{comment['id']} 200",
    ]
    assert azure.tags(number) == {TRIGGER, "agent-smith:done"}
    assert comment["text"].startswith("done\n")
    assert azure.simulator.item(int(number)).now.rev == 1 + 4
    spent = {s.purpose: s.counted for s in ledger.spent()}
    assert spent == {"other": 2, "claim": 2, "run": 2, "settle": 2}


@pytest.mark.parametrize(("words", "cost"), [(False, CALL_BY_CALL), (True, WITH_WORDS)])
async def test_call_by_call_no_request_is_wasted(azure: SimulatedAzureDevOps, words: bool, cost: int) -> None:
    """Each comment changes the revision that the next move tests: that costs nothing either, once it was watched."""
    tracker = azure.tracker()
    await warm(tracker)
    for expected in (cost + 1, cost, cost):
        number = azure.item(TRIGGER)
        azure.sent()
        await carry_through(tracker, number, words=words)
        sent = azure.sent()
        assert len(sent) == expected
        assert not [line for line in sent if line.endswith("412")]
        assert azure.tags(number) == {TRIGGER, "agent-smith:done"}
        assert len(azure.simulator.comments(int(number))) == 1
        assert azure.simulator.item(int(number)).now.rev == cost - 1  # it had one, and two requests were reads


async def test_the_order_in_which_the_daemon_settles_costs_the_same(azure: SimulatedAzureDevOps) -> None:
    """It writes the comment before the last tag, from the ticket that the start of the run left."""
    tracker = azure.tracker()
    await carry_through(tracker, azure.item(TRIGGER))
    number = azure.item(TRIGGER)
    azure.sent()
    ticket = applied(await tracker.move(await tracker.get(number), edge(*CLAIM, say="queued"))).ticket
    known = await say(tracker, ticket, "queued", None)
    ticket = applied(await tracker.move(await tracker.get(number), edge(*START))).ticket
    await say(tracker, ticket, "done", known)
    applied(await tracker.move(ticket, edge(*FINISH)))
    assert len(azure.sent()) == BUDGET


async def test_the_first_ticket_of_a_process_that_prepared_nothing_costs_one_more(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    for expected in (BUDGET + 1, BUDGET):
        number = azure.item(TRIGGER)
        azure.sent()
        await carry_through(tracker, number, words=True, running=False)
        assert len(azure.sent()) == expected


async def test_an_explicit_pending_tag_costs_nothing_more(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    await warm(tracker)
    number = azure.item(TRIGGER, "agent-smith:pending")
    azure.sent()
    await carry_through(tracker, number, words=True, running=False)
    assert len(azure.sent()) == BUDGET
    assert azure.tags(number) == {TRIGGER, "agent-smith:done"}


async def test_a_work_item_that_people_have_commented_on_costs_two_more(azure: SimulatedAzureDevOps) -> None:
    """Our comment might be among theirs: one look; and ours cannot travel with the tags then."""
    tracker = azure.tracker()
    await warm(tracker)
    number = azure.item(TRIGGER)
    azure.simulator.comment(int(number), "any news?")
    azure.sent()
    await carry_through(tracker, number, words=True, running=False)
    assert len(azure.sent()) == BUDGET + 2
    assert len(azure.simulator.comments(int(number))) == 2


async def test_an_idle_poll_costs_one_request(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker(page_size=3)
    numbers = [azure.item(TRIGGER) for _ in range(8)]
    assert [t.key async for t in tracker.find(TRIGGER)] == numbers
    azure.simulator.clock.advance(300)
    assert [t.key async for t in tracker.find(TRIGGER)] == numbers  # what changed lately is looked at once more
    azure.simulator.clock.advance(300)
    azure.sent()
    for _ in range(3):
        azure.simulator.clock.advance(60)
        assert [t.key async for t in tracker.find(TRIGGER)] == numbers
    assert azure.sent() == ["POST /wit/wiql 200"] * 3


async def test_an_idle_poll_of_an_empty_project_costs_one_request(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    await warm(tracker)
    azure.sent()
    for _ in range(2):
        assert [t async for t in tracker.find(TRIGGER)] == []
    assert azure.sent() == ["POST /wit/wiql 200"] * 2


async def test_a_poll_that_catches_up_sees_what_was_tagged_untagged_closed_and_after_a_while_deleted(
    azure: SimulatedAzureDevOps,
) -> None:
    at = [0.0]
    tracker = azure.tracker(pace=_paced(at))
    first, second, third, fourth = (azure.item(TRIGGER) for _ in range(4))
    assert [t.key async for t in tracker.find(TRIGGER)] == [first, second, third, fourth]
    azure.simulator.remove_tag(int(first), TRIGGER)
    azure.simulator.close_item(int(second))
    azure.simulator.delete_item(int(third))
    fifth = azure.item("agent-smith", TRIGGER.upper())
    at[0] += 60
    assert [t.key async for t in tracker.find(TRIGGER)] == [third, fourth, fifth]
    at[0] += 600
    assert [t.key async for t in tracker.find(TRIGGER)] == [fourth, fifth]


def _paced(at: list[float]) -> Pace:
    return replace(FAST, now=lambda: boottime() + at[0])


async def test_asking_who_may_what(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    number = azure.item(TRIGGER)
    ticket = await tracker.get(number)
    azure.sent()
    await tracker.labelled_by(ticket, TRIGGER)
    history = f"GET /wit/workItems/{number}/updates 200"
    sent = azure.sent()
    assert sent[:2] == [history, "GET /projects/Web/teams 200"]
    assert len(sent) == 3
    await tracker.labelled_by(ticket, TRIGGER)
    assert azure.sent() == sent  # who is in a team is never answered from what was kept


async def test_everything_that_was_said_is_what_was_published(azure: SimulatedAzureDevOps) -> None:
    judge = AzureDevOpsJudge()
    tracker = azure.tracker(page_size=3)
    number = azure.item(TRIGGER, "agent-smith:pending", "bug")
    for n in range(4):
        azure.simulator.comment(int(number), f"comment {n}")
    azure.simulator.set_predecessors(int(number), [int(azure.item())])
    await tracker.me()
    await carry_through(tracker, number)
    await carry_through(tracker, azure.item(TRIGGER), words=True)
    ticket = await tracker.get(number)
    await tracker.labelled_by(ticket, TRIGGER)
    await tracker.read_sticky(ticket)
    await tracker.blockers(ticket)
    assert [t.key async for t in tracker.find("bug")] == [number]
    for entry in azure.recorded():
        judge.check_recorded(entry)
    assert judge.judged >= 20
    parts = {path.rpartition("/")[2] for path in judge.undescribed}
    assert parts <= {"connectionData", "Web", "teams", "members", "workitemtypes", "comments", "workitemsbatch"}
