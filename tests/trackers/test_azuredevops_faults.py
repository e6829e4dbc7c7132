"""Azure DevOps on a bad day: every fault against every call, races, and what is on the work item afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import (
    BadAnswer,
    Refused,
    TicketNotFound,
    Unauthorized,
)
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import AlreadySo, Applied, Forbidden, Gone, LostRace, Unknown
from agentsmith.simulators import Clock
from agentsmith.trackers.azuredevops.moves import TRIES
from agentsmith.trackers.azuredevops.tracker import AzureDevOpsTracker
from agentsmith.trackers.http import LocalGovernor, Pace, Shared
from tests.support.edges import CLAIM, FINISH, START, TRIGGER, applied, edge
from tests.support.loopback import FAST
from tests.support.simulated_azuredevops import BOT, PROJECT, TOKEN, SimulatedAzureDevOps, say, simulated_azuredevops

BUSY = "agent-smith:in-progress"
QUEUED = "agent-smith:enqueued"
DONE = "agent-smith:done"
PATCH = {"method": "PATCH", "path": r"/workitems/\d+$"}
PACE = Pace(first_delay=0.001, longest_delay=0.002, largest_body=1_000_000)


@pytest.fixture
async def azure() -> AsyncIterator[SimulatedAzureDevOps]:
    async with simulated_azuredevops() as started:
        yield started


async def _find(tracker: AzureDevOpsTracker) -> list[Ticket]:
    return [t async for t in tracker.find(TRIGGER)]


async def test_somebody_who_may_only_read_is_told_so_in_azures_words(azure: SimulatedAzureDevOps) -> None:
    azure.simulator.take_rights(BOT)
    azure.item(TRIGGER)
    tracker = azure.tracker()
    outcome = await tracker.move(await tracker.get("1"), edge(*CLAIM))
    assert isinstance(outcome, Forbidden)
    assert "TF401289" in outcome.reason


async def test_what_we_may_not_see_is_not_there(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER)
    ticket = await tracker.get("1")
    azure.simulator.take_rights(BOT, read=False)
    with pytest.raises(TicketNotFound, match="TF401232"):
        await tracker.get("1")
    assert isinstance(await tracker.move(ticket, edge(*CLAIM)), Gone)


async def test_a_rule_of_the_process_is_told_in_its_own_words(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER)
    body = {"message": "TF401320: Rule Error for field Reviewed By.", "typeKey": "RuleValidationException"}
    azure.fail("status", status=400, body=body, **PATCH)
    outcome = await tracker.move(await tracker.get("1"), edge(*CLAIM))
    assert isinstance(outcome, Forbidden)
    assert "Reviewed By" in outcome.reason


async def test_a_work_item_at_the_end_of_its_revisions_is_forbidden_ground() -> None:
    async with simulated_azuredevops(most_revisions=1) as azure:
        tracker = azure.tracker()
        azure.item(TRIGGER)
        outcome = await tracker.move(await tracker.get("1"), edge(*CLAIM))
        assert isinstance(outcome, Forbidden)
        assert "revisions" in outcome.reason


# --- races ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["revision_race", "stale"])
async def test_a_conflict_is_read_and_written_again_while_the_ticket_shows_expect(
    azure: SimulatedAzureDevOps, kind: str
) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER, QUEUED)
    ticket = await tracker.get("1")
    azure.sent()
    if kind == "stale":
        azure.simulator.edit_item(1, title="edited")
    else:
        azure.fail("revision_race")
    applied(await tracker.move(ticket, edge(*START)))
    code = 412 if kind == "stale" else 409
    assert azure.sent() == [f"PATCH /wit/workitems/1 {code}", "GET /wit/workitems/1 200", "PATCH /wit/workitems/1 200"]
    assert azure.tags("1") == {TRIGGER, BUSY}


async def test_a_work_item_that_never_rests_is_given_up_after_a_while_and_with_jitter(
    azure: SimulatedAzureDevOps,
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    tracker = azure.tracker(pace=Pace(sleep=sleep, chance=lambda: 0.5))
    azure.item(TRIGGER, QUEUED)
    ticket = await tracker.get("1")
    azure.fail("revision_race", times=None)
    outcome = await tracker.move(ticket, edge(*START))
    assert isinstance(outcome, Unknown)
    assert len([line for line in azure.sent() if line.startswith("PATCH")]) == TRIES
    assert slept == pytest.approx([0.075, 0.15, 0.3, 0.6])
    assert azure.tags("1") == {TRIGGER, QUEUED}


@pytest.mark.parametrize("status", [409, 412])
async def test_another_conflict_is_no_race_and_is_not_repeated(azure: SimulatedAzureDevOps, status: int) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER, QUEUED)
    ticket = await tracker.get("1")
    azure.sent()
    body = {"message": "VS402625: Dates must be increasing", "typeKey": "WorkItemDatesNotIncreasingException"}
    azure.fail("status", status=status, body=body, **PATCH)
    outcome = await tracker.move(ticket, edge(*START))
    assert isinstance(outcome, Forbidden)
    assert "VS402625" in outcome.reason
    assert len(azure.sent()) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"message": "VS403351: Test Operation for path /rev failed", "typeKey": "Renamed"},
        {"message": "in some other language", "typeKey": "WorkItemRevisionMismatchException"},
        {"value": {"Message": "TF26071: changed by someone else"}},
    ],
)
async def test_a_race_is_known_by_its_name_or_by_its_number(azure: SimulatedAzureDevOps, body: dict[str, Any]) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER, QUEUED)
    ticket = await tracker.get("1")
    azure.fail("status", status=409, body=body, **PATCH)
    applied(await tracker.move(ticket, edge(*START)))


async def test_a_tag_that_a_person_adds_after_our_comment_survives_the_next_move(azure: SimulatedAzureDevOps) -> None:
    """The revision after our own comment is worked out, not read: whoever wrote meanwhile must show all the same."""
    tracker = azure.tracker()
    await _run(tracker, azure.item(TRIGGER))  # by now it is known what an edit does to the revision
    number = azure.item(TRIGGER, QUEUED)
    ticket = applied(await tracker.move(await tracker.get(number), edge(*START))).ticket
    known = await say(tracker, ticket, "one", None)
    ticket = await tracker.get(number)
    known = await say(tracker, ticket, "two", known)
    azure.simulator.add_tag(int(number), "urgent")
    azure.sent()
    done = applied(await tracker.move(ticket, edge(*FINISH))).ticket
    assert done.labels == azure.tags(number) == {TRIGGER, DONE, "urgent"}
    assert [line.split()[-1] for line in azure.sent()] == ["412", "200", "200"]


async def test_an_edit_that_makes_no_revision_hides_nobody(
    azure: SimulatedAzureDevOps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a service whose edits made no revision, somebody's change must not be taken for our edit."""

    def quietly(item: Any, by: Any, comments: Any, touched: int) -> None:
        item.revisions[-1] = replace(item.now, comments=comments)

    monkeypatch.setattr(azure.simulator.hub.changes, "_comments", quietly)
    tracker = azure.tracker()
    for disturbed in (True, False, True, True):
        number = azure.item(TRIGGER, QUEUED)
        ticket = applied(await tracker.move(await tracker.get(number), edge(*START))).ticket
        known = await say(tracker, ticket, "one", None)
        ticket = await tracker.get(number)
        await say(tracker, ticket, "two", known)
        if disturbed:
            azure.simulator.add_tag(int(number), "urgent", BOT)
        applied(await tracker.move(ticket, edge(*FINISH)))
        assert azure.tags(number) == {TRIGGER, DONE} | ({"urgent"} if disturbed else set())


