"""Jira on a bad day, beyond what every platform is tested for: its limits, its races, the workflow, moved issues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import RateLimited, Refused, TicketNotFound, TrackerUnavailable, Unauthorized
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import TicketId
from agentsmith.domain.tracker import AlreadySo, Applied, Forbidden, Gone, Limited, LostRace, Unknown
from agentsmith.simulators import Clock
from agentsmith.store import Store
from agentsmith.tickets.lock import LabelLocks
from agentsmith.trackers.http import LocalGovernor, Pace, Shared
from agentsmith.trackers.jira.moves import TRIES
from tests.support.jira_bench import CLAIM, FAIL, FINISH, MEMO, PROJECT, START, TRIGGER, Bench, applied, bench, edge
from tests.support.stores import MakeStore

BUSY = "agent-smith:in-progress"
DONE = "agent-smith:done"
FAILED = "agent-smith:failed"
QUEUED = "agent-smith:enqueued"
STATUSES = {Status.IN_PROGRESS: "In Progress", Status.DONE: "Done"}


@pytest.fixture
async def jira() -> AsyncIterator[Bench]:
    async with bench() as started:
        yield started


# --- limits -------------------------------------------------------------------------------------------------------


async def test_a_limit_of_one_issue_holds_no_other_back(jira: Bench) -> None:
    tracker = jira.tracker()
    first, second = jira.issue(TRIGGER), jira.issue(TRIGGER)
    one, two = await tracker.get(first), await tracker.get(second)
    jira.fail("issue_limit", retry_after=120, path=f"/issue/{first}", method="PUT", times=None)
    outcome = await tracker.move(one, edge(*CLAIM, within=5))
    assert isinstance(outcome, Limited)
    assert "jira-per-issue-on-write" in outcome.reason
    assert outcome.retry_at > time.time() + 60
    applied(await tracker.move(two, edge(*CLAIM)))
    await tracker.get(first)  # reads of the same issue go on, too
    with pytest.raises(RateLimited, match="jira-per-issue-on-write"):
        await tracker.write_sticky(one, "x", MEMO, known=None, deadline=boottime() + 5)


@pytest.mark.parametrize(("kind", "reason"), [("burst_limit", "burst-based"), ("quota_limit", "quota-tenant-based")])
async def test_a_limit_of_the_site_holds_everything_back_and_names_itself(jira: Bench, kind: str, reason: str) -> None:
    tracker = jira.tracker()
    jira.issue(TRIGGER)
    ticket = await tracker.get("WEB-1")
    jira.fail(kind, retry_after=300)
    with pytest.raises(RateLimited, match=reason):
        await tracker.get("WEB-1")
    jira.sent()
    assert isinstance(await tracker.move(ticket, edge(*CLAIM, within=5)), Limited)
    assert jira.sent() == []


async def test_a_limit_without_a_time_is_stayed_away_from_for_a_minute(jira: Bench) -> None:
    tracker = jira.tracker()
    jira.issue(TRIGGER)
    jira.fail("burst_limit", times=None)
    asked = time.time()
    with pytest.raises(RateLimited) as caught:
        await tracker.get("WEB-1")
    assert caught.value.retry_at is not None
    assert caught.value.retry_at > asked + 50


async def test_our_own_life_of_a_ticket_keeps_within_the_limits_per_issue() -> None:
    async with bench(issue_limits=True, clock=Clock(1_800_000_000.0)) as jira:
        tracker = jira.tracker()
        key = jira.issue(TRIGGER)
        for _ in range(3):  # three runs within the same two seconds
            ticket = applied(await tracker.move(await tracker.get(key), edge(*CLAIM))).ticket
            await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 30)
            ticket = applied(await tracker.move(await tracker.get(key), edge(*START))).ticket
            ticket = applied(await tracker.move(ticket, edge(*FAIL))).ticket
            applied(await tracker.move(ticket, edge(Status.FAILED, Status.PENDING)))
        assert not [line for line in jira.sent() if line.endswith("429")]


async def test_a_busy_site_says_when_to_come_back(jira: Bench) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    tracker = jira.tracker(pace=Pace(sleep=sleep))
    jira.issue(TRIGGER)
    jira.fail("status", status=503, headers={"Retry-After": "7"})
    await tracker.get("WEB-1")
    assert slept == [7.0]


# --- races --------------------------------------------------------------------------------------------------------


async def test_a_conflict_is_read_and_written_again_while_the_ticket_shows_expect(jira: Bench) -> None:
    tracker = jira.tracker()
    jira.issue(TRIGGER, QUEUED)
    ticket = await tracker.get("WEB-1")
    jira.sent()
    jira.fail("label_conflict")
    applied(await tracker.move(ticket, edge(*START)))
    assert jira.sent() == ["PUT /issue/WEB-1 409", "GET /issue/WEB-1 200", "PUT /issue/WEB-1 200"]


async def test_an_issue_that_never_rests_is_given_up_after_a_while(jira: Bench) -> None:
    tracker = jira.tracker()
    jira.issue(TRIGGER, QUEUED, BUSY)
    ticket = await tracker.get("WEB-1")
    jira.fail("label_conflict", times=None)
    assert isinstance(await tracker.move(ticket, edge(*START)), Unknown)
    assert len([line for line in jira.sent() if line.startswith("PUT")]) == TRIES
    with pytest.raises(TrackerUnavailable, match="kept changing"):
        await tracker.tidy(await tracker.get("WEB-1"), keep=Status.DONE, deadline=boottime() + 20)


async def test_a_label_that_came_back_once_is_removed_again(jira: Bench) -> None:
    """Seen on the live service after edits in quick succession: what one removed stood there again."""
    tracker = jira.tracker()
    jira.issue(TRIGGER, QUEUED)
    ticket = await tracker.get("WEB-1")
    jira.fail("label_revived")
    jira.sent()
    assert applied(await tracker.move(ticket, edge(*START))).ticket.labels == {TRIGGER, BUSY}
    assert jira.sent() == ["PUT /issue/WEB-1 200"] * 2
    assert jira.labels("WEB-1") == {TRIGGER, BUSY}


@pytest.mark.parametrize("cloud", [True, False])
async def test_whoever_overwrites_our_claim_wins(cloud: bool) -> None:
    """The property that travels with the labels is another's when it is read back: they wrote right after us."""
    async with bench(cloud=cloud, returns_properties=True) as jira:
        tracker = jira.tracker()
        jira.issue(TRIGGER)
        ticket = await tracker.get("WEB-1")
        theirs = {"run": "other", "fence": 9, "status": "enqueued", "nonce": "theirs"}

        def overwrite() -> None:
            jira.simulator.set_property("WEB-1", "agent-smith.lifecycle", theirs)

        if cloud:
            changes = jira.simulator.hub.changes
            original = changes.set_labels

            def and_then(*args: object, **more: object) -> object:
                original(*args, **more)  # type: ignore[arg-type]
                overwrite()
                return jira.simulator.issue("WEB-1")

            changes.set_labels = and_then  # type: ignore[method-assign, assignment]
        else:
            jira.fail("meanwhile", method="PUT", after=True, action=overwrite)
        outcome = await tracker.move(ticket, edge(*CLAIM))
        assert isinstance(outcome, LostRace)


