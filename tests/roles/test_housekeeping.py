"""Housekeeping: what got stuck comes back, what lives is left alone, and what ended stays ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import structlog

from agentsmith.config import Config
from agentsmith.daemon.build import assemble
from agentsmith.domain.errors import ConfigError, StoreUnavailable, TrackerUnavailable
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import PipelineRequest, text_hash
from agentsmith.domain.signal import SignalKind
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access, Move, MoveOutcome
from agentsmith.domain.vetting import Pin
from agentsmith.housekeeping.leader import Housekeeping, Intervals
from agentsmith.intake.poller import Poller
from agentsmith.store import Store
from agentsmith.trackers.local.tracker import LocalTracker
from tests.support.entries import all_bare
from tests.support.processes import is_alive
from tests.support.stores import Flush, MakeStore, an_edge
from tests.support.stuck import brought_back, finish, killed, started_by
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world, sh, world_config


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url, sh(f"echo x >> {tmp_path}/runs")) as world:
        yield world


async def test_a_ticket_whose_guard_let_go_is_back_at_the_next_sweep(world: World, tmp_path: Path) -> None:
    key = await world.open_ticket("keep")
    await killed(world, key)
    assert (await world.housekeeping.sweep.run_once()).recovered == 1
    assert await world.statuses(key) == {Status.PENDING}
    await finish(world, key)
    assert (await world.desk.show(key)).ticket.labels == {TRIGGER, "keep", "agent-smith:done"}


async def test_the_comment_tells_what_befell_the_run_also_after_it_was_claimed_again(world: World) -> None:
    key = await world.open_ticket()
    lease = await killed(world, key)
    await world.housekeeping.sweep.run_once()
    line = f"run `{lease.run}` died in attempt 1; it was queued again"
    [comment] = await world.comments(key)
    assert "will be tried again" in comment
    assert line in comment
    memo = await world.memo(key)
    assert (memo.attempt, memo.fence > lease.fence) == (1, True)
    await world.drain_signals()
    assert line in (await world.comments(key))[0]
    await world.run_queue()
    [comment] = await world.comments(key)
    assert "is done" in comment
    assert line in comment
    await world.parts.looks.on_signal(world.signal(key, kind=SignalKind.RETRY, by="mona"))
    await world.drain_signals()
    assert line not in (await world.comments(key))[0], "a person began afresh"


async def test_P6_the_fence_is_raised_and_the_old_run_told_to_stop_before_the_label_says_pending(
    tmp_path: Path, store: Store, redis_url: str, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A consumer that renews too seldom: its heartbeat and its liveness lapse while its command works on.
    slow = make_store(renew_every=60)
    step = sh(f"echo $$ > {tmp_path}/pid; mv {tmp_path}/pid {tmp_path}/child; sleep 60")
    async with open_world(tmp_path, slow, redis_url, step) as world:
        key = await world.open_ticket()
        await world.claim(key)
        serving = asyncio.create_task(world.consumer.serve())
        await wait_until((tmp_path / "child").exists, what="the command to run")
        ((ticket, fence),) = world.consumer.running.items()
        tick = await slow.presence.tick(world.process, ttl=60, running=world.consumer.running)
        assert tick.stops == {}
        await store.presence.leave(world.process.name)
        await store.redis.delete(store.keys.heartbeat(ticket))
        parts = assemble(world.config, store, world.trackers)
        order: list[str] = []
        move = world.trackers["local"].move

        async def watched(seen: Ticket, to: Move) -> MoveOutcome:
            told = await slow.presence.tick(world.process, ttl=0.001, running=world.consumer.running)
            order.append(f"{told.stops.get(ticket)}, then {to.to}")
            assert to.fence > fence
            return await move(seen, to)

        monkeypatch.setattr(world.trackers["local"], "move", watched)
        housekeeping = Housekeeping(store, world.trackers, parts.looks, world.housekeeping.intervals)
        await wait_until(lambda: _recovers(housekeeping), what="it to be declared dead")
        assert order == ["somebody took the ticket over, then pending"]
        tick = await slow.presence.tick(world.process, ttl=60, running=world.consumer.running)
        world.consumer.stop_runs(tick.stops, asked=world.consumer.running)
        await wait_until(lambda: not world.consumer.running, what="the old run to end")
        assert not is_alive(int((tmp_path / "child").read_text()))
        assert await world.statuses(key) == {Status.PENDING}, "what was fenced off is not published"
        await world.consumer.drain(timeout=0)
        await serving


async def _recovers(housekeeping: Housekeeping) -> bool:
    return (await housekeeping.sweep.run_once()).recovered == 1


async def test_a_silent_consumer_with_a_live_lease_costs_no_request_to_its_tracker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await world.open_ticket()
    await started_by(world, key)
    asked = counted(world, monkeypatch)
    for _ in range(3):
        await world.housekeeping.sweep.run_once()
    assert asked == []


def counted(world: World, monkeypatch: pytest.MonkeyPatch, tracker: str = "local") -> list[str]:
    """The keys of the tickets that are read from now on."""
    asked: list[str] = []
    get = world.trackers[tracker].get

    async def noted(key: str) -> Ticket:
        asked.append(key)
        return await get(key)

    monkeypatch.setattr(world.trackers[tracker], "get", noted)
    return asked


async def test_a_suspended_machine_wakes_up_without_declaring_its_runs_dead(world: World) -> None:
    key = await world.open_ticket()
    lease = await started_by(world, key, world.process.name)
    # After a long sleep everything has lapsed in the same moment, and housekeeping may be the first to wake.
    await world.store.redis.delete(world.store.keys.heartbeat(lease.ticket))
    assert (await world.housekeeping.sweep.run_once()).recovered == 0
    await world.store.presence.tick(world.process, ttl=60, running={lease.ticket: lease.fence})
    await world.store.redis.zadd(world.store.keys.suspects, {lease.ticket: 1.0})  # the first look was long ago
    for _ in range(3):
        assert (await world.housekeeping.sweep.run_once()).recovered == 0
        assert (await world.housekeeping.stuck[Status.IN_PROGRESS].run_once()).recovered == 0
    assert await world.statuses(key) == {Status.IN_PROGRESS}


async def test_a_slow_tracker_holds_up_only_its_own_tickets(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    key = await world.open_ticket()
    await killed(world, key)
    slow = LocalTracker(
        name="slow", path=world.config.data_dir / "slow.sqlite3", project="slow", labels=world.config.labels
    )
    never = asyncio.Event()

    async def stuck(_: str) -> Ticket:
        await never.wait()
        raise AssertionError

    monkeypatch.setattr(slow, "get", stuck)
    world.trackers["slow"] = slow
    ticket = slow.ticket_id("1")
    await world.store.intents.remember_where(ticket, "slow", "1")
    await world.store.redis.zadd(world.store.keys.released, {ticket: 1.0})
    sweeping = asyncio.create_task(world.housekeeping.sweep.run_once())
    await wait_until(lambda: _is_pending(world, key), what="the other tracker's ticket to be back")
    assert not sweeping.done()
    sweeping.cancel()
    await asyncio.wait({sweeping})
    await slow.aclose()


async def _is_pending(world: World, key: str) -> bool:
    return await world.statuses(key) == {Status.PENDING}


async def test_a_lost_host_needs_two_looks_one_renewal_apart(world: World) -> None:
    key = await world.open_ticket()
    lease = await started_by(world, key)
    await world.store.redis.delete(world.store.keys.heartbeat(lease.ticket))
    first = await world.housekeeping.sweep.run_once()
    assert first.recovered == 0
    assert await world.statuses(key) == {Status.IN_PROGRESS}
    await brought_back(world)
    assert await world.statuses(key) == {Status.PENDING}
    await finish(world, key)


async def test_a_live_run_is_left_alone(world: World) -> None:
    key = await world.open_ticket()
    await started_by(world, key)
    for _ in range(3):
        assert (await world.housekeeping.stuck[Status.IN_PROGRESS].run_once()).recovered == 0
        assert (await world.housekeeping.sweep.run_once()).recovered == 0
    assert await world.statuses(key) == {Status.IN_PROGRESS}


async def test_a_missing_heartbeat_alone_is_not_death(world: World) -> None:
    key = await world.open_ticket()
    lease = await started_by(world, key, world.process.name)
    await world.store.presence.tick(world.process, ttl=60, running={})
    await world.store.redis.delete(world.store.keys.heartbeat(lease.ticket))
    for _ in range(3):
        assert (await world.housekeeping.stuck[Status.IN_PROGRESS].run_once()).recovered == 0
    assert await world.statuses(key) == {Status.IN_PROGRESS}


async def test_an_enqueued_ticket_that_nobody_has_is_pushed_again(world: World) -> None:
    key = await orphan(world)
    assert (await world.housekeeping.stuck[Status.ENQUEUED].run_once()).recovered == 1
    assert len(await world.queued()) == 1
    assert (await world.housekeeping.stuck[Status.ENQUEUED].run_once()).recovered == 0
    assert len(await world.queued()) == 1
    await finish(world, key)


async def orphan(world: World) -> str:
    """A ticket whose text was vetted and whose request is lost."""
    key = (await world.desk.new(title="t", labels=(TRIGGER, "agent-smith:enqueued"), actor="mona")).key
    await world.store.pins.keep(world.ticket_id(key), Pin(text_hash("t", "")))
    return key


async def test_P7_an_enqueued_label_alone_gets_nobody_past_the_gates(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who may label, and may not start work, sets both labels by hand."""

    async def access_of(_: Actor) -> Access:
        return Access.TRIAGE

    monkeypatch.setattr(world.trackers["local"], "access_of", access_of)
    key = (await world.desk.new(title="t", labels=(TRIGGER, "agent-smith:enqueued"), actor="gil")).key
    await world.housekeeping.stuck[Status.ENQUEUED].run_once()
    await world.drain_signals()
    assert not await world.queued()
    assert await world.statuses(key) == {Status.PENDING}


