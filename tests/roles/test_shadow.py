"""A shadow decides and writes nothing: not on the ticket, not on the queue, and nothing that a daemon would miss."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentsmith.boottime import boottime
from agentsmith.daemon.build import shadow_of
from agentsmith.daemon.process import assemble
from agentsmith.domain.conversation import TakesCommands
from agentsmith.domain.errors import Refused
from agentsmith.domain.gates import Gate
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.outcomes import NothingToDo, Rejected, WouldClaim
from agentsmith.domain.signal import SignalKind
from agentsmith.domain.tracker import DefinesLabels, Forbidden, KnowsCircles, Move, Tracker
from agentsmith.intake.poller import Poller
from agentsmith.intake.signals import Intake
from agentsmith.store import Store
from agentsmith.tickets import explain
from agentsmith.tickets.read_only import ReadOnly
from tests.support.world import World, open_world


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    """A world whose parts are those of a shadow."""
    async with open_world(tmp_path, store, redis_url) as world:
        trackers: dict[str, Tracker] = {name: ReadOnly(tracker) for name, tracker in world.trackers.items()}
        world.trackers = trackers
        world.parts = assemble(world.config, store, trackers, shadow=True)
        world.intake = Intake(store, world.parts.looks, world.process, commands=world.parts.commands)
        yield world


async def state(world: World, key: str) -> tuple[object, ...]:
    dossier = await world.desk.show(key)
    return dossier.ticket, dossier.comments, tuple(await world.queued())


async def test_it_says_what_it_would_claim_and_leaves_everything_as_it_is(world: World) -> None:
    key = await world.open_ticket()
    before = await state(world, key)
    outcome = await world.claim(key)
    assert isinstance(outcome, WouldClaim)
    assert "would be claimed for 'work'" in outcome.why
    assert [gate.gate for gate in outcome.gates if gate.passed] == [
        Gate.OPEN,
        Gate.TRIGGER,
        Gate.STATUS,
        Gate.ACTOR,
        Gate.TEXT,
    ]
    assert await state(world, key) == before
    assert await world.store.intents.of(world.ticket_id(key)) is None


@pytest.mark.parametrize("label", ["agent-smith:done", "agent-smith:in-progress", "agent-smith:enqueued"])
async def test_it_touches_no_ticket_that_is_under_way_or_over(world: World, label: str) -> None:
    key = await world.open_ticket(label)
    before = await state(world, key)
    outcome = await world.claim(key)
    assert isinstance(outcome, Rejected if label.endswith("done") else NothingToDo)
    retry = world.signal(key, kind=SignalKind.RETRY, by="mona")
    await world.parts.looks.on_signal(retry)
    assert await state(world, key) == before


async def test_the_ledger_says_what_it_would_have_done_and_polls_ask_once(world: World) -> None:
    key = await world.open_ticket()
    polling = Poller(world.store, world.trackers, world.parts.triggers, {"local": 60.0})
    assert (await polling.poll(world.trackers["local"])).signalled == 1
    payload = await world.store.signals.take(world.process.name, wait=1)
    assert payload is not None
    await world.intake._deal_with(payload)
    told = await explain.known(world.store, world.ticket_id(key))
    assert "nothing was written: it would be claimed for 'work'" in explain.summary(told.looks[-1])
    assert (await polling.poll(world.trackers["local"])).signalled == 0


async def test_whoever_tries_to_write_is_refused(world: World) -> None:
    key = await world.open_ticket()
    tracker = world.trackers["local"]
    ticket = await tracker.get(key)
    before = await state(world, key)
    move = Move(Status.PENDING, Status.ENQUEUED, "run", 1, deadline=boottime() + 5)
    assert isinstance(await tracker.move(ticket, move), Forbidden)
    for write in (
        tracker.tidy(ticket, keep=Status.DONE, deadline=boottime() + 5),
        tracker.write_sticky(ticket, "text", Memo("run", 1), known=None, deadline=boottime() + 5),
        tracker.say(ticket, "text", deadline=boottime() + 5),
        tracker.relabel(ticket, add=["x"], deadline=boottime() + 5),
    ):
        with pytest.raises(Refused, match="a shadow writes nothing"):
            await write
    assert isinstance(tracker, TakesCommands)
    assert isinstance(tracker, KnowsCircles)
    with pytest.raises(Refused):
        await tracker.acknowledge(ticket, "1", deadline=boottime() + 5)
    assert not isinstance(tracker, DefinesLabels), "the poller makes no labels for it"
    assert await state(world, key) == before


def test_its_memory_is_its_own(world: World) -> None:
    apart = shadow_of(world.config)
    assert apart.redis.namespace == f"{world.config.redis.namespace}:shadow"
    assert apart.triggers == world.config.triggers