async def test_a_person_who_fails_a_run_by_hand_wins(jira: Bench) -> None:
    """No read before the last edge: the answer shows what they did."""
    tracker = jira.tracker()
    jira.issue(TRIGGER, QUEUED)
    ticket = applied(await tracker.move(await tracker.get("WEB-1"), edge(*START))).ticket
    jira.simulator.add_label("WEB-1", FAILED)
    outcome = await tracker.move(ticket, edge(*FINISH))
    assert isinstance(outcome, LostRace)
    assert FAILED in outcome.ticket.labels
    tidied = await tracker.tidy(outcome.ticket, keep=Status.FAILED, deadline=boottime() + 20)
    assert tidied.labels == {TRIGGER, FAILED} == jira.labels("WEB-1")


@pytest.mark.parametrize("trust", [5.0, 0.0])
async def test_a_label_of_a_person_between_read_and_write_survives(jira: Bench, trust: float) -> None:
    tracker = jira.tracker(trust_reads=trust)
    jira.issue(TRIGGER)
    ticket = await tracker.get("WEB-1")
    jira.fail("meanwhile", method="PUT", action=lambda: jira.simulator.add_label("WEB-1", "urgent"))
    assert applied(await tracker.move(ticket, edge(*CLAIM))).ticket.labels == {TRIGGER, "urgent", QUEUED}


async def test_an_old_ticket_is_always_read_again(jira: Bench) -> None:
    tracker = jira.tracker()
    jira.issue(TRIGGER, QUEUED)
    old = applied(await tracker.move(await tracker.get("WEB-1"), edge(*START))).ticket
    jira.simulator.add_label("WEB-1", FAILED)
    await tracker.get("WEB-1")
    jira.sent()
    assert isinstance(await tracker.move(old, edge(*FINISH)), LostRace)
    assert jira.sent() == ["GET /issue/WEB-1 200"]


