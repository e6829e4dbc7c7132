"""What the simulation found, each as the small story that it came down to; the seed is of the day it was found."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.gates import Gate, GateResult
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import Deferred, NothingToDo
from agentsmith.domain.request import PipelineRequest, text_hash
from agentsmith.domain.signal import Signal, SignalKind, Taken
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import LostRace, Move, MoveOutcome, Unknown
from agentsmith.domain.vetting import Pin
from agentsmith.running import consumer as consumer_module
from agentsmith.running import ended_runs
from agentsmith.running.live_run import LiveRun
from agentsmith.store import Acquired, DecideAnswer, Settled, Store
from agentsmith.tickets.claiming import Parked
from agentsmith.tickets.lock import holding
from agentsmith.tickets.publish import NotYet, Published
from tests.support.stores import Flush, an_edge
from tests.support.stuck import finish, started_by
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world, sh, world_config


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> Any:
    async with open_world(tmp_path, store, redis_url) as opened:
        yield opened


async def test_a_run_that_its_living_consumer_does_not_carry_out_is_let_go(world: World) -> None:
    """Seeds 57 and 1079: a failover lost the settle, and the consumer vouched for the run for ever."""
    key = await world.open_ticket()
    lease = await started_by(world, key, consumer=world.process.name)
    await world.store.presence.tick(world.process, ttl=60, running={})
    await world.store.redis.delete(world.store.keys.heartbeat(lease.ticket))
    assert (await world.housekeeping.sweep.run_once()).recovered == 0, "its consumer lives"
    await world.consumer._disown()
    assert await world.store.runs.released() == [lease.ticket]
    assert (await world.housekeeping.sweep.run_once()).recovered == 1
    await finish(world, key)


async def test_what_is_in_hand_is_not_let_go(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    payload = await world.store.queue.take(world.process.name, wait=0.1)
    assert payload is not None
    running = asyncio.create_task(world.consumer.run(payload))
    while not await world.store.runs.running():
        assert not running.done()
    await world.consumer._disown()
    assert await world.store.runs.released() == []
    await running
    assert await world.statuses(key) == {Status.DONE}


async def test_a_run_that_ends_after_redis_forgot_its_end_is_let_go(
    world: World, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 1128: a failover lost the settle while the outcome was being published, and nobody doubted the run."""
    settled, go_on = asyncio.Event(), asyncio.Event()
    publish = world.parts.publisher.publish

    async def slow(*args: Any, **options: Any) -> Any:
        settled.set()
        await go_on.wait()
        return await publish(*args, **options)

    monkeypatch.setattr(type(world.parts.publisher), "publish", lambda _, *args, **options: slow(*args, **options))
    serving = asyncio.create_task(world.consumer.serve())
    key = await world.open_ticket()
    await world.claim(key)
    await settled.wait()
    [lease] = [live.run.lease for live in world.consumer._live.values()]
    await raw.hset(world.store.keys.running, lease.ticket, lease.value)  # as it was before
    await world.consumer.restore()

    async def looked() -> bool:
        return not world.consumer._adopt

    await wait_until(looked, what="the consumer looks at what is in its hands")
    assert await world.store.runs.released() == [], "it is still at it"
    go_on.set()

    async def let_go() -> bool:
        return await world.store.runs.released() == [lease.ticket]

    await wait_until(let_go, what="the run is let go")
    await world.consumer.drain(timeout=60)
    await serving
    await world.housekeeping.sweep.run_once()
    assert await world.store.runs.running() == []
    assert await world.statuses(key) == {Status.DONE}


async def test_a_finished_ticket_leaves_no_run_behind(world: World) -> None:
    """Seed 165: the label said done, and a run that Redis had forgotten to end took a place for ever."""
    key = await world.open_ticket()
    lease = await started_by(world, key, consumer=world.process.name)
    await world.desk.label(key, "agent-smith:done", actor="mona")
    await world.desk.unlabel(key, "agent-smith:in-progress", actor="mona")
    await world.consumer._disown()
    await world.housekeeping.sweep.run_once()
    assert await world.store.runs.running() == []
    assert await world.store.runs.unsettled(lease.ticket) is None


