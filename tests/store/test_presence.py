"""Who is alive, and whether Redis can be trusted to remember it."""

from __future__ import annotations

import time
from typing import Any

from agentsmith.domain.facts import Life
from agentsmith.store import Store
from tests.support.stores import (
    TIMES,
    Flush,
    MakeStore,
    PrivateServer,
    a_process,
    a_signal,
    begin,
    locked,
    ticket_id,
)
from tests.support.wait import wait_until


async def test_a_tick_tells_which_runs_are_to_stop(store: Store) -> None:
    await store.runs.request_stop(ticket_id(2), "cancelled by Ann")
    tick = await store.presence.tick(a_process(), ttl=60, running={ticket_id(n): n for n in (1, 2, 3)})
    assert tick.stops == {ticket_id(2): "cancelled by Ann"}


async def test_P6_a_tick_tells_which_runs_were_overtaken(store: Store) -> None:
    lease, _ = await begin(store, 1)
    await begin(store, 2)
    assert (await store.presence.tick(a_process(), ttl=60, running={lease.ticket: lease.fence})).stops == {}
    await store.redis.delete(store.keys.heartbeat(lease.ticket))
    lock = await locked(store, 1)
    taken = await store.intents.decide(lease.ticket, None, lock_key=lock.key, token=lock.token, look_in=1)
    for mine, told in ((lease.fence, {lease.ticket: "somebody took the ticket over"}), (taken.fence, {})):
        tick = await store.presence.tick(a_process(), ttl=60, running={lease.ticket: mine})
        assert tick.stops == told


async def test_a_process_is_alive_while_it_ticks(store: Store) -> None:
    await store.presence.tick(a_process("c1", roles=("consumer", "poller")), ttl=0.02, running={})
    await store.presence.tick(a_process("c2"), ttl=60, running={})

    async def only_c2() -> bool:
        return await store.presence.alive() == [a_process("c2")]

    await wait_until(only_c2, what="the silent one is not alive")
    assert sorted(await store.presence.known()) == ["c1", "c2"], "but it may still own a list"
    await store.presence.tick(a_process("c1", roles=("consumer", "poller")), ttl=60, running={})
    assert a_process("c1", roles=("consumer", "poller")) in await store.presence.alive()


async def test_leaving_and_forgetting(store: Store) -> None:
    await store.presence.tick(a_process("c1"), ttl=60, running={})
    await store.presence.leave("c1")
    assert await store.presence.alive() == []
    assert await store.presence.known() == ["c1"]
    await store.presence.forget("c1")
    assert await store.presence.known() == []


async def test_the_epoch_stays_while_redis_remembers(store: Store) -> None:
    ticks = [await store.presence.tick(a_process(), ttl=60, running={}) for _ in range(3)]
    assert len({tick.epoch for tick in ticks}) == 1
    assert not await store.presence.settling()


async def test_the_epoch_changes_when_redis_was_emptied(store: Store, flush: Flush) -> None:
    epochs = []
    for _ in range(3):
        epochs.append((await store.presence.tick(a_process(), ttl=60, running={})).epoch)
        await flush()
    assert len(set(epochs)) == 3


async def test_the_epoch_changes_when_the_server_was_restarted(private_server: PrivateServer) -> None:
    server = private_server("--appendonly", "yes", "--appendfsync", "always")
    async with Store(server.url, times=TIMES) as store:
        before = await store.presence.tick(a_process(), ttl=60, running={})
        await store.redis.delete(store.keys.settling)
        assert not await store.presence.settling()
    server.restart()
    async with Store(server.url, times=TIMES) as store:
        assert await store.redis.get(store.keys.epoch) == before.epoch, "it remembers the old one"
        assert await store.runs.look(ticket_id(1), patient=False) is Life.SETTLING
        assert (await store.presence.tick(a_process(), ttl=60, running={})).epoch != before.epoch


async def test_the_settling_period_ends_by_itself_and_is_not_prolonged(make_store: MakeStore, flush: Flush) -> None:
    store = make_store(renew_every=0.1, margin=0.05)
    await flush()
    started = time.monotonic()
    assert await store.presence.settling()

    async def over() -> bool:
        await store.presence.tick(a_process(), ttl=60, running={})
        return not await store.presence.settling()

    await wait_until(over, what="the settling period is over")
    assert time.monotonic() - started >= 0.14


async def test_whoever_comes_first_starts_the_settling_period(store: Store, flush: Flush, raw: Any) -> None:
    await flush()
    await store.presence.tick(a_process(), ttl=60, running={})
    assert await store.presence.settling()
    await flush()
    assert await store.runs.look(ticket_id(1), patient=False) is Life.SETTLING
    assert 0 < await raw.pttl(store.keys.settling) <= store.times.settle * 1000


async def test_a_leader_notes_its_cycles(store: Store) -> None:
    assert await store.presence.leader("housekeeping") is None
    lease, before = store.leadership("housekeeping", "c1"), time.time()
    await lease.take()
    leader = await store.presence.leader("housekeeping")
    assert leader is not None
    assert (leader.holder, leader.fence) == ("c1", lease.fence)
    assert before - 1 < leader.since < time.time() + 1
    assert await store.presence.last_cycle("housekeeping") is None
    assert await store.presence.note_cycle("housekeeping", "put back 2", fence=lease.fence)
    cycle = await store.presence.last_cycle("housekeeping")
    assert cycle is not None
    assert cycle.what == "put back 2"
    assert before - 1 < cycle.at < time.time() + 1


async def test_an_earlier_leader_notes_nothing_any_more(store: Store) -> None:
    old, new = store.leadership("poller", "c1"), store.leadership("poller", "c2")
    await old.take()
    await old.release()
    assert await new.take()
    assert new.fence > old.fence
    assert await store.presence.note_cycle("poller", "new", fence=new.fence)
    assert not await store.presence.note_cycle("poller", "old", fence=old.fence)
    cycle = await store.presence.last_cycle("poller")
    assert cycle is not None
    assert cycle.what == "new"


async def test_lists_of_a_process_that_never_ticked_are_found(store: Store) -> None:
    await begin(store, 1, consumer="silent")
    await store.signals.send([a_signal(2)])
    await store.signals.take("mute", wait=1)
    await store.presence.tick(a_process("c1"), ttl=60, running={})
    await begin(store, 3, consumer="c1")
    assert await store.presence.find_owners() == 2
    assert sorted(await store.presence.known()) == ["c1", "mute", "silent"]
    assert await store.presence.find_owners() == 0
