"""Two writers and a person on one issue, many times: one winner under the store's lock; the person's label stays."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator

import pytest

from agentsmith.domain.tracker import AlreadySo, Applied, LostRace, MoveOutcome
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

ROUNDS = 1000
"""Of each race under the lock; there are two."""
STRICT_ROUNDS = 40
LANES = 4


@pytest.fixture
async def github() -> AsyncIterator[Bench]:
    async with bench() as started:
        yield started


async def _yield_often(chance: random.Random) -> None:
    """Let others go first, by a random number of turns."""
    for _ in range(chance.randrange(40)):
        await asyncio.sleep(0)


@pytest.mark.timeout(300)
async def test_of_two_claimers_one_wins_and_a_persons_label_survives(github: Bench, make_store: MakeStore) -> None:
    shared = Shared()
    writers = [(github.tracker(shared=shared), make_store()) for _ in range(2)]

    async def claim(tracker: GitHubTracker, store: Store, number: str, who: str) -> MoveOutcome:
        ticket = await tracker.get(number)
        async with holding(store, "github", ticket.id, token=who, wait=30):
            return await tracker.move(ticket, edge(*CLAIM, run=who))

    async def person(number: str, label: str, chance: random.Random) -> None:
        await _yield_often(chance)
        github.simulator.add_label(REPOSITORY, int(number), label)

    async def lane(seed: int) -> None:
        chance = random.Random(seed)
        number = github.issue(TRIGGER)
        for label in (f"person-{n}" for n in range(ROUNDS // LANES)):
            first, second, _ = await asyncio.gather(
                *(claim(*writer, number, f"{label}-{n}") for n, writer in enumerate(writers)),
                person(number, label, chance),
            )
            assert {type(first), type(second)} == {Applied, AlreadySo}
            assert github.labels(number) == {TRIGGER, "agent-smith:enqueued", label}
            for name in ("agent-smith:enqueued", label):
                github.simulator.remove_label(REPOSITORY, int(number), name)

    await asyncio.gather(*(lane(seed) for seed in range(LANES)))


@pytest.mark.timeout(300)
async def test_of_two_ends_one_wins_and_a_persons_label_survives(github: Bench, make_store: MakeStore) -> None:
    """One run says done while another, that thinks it owns the ticket, says failed."""
    writers = [(github.tracker(), make_store(), FINISH), (github.tracker(), make_store(), FAIL)]

    async def lane(seed: int) -> None:
        chance = random.Random(seed)
        number = github.issue(TRIGGER)
        for label in (f"person-{n}" for n in range(ROUNDS // LANES)):
            github.simulator.add_label(REPOSITORY, int(number), "agent-smith:in-progress")

            async def settle(tracker: GitHubTracker, store: Store, end: tuple, who: str) -> MoveOutcome:  # type: ignore[type-arg]
                ticket = await tracker.get(number)
                async with holding(store, "github", ticket.id, token=who, wait=30):
                    return await tracker.move(ticket, edge(*end, run=who))

            async def person(label: str = label) -> None:
                await _yield_often(chance)
                github.simulator.add_label(REPOSITORY, int(number), label)

            *outcomes, _ = await asyncio.gather(*(settle(*w, f"{label}-{n}") for n, w in enumerate(writers)), person())
            assert {type(outcome) for outcome in outcomes} == {Applied, LostRace}
            won = "agent-smith:done" if isinstance(outcomes[0], Applied) else "agent-smith:failed"
            assert github.labels(number) == {TRIGGER, won, label}
            for name in (won, label):
                github.simulator.remove_label(REPOSITORY, int(number), name)

    await asyncio.gather(*(lane(seed) for seed in range(LANES)))


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
            await wait_until(lambda: hold.struck > 0 or moving.done(), what="the request or the end of the move")
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
