"""A trigger that is set again while its ticket runs: one more run afterwards, and never because of an old event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import Claimed, NothingToDo
from agentsmith.domain.ticket import Actor
from agentsmith.domain.tracker import Access
from agentsmith.store import Store
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world, sh


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    """A run notes its line, and ends once it may."""
    step = sh(f"echo run >> {tmp_path / 'ran'}; until [ -e {tmp_path / 'go'} ]; do sleep 0.02; done")
    async with open_world(tmp_path, store, redis_url, step) as world:
        yield world


@asynccontextmanager
async def running(world: World, tmp_path: Path) -> AsyncIterator[str]:
    """A ticket whose run is alive; at the end of the block it may end, and does."""
    key = await world.open_ticket()
    assert isinstance(await world.claim(key), Claimed)
    payload = await world.store.queue.take(world.process.name, wait=1)
    assert payload is not None
    world.consumer._begin(payload)
    tasks = list(world.consumer._tasks.values())
    try:
        await wait_until((tmp_path / "ran").exists, what="the run to begin", within=30)
        yield key
    finally:
        (tmp_path / "go").touch()
        await asyncio.wait(tasks)


async def look(world: World, key: str, *, labelled: bool = True) -> object:
    """As after a webhook that tells of a label."""
    return await world.parts.looks.on_signal(replace(world.signal(key), labelled=labelled))


async def set_again(world: World, key: str, actor: str = "mona") -> None:
    """So quickly that nobody sees the ticket without it."""
    await world.desk.unlabel(key, TRIGGER, actor=actor)
    await world.desk.label(key, TRIGGER, actor=actor)


def runs(tmp_path: Path) -> int:
    return (tmp_path / "ran").read_text().count("run")


async def finish(world: World) -> None:
    """Deal with what is signalled and queued until nothing is."""
    while await world.store.redis.llen(world.store.keys.inbox) or await world.queued():
        await world.drain_signals()
        await world.run_queue()


async def test_a_trigger_set_again_during_a_run_is_one_more_run(world: World, tmp_path: Path) -> None:
    async with running(world, tmp_path) as key:
        await set_again(world, key)
        await set_again(world, key, "lisa")
        outcomes = [await look(world, key) for _ in range(3)]
        assert all(isinstance(outcome, NothingToDo) and "as lisa set" in outcome.why for outcome in outcomes)
        assert await world.store.runs.follow_up(world.ticket_id(key)) == "lisa"
        assert (await world.memo(key)).follow_up, "it survives on the ticket"
        assert "once more" in (await world.comments(key))[0]
    assert await world.statuses(key) == {Status.PENDING}
    await finish(world)
    assert runs(tmp_path) == 2
    assert await world.statuses(key) == {Status.DONE}


@pytest.mark.parametrize("labelled", [True, False])
async def test_the_event_that_started_the_run_may_come_late(world: World, tmp_path: Path, labelled: bool) -> None:
    """The poll was faster than the webhook, or the webhook came twice: neither asks for a second run."""
    async with running(world, tmp_path) as key:
        await world.desk.label(key, "other", actor="mona")
        for _ in range(3):
            outcome = await look(world, key, labelled=labelled)
            assert isinstance(outcome, NothingToDo)
            assert outcome.why == "it is running"
    await finish(world)
    assert runs(tmp_path) == 1
    assert await world.statuses(key) == {Status.DONE}


async def test_P7_whoever_may_not_start_work_does_not_repeat_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = world.trackers["local"]

    async def access_of(actor: Actor) -> Access:
        return Access.TRIAGE if actor.name == "gil" else Access.WRITE

    monkeypatch.setattr(tracker, "access_of", access_of)
    async with running(world, tmp_path) as key:
        await set_again(world, key, "gil")
        await look(world, key)
        assert await world.store.runs.follow_up(world.ticket_id(key)) is None
    await finish(world)
    assert runs(tmp_path) == 1
    assert await world.statuses(key) == {Status.DONE}, "the outcome stays to be seen"


async def test_withdrawn_and_wanted_again_before_it_has_stopped(world: World, tmp_path: Path) -> None:
    """The run that was stopped says that nothing is wanted; the label, by then, says otherwise."""
    async with running(world, tmp_path) as key:
        await world.desk.unlabel(key, TRIGGER, actor="mona")
        await look(world, key, labelled=False)
        stop = await world.store.runs.stop_requested(world.ticket_id(key))
        assert stop == "withdrawn: the trigger was removed"
        await world.desk.label(key, TRIGGER, actor="mona")
        await look(world, key, labelled=False)
        world.consumer.stop_runs({world.ticket_id(key): stop}, asked=world.consumer.running)
        await asyncio.wait(list(world.consumer._tasks.values()))
        assert await world.statuses(key) == frozenset()
    await finish(world)
    assert runs(tmp_path) == 2
    assert await world.statuses(key) == {Status.DONE}


async def test_what_was_withdrawn_for_good_stays_so(world: World, tmp_path: Path) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    await world.desk.close(key, actor="mona")
    await look(world, key)
    await finish(world)
    assert (await world.statuses(key), (tmp_path / "ran").exists()) == (frozenset(), False)