async def test_a_trigger_that_was_taken_off_still_tells_whose_ticket_it_is(world: World) -> None:
    """Seed 85: without it a ticket that Redis forgot looked like another installation's, and kept its label."""
    key = await world.open_ticket()
    await world.claim(key)
    await world.desk.unlabel(key, TRIGGER, actor="mona")
    tracker, store = world.trackers["local"], world.store
    ticket = await tracker.get(key)
    intent = Intent(ticket.id, "local", key, 1, an_edge(Status.ENQUEUED, None), "run", outcome="withdrawn")
    async with holding(store, tracker.platform, ticket.id) as lock:
        await world.parts.publisher.comment(tracker, ticket, intent, lock=lock)
    sticky = await tracker.read_sticky(ticket)
    assert sticky is not None
    assert sticky.memo is not None
    assert sticky.memo.trigger == TRIGGER


async def test_a_claim_that_died_is_remembered_until_something_can_be_done_about_it(world: World, raw: Any) -> None:
    """Seed 241: it was forgotten while Redis settled, then a person closed the ticket, and nobody looked again."""
    key = await world.open_ticket("agent-smith:enqueued")
    tracker, store, ticket = world.trackers["local"], world.store, world.ticket_id(key)
    await store.pins.keep(ticket, Pin(text_hash("Fix it", "please")))
    async with holding(store, tracker.platform, ticket) as lock:
        claim = Intent(ticket, "local", key, 0, an_edge(Status.PENDING, Status.ENQUEUED), "run-1")
        begun = await store.intents.decide(ticket, claim, lock=lock, look_in=0)
        assert begun.word == "decided"
        await raw.set(store.keys.settling, "1", px=60_000)
        await world.parts.looks.repair_read(tracker, await tracker.get(key), lock)
        assert await store.intents.of(ticket) is not None
        await raw.delete(store.keys.settling)
        await world.parts.looks.repair_read(tracker, await tracker.get(key), lock)
        assert await store.intents.of(ticket) is None
    await finish(world, key)


async def test_a_look_while_redis_settles_is_taken_again(world: World, raw: Any) -> None:
    """Seed 435: the only signal about a ticket in nobody's hands was used up, and then the ticket was closed."""
    key = await world.open_ticket("agent-smith:enqueued")
    await raw.set(world.store.keys.settling, "1", px=60_000)
    outcome = await world.claim(key)
    assert isinstance(outcome, Deferred)
    assert outcome.wait == world.store.times.settle
    await world.desk.close(key, actor="mona")
    await raw.delete(world.store.keys.settling)
    await world.claim(key)
    assert await world.statuses(key) == set()


async def test_a_signal_that_finds_the_lock_taken_has_not_failed(world: World) -> None:
    """Seed 2365: each of these counted as a failed try, and the next failure of the tracker cost minutes."""
    key = await world.open_ticket()
    tracker, signals = world.trackers["local"], world.store.signals
    await signals.send([world.signal(key)])
    async with holding(world.store, tracker.platform, world.ticket_id(key)):
        for _ in range(3):
            payload = await _taken_signal(world)
            assert Signal.from_json(payload).tries == 0
            await world.intake._deal_with(payload)
    await world.intake._deal_with(await _taken_signal(world))
    assert await world.statuses(key) == {Status.ENQUEUED}


async def _taken_signal(world: World) -> str:
    taken: list[str] = []

    async def is_taken() -> bool:
        await world.store.signals.ripen()
        payload = await world.store.signals.take(world.process.name, wait=0.01)
        taken.extend([payload] if payload is not None else [])
        return bool(taken)

    await wait_until(is_taken, what="the signal comes back")
    return taken[0]


