"""Two writers and a person on one issue, many times: one winner under the store's lock; the person's label stays."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import AsyncIterator

import pytest

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import AlreadySo, Applied, LostRace, MoveOutcome
from agentsmith.simulators import Fault
from agentsmith.store import Store
from agentsmith.ticketlock import holding
from agentsmith.trackers.github.tracker import GitHubTracker
from agentsmith.trackers.http import Shared
from tests.support.github_bench import (
    CLAIM,
    FAIL,
    FINISH,
    REPOSITORY,
    START,
    TRIGGER,
    Bench,
    applied,
    bench,
    edge,
)
from tests.support.stores import MakeStore
from tests.support.wait import wait_until

ROUNDS = int(os.environ.get("AGENTSMITH_RACE_ROUNDS", "1000"))
"""Of each race under the lock; there are two."""
STRICT_ROUNDS = 40
LANES = 8


@pytest.fixture
async def github() -> AsyncIterator[Bench]:
    async with bench() as started:
        yield started


Writer = tuple[GitHubTracker, Store, tuple[Status, Status]]


async def _reached(hold: Fault, moving: asyncio.Task[MoveOutcome]) -> None:
    await wait_until(lambda: hold.struck > 0 or moving.done(), what="the request, or the end of the move")


async def _race(
    github: Bench, make_store: MakeStore, edges: list[tuple[Status, Status]], before: str | None
) -> AsyncIterator[tuple[list[MoveOutcome], set[str]]]:
    """Outcomes and labels of many rounds, on several issues at a time. Each starts from a stale read, as races do."""
    shared = Shared()
    writers = [(github.tracker(shared=shared), make_store(), edge_) for edge_ in edges]
    results: asyncio.Queue[tuple[list[MoveOutcome], set[str]]] = asyncio.Queue()

    async def write(writer: Writer, ticket: Ticket, who: str) -> MoveOutcome:
        tracker, store, (expect, to) = writer
        async with holding(store, "github", ticket.id, token=who, wait=30):
            return await tracker.move(ticket, edge(expect, to, run=who))

    async def person(number: str, label: str, chance: random.Random) -> None:
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
        github.simulator.add_label(REPOSITORY, int(number), label)

    async def lane(seed: int) -> None:
        chance = random.Random(seed)
        number = github.issue(TRIGGER, *([before] if before else []))
        stale = await writers[0][0].get(number)
        for label in (f"person-{n}" for n in range(ROUNDS // LANES)):
            tasks = [write(writer, stale, f"{label}-{n}") for n, writer in enumerate(writers)]
            outcomes, _ = await asyncio.gather(asyncio.gather(*tasks), person(number, label, chance))
            left = github.labels(number)
            results.put_nowait((outcomes, {"person" if name == label else name for name in left}))
            for name in left - {TRIGGER, before}:
                github.simulator.remove_label(REPOSITORY, int(number), name)
            if before:
                github.simulator.add_label(REPOSITORY, int(number), before)

    await asyncio.gather(*(lane(seed) for seed in range(LANES)))
    while not results.empty():
        yield results.get_nowait()


@pytest.mark.timeout(300)
async def test_of_two_claimers_one_wins_and_a_persons_label_survives(github: Bench, make_store: MakeStore) -> None:
    async for outcomes, labels in _race(github, make_store, [CLAIM, CLAIM], None):
        assert {type(outcome) for outcome in outcomes} == {Applied, AlreadySo}
        assert labels == {TRIGGER, "agent-smith:enqueued", "person"}


@pytest.mark.timeout(300)
async def test_of_two_ends_one_wins_and_a_persons_label_survives(github: Bench, make_store: MakeStore) -> None:
    """One run says done while another, that thinks it owns the ticket, says failed."""
    async for outcomes, labels in _race(github, make_store, [FINISH, FAIL], "agent-smith:in-progress"):
        assert {type(outcome) for outcome in outcomes} == {Applied, LostRace}
        won = "agent-smith:done" if isinstance(outcomes[0], Applied) else "agent-smith:failed"
        assert labels == {TRIGGER, won, "person"}


async def test_without_a_lock_two_can_win_which_is_why_there_is_one(github: Bench) -> None:
    """Nothing on GitHub refuses the second of two claims that both saw the ticket pending."""
    writers = [github.tracker() for _ in range(2)]
    ticket = await writers[0].get(github.issue(TRIGGER))
    hold = github.fail("slow", method="POST", times=2)
    racing = [asyncio.create_task(w.move(ticket, edge(*CLAIM, run=f"run-{n}"))) for n, w in enumerate(writers)]
    await wait_until(lambda: hold.struck == 2, what="both writes")
    hold.release()
    assert [type(outcome) for outcome in await asyncio.gather(*racing)] == [Applied, Applied]


async def test_a_persons_label_survives_at_every_moment_of_every_edge(github: Bench) -> None:
    """The label is added before the first, second, … request of the move has its effect."""
    tracker = github.tracker()
    for expect, to in (CLAIM, START, FINISH):
        for moment in itertools.count():
            labels = {"pending": (), "enqueued": ("agent-smith:enqueued",), "in-progress": ("agent-smith:in-progress",)}
            number = github.issue(TRIGGER, *labels[expect.value])
            ticket = await tracker.get(number)
            hold = github.fail("slow", path=f"issues/{number}|graphql", skip=moment)
            moving = asyncio.create_task(tracker.move(ticket, edge(expect, to)))
            await _reached(hold, moving)
            github.simulator.add_label(REPOSITORY, int(number), "urgent")
            hold.release()
            applied(await moving)
            assert github.labels(number) == {TRIGGER, "urgent", f"agent-smith:{to}"}
            github.simulator.clear_faults()
            if not hold.struck:
                break


@pytest.mark.timeout(300)
async def test_in_strict_mode_one_of_many_wins_without_any_lock(github: Bench) -> None:
    writers = [github.tracker(strict=True) for _ in range(3)]
    number = github.issue(TRIGGER)
    for turn in range(STRICT_ROUNDS):
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