async def test_nothing_to_write_is_never_said_from_memory(jira: Bench) -> None:
    tracker = jira.tracker()
    jira.issue(TRIGGER, BUSY)
    ticket = await tracker.get("WEB-1")
    jira.sent()
    assert isinstance(await tracker.move(ticket, edge(*START)), AlreadySo)
    assert jira.sent() == ["GET /issue/WEB-1 200"]


async def test_a_hit_of_a_search_is_never_written_from(jira: Bench) -> None:
    tracker = jira.tracker()
    jira.issue(TRIGGER)
    (hit,) = [t async for t in tracker.find(TRIGGER)]
    jira.sent()
    applied(await tracker.move(hit, edge(*CLAIM)))
    assert jira.sent() == ["GET /issue/WEB-1 200", "PUT /issue/WEB-1 200"]


# --- the label lock -----------------------------------------------------------------------------------------------


async def test_the_label_write_happens_under_the_stores_lock(jira: Bench, store: Store) -> None:
    tracker = jira.tracker(shared=Shared(label_lock=LabelLocks(store)))
    jira.issue(TRIGGER)
    ticket = await tracker.get("WEB-1")
    hold = jira.fail("slow", method="PUT")
    moving = asyncio.create_task(tracker.move(ticket, edge(*CLAIM)))
    await hold.hit()
    key = store.keys.jira_label_lock(ticket.id)
    assert await store.redis.get(key) is not None
    hold.release()
    applied(await moving)
    assert await store.redis.get(key) is None


async def test_two_replicas_write_one_after_the_other(jira: Bench, make_store: MakeStore) -> None:
    """With the label lock alone, and both having seen the ticket pending: the second looks again."""
    one, two = (jira.tracker(shared=Shared(label_lock=LabelLocks(make_store())), trust_reads=0) for _ in range(2))
    for _ in range(20):
        ticket = await one.get(jira.issue(TRIGGER))
        outcomes = await asyncio.gather(one.move(ticket, edge(*CLAIM)), two.move(ticket, edge(*CLAIM)))
        assert {type(outcome) for outcome in outcomes} == {Applied, AlreadySo}


async def test_nothing_is_written_past_the_locks_time(jira: Bench) -> None:
    class Short:
        """A lock that may be trusted for no time at all."""

        @asynccontextmanager
        async def __call__(self, ticket: TicketId, *, deadline: float) -> AsyncIterator[float]:  # noqa: ARG002
            yield boottime()

    tracker = jira.tracker(shared=Shared(label_lock=Short()))
    jira.issue(TRIGGER, QUEUED, BUSY)
    ticket = await tracker.get("WEB-1")
    jira.sent()
    assert isinstance(await tracker.move(ticket, edge(*START)), Unknown)
    with pytest.raises(TrackerUnavailable):
        await tracker.tidy(ticket, keep=Status.DONE, deadline=boottime() + 20)
    assert jira.sent() == []


async def test_a_lock_that_is_held_is_not_waited_for_beyond_the_deadline(jira: Bench, store: Store) -> None:
    lock = LabelLocks(store)
    tracker = jira.tracker(shared=Shared(label_lock=lock))
    jira.issue(TRIGGER)
    ticket = await tracker.get("WEB-1")
    async with lock(ticket.id, deadline=boottime() + 30):
        outcome = await tracker.move(ticket, edge(*CLAIM, within=0.1))
    assert isinstance(outcome, Unknown)
    assert "somebody else" in outcome.reason
    assert jira.labels("WEB-1") == {TRIGGER}


# --- status mode --------------------------------------------------------------------------------------------------


async def test_the_workflow_moves_first_and_the_label_follows(jira: Bench) -> None:
    tracker = jira.tracker(statuses=STATUSES)
    jira.issue(TRIGGER, QUEUED)
    ticket = await tracker.get("WEB-1")
    jira.recorded()
    applied(await tracker.move(ticket, edge(*START)))
    offered, made, looked, labelled = jira.recorded()
    assert (offered.method, made.method, looked.method, labelled.method) == ("GET", "POST", "GET", "PUT")
    assert made.body["transition"] == {"id": offered_id(jira, "To Do to In Progress")}
    (claim,) = made.body["properties"]
    assert (claim["key"], claim["value"]["run"], claim["value"]["fence"]) == ("agent-smith.lifecycle", "run-1", 7)
    assert (jira.simulator.status("WEB-1"), jira.labels("WEB-1")) == ("In Progress", {TRIGGER, BUSY})


def offered_id(jira: Bench, name: str) -> str:
    """The id of a transition by its name."""
    ways = jira.simulator.hub.world.project(PROJECT).transitions
    return next(way.id for way in ways if way.name == name)