async def test_a_dead_run_whose_request_was_put_back_leaves_the_queue_before_its_label_is_moved(world: World) -> None:
    """Seed 2060: housekeeping moved the label while a consumer took the request, and so wrote below its fence."""
    key = await world.open_ticket()
    await _died_before_acknowledge(world, key)
    assert (await world.housekeeping.sweep.run_once()).recovered == 1
    assert await world.statuses(key) == {Status.PENDING}, "the label says that nothing runs, also if nobody is there"
    assert await world.queued() == []
    await finish(world, key)


async def test_a_dead_run_whose_request_was_taken_again_is_left_to_its_taker(world: World, raw: Any) -> None:
    key = await world.open_ticket()
    request = await _died_before_acknowledge(world, key)
    payload = await world.store.queue.take(world.process.name, wait=0.1)
    assert payload is not None
    fence = await raw.get(world.store.keys.fence(request.ticket))
    await world.housekeeping.sweep.run_once()
    assert await world.statuses(key) == {Status.IN_PROGRESS}
    async with holding(world.store, "local", request.ticket) as lock:
        begun = await world.store.intents.decide(request.ticket, None, lock=lock, look_in=0, after_settling=True)
    assert begun.word == "queued", "nor does a recovery whose facts are old"
    assert await raw.get(world.store.keys.fence(request.ticket)) == fence
    await world.consumer.run(payload)
    assert await world.statuses(key) == {Status.DONE}


async def test_a_run_by_hand_whose_request_was_put_back_keeps_it(world: World) -> None:
    """No trigger would bring it about again."""
    key = await world.open_ticket()
    await _died_before_acknowledge(world, key, asked_by="mona")
    assert (await world.housekeeping.sweep.run_once()).recovered == 0
    assert len(await world.queued()) == 1
    await finish(world, key)


async def _died_before_acknowledge(world: World, key: str, asked_by: str | None = None) -> PipelineRequest:
    """A run whose consumer died between its label and its acknowledge, and whose request was put back."""
    await world.claim(key)
    claimed = await world.store.queue.take("host-gone", wait=0.1)
    assert claimed is not None
    request = replace(PipelineRequest.from_json(claimed), asked_by=asked_by)
    if asked_by is not None:
        await world.store.queue.acknowledge_and_take("host-gone", [(request.ticket, claimed)], room=0)
        await world.store.queue.push(request, taken_by="host-gone")
    acquired = await world.store.runs.acquire(
        request, request.to_json(), consumer="host-gone", ttl=60, max_deliveries=3
    )
    assert isinstance(acquired, Acquired)
    await world.desk.label(key, "agent-smith:in-progress", actor="mona")
    await world.desk.unlabel(key, "agent-smith:enqueued", actor="mona")
    await world.store.intents.note_published(request.ticket, Status.IN_PROGRESS)
    lock_key = world.store.keys.claim_lock("local", request.ticket)
    assert await world.store.runs.release_dead(acquired.lease, lock_key=lock_key)
    assert await world.store.queue.put_back("host-gone") == 1
    return request


async def test_a_retry_whose_signal_is_dealt_with_twice_runs_once(world: World) -> None:
    """Seed 2401: the answer to the end of its publishing was lost, and the signal waited for that and asked again."""
    key = await world.open_ticket("agent-smith:failed")
    tracker, store, ticket = world.trackers["local"], world.store, world.ticket_id(key)
    retry = world.signal(key, kind=SignalKind.RETRY, by="mona")
    async with holding(store, tracker.platform, ticket) as lock:
        intent = Intent(
            ticket,
            "local",
            key,
            0,
            an_edge(Status.FAILED, Status.PENDING),
            "retry",
            outcome="retried by mona",
            by_person=True,
        )
        begun = await store.intents.decide(ticket, intent, lock=lock, look_in=0)
        assert begun.word == "decided"
    assert isinstance(await world.parts.looks.on_signal(retry), NothingToDo)
    assert isinstance(await world.claim(key), Deferred), "a look still waits for it"
    await world.housekeeping.sweep.run_once()
    await finish(world, key)


