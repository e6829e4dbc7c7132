"""Our comment on GitHub: lost answers, forged references, locked issues."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import Refused, TrackerUnavailable
from agentsmith.trackers.http import OutcomeUnknown
from tests.support.edges import CLAIM, MEMO, TRIGGER, applied, edge
from tests.support.simulated_github import REPOSITORY, SimulatedGitHub, simulated_github

BUSY = "agent-smith:in-progress"
DONE = "agent-smith:done"
WRITE = "POST|DELETE|PATCH"


@pytest.fixture
async def github() -> AsyncIterator[SimulatedGitHub]:
    async with simulated_github() as started:
        yield started


@pytest.mark.parametrize("kind", ["applied_then_lost", "reset_mid_body"])
async def test_a_comment_whose_answer_was_lost_is_found_not_sent_again(github: SimulatedGitHub, kind: str) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.fail(kind, method="POST", path="comments$")
    made = await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)
    assert (made.text, made.memo) == ("queued", MEMO)
    assert len(github.simulator.comments(REPOSITORY, 1)) == 1


async def test_a_comment_that_nobody_knows_about_is_looked_for_next_time(github: SimulatedGitHub) -> None:
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


async def test_after_a_remark_of_ours_the_one_comment_is_looked_for(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    await tracker.say(ticket, "by the way", deadline=boottime() + 20)
    github.sent()
    await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)
    assert [line.split()[0] for line in github.sent()] == ["GET", "POST"]


async def test_a_comment_that_was_refused_half_way_stays_unwritten(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.fail("status", status=502, method="POST", path="comments$")
    with pytest.raises(OutcomeUnknown):
        await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)
    assert github.simulator.comments(REPOSITORY, 1) == []


async def test_a_locked_issue_says_so(github: SimulatedGitHub) -> None:
    github.simulator.set_permission(REPOSITORY, "smith-bot", "triage")
    tracker = github.tracker()
    github.issue(TRIGGER)
    github.simulator.lock_issue(REPOSITORY, 1)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    with pytest.raises(Refused, match="issue is locked"):
        await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 20)


async def test_only_the_reference_is_enough_to_edit(github: SimulatedGitHub) -> None:
    """What the store keeps of a comment is its reference; another replica edits with it, once it knows itself."""
    one, two = github.tracker(), github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await one.move(await one.get("1"), edge(*CLAIM))).ticket
    made = await one.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 30)
    seen = await two.get("1")
    github.recorded()
    bare = type(made)(ref=made.ref, text="", memo=None)
    for text, expected in (("running", ["GET", "PATCH"]), ("done", ["PATCH"])):
        await two.write_sticky(seen, text, MEMO, known=bare, deadline=boottime() + 30)
        assert [r.method for r in github.recorded()] == expected
    assert len(github.simulator.comments(REPOSITORY, 1)) == 1


@pytest.mark.parametrize("forged", ["{id}", "{id}.999", "nonsense", "99999999", "1" * 40])
async def test_a_reference_to_somebody_elses_comment_is_not_followed(github: SimulatedGitHub, forged: str) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    theirs = github.simulator.comment(REPOSITORY, 1, "mine!")
    ref = forged.format(id=theirs)
    known = type(await tracker.write_sticky(await tracker.get("1"), "x", MEMO, known=None, deadline=boottime() + 30))(
        ref=ref, text="", memo=None
    )
    await tracker.write_sticky(await tracker.get("1"), "y", MEMO, known=known, deadline=boottime() + 30)
    bodies = [c["body"] for c in github.simulator.comments(REPOSITORY, 1)]
    assert bodies[0] == "mine!"
    assert len(bodies) == 2
    assert bodies[1].endswith("\ny")


async def test_a_deleted_comment_is_made_again(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = await tracker.get("1")
    made = await tracker.write_sticky(ticket, "one", MEMO, known=None, deadline=boottime() + 30)
    github.simulator.delete_comment(REPOSITORY, int(made.ref.split(".")[0]))
    again = await tracker.write_sticky(ticket, "two", MEMO, known=made, deadline=boottime() + 30)
    assert again.ref != made.ref
    assert [c["body"].split("\n")[1] for c in github.simulator.comments(REPOSITORY, 1)] == ["two"]


async def test_the_newest_runs_comment_counts_where_two_are_ours(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    for fence, text in ((3, "old"), (9, "new"), (5, "middle")):
        line = MEMO.to_line().replace('"fence":7', f'"fence":{fence}')
        github.simulator.comment(REPOSITORY, 1, f"<!-- agent-smith:status {line} -->\n{text}", "smith-bot")
    read = await tracker.read_sticky(await tracker.get("1"))
    assert read is not None
    assert read.text == "new"