async def test_an_orphan_is_logged_by_its_name(world: World) -> None:
    key = await orphan(world)
    with structlog.testing.capture_logs() as lines:
        await world.housekeeping.stuck[Status.ENQUEUED].run_once()
    assert f"re-enqueued orphan ticket {world.ticket_id(key)}" in [line["event"] for line in lines]
    assert "has a new one" in (await world.comments(key))[0]
    assert (await world.memo(key)).text == text_hash("t", "")


async def test_the_reconciler_reads_only_enqueued_tickets_that_nobody_has(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in ("done", "failed", "waiting", "pending"):
        for _ in range(5):
            await world.open_ticket(f"agent-smith:{status}")
    queued = [await world.open_ticket() for _ in range(3)]
    for key in queued:
        await world.claim(key)
    lost = await orphan(world)
    asked, listed = counted(world, monkeypatch), []
    find = world.trackers["local"].find

    async def noted(*labels: str) -> AsyncIterator[Ticket]:
        async for ticket in find(*labels):
            listed.append(ticket.key)
            yield ticket

    monkeypatch.setattr(world.trackers["local"], "find", noted)
    assert (await world.housekeeping.stuck[Status.ENQUEUED].run_once()).recovered == 1
    assert sorted(listed) == sorted([*queued, lost])
    assert set(asked) == {lost}


async def test_an_orphan_under_a_former_prefix_is_found(tmp_path: Path, store: Store, redis_url: str) -> None:
    config = world_config(tmp_path / "data", former_label_prefixes=("old",))
    async with open_world(tmp_path, store, redis_url, config=config) as world:
        key = (await world.desk.new(title="t", labels=(TRIGGER, "old:enqueued"), actor="mona")).key
        assert (await world.housekeeping.stuck[Status.ENQUEUED].run_once()).recovered == 1
        await finish(world, key)
        assert (await world.desk.show(key)).ticket.labels == {TRIGGER, "agent-smith:done"}


async def test_the_reconciler_works_at_start_and_right_after_settling(world: World, flush: Flush) -> None:
    # Sweeps notice the end of the settling period; the next regular pass would be ten minutes away.
    housekeeping = Housekeeping(world.store, world.trackers, world.parts.looks, Intervals(0.02, 600.0, 600.0))
    first = await orphan(world)
    keeping = asyncio.create_task(housekeeping.work())
    await wait_until(lambda: _queues(world, first), what="the first orphan, at start")
    await flush()
    assert await world.store.presence.settling()
    second = await orphan(world)
    await wait_until(lambda: _queues(world, first, second), what="both orphans, right after settling")
    assert not await world.store.presence.settling()
    keeping.cancel()
    await asyncio.wait({keeping})


async def _queues(world: World, *keys: str) -> bool:
    waiting = {PipelineRequest.from_json(payload).key for payload in await world.queued()}
    return waiting == set(keys)


async def test_every_pass_comes_again_at_its_interval(world: World) -> None:
    housekeeping = Housekeeping(world.store, world.trackers, world.parts.looks, Intervals(0.02, 0.02, 0.02))
    keeping = asyncio.create_task(housekeeping.work())
    for _ in range(2):
        key = await orphan(world)
        await wait_until(partial(_queues, world, key), what="an orphan that came later")
        await finish(world, key)
    keeping.cancel()
    await asyncio.wait({keeping})


def test_by_default_the_passes_come_as_often_as_the_docs_say() -> None:
    every = Config().housekeeping
    assert [float(x) for x in (every.sweep_every, every.stale_every, every.reconcile_every)] == [5, 60, 600]


async def test_two_housekeepers_at_once_push_once(world: World) -> None:
    keys = [await orphan(world) for _ in range(10)]
    await asyncio.gather(*(world.housekeeping.stuck[Status.ENQUEUED].run_once() for _ in range(4)))
    assert len(await world.queued()) == len(keys)


async def test_a_dead_consumers_requests_go_back_to_the_head_in_order(world: World) -> None:
    keys = [await world.open_ticket() for _ in range(3)]
    for key in keys:
        await world.claim(key)
    before = list(await world.queued())
    for _ in range(2):
        await world.store.queue.take("dead", wait=0.1)
    await world.store.presence.tick(replace(world.process, name="dead"), ttl=0.01, running={})
    await wait_until(lambda: _put_back(world), what="the dead consumer to be missed")
    assert all_bare(await world.queued()) == before


async def test_requests_of_a_consumer_that_never_said_it_lived_are_found(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    await world.store.queue.take("never-ticked", wait=0.1)
    assert (await world.housekeeping.stuck[Status.ENQUEUED].run_once()).recovered == 0, (
        "it looks as if it were in flight"
    )
    assert (await world.housekeeping.sweep.run_once()).put_back == 0
    await world.store.presence.find_owners()
    assert (await world.housekeeping.sweep.run_once()).put_back == 1
    await finish(world, key)


async def _put_back(world: World) -> bool:
    return (await world.housekeeping.sweep.run_once()).put_back == 2


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
    await world.housekeeping.stuck[Status.IN_PROGRESS].run_once()
    assert await world.statuses(key) == {kept}
    assert {TRIGGER, "keep"} <= (await world.desk.show(key)).ticket.labels


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (("agent-smith:done", "agent-smith:failed"), Status.FAILED),
        (("agent-smith:waiting", "agent-smith:done"), Status.DONE),
        (("agent-smith:pending", "agent-smith:waiting"), Status.WAITING),
        (("agent-smith:pending", "agent-smith:failed"), Status.FAILED),
    ],
)
async def test_several_labels_of_tickets_at_rest_are_found_by_the_poll_and_repaired(
    world: World, labels: tuple[str, ...], kept: Status
) -> None:
    key = await world.open_ticket("keep", *labels)
    at_rest = await world.open_ticket("agent-smith:done")
    poller = Poller(world.store, world.trackers["local"], world.parts.triggers, 60.0)
    assert (await poller.poll()).signalled == 1
    await world.drain_signals()
    assert await world.statuses(key) == {kept}
    assert {TRIGGER, "keep"} <= (await world.desk.show(key)).ticket.labels
    assert await world.statuses(at_rest) == {Status.DONE}
    assert not await world.queued()