async def test_a_retry_that_could_not_be_decided_is_not_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock may be lost in the very moment in which it decides."""
    key = await world.open_ticket("agent-smith:failed")

    async def unlocked(*_: object, **__: object) -> DecideAnswer:
        return DecideAnswer("unlocked")

    monkeypatch.setattr(type(world.store.intents), "decide", unlocked)
    outcome = await world.parts.looks.on_signal(world.signal(key, kind=SignalKind.RETRY, by="mona"))
    assert isinstance(outcome, Deferred)
    assert await world.statuses(key) == {Status.FAILED}


async def test_signals_that_stand_in_our_list_again_are_dealt_with(world: World) -> None:
    """Seed 1158: a failover brought back a signal that was acknowledged, and broke no connection."""
    key = await world.open_ticket()
    await world.store.signals.send([world.signal(key)])
    assert await world.store.signals.take(world.process.name, wait=0.1) is not None
    world.intake.look_in_hand()
    serving = asyncio.create_task(world.intake.serve())

    async def dealt_with() -> bool:
        return await world.store.signals.in_hand(world.process.name) == []

    await wait_until(dealt_with, what="the signal is acknowledged")
    serving.cancel()
    await asyncio.wait({serving})
    assert await world.statuses(key) == {Status.ENQUEUED}


async def test_a_retry_is_granted_only_to_whoever_has_its_signal_in_hand(world: World) -> None:
    """Seed 3801: a process slept over a retry, others were given it, and when it woke it retried once more."""
    key = await world.open_ticket("agent-smith:failed")
    await world.store.signals.send([world.signal(key, kind=SignalKind.RETRY, by="mona")])
    payload = await world.store.signals.take("sleeper", wait=0.1)
    assert payload is not None
    signal = Signal.from_json(payload)
    assert await world.store.signals.put_back("sleeper") == 1
    woken = await world.parts.looks.on_signal(signal, taken=Taken("sleeper", payload))
    assert isinstance(woken, NothingToDo)
    assert await world.statuses(key) == {Status.FAILED}
    again = await world.store.signals.take(world.process.name, wait=0.1)
    assert again is not None
    await world.parts.looks.on_signal(signal, taken=Taken(world.process.name, again))
    assert await world.statuses(key) == {Status.PENDING}
    assert await world.store.signals.in_hand(world.process.name) == [], "granted and dealt with in one step"


async def test_a_request_that_comes_back_while_it_is_in_hand_does_not_stay_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 9015229: a consumer that was taken for dead took what was put back, and believed to have it in hand."""
    key = await world.open_ticket()
    await world.claim(key)
    name, queue = world.process.name, world.store.queue
    payload = await queue.take(name, wait=0.1)
    assert payload is not None
    assert await queue.put_back(name) == 1
    acknowledge = type(queue).acknowledge_and_take
    second: list[str] = []

    async def slow(self: Any, consumer: str, done: Any, *, room: int) -> list[str]:
        taken = await acknowledge(self, consumer, done, room=room)
        if not second:
            second.append(await queue.take(name, wait=0.1) or "")
            world.consumer._begin(second[0])
        return taken

    monkeypatch.setattr(type(queue), "acknowledge_and_take", slow)
    await world.consumer.run(payload)
    if second[0] in world.consumer._tasks:
        await asyncio.wait({world.consumer._tasks[second[0]]})
    assert await queue.in_hand(name) == []
    assert await world.statuses(key) == {Status.DONE}