async def test_of_two_transitions_at_once_one_is_told_409_and_has_lost(jira: Bench) -> None:
    tracker = jira.tracker(statuses=STATUSES)
    jira.issue(TRIGGER, QUEUED)
    ticket = await tracker.get("WEB-1")
    jira.fail("transition_conflict")
    assert isinstance(await tracker.move(ticket, edge(*START)), LostRace)
    assert (jira.simulator.status("WEB-1"), jira.labels("WEB-1")) == ("To Do", {TRIGGER, QUEUED})


async def test_a_transition_that_is_gone_because_somebody_was_faster_is_lost(jira: Bench) -> None:
    jira.simulator.set_transitions(PROJECT, [("To Do", "In Progress"), ("In Progress", "Done"), ("To Do", "Done")])
    tracker = jira.tracker(statuses=STATUSES)
    jira.issue(TRIGGER, QUEUED)
    ticket = await tracker.get("WEB-1")
    move = lambda: jira.simulator.transition("WEB-1", "Done")  # noqa: E731 - it has no other name
    jira.fail("meanwhile", method="POST", path="/transitions", action=move)
    assert isinstance(await tracker.move(ticket, edge(*START)), LostRace)
    assert jira.labels("WEB-1") == {TRIGGER, QUEUED}


async def test_a_transition_that_jira_refuses_for_another_reason_is_forbidden_in_its_words(jira: Bench) -> None:
    tracker = jira.tracker(statuses=STATUSES)
    jira.issue(TRIGGER, QUEUED)
    ticket = await tracker.get("WEB-1")
    body = {"errorMessages": ["Story points are required."], "errors": {}}
    jira.fail("status", status=400, body=body, method="POST", path="/transitions")
    outcome = await tracker.move(ticket, edge(*START))
    assert isinstance(outcome, Forbidden)
    assert "Story points" in outcome.reason


async def test_a_workflow_without_the_way_is_told_with_what_there_is(jira: Bench) -> None:
    jira.simulator.set_transitions(PROJECT, [("To Do", "Done")])
    tracker = jira.tracker(statuses=STATUSES)
    jira.issue(TRIGGER, QUEUED)
    outcome = await tracker.move(await tracker.get("WEB-1"), edge(*START))
    assert isinstance(outcome, Forbidden)
    assert "no transition from 'To Do' to 'In Progress'" in outcome.reason
    assert "Done" in outcome.reason
    assert "Correct `statuses`" in outcome.reason


async def test_a_transition_may_be_named_by_its_id(jira: Bench) -> None:
    ids = jira.simulator.set_transitions(PROJECT, [("To Do", "In Progress"), ("In Progress", "Done"), (None, "To Do")])
    tracker = jira.tracker(statuses={Status.IN_PROGRESS: ids["To Do to In Progress"]})
    for _ in range(2):
        key = jira.issue(TRIGGER, QUEUED)
        ticket = applied(await tracker.move(await tracker.get(key), edge(*START))).ticket
        assert jira.simulator.status(key) == "In Progress"
        applied(await tracker.move(ticket, edge(*FINISH)))  # which has no status of its own
        assert (jira.simulator.status(key), jira.labels(key)) == ("In Progress", {TRIGGER, DONE})


async def test_a_run_that_died_between_transition_and_label_finishes_it_and_nobody_else_does(jira: Bench) -> None:
    tracker = jira.tracker(statuses=STATUSES)
    jira.issue(TRIGGER, QUEUED)
    ticket = await tracker.get("WEB-1")
    jira.fail("status", status=503, method="PUT", times=None)
    assert isinstance(await tracker.move(ticket, edge(*START)), Unknown)
    assert (jira.simulator.status("WEB-1"), jira.labels("WEB-1")) == ("In Progress", {TRIGGER, QUEUED})
    jira.simulator.clear_faults()
    other = jira.tracker(statuses=STATUSES)
    assert isinstance(await other.move(await other.get("WEB-1"), edge(*START, run="run-2")), LostRace)
    jira.sent()
    applied(await other.move(await other.get("WEB-1"), edge(*START)))
    assert not [line for line in jira.sent() if "transitions" in line]
    assert jira.labels("WEB-1") == {TRIGGER, BUSY}


async def test_a_person_who_dragged_the_card_themselves_is_in_nobodys_way(jira: Bench) -> None:
    tracker = jira.tracker(statuses=STATUSES)
    jira.issue(TRIGGER, QUEUED)
    jira.simulator.transition("WEB-1", "In Progress")
    jira.sent()
    applied(await tracker.move(await tracker.get("WEB-1"), edge(*START)))
    assert jira.sent() == ["GET /issue/WEB-1 200", "PUT /issue/WEB-1 200"]


