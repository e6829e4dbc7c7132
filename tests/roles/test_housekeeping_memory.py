"""What survives on the ticket itself when Redis forgets everything, and what is left alone because it is not ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentsmith.config import Trigger
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import text_hash
from agentsmith.domain.signal import SignalKind
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access
from agentsmith.store import Store
from agentsmith.tickets.lock import holding
from tests.support.stores import MakeStore, an_edge
from tests.support.stuck import brought_back, finish, killed, let_go, started_by
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world, sh, world_config

Forget = Callable[[], Awaitable[None]]


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url, sh(f"echo x >> {tmp_path}/runs")) as world:
        yield world


@pytest.fixture
def forget(flush: Callable[[], Awaitable[None]], settled: Callable[[], Awaitable[None]]) -> Forget:
    """FLUSHALL, and the settling period that follows it."""

    async def empty() -> None:
        await flush()
        await settled()

    return empty


async def test_an_empty_redis_proves_nothing(world: World, flush: Callable[[], Awaitable[None]]) -> None:
    running, waiting = await world.open_ticket(), await world.open_ticket()
    await started_by(world, running)
    await world.claim(waiting)
    await flush()
    for status in (Status.IN_PROGRESS, Status.ENQUEUED):
        assert (await world.housekeeping.look_at(status)).recovered == 0
    assert await world.statuses(running) == {Status.IN_PROGRESS}
    assert not await world.queued()


async def test_P2_after_a_flush_and_its_settling_every_ticket_is_finished(world: World, forget: Forget) -> None:
    running, waiting = await world.open_ticket(), await world.open_ticket()
    await started_by(world, running)
    await world.claim(waiting)
    await forget()
    assert (await world.housekeeping.look_at(Status.ENQUEUED)).recovered == 1
    await world.housekeeping.look_at(Status.IN_PROGRESS)
    await brought_back(world)
    await finish(world, running)
    assert await world.statuses(waiting) == {Status.DONE}


async def test_attempts_are_remembered_on_the_ticket_when_redis_forgets(world: World, forget: Forget) -> None:
    key = await world.open_ticket()
    await started_by(world, key)
    ticket = (await world.desk.show(key)).ticket
    tracker = world.trackers["local"]
    sticky = await tracker.read_sticky(ticket)
    assert sticky is not None
    assert sticky.memo is not None
    memo = replace(sticky.memo, attempt=3)
    await tracker.write_sticky(ticket, "third attempt", memo, known=sticky, deadline=float("inf"))
    await forget()
    await world.housekeeping.look_at(Status.IN_PROGRESS)
    await brought_back(world)
    assert await world.statuses(key) == {Status.FAILED}
    assert "given up after 3 attempts" in (await world.comments(key))[0]


# The text that was pinned.


@pytest.mark.parametrize("status", [Status.ENQUEUED, Status.IN_PROGRESS])
async def test_text_that_a_stranger_changed_while_redis_was_lost_is_parked(
    world: World, forget: Forget, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def access_of(actor: Actor) -> Access:
        return Access.READ if actor.name == "eve" else Access.WRITE

    monkeypatch.setattr(world.trackers["local"], "access_of", access_of)
    key = await world.open_ticket()
    if status is Status.ENQUEUED:
        await world.claim(key)
    else:
        await started_by(world, key)
    await world.desk.edit(key, body="rm -rf everything", actor="eve")
    await forget()
    await world.housekeeping.look_at(status)
    if status is Status.IN_PROGRESS:
        await brought_back(world)
    await world.drain_signals()
    assert await world.statuses(key) == {Status.WAITING}
    assert "'eve' changed the text" in (await world.comments(key))[0]
    assert not await world.queued()
    seen = text_hash("Fix it", "rm -rf everything")
    retry = replace(world.signal(key, kind=SignalKind.RETRY, by="mona"), text=seen)
    await world.parts.looks.on_signal(retry)
    await finish(world, key)


async def test_text_that_did_not_change_runs_again(world: World, forget: Forget) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    await forget()
    assert (await world.housekeeping.look_at(Status.ENQUEUED)).recovered == 1
    await finish(world, key)


async def test_changed_text_is_no_matter_while_redis_remembers(world: World) -> None:
    key = await world.open_ticket()
    await killed(world, key)
    await world.desk.edit(key, body="and thanks", actor="mona")
    await world.housekeeping.sweep()
    await finish(world, key)


# Due times.


async def test_a_due_time_is_read_off_the_ticket(world: World, forget: Forget) -> None:
    key = await parked(world, due=time.time() + 3600)
    await forget()
    assert await world.store.intents.waiting() == []
    assert (await world.housekeeping.look_at_waiting()).recalled == 1
    ((ticket, due),) = await world.store.intents.waiting()
    assert ticket == world.ticket_id(key)
    assert due == pytest.approx((await world.memo(key)).due)
    assert (await world.housekeeping.look_at_waiting()).recalled == 0, "once is enough"
    assert await world.statuses(key) == {Status.WAITING}


async def test_a_due_time_that_passed_while_redis_was_lost_wakes_the_ticket(world: World, forget: Forget) -> None:
    key = await parked(world, due=time.time() - 1)
    await forget()
    await world.housekeeping.look_at_waiting()
    assert (await world.housekeeping.sweep()).woken == 1
    await finish(world, key)


async def test_a_ticket_that_waits_for_a_person_is_looked_at_once(
    world: World, forget: Forget, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await parked(world, due=None)
    await forget()
    await world.housekeeping.look_at_waiting()
    read = []

    async def noted(key: str) -> None:
        read.append(key)

    monkeypatch.setattr(world.trackers["local"], "get", noted)
    await world.housekeeping.look_at_waiting()
    assert read == []
    assert await world.statuses(key) == {Status.WAITING}


async def test_where_a_parked_ticket_lives_is_remembered_as_long_as_it_waits(world: World) -> None:
    key = await parked(world, due=time.time() - 1)
    await world.store.redis.delete(world.store.keys.where(world.ticket_id(key)))
    assert (await world.housekeeping.sweep()).woken == 0
    await world.housekeeping.look_at_waiting()
    assert (await world.housekeeping.sweep()).woken == 1


async def parked(world: World, *, due: float | None) -> str:
    """A ticket that a run parked."""
    key = await world.open_ticket()
    await started_by(world, key)
    ticket = (await world.desk.show(key)).ticket
    lease = await world.store.runs.lease(ticket.id)
    assert lease is not None
    intent = Intent(
        ticket.id,
        "local",
        key,
        lease.fence,
        an_edge(Status.IN_PROGRESS, Status.WAITING),
        lease.run,
        "parked",
        "later",
        due,
    )
    assert await world.store.runs.settle(lease, "", intent, look_in=60)
    async with holding(world.store, "local", ticket.id, fence=lease.fence) as lock:
        await world.parts.publisher.publish(intent, lock=lock)
    assert await world.statuses(key) == {Status.WAITING}
    return key


# Follow-ups.


async def test_a_follow_up_survives_on_the_ticket(tmp_path: Path, store: Store, redis_url: str, forget: Forget) -> None:
    script = f"echo x >> {tmp_path}/runs; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    async with open_world(tmp_path, store, redis_url, sh(script)) as world:
        key = await world.open_ticket()
        await world.claim(key)
        serving = asyncio.create_task(world.consumer.serve())
        await wait_until((tmp_path / "runs").exists, what="it to run")
        await world.parts.looks.on_signal(world.signal(key, kind=SignalKind.RETRY, by="mona"))
        assert (await world.memo(key)).follow_up
        await forget()
        await world.consumer.restore()
        (tmp_path / "go").touch()
        await wait_until(lambda: _shows(world, key, Status.PENDING), what="it to be asked for once more")
        await wait_until(lambda: _signalled(world), what="the signal that has it claimed again")
        await let_go(world, key)
        assert not (await world.memo(key)).follow_up
        await world.drain_signals()
        await wait_until(lambda: _shows(world, key, Status.DONE), what="the second run")
        assert (tmp_path / "runs").read_text() == "x\nx\n"
        await world.consumer.drain(timeout=0)
        await serving


async def _shows(world: World, key: str, status: Status) -> bool:
    return await world.statuses(key) == {status}


async def _signalled(world: World) -> bool:
    return await world.store.signals.count() > 0


# Tickets of other installations.


THEIRS = "their-trigger"


async def their_ticket(world: World, *labels: str) -> str:
    return (await world.desk.new(title="theirs", labels=(THEIRS, *labels), actor="eve")).key


@pytest.mark.parametrize(
    "labels",
    [
        ("agent-smith:enqueued",),
        ("agent-smith:in-progress",),
        ("agent-smith:enqueued", "agent-smith:in-progress"),
        ("agent-smith:in-progress", "agent-smith:done"),
    ],
)
async def test_P3_a_ticket_that_our_triggers_do_not_route_here_is_left_alone(
    world: World, labels: tuple[str, ...]
) -> None:
    key = await their_ticket(world, *labels)
    before = (await world.desk.show(key)).ticket
    for status in (Status.ENQUEUED, Status.IN_PROGRESS, Status.ENQUEUED, Status.IN_PROGRESS):
        assert (await world.housekeeping.look_at(status)).recovered == 0
        await world.housekeeping.sweep()
    await world.claim(key)
    assert (await world.desk.show(key)).ticket == before
    assert not await world.queued()


async def test_P3_the_live_run_of_another_installation_on_the_same_tracker_is_left_alone(
    tmp_path: Path, store: Store, redis_url: str, make_store: MakeStore
) -> None:
    # They use our account and our prefix, but their own Redis and their own trigger.
    theirs = Store(redis_url, times=store.times, namespace="agentsmith")
    config = world_config(tmp_path / "data", triggers=(Trigger(label=THEIRS, pipeline="work"),))
    async with theirs, open_world(tmp_path, theirs, redis_url, config=config) as there:
        await theirs.presence.settling()
        await theirs.redis.delete(theirs.keys.settling)
        async with open_world(tmp_path, store, redis_url) as here:
            key = await their_ticket(there)
            await started_by(there, key)
            assert (await there.memo(key)).trigger == THEIRS
            for _ in range(2):
                assert (await here.housekeeping.look_at(Status.IN_PROGRESS)).recovered == 0
                await here.store.redis.zadd(here.store.keys.suspects, {here.ticket_id(key): 1.0})
                assert (await here.housekeeping.sweep()).recovered == 0
            assert await there.statuses(key) == {Status.IN_PROGRESS}


async def test_a_foreign_ticket_is_read_once_until_it_changes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    key = await their_ticket(world, "agent-smith:enqueued")
    read = []
    get = world.trackers["local"].get

    async def noted(key: str) -> Ticket:
        read.append(key)
        return await get(key)

    monkeypatch.setattr(world.trackers["local"], "get", noted)
    for _ in range(3):
        await world.housekeeping.look_at(Status.ENQUEUED)
    assert read == [key]
    await world.desk.comment(key, "hello", actor="eve")
    await world.desk.label(key, "bug", actor="eve")
    await world.housekeeping.look_at(Status.ENQUEUED)
    assert read == [key, key]


async def test_a_ticket_of_ours_that_lost_its_trigger_while_redis_was_lost_is_withdrawn(
    world: World, forget: Forget
) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    await world.desk.unlabel(key, TRIGGER, actor="mona")
    await forget()
    assert (await world.housekeeping.look_at(Status.ENQUEUED)).recovered == 1
    assert await world.statuses(key) == frozenset()