async def test_one_run_of_a_ticket_at_a_time_in_one_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was put back and taken again: the earlier run may still be busy with the same folder."""
    ending, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Any) -> None:
        ending.set()
        await go_on.wait()

    key = await world.open_ticket()
    await world.claim(key)
    name, queue = world.process.name, world.store.queue
    payload = await queue.take(name, wait=0.1)
    assert payload is not None
    with monkeypatch.context() as patched:
        patched.setattr(consumer_module, "carry_out", slow)
        earlier = asyncio.create_task(world.consumer.run(payload))
        await ending.wait()
    await world.store.redis.delete(world.store.keys.heartbeat(world.ticket_id(key)))
    assert await queue.put_back(name) == 1
    again = await queue.take(name, wait=0.1)
    assert again is not None
    later = asyncio.create_task(world.consumer.run(again))
    for _ in range(20):
        await asyncio.sleep(0)
    assert again in world.consumer._tasks
    assert again not in world.consumer._live
    go_on.set()
    await asyncio.wait({earlier, later})
    assert await world.statuses(key) == {Status.DONE}


async def test_a_consumer_that_was_taken_for_dead_acknowledges_nothing_that_it_was_given_again(world: World) -> None:
    """Seed 9003304: it acknowledged another copy of the same text, and the mark of that one stayed for ever."""
    key, signals, name = await world.open_ticket(), world.store.signals, world.process.name
    await signals.send([world.signal(key)])
    before = await signals.take(name, wait=0.1)
    assert before is not None
    await signals.opened(Signal.from_json(before))
    assert await signals.put_back(name) == 1
    again = await signals.take(name, wait=0.1)
    await signals.acknowledge(name, before)
    assert await signals.in_hand(name) == [again], "it still has to be dealt with"
    world.intake.look_in_hand()
    serving = asyncio.create_task(world.intake.serve())

    async def claimed() -> bool:
        return await world.statuses(key) == {Status.ENQUEUED}

    await wait_until(claimed, what="the ticket is claimed")
    serving.cancel()
    await asyncio.wait({serving})
    assert await signals.send([world.signal(key)]) == 1


async def test_a_ticket_whose_signal_stands_for_nothing_is_looked_at_again(world: World, raw: Any) -> None:
    """Seeds 9018916, 9027091 and 9027708: a mark without its signal swallowed every later one."""
    key = await world.open_ticket()
    await raw.hset(world.store.keys.inbox_index, world.signal(key).topic, "1")
    assert await world.store.signals.send([world.signal(key)]) == 0
    await world.housekeeping.leftovers.run_once()
    assert await world.store.signals.send([world.signal(key)]) == 1


async def test_a_guard_that_lets_go_while_its_ticket_is_looked_at_is_heard(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 9003486: who had seen the run alive forgot the mark of its end, and it was in progress for ever."""
    key = await world.open_ticket()
    lease = await started_by(world, key, consumer=world.process.name)
    await world.store.presence.tick(world.process, ttl=60, running={})
    life_of, lock_key = type(world.store.runs).life, world.store.keys.claim_lock("local", lease.ticket)

    async def then_it_ends(self: Any, *args: Any, **options: Any) -> Any:
        life = await life_of(self, *args, **options)
        assert await self.release_dead(lease, lock_key=f"{lock_key} of another")
        return life

    with monkeypatch.context() as patched:
        patched.setattr(type(world.store.runs), "life", then_it_ends)
        await world.parts.looks.repair("local", key, lease.ticket)
    assert (await world.housekeeping.sweep.run_once()).recovered == 1
    await finish(world, key)