async def _run(tracker: AzureDevOpsTracker, number: str) -> None:
    ticket = applied(await tracker.move(await tracker.get(number), edge(*CLAIM))).ticket
    known = await say(tracker, ticket, "queued", None)
    ticket = applied(await tracker.move(await tracker.get(number), edge(*START))).ticket
    await say(tracker, ticket, "running", known)
    applied(await tracker.move(ticket, edge(*FINISH)))


async def test_the_second_of_two_claims_is_lost_or_already_so(azure: SimulatedAzureDevOps) -> None:
    one, two = azure.tracker(), azure.tracker()
    azure.item(TRIGGER)
    first, second = await one.get("1"), await two.get("1")
    outcomes = await asyncio.gather(one.move(first, edge(*CLAIM)), two.move(second, edge(*CLAIM)))
    assert {type(outcome) for outcome in outcomes} == {Applied, AlreadySo}
    late = await two.move(second, edge(Status.PENDING, Status.FAILED))
    assert isinstance(late, LostRace)
    assert azure.simulator.item(1).now.rev == 2


# --- limits, time, places ---------------------------------------------------------------------------------------------


async def test_retry_after_is_honoured_even_on_success(azure: SimulatedAzureDevOps) -> None:
    slept: list[float] = []
    clock = [1_800_000_000.0]

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    shared = Shared(governor=LocalGovernor(lambda: clock[0]))
    tracker = azure.tracker(shared=shared, pace=Pace(call=60, sleep=sleep))
    azure.item(TRIGGER)
    await tracker.get("1")
    azure.fail("delayed", retry_after=17)
    assert (await tracker.get("1")).labels == {TRIGGER}
    assert slept == []
    await tracker.get("1")
    assert slept == [17.0]


