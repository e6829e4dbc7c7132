"""Two writers and a person on one ticket, many times: one winner under the store's lock; the person's label stays.

The lock is the real one, in Redis, and each writer has a connection, a tracker and memories of its own, as two replicas
have. `AGENTSMITH_RACE_ROUNDS` says how many rounds each race has.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import AlreadySo, Applied, LostRace, MoveOutcome, Tracker
from agentsmith.store import Store
from agentsmith.tickets.lock import holding
from agentsmith.trackers.http import Shared
from tests.conformance.harness import Platform
from tests.conformance.simulated import SimulatedPlatform
from tests.conformance.steps import DONE, ENQUEUED, FAIL, FAILED, FINISH, IN_PROGRESS, START, TRIGGER, edge
from tests.support.stores import MakeStore
from tests.support.wait import wait_until

ROUNDS = int(os.environ.get("AGENTSMITH_RACE_ROUNDS", "40"))
"""Of each race, on each platform; there are two races."""
LANES = 8
"""How many tickets are raced on at a time."""
CLAIM = (Status.PENDING, Status.ENQUEUED)
Edge = tuple[Status, Status]


@dataclass(frozen=True, slots=True)
class Writer:
    """One replica."""

    tracker: Tracker
    store: Store
    edge: Edge

    async def write(self, ticket: Ticket) -> MoveOutcome:
        """Move the ticket under its lock, whatever happened to it since it was read."""
        async with holding(self.store, self.tracker.platform, ticket.id, wait=60):
            return await self.tracker.move(ticket, edge(*self.edge))


async def _race(
    platform: Platform, make_store: MakeStore, edges: tuple[Edge, Edge], before: str | None
) -> AsyncIterator[tuple[list[MoveOutcome], set[str]]]:
    """Outcomes and labels of many rounds, on several tickets at a time. Each starts from a stale read, as races do."""
    trackers = (platform.tracker, await platform.second_tracker())
    writers = [Writer(tracker, make_store(), edge_) for tracker, edge_ in zip(trackers, edges, strict=True)]
    results: list[tuple[list[MoveOutcome], set[str]]] = []

    async def person(key: str, label: str, chance: random.Random) -> None:
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
        await platform.person_adds(key, label)

    async def lane(seed: int) -> None:
        chance = random.Random(seed)
        key = await platform.open_ticket(labels=(TRIGGER, *([before] if before else [])))
        stale = await platform.tracker.get(key)
        for label in (f"person-{n}" for n in range(ROUNDS // LANES)):
            racing = [writer.write(stale) for writer in writers]
            outcomes, _ = await asyncio.gather(asyncio.gather(*racing), person(key, label, chance))
            left = await platform.labels(key)
            results.append((outcomes, {"person" if name == label else name for name in left}))
            if before:
                await platform.person_adds(key, before)
            for name in left - {TRIGGER, before}:
                await platform.person_removes(key, name)

    await asyncio.gather(*(lane(seed) for seed in range(LANES)))
    assert len(results) == ROUNDS // LANES * LANES
    for result in results:
        yield result


@pytest.mark.timeout(600)
async def test_of_two_claimers_one_wins_and_a_persons_label_survives(platform: Platform, make_store: MakeStore) -> None:
    async for outcomes, labels in _race(platform, make_store, (CLAIM, CLAIM), None):
        assert {type(outcome) for outcome in outcomes} == {Applied, AlreadySo}, outcomes
        assert labels == {TRIGGER, ENQUEUED, "person"}


@pytest.mark.timeout(600)
async def test_of_two_ends_one_wins_and_a_persons_label_survives(platform: Platform, make_store: MakeStore) -> None:
    """One run says done while another, that thinks it owns the ticket, says failed."""
    async for outcomes, labels in _race(platform, make_store, (FINISH, FAIL), IN_PROGRESS):
        assert {type(outcome) for outcome in outcomes} == {Applied, LostRace}, outcomes
        won = DONE if isinstance(outcomes[0], Applied) else FAILED
        assert labels == {TRIGGER, won, "person"}


@pytest.mark.needs("simulated")
async def test_a_persons_label_survives_at_every_moment_of_every_edge(platform: SimulatedPlatform) -> None:  # type: ignore[type-arg]
    """The label is added before the first, second, … request of the move has its effect."""
    for expect, to in (CLAIM, START, FINISH):
        for moment in range(10):
            labels = () if expect is Status.PENDING else (f"agent-smith:{expect}",)
            key = await platform.open_ticket(labels=(TRIGGER, *labels))
            ticket = await platform.tracker.get(key)
            hold = platform.spoil("slow", skip=moment)
            moving = asyncio.create_task(platform.tracker.move(ticket, edge(expect, to)))
            await wait_until(lambda h=hold, m=moving: h.struck > 0 or m.done(), what="the request, or the end")  # type: ignore[misc]
            await platform.person_adds(key, "urgent")
            hold.release()
            outcome = await moving
            platform.simulator.clear_faults()
            if hold.struck:
                assert isinstance(outcome, Applied), (to, moment)
            assert await platform.labels(key) == {TRIGGER, "urgent", f"agent-smith:{to}"}
            if not hold.struck:
                assert moment > 0
                break
        else:
            pytest.fail("the move never ends")


@pytest.mark.needs("simulated")
async def test_without_a_lock_two_can_win_where_the_platform_tests_no_revision(platform: SimulatedPlatform) -> None:  # type: ignore[type-arg]
    """Which is why there is one: nothing refuses the second of two claims that both saw the ticket pending."""
    writers = (platform.tracker, platform.another(shared=Shared()))
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(TRIGGER,)))
    hold = platform.spoil("slow", method="POST|PUT|PATCH", path=platform.written, times=2)
    racing = [asyncio.create_task(writer.move(ticket, edge(*CLAIM))) for writer in writers]
    await wait_until(lambda: hold.struck == 2, what="both writes")
    hold.release()
    kinds = [type(outcome) for outcome in await asyncio.gather(*racing)]
    if platform.capabilities.compare_and_set:
        assert sorted(kinds, key=str) == [AlreadySo, Applied]
    else:
        assert Applied in kinds
    assert await platform.labels(ticket.key) == {TRIGGER, ENQUEUED}