async def test_an_outcome_that_was_not_written_is_not_published(
    world: World, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 9019186: the labels changed under the repair, which wrote nothing, and the ticket stayed in progress."""
    key = await world.open_ticket()
    lease = await started_by(world, key, consumer=world.process.name)
    tracker, store = world.trackers["local"], world.store
    intent = Intent(
        lease.ticket, "local", key, lease.fence, an_edge(Status.IN_PROGRESS, Status.DONE), lease.run, "succeeded"
    )
    assert await store.runs.settle(lease, "", intent, look_in=0)
    with monkeypatch.context() as patched:
        patched.setattr(type(tracker), "move", _loses_the_race)
        patched.setattr(type(tracker), "tidy", _changes_nothing)
        async with holding(store, "local", lease.ticket) as lock:
            told = await world.parts.publisher.publish(intent, lock=lock)
    assert isinstance(told, NotYet)
    assert await store.intents.of(lease.ticket) is not None
    await raw.zadd(store.keys.intents, {lease.ticket: 0})
    await world.housekeeping.sweep.run_once()
    assert await world.statuses(key) == {Status.DONE}
    assert await store.intents.of(lease.ticket) is None


async def _loses_the_race(tracker: Any, ticket: Ticket, _: object) -> LostRace:
    return LostRace(await tracker.get(ticket.key))


async def _changes_nothing(tracker: Any, ticket: Ticket, **_: object) -> Ticket:
    return cast(Ticket, await tracker.get(ticket.key))


@pytest.mark.parametrize("by_person", [False, True])
async def test_what_comes_late_leaves_one_label_and_a_retry_is_not_late(world: World, by_person: bool) -> None:
    """Seed 9013712: done stood beside in-progress, both stayed, and a person's retry was dropped."""
    key = await world.open_ticket("agent-smith:done", "agent-smith:in-progress")
    store, ticket = world.store, world.ticket_id(key)
    async with holding(store, "local", ticket) as lock:
        intent = Intent(
            ticket, "local", key, 0, an_edge(Status.DONE, Status.PENDING), "retry", "again", by_person=by_person
        )
        begun = await store.intents.decide(ticket, intent, lock=lock, look_in=0)
        told = await world.parts.publisher.publish(replace(intent, fence=begun.fence), lock=lock)
    assert told == Published(Status.PENDING if by_person else Status.DONE)
    assert await world.statuses(key) == {told.status}


@pytest.mark.parametrize("to", [Status.WAITING, Status.FAILED])
async def test_P4_a_run_that_ends_late_takes_nobodys_end_off(world: World, to: Status) -> None:
    """Seed 43000124: Redis forgot twice; the run that it forgot parked a ticket that another run had done meanwhile."""
    key = await world.open_ticket("agent-smith:done")
    store, ticket = world.store, world.ticket_id(key)
    async with holding(store, "local", ticket) as lock:
        late = Intent(ticket, "local", key, 0, an_edge(Status.IN_PROGRESS, to), "run-1", "our own trouble")
        begun = await store.intents.decide(ticket, late, lock=lock, look_in=0)
        told = await world.parts.publisher.publish(replace(late, fence=begun.fence), lock=lock)
    assert told == Published(Status.DONE)
    assert await world.statuses(key) == {Status.DONE}


async def test_a_withdrawal_that_could_not_be_decided_is_not_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock may be lost in the very moment in which it decides; the signal is all that is known of it."""
    key = await world.open_ticket()
    await world.claim(key)
    await world.desk.unlabel(key, TRIGGER, actor="mona")

    async def unlocked(*_: object, **__: object) -> DecideAnswer:
        return DecideAnswer("unlocked")

    with monkeypatch.context() as patched:
        patched.setattr(type(world.store.intents), "decide", unlocked)
        assert isinstance(await world.claim(key), Deferred)
    await world.claim(key)
    assert await world.statuses(key) == set()


async def test_a_request_in_no_list_is_forgotten_when_it_is_lost_for_the_second_time(world: World, raw: Any) -> None:
    """Somebody who came in just this moment may have it: nobody knows yet that they own a list."""
    key = await world.open_ticket()
    await world.claim(key)
    payload = await world.store.queue.take("just-came", wait=0.1)
    assert payload is not None
    await world.housekeeping.leftovers.run_once()
    await world.store.presence.find_owners()
    await world.housekeeping.leftovers.run_once()
    assert await world.store.queue.request_of(world.ticket_id(key)) == payload
    await raw.delete(world.store.keys.queue_processing("just-came"))
    for _ in range(2):
        assert await world.store.queue.holds(world.ticket_id(key))
        await world.housekeeping.leftovers.run_once()
    assert not await world.store.queue.holds(world.ticket_id(key))
    assert (await world.housekeeping.stuck[Status.ENQUEUED].run_once()).recovered == 1
    await finish(world, key)


@pytest.mark.parametrize("loss", ["failover", "emptied", "unnoticed", "heard of late"])
async def test_finished_work_is_not_done_again_after_redis_lost_its_end(
    world: World, raw: Any, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    """The tracker was away when it ended, so only Redis knew of it, and the process that had settled it."""
    key = await world.open_ticket()
    await world.claim(key)
    before: dict[str, tuple[int, str]] = {}
    everything = f"{world.store.keys.namespace}:*"
    settle, move = type(world.store.runs).settle, type(world.trackers["local"]).move

    async def keep_what_was_before(self: Any, *args: Any, **options: Any) -> bool:
        before.update({name: (await raw.pttl(name), await raw.dump(name)) for name in await raw.keys(everything)})
        return await settle(self, *args, **options)

    async def away_in_the_end(self: Any, ticket: Ticket, wanted: Move) -> MoveOutcome:
        return Unknown("nobody is there") if wanted.to is Status.DONE else await move(self, ticket, wanted)

    with monkeypatch.context() as patched:
        patched.setattr(type(world.store.runs), "settle", keep_what_was_before)
        patched.setattr(type(world.trackers["local"]), "move", away_in_the_end)
        await world.run_queue()
    assert await world.statuses(key) == {Status.IN_PROGRESS}
    await raw.delete(*await raw.keys(everything))
    for name, (left, value) in before.items() if loss != "emptied" else ():
        await raw.restore(name, max(0, left), value)
    await world.store.presence.tick(world.process, ttl=60, running={})
    if loss == "heard of late":  # seed 60006023: the network to Redis was gone for longer than a lease lasts
        monkeypatch.setattr(ended_runs, "boottime", lambda: boottime() + 100 * world.store.times.ttl)
    if loss == "unnoticed":  # a connection broke, and it looks at what is in its hands before it hears of the loss
        await world.consumer._disown()
    else:
        await world.consumer.restore()
        await world.consumer.settle_again()
        await raw.delete(world.store.keys.settling)
        await world.consumer.settle_again()
    await raw.delete(world.store.keys.settling)
    await world.housekeeping.sweep.run_once()
    assert await world.statuses(key) == {Status.DONE}
    assert await world.store.runs.running() == []
    assert await world.queued() == []


@pytest.mark.parametrize("loss", ["emptied", "of the time alone"])
async def test_what_redis_no_longer_knows_that_a_ticket_waits_for_is_read_off_it(
    tmp_path: Path, store: Store, redis_url: str, raw: Any, loss: str
) -> None:
    """Met by chaos: whoever settled the run noted its end again, so that Redis knew the ticket, but not its time."""
    later = world_config(tmp_path / "data", sh("exit 75"))
    async with open_world(tmp_path, store, redis_url, config=later) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {Status.WAITING}
        due = await store.intents.waits_until(world.ticket_id(key))
        assert due is not None
        if loss == "emptied":
            await raw.delete(*await raw.keys(f"{store.keys.namespace}:*"))
            await store.presence.tick(world.process, ttl=60, running={})
            await world.consumer.restore()
            await raw.delete(store.keys.settling)
            await world.consumer.settle_again()
        else:
            await raw.delete(store.keys.due)
        assert await store.runs.remembers(world.ticket_id(key))
        assert (await world.housekeeping.due.run_once()).recalled == 1
        assert await store.intents.waits_until(world.ticket_id(key)) == pytest.approx(due, abs=1)
        assert (await world.housekeeping.due.run_once()).recalled == 0
        await raw.zadd(store.keys.due, {world.ticket_id(key): 1})
        await world.housekeeping.sweep.run_once()
        assert await world.statuses(key) == {Status.PENDING}


async def test_the_end_of_a_run_that_somebody_took_over_since_is_not_settled_again(world: World, raw: Any) -> None:
    key = await world.open_ticket()
    lease = await started_by(world, key, consumer=world.process.name)
    intent = Intent(
        lease.ticket, "local", key, lease.fence, an_edge(Status.IN_PROGRESS, Status.DONE), lease.run, "succeeded"
    )
    end = Settled(lease, intent, at=0.0)
    await raw.set(world.store.keys.fence(lease.ticket), lease.fence + 1, px=60_000)
    assert await world.store.runs.settle_again(end) == "fenced"
    await raw.set(world.store.keys.fence(lease.ticket), lease.fence, px=60_000)
    await raw.set(world.store.keys.heartbeat(lease.ticket), "another run's")
    assert await world.store.runs.settle_again(end) == "fenced"
    await raw.delete(world.store.keys.heartbeat(lease.ticket))
    assert await world.store.runs.settle_again(end) == "settled"
    assert await world.store.runs.settle_again(end) == "known"


async def test_an_intent_that_nobody_looks_for_is_found(world: World, raw: Any) -> None:
    """Each look at the ticket would wait for it to be published, for ever."""
    key = await world.open_ticket("agent-smith:failed")
    store, ticket = world.store, world.ticket_id(key)
    async with holding(store, "local", ticket) as lock:
        intent = Intent(
            ticket, "local", key, 0, an_edge(Status.FAILED, Status.PENDING), "retry", "again", by_person=True
        )
        await store.intents.decide(ticket, intent, lock=lock, look_in=60)
    await raw.delete(store.keys.intents)
    await raw.zadd(store.keys.intents, {"local/tickets#gone": 1})
    assert isinstance(await world.claim(key), Deferred)
    await world.housekeeping.leftovers.run_once()
    assert await raw.zrange(store.keys.intents, 0, -1) == [ticket]
    await world.housekeeping.sweep.run_once()
    assert await world.statuses(key) == {Status.PENDING}


async def test_nothing_is_parked_on_the_word_of_an_empty_redis(world: World, raw: Any) -> None:
    """Seed 20011063: a label was taken off a live run whose text had changed, and then Redis forgot the run."""
    key = await world.open_ticket()
    tracker, ticket = world.trackers["local"], world.ticket_id(key)
    shut = (GateResult(Gate.LOOP, False, "it goes in circles", "look at it"),)
    for settling, parked in ((True, set()), (False, {Status.WAITING})):
        if settling:
            await raw.set(world.store.keys.settling, "1", px=60_000)
        async with holding(world.store, "local", ticket) as lock:
            case = await world.parts.looks._facts.begin(tracker, await tracker.get(key), lock)
            told = await world.parts.looks._applying.claiming._park(case, Parked.LOOP, "", shut)
        assert isinstance(told, Deferred) is settling
        assert await world.statuses(key) == parked
        await raw.delete(world.store.keys.settling)


async def test_a_ticket_that_is_parked_before_it_runs_stays_parked_though_it_was_asked_for_again(world: World) -> None:
    """Seed 20011160: it was moved from pending to pending, as if a run had ended."""
    key = await world.open_ticket()
    store, ticket = world.store, world.ticket_id(key)
    await store.runs.note_follow_up(ticket, "mona")
    async with holding(store, "local", ticket) as lock:
        intent = Intent(ticket, "local", key, 0, an_edge(Status.PENDING, Status.WAITING), "parked", "text changed")
        begun = await store.intents.decide(ticket, intent, lock=lock, look_in=0)
        told = await world.parts.publisher.publish(replace(intent, fence=begun.fence), lock=lock)
    assert told == Published(Status.WAITING)
    payload = await store.signals.take(world.process.name, wait=0.1)
    assert payload is not None
    assert Signal.from_json(payload).kind is SignalKind.RETRY, "what was asked for is heard"


async def test_whoever_wakes_up_after_redis_was_emptied_does_not_bring_a_withdrawn_run_back(
    world: World, flush: Flush, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 31001484: a consumer that had stood still put its request back, began it, and the withdrawal was stuck."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def stands_still(live: LiveRun) -> None:
        begun.set()
        await go_on.wait()

    monkeypatch.setattr(consumer_module, "carry_out", stands_still)
    key = await world.open_ticket()
    await world.claim(key)
    store, ticket = world.store, world.ticket_id(key)
    payload = await store.queue.take(world.process.name, wait=0.1)
    assert payload is not None
    running = asyncio.create_task(world.consumer.run(payload))
    await begun.wait()
    await flush()
    async with holding(store, "local", ticket) as lock:
        await store.intents.decide(ticket, None, lock=lock, look_in=60)
    await world.consumer.restore()
    assert await store.queue.in_hand(world.process.name) == []
    assert not await store.queue.holds(ticket)
    go_on.set()
    await running