async def test_a_used_up_allowance_alone_holds_nobody_back(azure: SimulatedAzureDevOps) -> None:
    """It is counted in load and refills all the time; Retry-After is what counts."""
    shared = Shared(governor=LocalGovernor())
    tracker = azure.tracker(shared=shared)
    azure.item(TRIGGER)
    azure.fail("delayed", retry_after=0)
    await tracker.get("1")
    await tracker.get("1")
    assert isinstance(shared.governor, LocalGovernor)
    (quotas,) = shared.governor.quotas().values()
    assert [(q.bucket, q.limit, q.remaining) for q in quotas] == [("Concurrency", 200, 0)]


async def test_an_expired_or_revoked_token_is_unauthorized() -> None:
    async with simulated_azuredevops(clock=Clock(1_800_000_000.0)) as azure:
        azure.simulator.add_token("short-lived-token-0123456789", user=BOT, expires_in=60)
        azure.item(TRIGGER)
        tracker = azure.tracker(token="short-lived-token-0123456789")
        await tracker.get("1")
        azure.simulator.clock.advance(61)
        with pytest.raises(Unauthorized, match="sign-in page"):
            await tracker.get("1")
        azure.simulator.revoke_token(TOKEN)
        with pytest.raises(Unauthorized):
            _ = [t async for t in azure.tracker().find(TRIGGER)]


async def test_a_work_item_that_was_moved_to_another_project_is_not_ours(azure: SimulatedAzureDevOps) -> None:
    azure.simulator.add_project("Other")
    azure.item(TRIGGER)
    tracker = azure.tracker()
    ticket = await tracker.get("1")
    azure.simulator.move_item(1, "Other")
    with pytest.raises(TicketNotFound, match="Other"):
        await tracker.get("1")
    assert isinstance(await tracker.move(ticket, edge(*CLAIM)), Gone)
    assert await _find(tracker) == []


async def test_a_renamed_project_is_followed_and_its_tickets_keep_their_names(azure: SimulatedAzureDevOps) -> None:
    azure.item(TRIGGER)
    tracker = azure.tracker()
    before = await tracker.get("1")
    azure.simulator.rename_project(PROJECT, "Web Two")
    after = await tracker.get("1")
    assert after.id == before.id
    assert tracker.identify(before.url) == tracker.identify(after.url) == "1"
    applied(await tracker.move(after, edge(*CLAIM)))
    assert azure.recorded()[-1].raw_path == "/acme/Web%20Two/_apis/wit/workitems/1"


async def test_a_state_that_the_process_does_not_know_is_a_bad_answer_and_asked_for_once_a_minute(
    azure: SimulatedAzureDevOps,
) -> None:
    at = [0.0]
    tracker = azure.tracker(pace=Pace(first_delay=0.001, now=lambda: boottime() + at[0]))
    azure.item(TRIGGER)
    await tracker.get("1")
    types = azure.simulator.hub.world.project(PROJECT).types
    types["Task"] = {**types["Task"], "Frozen": "Removed"}
    azure.simulator.set_state(1, "Frozen")
    azure.sent()
    for _ in range(2):
        with pytest.raises(BadAnswer, match="Frozen"):
            await tracker.get("1")
    assert azure.sent() == ["GET /wit/workitems/1 200"] * 2
    at[0] += 60
    assert not (await tracker.get("1")).open
    assert azure.sent() == ["GET /wit/workitems/1 200", "GET /wit/workitemtypes 200"]


async def test_a_wrong_project_is_refused_and_never_an_empty_list(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker(project="Nowhere", pace=FAST)
    with pytest.raises(Refused, match="TF200016"):
        await _find(tracker)
    with pytest.raises(TicketNotFound):
        await tracker.get("1")
