"""One run, from lease to settle, with real processes under a real guard: every way out settles."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentsmith.config import Consumer as ConsumerSettings
from agentsmith.config import Duration, Grace, Step
from agentsmith.config import Run as RunSettings
from agentsmith.domain.errors import TrackerUnavailable
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.signal import SignalKind
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Move, MoveOutcome
from agentsmith.store import TAKEN_OVER, Acquired, RunLease, Store
from tests.support.processes import is_alive
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world, sh, world_config

OpenWorld = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def opened(tmp_path: Path, store: Store, redis_url: str) -> OpenWorld:
    """Opens a world whose pipeline has these steps; children get no more than a moment to end."""

    def make(*steps: Step) -> AbstractAsyncContextManager[World]:
        config = world_config(
            tmp_path / "data",
            *steps,
            consumer=ConsumerSettings(kill_grace=Grace(0.5), drain_timeout=Grace(0)),
            run=RunSettings(retry_backoff=Duration(0.01)),
        )
        return open_world(tmp_path, store, redis_url, config=config)

    return make


@pytest.fixture
async def serving() -> AsyncIterator[Callable[[World], Awaitable[None]]]:
    """Lets a world's consumer take requests in the background."""
    tasks: list[tuple[World, asyncio.Task[None]]] = []

    async def serve(world: World) -> None:
        tasks.append((world, asyncio.create_task(world.consumer.serve())))

    yield serve
    for world, task in tasks:
        await world.consumer.drain(timeout=0)
        await task


def marker(tmp_path: Path, name: str = "started") -> Path:
    return tmp_path / name


async def reached(path: Path) -> None:
    await wait_until(path.exists, what=f"{path.name} to be there")


async def test_every_step_succeeds_and_the_ticket_is_done(opened: OpenWorld, tmp_path: Path) -> None:
    async with opened(sh(f"echo one > {tmp_path}/out"), sh(f"echo two >> {tmp_path}/out")) as world:
        key = await world.open_ticket("keep")
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {Status.DONE}
        assert (tmp_path / "out").read_text() == "one\ntwo\n"
        assert "is done" in (await world.comments(key))[0]
        assert {TRIGGER, "keep"} <= (await world.desk.show(key)).ticket.labels
        assert not await world.store.runs.running()
        assert await world.store.intents.of(world.ticket_id(key)) is None


async def test_a_failing_step_ends_the_run_and_its_output_is_on_the_ticket(opened: OpenWorld, tmp_path: Path) -> None:
    async with opened(sh("echo kaputt; exit 3", "build"), sh(f"touch {tmp_path}/never")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {Status.FAILED}
        [comment] = await world.comments(key)
        assert "Step `build` failed with exit code 3" in comment
        assert "kaputt" in comment
        assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        ("exit 77", Status.FAILED, "may not do this"),
        ("exit 78", Status.FAILED, "not set up right"),
        ("exit 79", Status.WAITING, "question for a person"),
        ("kill -9 $$", Status.FAILED, "signal 9"),
        ("no-such-program-here", Status.FAILED, "exit code 127"),
    ],
)
async def test_exit_codes_decide(opened: OpenWorld, script: str, status: Status, said: str) -> None:
    async with opened(sh(script)) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {status}
        assert said in (await world.comments(key))[0]


async def test_a_program_that_is_not_there_fails_clearly(opened: OpenWorld) -> None:
    async with opened(Step.read({"run": ["no-such-program-here", "x"], "name": "tool"})) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {Status.FAILED}
        assert "Step `tool` could not start" in (await world.comments(key))[0]


