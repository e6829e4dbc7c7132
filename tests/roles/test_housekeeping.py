"""Housekeeping: what got stuck comes back, what lives is left alone, and what ended stays ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentsmith.domain.errors import TrackerUnavailable
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import Ticket
from agentsmith.store import Acquired, RunLease, Store
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world, sh


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url, sh(f"echo x >> {tmp_path}/runs")) as world:
        yield world


async def started_by(world: World, key: str, consumer: str = "host-gone") -> RunLease:
    """A run as a consumer leaves it behind that dies in mid-run: lease and label stand, nobody is there."""
    await world.claim(key)
    payload = await world.store.queue.take(consumer, wait=0.1)
    assert payload is not None
    request = PipelineRequest.from_json(payload)
    acquired = await world.store.runs.acquire(request, payload, consumer=consumer, ttl=5, max_deliveries=3)
    assert isinstance(acquired, Acquired)
    await world.store.runs.start(acquired.lease, max_attempts=3)
    await world.desk.label(key, "agent-smith:in-progress", actor="mona")
    await world.desk.unlabel(key, "agent-smith:enqueued", actor="mona")
    await world.store.intents.note_published(request.ticket, Status.IN_PROGRESS)
    await world.store.queue.acknowledge_and_take(consumer, [(request.ticket, payload)], room=0)
    return acquired.lease


async def finish(world: World, key: str) -> None:
    await world.drain_signals()
    await world.run_queue()
    assert await world.statuses(key) == {Status.DONE}


async def test_a_ticket_whose_guard_let_go_is_back_at_the_next_sweep(world: World, tmp_path: Path) -> None:
    key = await world.open_ticket("keep")
    lease = await started_by(world, key)
    lock = world.store.keys.claim_lock("local", lease.ticket)
    await world.store.runs.release_dead(lease, lock_key=lock)
    assert (await world.housekeeping.sweep()).recovered == 1
    assert await world.statuses(key) == {Status.PENDING}
    await finish(world, key)
    assert (await world.desk.show(key)).ticket.labels == {TRIGGER, "keep", "agent-smith:done"}


async def test_a_lost_host_needs_two_looks_one_renewal_apart(world: World) -> None:
    key = await world.open_ticket()
    lease = await started_by(world, key)
    await world.store.redis.delete(world.store.keys.heartbeat(lease.ticket))
    first = await world.housekeeping.sweep()
    assert first.recovered == 0
    assert await world.statuses(key) == {Status.IN_PROGRESS}
    await wait_until(lambda: _recovered(world), what="the second look")
    assert await world.statuses(key) == {Status.PENDING}
    await finish(world, key)


async def _recovered(world: World) -> bool:
    return (await world.housekeeping.sweep()).recovered == 1


async def test_a_live_run_is_left_alone(world: World) -> None:
    key = await world.open_ticket()
    await started_by(world, key)
    for _ in range(3):
        assert (await world.housekeeping.look_at(Status.IN_PROGRESS)).recovered == 0
        assert (await world.housekeeping.sweep()).recovered == 0
    assert await world.statuses(key) == {Status.IN_PROGRESS}


async def test_a_missing_heartbeat_alone_is_not_death(world: World) -> None:
    key = await world.open_ticket()
    lease = await started_by(world, key, world.process.name)
    await world.store.presence.tick(world.process, ttl=60, running=())
    await world.store.redis.delete(world.store.keys.heartbeat(lease.ticket))
    for _ in range(3):
        assert (await world.housekeeping.look_at(Status.IN_PROGRESS)).recovered == 0
    assert await world.statuses(key) == {Status.IN_PROGRESS}


async def test_an_empty_redis_proves_nothing(world: World, flush: Callable[[], Awaitable[None]]) -> None:
    running, waiting = await world.open_ticket(), await world.open_ticket()
    await started_by(world, running)
    await world.claim(waiting)
    await flush()
    for status in (Status.IN_PROGRESS, Status.ENQUEUED):
        assert (await world.housekeeping.look_at(status)).recovered == 0
    assert await world.statuses(running) == {Status.IN_PROGRESS}
    assert not await world.queued()


async def test_P2_after_a_flush_and_its_settling_every_ticket_is_finished(
    world: World, flush: Callable[[], Awaitable[None]], settled: Callable[[], Awaitable[None]]
) -> None:
    running, waiting = await world.open_ticket(), await world.open_ticket()
    await started_by(world, running)
    await world.claim(waiting)
    await flush()
    await settled()
    assert (await world.housekeeping.look_at(Status.ENQUEUED)).recovered == 1
    await world.housekeeping.look_at(Status.IN_PROGRESS)
    await wait_until(lambda: _recovered(world), what="the second look")
    await finish(world, running)
    assert await world.statuses(waiting) == {Status.DONE}


async def test_attempts_are_remembered_on_the_ticket_when_redis_forgets(
    world: World, flush: Callable[[], Awaitable[None]], settled: Callable[[], Awaitable[None]]
) -> None:
    key = await world.open_ticket()
    await started_by(world, key)
    ticket = (await world.desk.show(key)).ticket
    tracker = world.trackers["local"]
    sticky = await tracker.read_sticky(ticket)
    assert sticky is not None
    assert sticky.memo is not None
    memo = replace(sticky.memo, attempt=3)
    await tracker.write_sticky(ticket, "third attempt", memo, known=sticky, deadline=float("inf"))
    await flush()
    await settled()
    await world.housekeeping.look_at(Status.IN_PROGRESS)
    await wait_until(lambda: _recovered(world), what="the second look")
    assert await world.statuses(key) == {Status.FAILED}
    assert "given up after 3 attempts" in (await world.comments(key))[0]


async def test_an_enqueued_ticket_that_nobody_has_is_pushed_again(world: World) -> None:
    key = (await world.desk.new(title="t", labels=(TRIGGER, "agent-smith:enqueued"), actor="mona")).key
    assert (await world.housekeeping.look_at(Status.ENQUEUED)).recovered == 1
    assert len(await world.queued()) == 1
    assert (await world.housekeeping.look_at(Status.ENQUEUED)).recovered == 0
    assert len(await world.queued()) == 1
    await finish(world, key)


async def test_two_housekeepers_at_once_push_once(world: World) -> None:
    keys = [
        (await world.desk.new(title="t", labels=(TRIGGER, "agent-smith:enqueued"), actor="mona")).key for _ in range(10)
    ]
    await asyncio.gather(*(world.housekeeping.look_at(Status.ENQUEUED) for _ in range(4)))
    assert len(await world.queued()) == len(keys)


async def test_a_dead_consumers_requests_go_back_to_the_head_in_order(world: World) -> None:
    keys = [await world.open_ticket() for _ in range(3)]
    for key in keys:
        await world.claim(key)
    before = list(await world.queued())
    for _ in range(2):
        await world.store.queue.take("dead", wait=0.1)
    await world.store.presence.tick(replace(world.process, name="dead"), ttl=0.01, running=())
    await wait_until(lambda: _put_back(world), what="the dead consumer to be missed")
    assert list(await world.queued()) == before


async def _put_back(world: World) -> bool:
    return (await world.housekeeping.sweep()).put_back == 2


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (("agent-smith:in-progress", "agent-smith:done"), Status.DONE),
        (("agent-smith:done", "agent-smith:failed", "agent-smith:in-progress"), Status.FAILED),
        (("agent-smith:in-progress", "agent-smith:waiting"), Status.WAITING),
    ],
)
async def test_several_labels_are_repaired_by_rank(world: World, labels: tuple[str, ...], kept: Status) -> None:
    key = await world.open_ticket("keep", *labels)
    await world.housekeeping.look_at(Status.IN_PROGRESS)
    assert await world.statuses(key) == {kept}
    assert {TRIGGER, "keep"} <= (await world.desk.show(key)).ticket.labels


async def test_a_live_runs_label_wins_over_rank(world: World) -> None:
    key = await world.open_ticket()
    await started_by(world, key)
    await world.desk.label(key, "agent-smith:done", actor="mona")
    await world.housekeeping.look_at(Status.IN_PROGRESS)
    assert await world.statuses(key) == {Status.IN_PROGRESS}


async def test_P4_a_late_label_does_not_reopen_what_ended(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    await world.run_queue()
    assert await world.statuses(key) == {Status.DONE}
    # A write that was on the wire lands after the end was published.
    await world.desk.label(key, "agent-smith:enqueued", actor="mona")
    await world.desk.unlabel(key, "agent-smith:done", actor="mona")
    await world.housekeeping.look_at(Status.ENQUEUED)
    assert await world.statuses(key) == {Status.DONE}
    assert not await world.queued()


@pytest.mark.parametrize("how", ["unlabel", "close"])
async def test_a_dead_run_that_nobody_wants_any_more_loses_its_label(world: World, how: str) -> None:
    key = await world.open_ticket()
    lease = await started_by(world, key)
    lock = world.store.keys.claim_lock("local", lease.ticket)
    await world.store.runs.release_dead(lease, lock_key=lock)
    if how == "unlabel":
        await world.desk.unlabel(key, TRIGGER, actor="mona")
    else:
        await world.desk.close(key, actor="mona")
    await world.housekeeping.sweep()
    assert await world.statuses(key) == frozenset()


async def test_attempts_used_up_fail_the_ticket_and_leave_a_dead_letter(world: World) -> None:
    key = await world.open_ticket()
    for attempt in range(1, 4):
        lease = await started_by(world, key)
        lock = world.store.keys.claim_lock("local", lease.ticket)
        await world.store.runs.release_dead(lease, lock_key=lock)
        assert (await world.housekeeping.sweep()).recovered == 1
        assert await world.statuses(key) == {Status.PENDING if attempt < 3 else Status.FAILED}
    [letter] = await world.store.queue.dead_letters()
    assert "given up after 3 attempts" in letter.reason


async def test_a_ticket_whose_request_was_lost_gets_a_new_one(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    ticket = world.ticket_id(key)
    [payload] = await world.queued()
    await world.store.redis.delete(world.store.keys.queue, world.store.keys.queue_index)
    await world.housekeeping.look_at(Status.ENQUEUED)
    [again] = await world.queued()
    assert again != payload
    assert PipelineRequest.from_json(again).ticket == ticket


async def test_P9_a_tracker_that_is_away_is_reported_and_nothing_is_concluded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await world.open_ticket()
    await started_by(world, key)

    async def away(_: str) -> AsyncIterator[Ticket]:
        raise TrackerUnavailable("502")
        yield

    monkeypatch.setattr(world.trackers["local"], "find", away)
    swept = await world.housekeeping.look_at(Status.IN_PROGRESS)
    assert swept.troubles == ["local: 502"]
    assert swept.recovered == 0