async def test_many_writers_and_one_winner_by_the_workflow_alone() -> None:
    """Without any lock: the transition leads from the expected status only, so the second one finds it gone."""
    async with bench() as jira:
        jira.simulator.set_transitions(PROJECT, [("To Do", "In Progress"), ("In Progress", "Done")])
        writers = [jira.tracker(statuses=STATUSES) for _ in range(3)]
        for _ in range(20):
            key = jira.issue(TRIGGER, QUEUED)
            tickets = [await writer.get(key) for writer in writers]
            racing = enumerate(zip(writers, tickets, strict=True))
            outcomes = await asyncio.gather(*(w.move(t, edge(*START, run=f"run-{n}")) for n, (w, t) in racing))
            won = [outcome for outcome in outcomes if isinstance(outcome, Applied)]
            assert len(won) == 1, outcomes
            assert all(isinstance(outcome, Applied | LostRace | AlreadySo) for outcome in outcomes)
            assert jira.labels(key) == {TRIGGER, BUSY}


# --- who we are, and where issues are -----------------------------------------------------------------------------


@pytest.mark.parametrize("cloud", [True, False])
async def test_a_stranger_is_shown_an_empty_list_which_is_no_empty_list(cloud: bool) -> None:
    """P9: with a bad token Jira may answer like to anybody, with 200 and nothing in it."""
    async with bench(cloud=cloud) as jira:
        jira.issue(TRIGGER)
        tracker = jira.tracker()
        jira.fail("anonymous", times=None)
        with pytest.raises(Unauthorized):
            _ = [t async for t in tracker.find(TRIGGER)]
        with pytest.raises(Unauthorized):
            await tracker.get("WEB-1")


async def test_an_expired_token(jira: Bench) -> None:
    jira.simulator.add_token("ATATT-EXPIRING", user="smith-bot", expires_in=60)
    jira.issue(TRIGGER)
    tracker = jira.tracker(token="ATATT-EXPIRING")
    await tracker.get("WEB-1")
    jira.simulator.clock.advance(61)
    with pytest.raises(Unauthorized):
        await tracker.get("WEB-1")


async def test_an_account_that_may_not_edit_is_told_in_jiras_words(jira: Bench) -> None:
    jira.simulator.set_role(PROJECT, "smith-bot", "read")
    jira.issue(TRIGGER)
    tracker = jira.tracker()
    outcome = await tracker.move(await tracker.get("WEB-1"), edge(*CLAIM))
    assert isinstance(outcome, Forbidden)
    assert "labels: Field 'labels' cannot be set" in outcome.reason


async def test_labels_that_are_not_on_the_edit_screen(jira: Bench) -> None:
    jira.simulator.hide_labels(PROJECT)
    jira.issue(TRIGGER)
    tracker = jira.tracker()
    outcome = await tracker.move(await tracker.get("WEB-1"), edge(*CLAIM))
    assert isinstance(outcome, Forbidden)
    assert "screen" in outcome.reason


async def test_a_project_out_of_sight_is_no_empty_list(jira: Bench) -> None:
    jira.issue(TRIGGER)
    tracker = jira.tracker()
    jira.simulator.hub.world.projects.pop(PROJECT)
    with pytest.raises(Refused, match="No project could be found"):
        _ = [t async for t in tracker.find(TRIGGER)]


async def test_a_moved_issue_is_another_ticket_and_is_left_alone(jira: Bench) -> None:
    jira.simulator.add_project("OPS")
    jira.simulator.set_role("OPS", "smith-bot", "admin")
    jira.issue(TRIGGER)
    tracker = jira.tracker(trust_reads=0)
    ticket = await tracker.get("WEB-1")
    there = jira.simulator.move_issue("WEB-1", "OPS")
    with pytest.raises(TicketNotFound, match=f"moved to {there}"):
        await tracker.get("WEB-1")
    assert isinstance(await tracker.move(ticket, edge(*CLAIM)), Gone)
    assert set(jira.simulator.labels(there)) == {TRIGGER}
    assert [t async for t in tracker.find(TRIGGER)] == []


async def test_a_limit_is_over_when_its_time_is(jira: Bench) -> None:
    ahead = [0.0]
    tracker = jira.tracker(shared=Shared(governor=LocalGovernor(lambda: time.time() + ahead[0])))
    jira.issue(TRIGGER)
    jira.fail("quota_limit", retry_after=3000)
    with pytest.raises(RateLimited):
        await tracker.get("WEB-1")
    ahead[0] = 3001.0
    assert (await tracker.get("WEB-1")).labels == {TRIGGER}
