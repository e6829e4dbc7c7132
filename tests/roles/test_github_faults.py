"""GitHub on a bad day: every fault against every call, and what is on the issue afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import (
    AgentSmithError,
    BadAnswer,
    RateLimited,
    Refused,
    TicketNotFound,
    TrackerError,
    TrackerUnavailable,
    Unauthorized,
)
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import AlreadySo, Applied, Forbidden, Gone, Limited, LostRace, Unknown
from agentsmith.trackers.github.tracker import GitHubTracker
from agentsmith.trackers.http import LocalGovernor, OutcomeUnknown, Pace, Shared
from tests.support.github_bench import (
    CLAIM,
    FINISH,
    MEMO,
    REPOSITORY,
    START,
    TOKEN,
    TRIGGER,
    Bench,
    applied,
    bench,
    edge,
)
from tests.support.wait import wait_until

BUSY = "agent-smith:in-progress"
DONE = "agent-smith:done"
WRITE = "POST|DELETE|PATCH"
PACE = Pace(first_delay=0.001, longest_delay=0.002, largest_body=1_000_000)


@pytest.fixture
async def github() -> AsyncIterator[Bench]:
    async with bench() as started:
        yield started


async def _find(tracker: GitHubTracker) -> list[Ticket]:
    return [t async for t in tracker.find(TRIGGER)]


CALLS: dict[str, Callable[[GitHubTracker, Ticket], Awaitable[Any]]] = {
    "get": lambda tracker, ticket: tracker.get(ticket.key),
    "find": lambda tracker, _: _find(tracker),
    "tidy": lambda tracker, t: tracker.tidy(t, keep=Status.DONE, deadline=boottime() + 20),
    "read_sticky": lambda tracker, t: tracker.read_sticky(t),
    "write_sticky": lambda tracker, t: tracker.write_sticky(t, "x", MEMO, known=None, deadline=boottime() + 20),
    "me": lambda tracker, _: tracker.me(),
    "labelled_by": lambda tracker, t: tracker.labelled_by(t, TRIGGER),
    "blockers": lambda tracker, t: tracker.blockers(t),
    "ensure_labels": lambda tracker, _: tracker.ensure_labels(),
}
FAULTS: dict[str, tuple[dict[str, Any], type[TrackerError]]] = {
    "500": ({"kind": "status", "status": 500}, TrackerUnavailable),
    "502 html": ({"kind": "html_instead_of_json", "status": 502}, TrackerUnavailable),
    "200 html": ({"kind": "html_instead_of_json", "status": 200}, BadAnswer),
    "403 html": ({"kind": "html_instead_of_json", "status": 403}, Refused),
    "404 html": ({"kind": "html_instead_of_json", "status": 404}, BadAnswer),
    "refused": ({"kind": "refuse"}, TrackerUnavailable),
    "cut off": ({"kind": "reset_mid_body"}, TrackerUnavailable),
    "lost": ({"kind": "applied_then_lost"}, TrackerUnavailable),
    "half": ({"kind": "malformed_json"}, BadAnswer),
    "not utf-8": ({"kind": "invalid_utf8"}, BadAnswer),
    "huge": ({"kind": "huge", "size": 3_000_000}, BadAnswer),
    "another shape": ({"kind": "status", "status": 200, "body": {"message": "surprise"}}, BadAnswer),
    "a list of nothing": ({"kind": "status", "status": 200, "body": [None, 3, {"body": []}]}, BadAnswer),
    "expired": ({"kind": "bad_credentials"}, Unauthorized),
    "secondary": ({"kind": "secondary_limit", "retry_after": 120}, RateLimited),
    "secondary, no time": ({"kind": "secondary_limit", "status": 429}, RateLimited),
    "primary": ({"kind": "primary_limit", "seconds": 600}, RateLimited),
    "denied": ({"kind": "status", "status": 403, "body": {"message": f"No, {TOKEN}"}}, Refused),
    "too old": ({"kind": "status", "status": 410, "body": {"message": "This version is gone"}}, TrackerError),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failure_is_typed_tells_githubs_words_and_no_secret(github: Bench, call: str, fault: str) -> None:
    tracker = github.tracker(pace=PACE)
    github.issue(TRIGGER, BUSY, DONE, body="the whole body")
    ticket = await tracker.get("1")
    github.simulator.edit_issue(REPOSITORY, 1, title="edited")  # else a 304 would have nothing to spoil
    options, expected = FAULTS[fault]
    github.fail(**options, times=None)
    if fault == "a list of nothing" and call in ("find", "read_sticky", "labelled_by", "write_sticky"):
        # Malformed records in a list are skipped; nothing else is made of them.
        await asyncio.wait_for(_quietly(CALLS[call](tracker, ticket)), 30)
        return
    with pytest.raises(AgentSmithError) as caught:
        await asyncio.wait_for(CALLS[call](tracker, ticket), 30)
    assert isinstance(caught.value, expected)
    text = str(caught.value)
    assert text.startswith("GitHub")
    assert TOKEN not in text
    assert "benchbench" not in text
    assert "the whole body" not in text
    assert len(text) < 500
    if isinstance(caught.value, RateLimited):
        assert caught.value.retry_at is not None
        assert caught.value.retry_at > time.time()


async def _quietly(call: Awaitable[Any]) -> None:
    try:
        await call
    except TrackerError:
        return


OUTCOMES: dict[str, type] = {
    "500": Unknown,
    "502 html": Unknown,
    "200 html": Unknown,
    "refused": Unknown,
    "cut off": Unknown,
    "lost": Unknown,
    "half": Unknown,
    "not utf-8": Unknown,
    "huge": Unknown,
    "another shape": Unknown,
    "a list of nothing": Unknown,
    "expired": Forbidden,
    "secondary": Limited,
    "secondary, no time": Limited,
    "primary": Limited,
    "denied": Forbidden,
    "403 html": Forbidden,
}


@pytest.mark.parametrize("prepared", [True, False], ids=["graphql", "rest"])
@pytest.mark.parametrize("which", [WRITE, "GET", "DELETE"], ids=["writes", "reads", "removals"])
@pytest.mark.parametrize("fault", OUTCOMES)
async def test_a_move_under_every_fault_ends_in_an_outcome_and_the_same_move_later_ends_well(
    github: Bench, fault: str, which: str, prepared: bool
) -> None:
    clock = [0.0]
    tracker = github.tracker(pace=PACE, shared=Shared(governor=LocalGovernor(lambda: time.time() + clock[0])))
    if prepared:
        await tracker.ensure_labels()
    github.issue(TRIGGER, "agent-smith:enqueued", "bug")
    ticket = await tracker.get("1")
    github.simulator.edit_issue(REPOSITORY, 1, title="edited")  # else a 304 would have nothing to spoil
    options, _ = FAULTS[fault]
    github.fail(**options, method=which, times=None)
    outcome = await tracker.move(ticket, edge(*START))
    if which == "DELETE" and prepared:
        assert isinstance(outcome, Applied)  # both labels changed in one POST
    else:
        assert isinstance(outcome, OUTCOMES[fault])
        assert TOKEN not in str(outcome)
    github.simulator.clear_faults()
    clock[0] = 4000.0
    # A quota that was used up comes back with time, on their clock as on ours.
    github.simulator.clock.advance(4000)
    assert isinstance(await tracker.move(ticket, edge(*START)), Applied | AlreadySo)
    assert github.labels("1") == {TRIGGER, "bug", BUSY}
    history = github.simulator.repository(REPOSITORY).versions[1]
    names = [{label.name for label in github.simulator.repository(REPOSITORY).labels_of(v)} for v in history]
    assert all({"agent-smith:enqueued", BUSY} & seen for seen in names)


async def test_a_write_that_is_dropped_in_silence_is_forbidden(github: Bench) -> None:
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
async def test_a_removal_that_is_dropped_in_silence_is_forbidden(github: Bench, to: Status | None) -> None:
    tracker = github.tracker()
    github.issue(BUSY)
    ticket = await tracker.get("1")
    github.fail("silent_permission_loss", method="DELETE", times=None)
    outcome = await tracker.move(ticket, edge(Status.IN_PROGRESS, to))
    assert isinstance(outcome, Forbidden)
    assert "is still there" in outcome.reason


async def test_a_reader_is_forbidden_to_write(github: Bench) -> None:
    github.simulator.set_permission(REPOSITORY, "smith-bot", "read")
    tracker = github.tracker()
    github.issue(TRIGGER)
    assert isinstance(await tracker.move(await tracker.get("1"), edge(*CLAIM)), Forbidden)


async def test_a_label_that_somebody_removes_under_our_hands_is_simply_gone(github: Bench) -> None:
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
async def test_withdrawing_what_is_withdrawn_already(github: Bench, kind: str) -> None:
    """Our own last write stands for a read here, so the removal meets a label that is gone."""
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.simulator.remove_label(REPOSITORY, 1, "agent-smith:enqueued")
    if kind:
        github.fail(kind, times=None)
    outcome = await tracker.move(ticket, edge(Status.ENQUEUED, None))
    assert applied(outcome).ticket.labels == {TRIGGER}


async def test_withdrawing_what_somebody_finished_meanwhile_is_a_lost_race(github: Bench) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.simulator.remove_label(REPOSITORY, 1, "agent-smith:enqueued")
    github.simulator.add_label(REPOSITORY, 1, DONE)
    outcome = await tracker.move(ticket, edge(Status.ENQUEUED, None))
    assert isinstance(outcome, LostRace)
    assert github.labels("1") == {TRIGGER, DONE} == outcome.ticket.labels


async def test_a_person_who_fails_a_run_by_hand_is_seen_in_the_answer(github: Bench) -> None:
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


async def test_a_person_who_removed_the_label_of_a_run_is_seen_in_the_answer(github: Bench) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER, "agent-smith:enqueued")
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    github.simulator.remove_label(REPOSITORY, 1, BUSY)
    outcome = await tracker.move(ticket, edge(*FINISH))
    assert isinstance(outcome, LostRace)
    assert outcome.ticket.labels == {TRIGGER, DONE}


async def test_an_old_ticket_is_always_read_again(github: Bench) -> None:
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


async def test_after_an_unknown_outcome_the_issue_is_read_before_anything_is_written(github: Bench) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER, "agent-smith:enqueued")
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
    github.fail("applied_then_lost", method="DELETE")
    assert isinstance(await tracker.move(ticket, edge(*FINISH)), Unknown)
    github.sent()
    assert isinstance(await tracker.move(ticket, edge(*FINISH)), AlreadySo)
    assert github.sent() == ["GET /repos/acme/web/issues/1 200"]


async def test_a_move_that_was_cancelled_half_way_is_finished_after_a_read(github: Bench) -> None:
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


async def test_no_write_outlives_the_deadline(github: Bench) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = await tracker.get("1")
    github.fail("slow", method=WRITE, times=None)
    begun = boottime()
    outcome = await tracker.move(ticket, edge(*CLAIM, within=0.1))
    assert isinstance(outcome, Unknown)
    assert boottime() - begun < 5
    with pytest.raises(TrackerUnavailable):
        await tracker.write_sticky(ticket, "x", MEMO, known=None, deadline=boottime() + 0.1)


# --- our comment ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["applied_then_lost", "reset_mid_body"])
async def test_a_comment_whose_answer_was_lost_is_found_not_sent_again(github: Bench, kind: str) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.fail(kind, method="POST", path="comments$")
    made = await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)
    assert (made.text, made.memo) == ("queued", MEMO)
    assert len(github.simulator.comments(REPOSITORY, 1)) == 1


async def test_a_comment_that_nobody_knows_about_is_looked_for_next_time(github: Bench) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.fail("applied_then_lost", method="POST", path="comments$")
    github.fail("status", status=502, method="GET", times=None)
    with pytest.raises(TrackerUnavailable):
        await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)
    github.simulator.clear_faults()
    await tracker.write_sticky(ticket, "running", MEMO, known=None, deadline=boottime() + 20)
    assert [c["body"].split("\n")[1] for c in github.simulator.comments(REPOSITORY, 1)] == ["running"]


async def test_a_comment_that_was_refused_half_way_stays_unwritten(github: Bench) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.fail("status", status=502, method="POST", path="comments$")
    with pytest.raises(OutcomeUnknown):
        await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)
    assert github.simulator.comments(REPOSITORY, 1) == []


async def test_a_locked_issue_says_so(github: Bench) -> None:
    github.simulator.set_permission(REPOSITORY, "smith-bot", "triage")
    tracker = github.tracker()
    github.issue(TRIGGER)
    github.simulator.lock_issue(REPOSITORY, 1)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    with pytest.raises(Refused, match="issue is locked"):
        await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)


# --- GraphQL ----------------------------------------------------------------------------------------------------


async def _prepared(github: Bench) -> tuple[GitHubTracker, Ticket]:
    tracker = github.tracker()
    await tracker.ensure_labels()
    github.issue(TRIGGER, "agent-smith:enqueued")
    ticket = await tracker.get("1")
    github.sent()
    return tracker, ticket


async def test_a_label_that_was_made_anew_is_added_all_the_same(github: Bench) -> None:
    """Its id is stale: GitHub removes one label and fails to add the other. It is added at once, by name."""
    tracker, ticket = await _prepared(github)
    repository = github.simulator.repository(REPOSITORY)
    stale = repository.label_named(BUSY)
    assert stale is not None
    del repository.labels[stale.id]
    assert applied(await tracker.move(ticket, edge(*START))).ticket.labels == {TRIGGER, BUSY}
    assert [line.split()[1] for line in github.sent()[1:]] == ["/graphql", "/repos/acme/web/issues/1/labels"]
    assert github.labels("1") == {TRIGGER, BUSY}


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 403, "body": {"message": "Resource not accessible by personal access token"}},
        {"kind": "status", "status": 404, "body": {"message": "Not Found"}},
        {"kind": "status", "status": 200, "body": {"errors": [{"message": "Field 'x' doesn't exist"}]}},
    ],
)
async def test_a_server_without_graphql_is_asked_once(github: Bench, fault: dict[str, Any]) -> None:
    tracker, ticket = await _prepared(github)
    github.fail(**fault, path="graphql", times=None)
    applied(await tracker.move(ticket, edge(*START)))
    second = github.issue(TRIGGER, "agent-smith:enqueued")
    applied(await tracker.move(await tracker.get(second), edge(*START)))
    assert sum("graphql" in line for line in github.sent()) == 1


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ({"data": None, "errors": [{"message": "Something went wrong while executing your query."}]}, Unknown),
        ({"data": {"add": None, "remove": None}}, Unknown),
        ({"data": {"add": {"labelable": None}}, "errors": [{"type": "INTERNAL", "message": "?"}]}, Unknown),
        ({"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}, Limited),
        ({"data": {"add": None, "remove": None}, "errors": [{"type": "NOT_FOUND", "message": "no node"}]}, Applied),
        ({"data": {"add": None, "remove": None}, "errors": [{"type": "FORBIDDEN", "message": "no"}]}, Applied),
    ],
)
async def test_what_graphql_answers_in_its_own_way(github: Bench, body: dict[str, Any], outcome: type) -> None:
    tracker, ticket = await _prepared(github)
    github.fail("status", status=200, body=body, path="graphql", times=None)
    assert isinstance(await tracker.move(ticket, edge(*START)), outcome)


async def test_a_removal_that_failed_inside_graphql_is_made_up_for(github: Bench) -> None:
    tracker, ticket = await _prepared(github)
    names = (TRIGGER, "agent-smith:enqueued", BUSY)
    here = [{"id": f"LA_{n}", "name": name} for n, name in enumerate(names)]
    body = {"data": {"add": {"labelable": {"labels": {"nodes": here}}}, "remove": None}, "errors": [{"message": "?"}]}
    github.fail("status", status=200, body=body, path="graphql")
    assert isinstance(await tracker.move(ticket, edge(*START)), Applied)
    assert github.sent()[-1] == "DELETE /repos/acme/web/issues/1/labels/agent-smith:enqueued 200"
    assert "agent-smith:enqueued" not in github.labels("1")


# --- issues that are not where they were ----------------------------------------------------------------------------


async def test_a_deleted_issue(github: Bench) -> None:
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


async def test_a_transferred_issue_is_another_ticket_and_is_not_touched_there(github: Bench) -> None:
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


async def test_a_renamed_repository_is_followed_and_tickets_keep_their_names(github: Bench) -> None:
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


async def test_a_repository_without_issues_or_out_of_sight_is_no_empty_list(github: Bench) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    github.simulator.set_permission(REPOSITORY, "smith-bot", "none")
    with pytest.raises(Refused, match="Not Found"):
        await _find(tracker)
    with pytest.raises(TicketNotFound):
        await tracker.get("1")
    github.simulator.set_permission(REPOSITORY, "smith-bot", "write")
    github.simulator.disable_issues(REPOSITORY)
    with pytest.raises(TicketNotFound, match="disabled"):
        await tracker.get("1")