async def test_P4_a_late_failed_beside_the_done_that_we_published_is_taken_off(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    await world.run_queue()
    await world.desk.label(key, "agent-smith:failed", actor="mona")
    await world.claim(key)
    assert await world.statuses(key) == {Status.DONE}


async def test_a_live_runs_label_wins_over_rank(world: World) -> None:
    key = await world.open_ticket()
    await started_by(world, key)
    await world.desk.label(key, "agent-smith:done", actor="mona")
    await world.housekeeping.stuck[Status.IN_PROGRESS].run_once()
    assert await world.statuses(key) == {Status.IN_PROGRESS}


async def test_P4_a_late_label_does_not_reopen_what_ended(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    await world.run_queue()
    assert await world.statuses(key) == {Status.DONE}
    # A write that was on the wire lands after the end was published.
    await world.desk.label(key, "agent-smith:enqueued", actor="mona")
    await world.desk.unlabel(key, "agent-smith:done", actor="mona")
    await world.housekeeping.stuck[Status.ENQUEUED].run_once()
    assert await world.statuses(key) == {Status.DONE}
    assert not await world.queued()


@pytest.mark.parametrize("how", ["unlabel", "close"])
async def test_a_dead_run_that_nobody_wants_any_more_loses_its_label(world: World, how: str) -> None:
    key = await world.open_ticket()
    await killed(world, key)
    if how == "unlabel":
        await world.desk.unlabel(key, TRIGGER, actor="mona")
    else:
        await world.desk.close(key, actor="mona")
    await world.housekeeping.sweep.run_once()
    assert await world.statuses(key) == frozenset()


async def test_attempts_used_up_fail_the_ticket_and_leave_a_dead_letter(world: World) -> None:
    key = await world.open_ticket()
    for attempt in range(1, 4):
        await killed(world, key)
        assert (await world.housekeeping.sweep.run_once()).recovered == 1
        assert await world.statuses(key) == {Status.PENDING if attempt < 3 else Status.FAILED}
    [letter] = await world.store.queue.dead_letters()
    assert "given up after 3 attempts" in letter.reason
    assert letter.request is not None, "it can be looked at, and retried"
    assert letter.request.ticket == world.ticket_id(key)
    assert "given up after 3 attempts" in (await world.comments(key))[0]


async def test_a_ticket_whose_request_was_lost_gets_a_new_one(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    ticket = world.ticket_id(key)
    [payload] = await world.queued()
    await world.store.redis.delete(world.store.keys.queue, world.store.keys.queue_index)
    await world.housekeeping.stuck[Status.ENQUEUED].run_once()
    [again] = await world.queued()
    assert again != payload
    assert PipelineRequest.from_json(again).ticket == ticket


async def test_P9_a_tracker_that_is_away_is_reported_and_nothing_is_concluded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await world.open_ticket()
    await started_by(world, key)

    async def away(*_: str) -> AsyncIterator[Ticket]:
        raise TrackerUnavailable("502")
        yield

    monkeypatch.setattr(world.trackers["local"], "find", away)
    swept = await world.housekeeping.stuck[Status.IN_PROGRESS].run_once()
    assert swept.troubles == ["local: 502"]
    assert swept.recovered == 0


@pytest.mark.parametrize(
    "error",
    [TrackerUnavailable("502"), ConfigError("a database of another program; name another file"), KeyError("a mistake")],
    ids=lambda error: type(error).__name__,
)
async def test_P5_whatever_goes_wrong_with_one_ticket_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    first, second = await world.open_ticket(), await world.open_ticket()
    for key in (first, second):
        await killed(world, key)
    local = world.trackers["local"]
    real = local.get

    async def get(key: str) -> Ticket:
        if key == first:
            raise error
        return await real(key)

    monkeypatch.setattr(local, "get", get)
    swept = await world.housekeeping.sweep.run_once()
    assert [trouble.partition(":")[0] for trouble in swept.troubles] == [world.ticket_id(first).partition(":")[0]]
    assert swept.recovered == 1
    assert await world.statuses(second) == {Status.PENDING}


@pytest.mark.parametrize("error", [ConfigError("no such file"), KeyError("a mistake")], ids=lambda e: type(e).__name__)
async def test_P9_a_list_that_cannot_be_had_for_whatever_reason_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def broken(*_: str) -> AsyncIterator[Ticket]:
        raise error
        yield

    monkeypatch.setattr(world.trackers["local"], "find", broken)
    swept = await world.housekeeping.stuck[Status.IN_PROGRESS].run_once()
    assert swept.troubles == [f"local: {error}"]


@pytest.mark.parametrize("error", [StoreUnavailable("redis is away"), OSError(24, "Too many open files")])
async def test_what_fails_everything_ends_the_leaders_work(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Another process may do better: nothing is noted about a ticket that has nothing to do with it."""
    key = await world.open_ticket()
    await killed(world, key)

    async def get(_: str) -> Ticket:
        raise error

    monkeypatch.setattr(world.trackers["local"], "get", get)
    with pytest.raises(type(error)):
        await world.housekeeping.sweep.run_once()


async def test_P5_a_tracker_that_never_answers_does_not_delay_the_recovery_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    class Silent(LocalTracker):
        async def get(self, key: str) -> Ticket:  # noqa: ARG002
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody ever answers")

    local, store = world.trackers["local"], world.store
    silent = Silent(name="silent", path=world.config.data_dir / "silent", project="others", labels=world.config.labels)
    ticket = silent.ticket_id("1")
    lock = store.ticket_lock(silent.platform, ticket, "mine")
    assert await lock.take()
    intent = Intent(ticket, "silent", "1", 0, an_edge(Status.IN_PROGRESS, Status.DONE), "r-1", outcome="succeeded")
    await store.intents.decide(ticket, intent, lock=lock, look_in=0)
    await lock.release()
    monkeypatch.setattr("agentsmith.housekeeping.leader._PATIENCE", 0.05)
    trackers = {"silent": silent, "local": local}
    looks = assemble(world.config, store, trackers).looks
    housekeeping = Housekeeping(store, trackers, looks, Intervals(sweep=0.05, stale=3600, reconcile=3600))
    working = asyncio.create_task(housekeeping.work())
    try:
        async with asyncio.timeout(30):
            await asked.wait()
        for _ in range(2):  # in the pass that is stuck, and in those after it
            key = await world.open_ticket()
            await killed(world, key)
            await wait_until(partial(shows, world, key, Status.PENDING), what="the ticket to be brought back")
            # The label comes first, and then the signal that has it claimed again.
            await wait_until(partial(waits, world), what="the signal")
            await finish(world, key)
    finally:
        working.cancel()
        await asyncio.wait({working})
        await silent.aclose()


async def shows(world: World, key: str, status: Status) -> bool:
    return await world.statuses(key) == {status}


async def waits(world: World) -> bool:
    return await world.store.signals.count() > 0