async def test_exit_75_is_tried_three_times_in_all(opened: OpenWorld, tmp_path: Path) -> None:
    async with opened(sh(f"echo $AGENTSMITH_ATTEMPT >> {tmp_path}/attempts; exit 75")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        for _ in range(2):
            await world.run_queue()
            assert await world.statuses(key) == {Status.WAITING}
            await wait_until(lambda: _woken(world), what="the waiting ticket to be due")
            await world.drain_signals()
        await world.run_queue()
        assert await world.statuses(key) == {Status.FAILED}
        assert (tmp_path / "attempts").read_text().split() == ["1", "2", "3"]


async def test_P2_a_wrong_clock_does_not_put_off_the_next_try(
    opened: OpenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(sh("exit 75")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        right = time.time
        with monkeypatch.context() as wrong:
            wrong.setattr(time, "time", lambda: right() + 7200)
            await world.run_queue()
        ((_, due),) = await world.store.intents.waiting()
        assert due < right() + 3600


async def test_P2_a_leader_with_a_wrong_clock_wakes_tickets_in_time(
    opened: OpenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(sh("exit 75")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        right = time.time
        monkeypatch.setattr(time, "time", lambda: right() - 7200)
        await wait_until(lambda: _woken(world), what="the ticket to be woken")


async def _woken(world: World) -> bool:
    return (await world.housekeeping.sweep()).woken == 1


async def test_a_step_that_takes_too_long_is_ended(tmp_path: Path, opened: OpenWorld) -> None:
    slow = Step.read({"run": f"echo $$ > {tmp_path}/pid; sleep 60", "name": "slow", "timeout": "300ms"})
    async with opened(slow) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {Status.FAILED}
        assert "time limit" in (await world.comments(key))[0]
        assert not is_alive(int((tmp_path / "pid").read_text()))


async def test_the_child_sees_its_ticket_and_no_secret(
    opened: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "s3cr3t-token")
    async with opened(sh(f'env > {tmp_path}/env; cat "$AGENTSMITH_TICKET_FILE" > {tmp_path}/ticket')) as world:
        key = await world.open_ticket(title='$(touch x) "quoted" `y`', body="line\n../../etc")
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {Status.DONE}
    seen = (tmp_path / "env").read_text()
    assert "s3cr3t-token" not in seen
    assert redis_url not in seen
    assert 'AGENTSMITH_TICKET_TITLE=$(touch x) "quoted" `y`' in seen
    ticket = json.loads((tmp_path / "ticket").read_text())
    assert (ticket["title"], ticket["body"]) == ('$(touch x) "quoted" `y`', "line\n../../etc")


async def test_the_run_works_on_the_text_as_it_was_claimed(opened: OpenWorld, tmp_path: Path) -> None:
    async with opened(sh(f'printf %s "$AGENTSMITH_TICKET_TITLE" > {tmp_path}/title')) as world:
        key = await world.open_ticket(title="as claimed")
        await world.claim(key)
        await world.desk.edit(key, title="changed since", actor="mallory")
        await world.run_queue()
    assert (tmp_path / "title").read_text() == "as claimed"


async def test_a_cancelled_run_fails_and_says_by_whom(
    opened: OpenWorld, tmp_path: Path, serving: Callable[[World], Awaitable[None]]
) -> None:
    async with opened(sh(f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 60")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await serving(world)
        await reached(tmp_path / "pid")
        world.consumer.stop_runs({world.ticket_id(key): "cancelled by mona"}, asked=world.consumer.running)
        await _until_status(world, key, Status.FAILED)
        assert "cancelled by mona" in (await world.comments(key))[0]
        assert not is_alive(int((tmp_path / "pid").read_text()))
        assert await world.store.runs.stop_requested(world.ticket_id(key)) is None


async def test_a_run_whose_trigger_is_removed_stops_and_loses_its_label(
    opened: OpenWorld, tmp_path: Path, serving: Callable[[World], Awaitable[None]]
) -> None:
    async with opened(sh(f"touch {tmp_path}/started; sleep 60")) as world:
        key = await world.open_ticket("keep")
        await world.claim(key)
        await serving(world)
        await reached(tmp_path / "started")
        await world.desk.unlabel(key, TRIGGER, actor="mona")
        await world.claim(key)
        tick = await world.store.presence.tick(world.process, ttl=5, running=world.consumer.running)
        world.consumer.stop_runs(tick.stops, asked=world.consumer.running)
        await wait_until(lambda: _statuses_are(world, key, frozenset()), what="the label to be taken off")
        assert (await world.desk.show(key)).ticket.labels == {"keep"}


async def test_a_withdrawal_that_a_stale_read_hides_is_seen_in_the_answer_to_our_write(
    opened: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(sh(f"touch {tmp_path / 'ran'}")) as world:
        key = await world.open_ticket("keep")
        await world.claim(key)
        tracker = world.trackers["local"]
        stale, get = await tracker.get(key), tracker.get
        await world.desk.unlabel(key, TRIGGER, actor="mona")
        reads = iter([stale])

        async def from_a_copy(key: str) -> Ticket:
            return next(reads, None) or await get(key)

        monkeypatch.setattr(tracker, "get", from_a_copy)
        await world.run_queue()
        assert not (tmp_path / "ran").exists()
        assert (await world.desk.show(key)).ticket.labels == {"keep"}


async def test_a_label_removed_from_a_live_run_is_put_back(
    opened: OpenWorld, tmp_path: Path, serving: Callable[[World], Awaitable[None]]
) -> None:
    async with opened(sh(f"touch {tmp_path}/started; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await serving(world)
        await reached(tmp_path / "started")
        await world.desk.unlabel(key, "agent-smith:in-progress", actor="mona")
        await world.claim(key)
        assert await world.statuses(key) == {Status.IN_PROGRESS}
        (tmp_path / "go").touch()
        await _until_status(world, key, Status.DONE)


async def test_a_retry_during_a_run_is_one_follow_up(
    opened: OpenWorld, tmp_path: Path, serving: Callable[[World], Awaitable[None]]
) -> None:
    script = f"echo x >> {tmp_path}/runs; touch {tmp_path}/started; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    async with opened(sh(script)) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await serving(world)
        await reached(tmp_path / "started")
        for _ in range(3):
            await world.parts.looks.on_signal(world.signal(key, kind=SignalKind.RETRY, by="mona"))
        (tmp_path / "go").touch()
        assert "It will run once more afterwards, as mona asked" in (await world.comments(key))[0]
        await wait_until(lambda: _inbox_has(world, 1), what="the ticket to be signalled as pending")
        assert await world.statuses(key) == {Status.PENDING}
        await world.drain_signals()
        await wait_until(lambda: (tmp_path / "runs").read_text() == "x\nx\n", what="the second run")
        await _until_status(world, key, Status.DONE)
        await _quiet(world)
        assert (tmp_path / "runs").read_text() == "x\nx\n"


async def test_a_drained_run_is_given_back_and_not_counted(opened: OpenWorld, tmp_path: Path) -> None:
    async with opened(sh(f"echo $$ > {tmp_path}/pid; touch {tmp_path}/started; sleep 60")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        task = asyncio.create_task(world.consumer.serve())
        await reached(tmp_path / "started")
        await world.consumer.drain(timeout=0)
        await task
        assert await world.statuses(key) == {Status.ENQUEUED}
        assert not is_alive(int((tmp_path / "pid").read_text()))
        [payload] = await world.queued()
        assert PipelineRequest.from_json(payload).ticket == world.ticket_id(key)
        assert await world.store.runs.attempts(world.ticket_id(key)) == 0
        [comment] = await world.comments(key)
        assert "is waiting for a free slot" in comment
        assert "was stopped. It begins again" in comment
        assert "being worked on" not in comment


async def test_P6_a_run_that_lost_its_lease_stops_and_writes_nothing(
    opened: OpenWorld, tmp_path: Path, serving: Callable[[World], Awaitable[None]]
) -> None:
    async with opened(sh(f"echo $$ > {tmp_path}/pid; touch {tmp_path}/started; sleep 60")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await serving(world)
        await reached(tmp_path / "started")
        before = (await world.desk.show(key)).ticket
        # Somebody took the ticket over: a newer fence stands.
        newer = (await _lease(world, key)).fence + 1
        await world.store.redis.set(world.store.keys.fence(before.id), newer, px=60_000)
        pid = int((tmp_path / "pid").read_text())
        await wait_until(lambda: not is_alive(pid), what="the child to be ended")
        await _quiet(world)
        assert (await world.desk.show(key)).ticket == before
        assert await world.store.intents.of(before.id) is None


async def test_P2_a_request_whose_lease_was_lost_before_it_was_acknowledged_is_taken_up_again(
    opened: OpenWorld,
    tmp_path: Path,
    serving: Callable[[World], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(sh(f"echo x >> {tmp_path}/runs")) as world:
        tracker = world.trackers["local"]
        real, overtaken = tracker.move, asyncio.Event()

        async def slow(ticket: Ticket, move: Move) -> MoveOutcome:
            outcome = await real(ticket, move)
            if move.to is Status.IN_PROGRESS and not overtaken.is_set():
                overtaken.set()
                await world.store.redis.set(world.store.keys.fence(ticket.id), move.fence + 1, px=60_000)
                await asyncio.Event().wait()  # it is ended when the next renewal finds the lease lost
            return outcome

        key = await world.open_ticket()
        await world.claim(key)
        monkeypatch.setattr(tracker, "move", slow)
        await serving(world)
        await overtaken.wait()
        # Its consumer lives, so nobody else may take the request out of its hands.
        await _until_status(world, key, Status.DONE)
        assert (tmp_path / "runs").read_text() == "x\n"
        assert await world.store.queue.in_hand(world.process.name) == []


async def test_an_answer_about_an_earlier_run_does_not_stop_the_next_one(
    opened: OpenWorld, tmp_path: Path, serving: Callable[[World], Awaitable[None]]
) -> None:
    script = f"touch {tmp_path}/started; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    async with opened(sh(script)) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await serving(world)
        await reached(tmp_path / "started")
        # Asked for with the fence of a run that was lost; by the time the answer is here, the ticket runs again.
        asked = {world.ticket_id(key): (await _lease(world, key)).fence - 1}
        tick = await world.store.presence.tick(world.process, ttl=5, running=asked)
        assert tick.stops == {world.ticket_id(key): TAKEN_OVER}
        world.consumer.stop_runs(tick.stops, asked=asked)
        (tmp_path / "go").touch()
        await _until_status(world, key, Status.DONE)


async def test_a_run_that_was_taken_over_is_lost_and_not_failed(
    opened: OpenWorld, tmp_path: Path, serving: Callable[[World], Awaitable[None]]
) -> None:
    async with opened(sh(f"echo $$ > {tmp_path}/pid; touch {tmp_path}/started; sleep 60")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await serving(world)
        await reached(tmp_path / "started")
        # Redis may have forgotten the newer fence by the time the run has ended: nothing would refuse its outcome.
        world.consumer.stop_runs({world.ticket_id(key): TAKEN_OVER}, asked=world.consumer.running)
        pid = int((tmp_path / "pid").read_text())
        await wait_until(lambda: not is_alive(pid), what="the child to be ended")
        await _quiet(world)
        assert await world.statuses(key) == {Status.IN_PROGRESS}
        assert await world.store.intents.of(world.ticket_id(key)) is None


async def test_a_flush_in_mid_run_loses_nothing(
    opened: OpenWorld,
    tmp_path: Path,
    serving: Callable[[World], Awaitable[None]],
    flush: Callable[[], Awaitable[None]],
) -> None:
    script = f"echo x >> {tmp_path}/runs; touch {tmp_path}/started; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    async with opened(sh(script)) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await serving(world)
        await reached(tmp_path / "started")
        await flush()
        await wait_until(lambda: _has_lease(world, key), what="the lease to be put back")
        (tmp_path / "go").touch()
        await _until_status(world, key, Status.DONE)
        assert (tmp_path / "runs").read_text() == "x\n"


async def test_finished_work_is_not_done_again_because_the_tracker_was_down(
    opened: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(sh(f"echo x >> {tmp_path}/runs")) as world:
        tracker = world.trackers["local"]
        real = tracker.move

        async def down(ticket: Ticket, move: Move) -> MoveOutcome:
            if move.to is Status.DONE:
                raise TrackerUnavailable("503")
            return await real(ticket, move)

        key = await world.open_ticket()
        await world.claim(key)
        monkeypatch.setattr(tracker, "move", down)
        await world.run_queue()
        assert await world.statuses(key) == {Status.IN_PROGRESS}
        assert not world.consumer.running
        monkeypatch.setattr(tracker, "move", real)
        await world.store.intents.postpone(world.ticket_id(key), wait=-1)
        assert (await world.housekeeping.sweep()).finished == 1
        assert await world.statuses(key) == {Status.DONE}
        assert (tmp_path / "runs").read_text() == "x\n"


@pytest.mark.parametrize("label", ["agent-smith:done", "agent-smith:failed", "agent-smith:waiting"])
async def test_only_an_enqueued_ticket_starts(opened: OpenWorld, tmp_path: Path, label: str) -> None:
    async with opened(sh(f"touch {tmp_path}/ran")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.desk.label(key, label, actor="mona")
        await world.desk.unlabel(key, "agent-smith:enqueued", actor="mona")
        await world.run_queue()
        assert not (tmp_path / "ran").exists()
        assert label in (await world.desk.show(key)).ticket.labels
        assert not await world.queued()
        assert not await world.store.runs.running()


@pytest.mark.parametrize("payload", ["", "not json", "[1]", '{"version": 99}', "{" * 3000, "\udcff\udcfe"])
async def test_what_nobody_can_read_goes_to_the_dead_letters(opened: OpenWorld, payload: str) -> None:
    async with opened() as world:
        await world.store.redis.rpush(world.store.keys.queue, payload)
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        [letter] = await world.store.queue.dead_letters()
        assert letter.payload == payload
        assert letter.reason
        assert await world.statuses(key) == {Status.DONE}


async def test_a_request_that_kills_its_consumers_is_given_up(opened: OpenWorld) -> None:
    async with opened() as world:
        key = await world.open_ticket()
        await world.claim(key)
        ticket = world.ticket_id(key)
        for number in range(3):
            dead = replace(world.process, name=f"dead-{number}")
            payload = await world.store.queue.take(dead.name, wait=0.01)
            assert payload is not None
            request = PipelineRequest.from_json(payload)
            await world.store.runs.acquire(request, payload, consumer=dead.name, ttl=5, max_deliveries=3)
            await world.store.redis.delete(world.store.keys.heartbeat(ticket))
            assert await world.store.queue.put_back(dead.name) == 1
        await world.run_queue()
        [letter] = await world.store.queue.dead_letters()
        assert "taken 3 times" in letter.reason
        await world.housekeeping.sweep()
        assert await world.statuses(key) == {Status.FAILED}
        assert "taken 3 times" in (await world.comments(key))[0]


@pytest.mark.parametrize("again", [False, True], ids=["once", "and its consumer dies before the request is buried"])
async def test_a_request_that_is_given_up_leaves_one_letter(opened: OpenWorld, *, again: bool) -> None:
    async with opened() as world:
        key = await world.open_ticket()
        await world.claim(key)
        raw: Any = world.store.redis
        await raw.hset(world.store.keys.counters(world.ticket_id(key)), "deliveries", "3")
        if again:
            [payload] = await world.queued()
            await world.run_queue()
            await world.store.redis.rpush(world.store.keys.queue, payload)
            await raw.hset(world.store.keys.queue_index, world.ticket_id(key), payload)
        await world.run_queue()
        assert len(await world.store.queue.dead_letters()) == 1
        await world.housekeeping.sweep()
        assert await world.statuses(key) == {Status.FAILED}


async def test_a_run_that_never_gets_beyond_its_start_is_given_up(opened: OpenWorld, tmp_path: Path) -> None:
    """Its consumers die between counting the attempt and the label, so nobody ever sees it in progress."""
    async with opened(sh(f"touch {marker(tmp_path)}")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        store, ticket = world.store, world.ticket_id(key)
        for number in range(3):
            name = f"dead-{number}"
            payload = await store.queue.take(name, wait=0.01)
            assert payload is not None
            request = PipelineRequest.from_json(payload)
            acquired = await store.runs.acquire(request, payload, consumer=name, ttl=5, max_deliveries=3)
            assert isinstance(acquired, Acquired)
            assert await store.runs.start(acquired.lease, max_attempts=3) == ("started", number + 1)
            await store.redis.delete(store.keys.heartbeat(ticket))
            assert await store.queue.put_back(name) == 1
        await world.run_queue()
        assert await world.statuses(key) == {Status.FAILED}
        assert "started 3 times and never finished" in (await world.comments(key))[0]
        [letter] = await store.queue.dead_letters()
        assert "started 3 times and never finished" in letter.reason
        assert letter.request is not None, "it can be looked at, and retried"
        assert letter.request.ticket == ticket
        assert not marker(tmp_path).exists()
        assert not await world.queued()


async def test_output_is_kept_and_bounded(opened: OpenWorld) -> None:
    async with opened(sh("echo first; echo second >&2")) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        [log] = (world.config.data_dir / "runs").glob("*/output.log")
        assert log.read_text() == "first\nsecond\n"
        assert (os.stat(log).st_mode & 0o077) == 0


async def _lease(world: World, key: str) -> RunLease:
    lease = await world.store.runs.lease(world.ticket_id(key))
    assert lease is not None
    return lease


async def _has_lease(world: World, key: str) -> bool:
    return await world.store.runs.lease(world.ticket_id(key)) is not None


async def _inbox_has(world: World, count: int) -> bool:
    return await world.store.signals.count() == count


async def _statuses_are(world: World, key: str, wanted: frozenset[Status]) -> bool:
    return await world.statuses(key) == wanted


async def _until_status(world: World, key: str, status: Status) -> None:
    await wait_until(lambda: _statuses_are(world, key, frozenset({status})), what=f"the label {status.value}")


async def _quiet(world: World) -> None:
    await wait_until(lambda: not world.consumer.running, what="the run to be over")
