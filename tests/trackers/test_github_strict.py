"""Strict mode: the git ref around a claim, who holds it, and what becomes of leftovers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import AlreadySo, Applied, Forbidden, Limited, LostRace, Unknown
from agentsmith.simulators.clock import Clock
from agentsmith.trackers.github.claims import LIFETIME
from tests.support.edges import CLAIM, FAIL, FINISH, START, TRIGGER, applied, edge
from tests.support.simulated_github import REPOSITORY, SimulatedGitHub, simulated_github
from tests.support.wait import wait_until

ROUNDS = 40
REF = "refs/agent-smith/claims/issue-1"


@pytest.fixture
async def github() -> AsyncIterator[SimulatedGitHub]:
    async with simulated_github(clock=Clock()) as started:
        started.issue(TRIGGER)
        started.issue(TRIGGER)
        yield started


def refs(github: SimulatedGitHub) -> set[str]:
    """The claims that stand."""
    repository = github.simulator.repository(REPOSITORY)
    return {name for name in repository.refs if "claims" in name and repository.ref(name)}


async def test_a_claim_makes_a_ref_that_says_whose_it_is(github: SimulatedGitHub) -> None:
    tracker = github.tracker(strict=True)
    ticket = await tracker.get("1")
    github.recorded()
    applied(await tracker.move(ticket, edge(*CLAIM, run="run-9", fence=42)))
    requests = github.recorded()
    assert [(r.method, r.path) for r in requests] == [
        ("GET", "/repos/acme/web/issues/1"),
        ("GET", "/repos/acme/web"),
        ("GET", "/repos/acme/web/branches/main"),
        ("POST", "/repos/acme/web/git/commits"),
        ("POST", "/repos/acme/web/git/refs"),
        ("POST", "/repos/acme/web/issues/1/labels"),
    ]
    commit, ref = requests[3].body, requests[4].body
    assert commit["message"] == 'agentsmith claim {"fence": 42, "issue": 1, "run": "run-9"}'
    assert commit["parents"] == []
    assert ref["ref"] == REF
    assert refs(github) == {REF}
    # The tree is known from then on.
    applied(await tracker.move(await tracker.get("2"), edge(*CLAIM)))
    assert [r.method for r in github.recorded()] == ["GET", "GET", "POST", "POST", "POST"]


@pytest.mark.parametrize("end", [FINISH, FAIL, (Status.IN_PROGRESS, Status.WAITING), (Status.IN_PROGRESS, None)])
async def test_the_ref_goes_when_the_ticket_is_let_go(
    github: SimulatedGitHub, end: tuple[Status, Status | None]
) -> None:
    tracker = github.tracker(strict=True)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    ticket = applied(await tracker.move(ticket, edge(*START))).ticket
    assert refs(github) == {REF}
    applied(await tracker.move(ticket, edge(*end)))
    assert refs(github) == set()


async def test_a_claim_that_somebody_holds_is_lost_and_nothing_is_written(github: SimulatedGitHub) -> None:
    one, two = github.tracker(strict=True), github.tracker(strict=True)
    ticket = await two.get("1")
    github.fail("applied_then_lost", path="issues/1/labels")
    github.simulator.inject(github.fail("status", status=503, path="nowhere"))
    assert isinstance(await one.move(await one.get("1"), edge(*CLAIM, run="one")), Unknown)
    github.simulator.remove_label(REPOSITORY, 1, "agent-smith:enqueued")
    outcome = await two.move(ticket, edge(*CLAIM, run="two"))
    assert isinstance(outcome, LostRace)
    assert github.labels("1") == {TRIGGER}
    # Issue 12 is not issue 1, whatever the names of their refs begin with.
    assert isinstance(await two.move(await two.get("2"), edge(*CLAIM, run="two")), Applied)


async def test_whoever_made_the_ref_and_did_not_hear_of_it_has_it(github: SimulatedGitHub) -> None:
    tracker = github.tracker(strict=True)
    ticket = await tracker.get("1")
    github.fail("applied_then_lost", method="POST", path="git/refs")
    assert isinstance(await tracker.move(ticket, edge(*CLAIM, run="first")), Unknown)
    assert refs(github) == {REF}
    # The next attempt has a run id of its own; the commit tells that this process made the ref.
    applied(await tracker.move(ticket, edge(*CLAIM, run="second")))


async def test_a_leftover_is_taken_over_once_it_is_old_and_by_one_only(github: SimulatedGitHub) -> None:
    dead, *heirs = [github.tracker(strict=True) for _ in range(3)]
    ticket = await dead.get("1")
    github.fail("refuse", path="issues/1/labels", times=None)
    assert isinstance(await dead.move(ticket, edge(*CLAIM, run="dead")), Unknown)
    github.simulator.clear_faults()
    assert isinstance(await heirs[0].move(await heirs[0].get("1"), edge(*CLAIM, run="early")), LostRace)
    github.simulator.clock.advance(LIFETIME + 5)
    tickets = [await heir.get("1") for heir in heirs]
    first = await heirs[0].move(tickets[0], edge(*CLAIM, run="heir-0"))
    github.simulator.remove_label(REPOSITORY, 1, "agent-smith:enqueued")
    second = await heirs[1].move(tickets[1], edge(*CLAIM, run="heir-1"))
    assert isinstance(first, Applied)
    assert isinstance(second, LostRace)
    assert len(refs(github)) == 2
    github.simulator.add_label(REPOSITORY, 1, "agent-smith:enqueued")
    started = applied(await heirs[0].move(await heirs[0].get("1"), edge(*START))).ticket
    applied(await heirs[0].move(started, edge(*FINISH)))
    assert refs(github) == set()


async def test_a_ref_that_cannot_be_read_yet_counts_as_held(github: SimulatedGitHub) -> None:
    one, two = github.tracker(strict=True), github.tracker(strict=True)
    ticket = await two.get("1")
    applied(await one.move(await one.get("1"), edge(*CLAIM, run="one")))
    github.simulator.remove_label(REPOSITORY, 1, "agent-smith:enqueued")
    github.fail("stale_read", path="git/ref/", times=None)
    assert isinstance(await two.move(ticket, edge(*CLAIM, run="two")), LostRace)


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ({"kind": "status", "status": 403, "body": {"message": "Resource not accessible"}}, Forbidden),
        ({"kind": "secondary_limit", "retry_after": 120}, Limited),
    ],
)
async def test_a_claim_whose_label_was_refused_is_let_go_again(
    github: SimulatedGitHub, fault: dict[str, Any], outcome: type
) -> None:
    tracker = github.tracker(strict=True)
    ticket = await tracker.get("1")
    github.fail(**fault, path="issues/1/labels", times=None)
    assert isinstance(await tracker.move(ticket, edge(*CLAIM)), outcome)
    # Under a limit nothing more can be sent; the leftover is this process's own, and it will know.
    assert refs(github) == (set() if outcome is Forbidden else {REF})


async def test_a_token_that_may_not_write_contents_is_told(github: SimulatedGitHub) -> None:
    github.simulator.add_token("narrow-token-1", login="smith-bot", permissions={"issues": "write", "contents": "read"})
    tracker = github.tracker(strict=True, login="narrow-token-1")
    assert isinstance(await tracker.move(await tracker.get("1"), edge(*CLAIM)), Forbidden)
    assert github.labels("1") == {TRIGGER}


async def test_an_empty_repository_has_nothing_to_point_a_ref_at() -> None:
    async with simulated_github() as github:
        github.simulator.repository(REPOSITORY).refs.clear()
        github.issue(TRIGGER)
        tracker = github.tracker(strict=True)
        outcome = await tracker.move(await tracker.get("1"), edge(*CLAIM))
        assert isinstance(outcome, Forbidden)
        assert "strict mode needs a commit" in outcome.reason


async def test_a_ref_that_cannot_be_removed_does_not_spoil_the_move(github: SimulatedGitHub) -> None:
    tracker = github.tracker(strict=True)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.fail("status", status=500, path="git/", times=None)
    applied(await tracker.move(ticket, edge(Status.ENQUEUED, None)))
    assert refs(github) == {REF}


async def test_an_end_that_was_unknown_or_tidied_lets_go_too(github: SimulatedGitHub) -> None:
    tracker = github.tracker(strict=True)
    for number in ("1", "2"):
        ticket = applied(await tracker.move(await tracker.get(number), edge(*CLAIM))).ticket
        ticket = applied(await tracker.move(ticket, edge(*START))).ticket
        if number == "1":
            github.fail("applied_then_lost", method="DELETE", path="labels")
            assert isinstance(await tracker.move(ticket, edge(*FINISH)), Unknown)
            assert isinstance(await tracker.move(ticket, edge(*FINISH)), AlreadySo)
        else:
            github.simulator.remove_label(REPOSITORY, 2, "agent-smith:in-progress")
            lost = await tracker.move(ticket, edge(*FINISH))
            assert isinstance(lost, LostRace)
            await tracker.tidy(lost.ticket, keep=Status.DONE, deadline=edge(*FINISH).deadline)
        assert refs(github) == set()


async def test_what_is_pending_already_is_not_let_go(github: SimulatedGitHub) -> None:
    """Somebody may just be claiming it: between the ref and the label a ticket still shows pending."""
    one, two = github.tracker(strict=True), github.tracker(strict=True)
    hold = github.fail("slow", path="issues/1/labels")
    claiming = asyncio.create_task(one.move(await one.get("1"), edge(*CLAIM)))
    await wait_until(lambda: hold.struck > 0, what="the claim")
    assert isinstance(await two.move(await two.get("1"), edge(Status.WAITING, Status.PENDING)), AlreadySo)
    assert refs(github) == {REF}
    hold.release()
    applied(await claiming)


@pytest.mark.timeout(300)
async def test_in_strict_mode_one_of_many_wins_without_any_lock(github: SimulatedGitHub) -> None:
    writers = [github.tracker(strict=True) for _ in range(3)]
    number = github.issue(TRIGGER)
    for turn in range(ROUNDS):
        ticket = await writers[0].get(number)
        outcomes = await asyncio.gather(
            *(w.move(ticket, edge(*CLAIM, run=f"{turn}-{n}")) for n, w in enumerate(writers))
        )
        won = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Applied)]
        assert len(won) == 1
        assert all(isinstance(outcome, Applied | LostRace | AlreadySo) for outcome in outcomes)
        winner = writers[won[0]]
        started = applied(await winner.move(await winner.get(number), edge(*START))).ticket
        finished = applied(await winner.move(started, edge(*FINISH))).ticket
        await winner.tidy(finished, keep=None, deadline=edge(*FINISH).deadline)
    refs = github.simulator.repository(REPOSITORY).refs
    assert not [name for name, values in refs.items() if "claims" in name and values[-1] is not None]
