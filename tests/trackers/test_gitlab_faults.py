"""GitLab on a bad day: every fault against every call, and what is on the issue afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import (
    BadAnswer,
    RateLimited,
    Refused,
    TicketNotFound,
    TrackerUnavailable,
    Unauthorized,
)
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import AlreadySo, Applied, Forbidden, Gone, LostRace, Unknown
from agentsmith.simulators import Clock
from agentsmith.trackers.gitlab.spelling import LabelStyle
from agentsmith.trackers.gitlab.tracker import GitLabTracker
from agentsmith.trackers.http import OutcomeUnknown, Pace
from tests.support.edges import CLAIM, FINISH, MEMO, START, TRIGGER, applied, edge
from tests.support.simulated_gitlab import PROJECT, SimulatedGitLab, simulated_gitlab

BUSY = "agent-smith:in-progress"
DONE = "agent-smith:done"
FAILED = "agent-smith:failed"
WRITE = "POST|PUT"
PACE = Pace(first_delay=0.001, longest_delay=0.002, largest_body=1_000_000)


@pytest.fixture
async def gitlab() -> AsyncIterator[SimulatedGitLab]:
    async with simulated_gitlab() as started:
        yield started


async def _find(tracker: GitLabTracker) -> list[Ticket]:
    return [t async for t in tracker.find(TRIGGER)]


async def test_an_expired_token_says_so(gitlab: SimulatedGitLab) -> None:
    gitlab.simulator.add_token("glpat-EXPIRINGEXPIRING", expires_in=60)
    tracker = gitlab.tracker(token="glpat-EXPIRINGEXPIRING")
    gitlab.issue(TRIGGER)
    await tracker.get("1")
    gitlab.simulator.clock.advance(61)
    with pytest.raises(Unauthorized, match="Token is expired"):
        await tracker.get("1")


async def test_a_token_that_may_only_read(gitlab: SimulatedGitLab) -> None:
    gitlab.simulator.add_token("glpat-READONLYREADONLY", scopes=["read_api"])
    tracker = gitlab.tracker(token="glpat-READONLYREADONLY")
    gitlab.issue(TRIGGER)
    outcome = await tracker.move(await tracker.get("1"), edge(*CLAIM))
    assert isinstance(outcome, Forbidden)
    assert "insufficient_scope; The request requires higher privileges" in outcome.reason


async def test_a_limit_for_comments_holds_no_labels_back(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker(pace=PACE)
    gitlab.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    gitlab.fail("notes_limit", times=None)
    with pytest.raises(RateLimited, match="requested too many times"):
        await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 2)
    applied(await tracker.move(ticket, edge(*START)))


async def test_the_announced_quota_is_kept() -> None:
    # An hour ahead, so that the minute never ends while the test runs.
    async with simulated_gitlab(rate_limit=3, clock=Clock(time.time() + 3600)) as gitlab:
        tracker = gitlab.tracker()
        gitlab.issue(TRIGGER)
        for _ in range(3):
            await tracker.get("1")
        with pytest.raises(RateLimited, match="used up"):
            await tracker.get("1")
        assert [line.split()[-1] for line in gitlab.sent()] == ["200"] * 3


# --- what others do at the same time -------------------------------------------------------------------------------


async def test_a_guest_who_opened_the_issue_is_not_told_that_labels_are_not_theirs(gitlab: SimulatedGitLab) -> None:
    gitlab.simulator.set_access(PROJECT, "smith-bot", "guest")
    tracker = gitlab.tracker()
    mine, theirs = gitlab.issue(TRIGGER, actor="smith-bot"), gitlab.issue(TRIGGER)
    for iid, words in ((mine, "answered 200, but did not add"), (theirs, "403 Forbidden")):
        outcome = await tracker.move(await tracker.get(iid), edge(*CLAIM))
        assert isinstance(outcome, Forbidden)
        assert words in outcome.reason
    assert isinstance(await tracker.move(await tracker.get(mine), edge(*CLAIM)), Forbidden)


@pytest.mark.parametrize("to", [Status.DONE, None])
async def test_a_removal_that_is_dropped_in_silence_is_forbidden(gitlab: SimulatedGitLab, to: Status | None) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(BUSY)
    ticket = await tracker.get("1")
    gitlab.fail("label_survives", times=None)
    outcome = await tracker.move(ticket, edge(Status.IN_PROGRESS, to))
    assert isinstance(outcome, Forbidden)
    assert "is still there" in outcome.reason


@pytest.mark.parametrize("style", LabelStyle)
async def test_a_label_that_came_back_once_is_removed_again(gitlab: SimulatedGitLab, style: LabelStyle) -> None:
    tracker = gitlab.tracker(style=style)
    gitlab.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    gitlab.fail("label_survives")
    gitlab.sent()
    assert applied(await tracker.move(ticket, edge(*START))).ticket.labels == {TRIGGER, BUSY}
    assert gitlab.sent() == ["PUT /issues/1 200"] * 2
    assert len(gitlab.labels("1")) == 2


async def test_a_person_who_fails_a_run_by_hand_wins(gitlab: SimulatedGitLab) -> None:
    """No read before the last edge: the answer shows what they did, and our label goes again."""
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER, "agent-smith:enqueued")
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    gitlab.simulator.add_label(PROJECT, 1, FAILED)
    gitlab.sent()
    outcome = await tracker.move(ticket, edge(*FINISH))
    assert gitlab.sent() == ["PUT /issues/1 200"] * 2
    assert isinstance(outcome, LostRace)
    assert outcome.ticket.labels == {TRIGGER, FAILED} == gitlab.labels("1")


async def test_a_withdrawal_of_our_label_that_fails_leaves_both_for_repair(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    ticket = await tracker.get("1")
    gitlab.simulator.add_label(PROJECT, 1, DONE)
    gitlab.fail("status", status=502, method="PUT", skip=1)
    outcome = await tracker.move(ticket, edge(*CLAIM))
    assert isinstance(outcome, LostRace)
    assert outcome.ticket.labels == {TRIGGER, DONE, "agent-smith:enqueued"} == gitlab.labels("1")
    tidied = await tracker.tidy(outcome.ticket, keep=Status.DONE, deadline=boottime() + 20)
    assert tidied.labels == {TRIGGER, DONE}


async def test_a_claim_that_somebody_finished_since_the_read_is_lost(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    ticket = await tracker.get("1")
    gitlab.simulator.add_label(PROJECT, 1, DONE)
    assert isinstance(await tracker.move(ticket, edge(*CLAIM)), LostRace)
    assert gitlab.labels("1") == {TRIGGER, DONE}


async def test_on_a_paid_tier_a_scoped_label_pushes_out_what_a_person_set(gitlab: SimulatedGitLab) -> None:
    """What GitLab itself does we cannot prevent; the profile page says so."""
    async with simulated_gitlab(premium=True) as gitlab:
        tracker = gitlab.tracker(style=LabelStyle.SCOPED)
        gitlab.issue(TRIGGER, "agent-smith::enqueued")
        ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
        gitlab.simulator.add_label(PROJECT, 1, "agent-smith::failed")
        assert isinstance(await tracker.move(ticket, edge(*FINISH)), Applied)
        assert gitlab.labels("1") == {TRIGGER, "agent-smith::done"}


@pytest.mark.parametrize("trust", [5.0, 0.0])
async def test_a_label_of_a_person_between_read_and_write_survives(gitlab: SimulatedGitLab, trust: float) -> None:
    tracker = gitlab.tracker(trust_reads=trust)
    gitlab.issue(TRIGGER)
    ticket = await tracker.get("1")
    gitlab.fail("meanwhile", method="PUT", action=lambda: gitlab.simulator.add_label(PROJECT, 1, "urgent"))
    assert applied(await tracker.move(ticket, edge(*CLAIM))).ticket.labels == {
        TRIGGER,
        "urgent",
        "agent-smith:enqueued",
    }


async def test_what_gitlab_loses_between_its_own_read_and_write_we_cannot_prevent(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    ticket = await tracker.get("1")
    gitlab.simulator.add_label(PROJECT, 1, "urgent")
    gitlab.fail("lost_update")
    assert applied(await tracker.move(ticket, edge(*CLAIM))).ticket.labels == {TRIGGER, "agent-smith:enqueued"}


async def test_an_old_ticket_is_always_read_again(gitlab: SimulatedGitLab) -> None:
    """Only the newest thing that this process knows of an issue may stand for a read."""
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER, "agent-smith:enqueued")
    old = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    gitlab.simulator.add_label(PROJECT, 1, FAILED)
    await tracker.get("1")
    gitlab.sent()
    assert isinstance(await tracker.move(old, edge(*FINISH)), LostRace)
    assert gitlab.sent() == ["GET /issues/1 200"]


async def test_nothing_to_write_is_never_said_from_memory(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER, BUSY)
    ticket = await tracker.get("1")
    gitlab.sent()
    assert isinstance(await tracker.move(ticket, edge(*START)), AlreadySo)
    assert gitlab.sent() == ["GET /issues/1 200"]


async def test_a_hit_of_a_list_is_never_written_from(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    (hit,) = await _find(tracker)
    gitlab.sent()
    applied(await tracker.move(hit, edge(*CLAIM)))
    assert gitlab.sent() == ["GET /issues/1 200", "PUT /issues/1 200"]


async def test_after_an_unknown_outcome_the_issue_is_read_before_anything_is_written(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER, "agent-smith:enqueued")
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    gitlab.fail("applied_then_lost", method="PUT")
    assert isinstance(await tracker.move(ticket, edge(*FINISH)), Unknown)
    gitlab.sent()
    assert isinstance(await tracker.move(ticket, edge(*FINISH)), AlreadySo)
    assert gitlab.sent() == ["GET /issues/1 200"]


async def test_no_write_outlives_the_deadline(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    ticket = await tracker.get("1")
    gitlab.fail("slow", method=WRITE, times=None)  # it answers never
    assert isinstance(await tracker.move(ticket, edge(*CLAIM, within=0.1)), Unknown)
    with pytest.raises(TrackerUnavailable):
        await tracker.write_sticky(ticket, "x", MEMO, known=None, deadline=boottime() + 0.1)


async def test_two_replicas_without_a_common_lock_leave_one_status_or_say_that_they_lost(
    gitlab: SimulatedGitLab,
) -> None:
    """GitLab arbitrates nothing: both may win with one aim, and with two aims the later one yields."""
    for _ in range(10):
        iid = gitlab.issue(TRIGGER, BUSY)
        one, two = gitlab.tracker(trust_reads=0), gitlab.tracker(trust_reads=0)
        ticket = await one.get(iid)
        outcomes = await asyncio.gather(
            one.move(ticket, edge(Status.IN_PROGRESS, Status.DONE)),
            two.move(ticket, edge(Status.IN_PROGRESS, Status.FAILED)),
        )
        assert Applied in {type(outcome) for outcome in outcomes}
        assert {type(outcome) for outcome in outcomes} <= {Applied, LostRace}
        left = gitlab.labels(iid)
        assert left - {TRIGGER} in ({DONE}, {FAILED})


# --- our comment ---------------------------------------------------------------------------------------------------


async def test_a_comment_that_was_refused_half_way_stays_unwritten(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    gitlab.fail("status", status=502, method="POST", path="notes$")
    with pytest.raises(OutcomeUnknown):
        await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)
    assert gitlab.notes() == []


async def test_a_locked_discussion_is_closed_to_strangers(gitlab: SimulatedGitLab) -> None:
    gitlab.simulator.set_access(PROJECT, "smith-bot", "none")
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    gitlab.simulator.lock_issue(PROJECT, 1)
    with pytest.raises(Refused, match="403 Forbidden"):
        await tracker.write_sticky(await tracker.get("1"), "x", MEMO, known=None, deadline=boottime() + 20)


# --- issues that are not where they were ---------------------------------------------------------------------------


async def test_a_deleted_issue(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    gitlab.simulator.delete_issue(PROJECT, 1)
    with pytest.raises(TicketNotFound, match="404 Not found"):
        await tracker.get("1")
    assert isinstance(await tracker.move(ticket, edge(*START)), Gone)
    with pytest.raises(TicketNotFound):
        await tracker.labelled_by(ticket, TRIGGER)
    with pytest.raises(TicketNotFound):
        await tracker.blockers(ticket)


async def test_a_moved_issue_is_closed_here_and_untouched_there(gitlab: SimulatedGitLab) -> None:
    gitlab.simulator.add_project("acme/api")
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    there = gitlab.simulator.move_issue(PROJECT, 1, "acme/api")
    ticket = await tracker.get("1")
    assert not ticket.open
    assert await _find(tracker) == []
    applied(await tracker.move(ticket, edge(*CLAIM)))
    assert gitlab.simulator.labels("acme/api", there) == []


async def test_a_renamed_project_is_followed_and_tickets_keep_their_names(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    first = await tracker.get("1")
    gitlab.simulator.rename_project(PROJECT, "acme/site")
    ticket = await tracker.get("1")
    assert ticket.id == first.id == tracker.ticket_id("1")
    assert tracker.identify(ticket.url) == tracker.identify(first.url) == "1"
    ticket = applied(await tracker.move(ticket, edge(*CLAIM))).ticket
    await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)
    assert [t.id for t in await _find(tracker)] == [first.id]
    assert set(gitlab.simulator.labels("acme/site", 1)) == {TRIGGER, "agent-smith:enqueued"}


async def test_a_project_that_is_renamed_during_a_run_is_found_again_by_the_write(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER, "agent-smith:enqueued")
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    gitlab.simulator.rename_project(PROJECT, "acme/site")
    applied(await tracker.move(ticket, edge(*FINISH)))
    assert set(gitlab.simulator.labels("acme/site", 1)) == {TRIGGER, DONE}


@pytest.mark.parametrize("keyset", ["yes", "refused"])
async def test_a_project_out_of_sight_is_no_empty_list(keyset: str) -> None:
    async with simulated_gitlab(keyset=keyset) as gitlab:
        tracker = gitlab.tracker()
        gitlab.issue(TRIGGER)
        assert len(await _find(tracker)) == 1
        gitlab.simulator.project(PROJECT).private = True
        gitlab.simulator.set_access(PROJECT, "smith-bot", "none")
        with pytest.raises(Refused, match="404 Project Not Found"):
            await _find(tracker)
        with pytest.raises(TicketNotFound):
            await tracker.get("1")


@pytest.mark.parametrize("link", ['<https://evil.example/api/v4/x?page=2>; rel="next"', '<?x=1>; rel="next"'])
async def test_a_link_never_leads_elsewhere(gitlab: SimulatedGitLab, link: str) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    gitlab.fail("status", status=200, body=[], headers={"Link": link}, path="/issues$", times=None)
    with pytest.raises(BadAnswer):
        await _find(tracker)
    assert all(r.headers["host"] == gitlab.running.url.partition("://")[2] for r in gitlab.recorded())
