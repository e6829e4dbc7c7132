"""The inbox: merged while waiting, never after it was opened, tried again later, never lost with its taker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentsmith.domain.signal import MalformedSignal, Signal, SignalKind
from agentsmith.store import Store
from agentsmith.store.capacity import places_of
from agentsmith.store.keys import FULL_MS
from agentsmith.store.scripts.parts import MANY
from tests.support.entries import bare
from tests.support.stores import Flush, MakeStore, Settled, a_process, a_request, a_signal, ticket_id
from tests.support.wait import wait_until


async def take(store: Store, consumer: str = "c1") -> str:
    payload = await store.signals.take(consumer, wait=1)
    assert payload is not None
    return payload


async def test_sent_taken_acknowledged(store: Store) -> None:
    assert await store.signals.send([a_signal(1), a_signal(2)]) == 2
    assert await store.signals.count() == 2
    payloads = [await take(store), await take(store)]
    assert [Signal.from_json(payload) for payload in payloads] == [a_signal(1), a_signal(2)]
    assert await store.signals.in_hand("c1") == payloads
    await store.signals.acknowledge("c1", payloads[0])
    assert await store.signals.in_hand("c1") == payloads[1:]
    assert await store.signals.take("c1", wait=0.01) is None


async def test_sending_nothing_is_fine(store: Store) -> None:
    assert await store.signals.send([]) == 0


async def test_signals_for_one_ticket_are_merged_while_they_wait(store: Store) -> None:
    assert await store.signals.send([a_signal(1), a_signal(1, cause="webhook")]) == 1
    assert await store.signals.send([a_signal(1, cause="again")]) == 0
    assert await store.signals.send([a_signal(1, kind=SignalKind.RETRY, by="Ann")]) == 1, "a retry says more"
    assert await store.signals.count() == 2


async def test_what_is_merged_into_a_waiting_signal_is_told_to_its_taker(store: Store) -> None:
    labelled = a_signal(1, labelled=True)
    await store.signals.send([a_signal(1), a_signal(2)])
    assert await store.signals.send([labelled]) == 0
    assert await store.signals.hand_over(a_signal(2, labelled=True), delivery="d-1") == "merged"
    assert await store.signals.send([a_signal(1)]) == 0, "and a plain one takes nothing back"
    for number in (1, 2):
        assert await store.signals.opened(a_signal(number)) == a_signal(number, labelled=True)
        assert await store.signals.opened(a_signal(number)) == a_signal(number), "once"


async def test_a_signal_that_was_taken_merges_until_it_is_opened(store: Store) -> None:
    await store.signals.send([a_signal(1)])
    payload = await take(store)
    assert await store.signals.send([a_signal(1)]) == 0, "its taker has not read the ticket yet"
    await store.signals.opened(a_signal(1))
    assert await store.signals.send([a_signal(1)]) == 1, "what it announces may be newer than what the taker reads"
    await store.signals.acknowledge("c1", payload)
    assert await store.signals.count() == 1


async def test_a_signal_that_failed_comes_back_later(store: Store) -> None:
    await store.signals.send([a_signal(1)])
    payload = await take(store)
    signal = await store.signals.opened(Signal.from_json(payload))
    await store.signals.later("c1", payload, signal.again(), wait=0.03)
    assert await store.signals.in_hand("c1") == []
    assert await store.signals.count() == 1

    async def is_back() -> bool:
        left = await store.signals.ripen()
        return left is None

    await wait_until(is_back, what="its time has come")
    assert Signal.from_json(await take(store)) == a_signal(1, tries=1)


async def test_later_after_a_lost_answer_makes_no_second_signal(store: Store) -> None:
    await store.signals.send([a_signal(1)])
    payload = await take(store)
    for _ in range(2):
        await store.signals.later("c1", payload, a_signal(1), wait=60)
    assert await store.signals.count() == 1


async def test_signals_that_are_put_off_come_back_as_one_when_the_first_would(store: Store) -> None:
    for wait in (60, 0, 120):
        await store.signals.send([a_signal(1)])
        payload = await take(store)
        await store.signals.opened(a_signal(1))
        await store.signals.later("c1", payload, a_signal(1), wait=wait)
    assert await store.signals.count() == 1
    assert await store.signals.ripen() is None
    assert bare(await take(store)) == a_signal(1).to_json()
    assert await store.signals.count() == 0


async def test_what_is_put_off_keeps_what_others_were_told(store: Store) -> None:
    for labelled in (False, True, False):
        await store.signals.send([a_signal(1, labelled=labelled)])
        payload = await take(store)
        signal = await store.signals.opened(Signal.from_json(payload))
        await store.signals.later("c1", payload, signal, wait=0)
    await store.signals.ripen()
    assert Signal.from_json(await take(store)).labelled


async def test_what_ripens_is_merged_into_what_waits(store: Store) -> None:
    await store.signals.send([a_signal(1)])
    payload = await take(store)
    await store.signals.opened(a_signal(1))
    await store.signals.send([a_signal(1)])
    await store.signals.later("c1", payload, a_signal(1, labelled=True), wait=0)
    await store.signals.ripen()
    assert await store.signals.count() == 1
    assert (await store.signals.opened(Signal.from_json(await take(store)))).labelled


async def test_a_look_at_a_certain_time_is_not_given_up_for_an_earlier_one(store: Store) -> None:
    await store.signals.send([a_signal(1)])
    payload = await take(store)
    await store.signals.opened(a_signal(1))
    await store.signals.send_later(a_signal(1), wait=60)
    await store.signals.later("c1", payload, a_signal(1), wait=0)
    left = await store.signals.ripen()
    assert left is not None
    assert left > 50
    assert await store.signals.count() == 2


async def test_signals_ripen_in_the_order_of_their_times(store: Store, raw: Any) -> None:
    for number in (3, 1, 2, 4):
        await store.signals.send_later(a_signal(number), wait=60)
    [name] = [name for name in await raw.zrange(store.keys.inbox_later, 0, -1) if name.endswith(a_signal(4).topic)]
    for other in set(await raw.zrange(store.keys.inbox_later, 0, -1)) - {name}:
        await raw.zadd(store.keys.inbox_later, {other: int(other[-1]) * 10})
    left = await store.signals.ripen()
    assert left is not None
    assert 50 < left <= 60
    assert [Signal.from_json(await take(store)).key for _ in range(3)] == ["1", "2", "3"]
    assert await store.signals.count() == 1


async def test_nothing_for_later_needs_no_waking(store: Store) -> None:
    assert await store.signals.ripen() is None


async def test_two_hands_never_take_the_same_signal(make_store: MakeStore, store: Store) -> None:
    number = 500
    await store.signals.send(a_signal(n) for n in range(number))

    async def hand(name: str) -> list[str]:
        mine, got = make_store(), []
        while payload := await mine.signals.take(name, wait=0.01):
            got.append(payload)
            await mine.signals.acknowledge(name, payload)
        return got

    taken = [payload for got in await asyncio.gather(*(hand(f"c{n}") for n in range(4))) for payload in got]
    assert len(taken) == len(set(taken)) == number


async def test_a_dead_takers_signals_go_back_to_the_head_in_order(store: Store) -> None:
    await store.signals.send(a_signal(n) for n in (1, 2, 3))
    await store.presence.tick(a_process("c1"), ttl=60, running={})
    await take(store)
    await take(store)
    assert await store.signals.put_back("c1") == -1, "it said that it is alive"
    await store.presence.leave("c1")
    assert await store.signals.put_back("c1") == 2
    assert [Signal.from_json(await take(store, "c2")).key for _ in range(3)] == ["1", "2", "3"]
    assert await store.signals.put_back("c1") == 0


async def test_no_taker_is_dead_while_redis_settles(store: Store, flush: Flush, settled: Settled, raw: Any) -> None:
    await flush()
    await raw.rpush(store.keys.inbox_processing("c1"), "x")
    assert await store.signals.put_back("c1") == -1
    await settled()
    assert await store.signals.put_back("c1") == 1


@pytest.mark.parametrize("garbage", [b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"kind":"dance"}', b"[" * 100_000])
async def test_what_is_no_signal_is_told_as_such_and_can_be_acknowledged(
    store: Store, raw: Any, garbage: bytes
) -> None:
    await raw.rpush(store.keys.inbox, garbage)
    payload = await take(store)
    with pytest.raises(MalformedSignal):
        Signal.from_json(payload)
    await store.signals.acknowledge("c1", payload)
    assert await store.signals.in_hand("c1") == []


async def test_a_webhook_delivery_is_taken_in_once(store: Store) -> None:
    assert await store.signals.hand_over(a_signal(1), delivery="d-1") == "accepted"
    assert await store.signals.hand_over(a_signal(1), delivery="d-1") == "seen"
    assert await store.signals.hand_over(a_signal(1), delivery="d-2") == "merged"
    payload = await take(store)
    await store.signals.opened(a_signal(1))
    await store.signals.acknowledge("c1", payload)
    assert await store.signals.hand_over(a_signal(1), delivery="d-1") == "seen", "also long after"
    assert await store.signals.hand_over(a_signal(1), delivery="d-3") == "accepted"
    assert await store.signals.count() == 1


async def test_a_delivery_without_a_name_is_always_taken_in(store: Store) -> None:
    for number in (1, 2):
        assert await store.signals.hand_over(a_signal(number), delivery="") == "accepted"


async def test_the_revision_that_a_gate_turned_away_is_remembered(store: Store) -> None:
    assert await store.signals.rejected([]) == {}
    await store.signals.note_rejected(ticket_id(1), "rev 7")
    assert await store.signals.rejected([ticket_id(1), ticket_id(2)]) == {ticket_id(1): "rev 7"}


# Marks and entries: what merges must never outlive what it merges into.


@pytest.mark.parametrize("signal", [a_signal(1), a_signal(2, kind=SignalKind.COMMAND, remark='Grüße "7"')])
@pytest.mark.parametrize("way", ["acknowledge", "later", "hold"])
async def test_whatever_takes_a_signal_out_of_its_list_takes_its_mark_along(
    store: Store, raw: Any, way: str, signal: Signal
) -> None:
    """After a failover it may stand in its taker's list as if it had never been opened."""
    await store.signals.send([signal])
    payload = await take(store)
    match way:
        case "acknowledge":
            await store.signals.acknowledge("c1", payload)
        case "later":
            await store.signals.later("c1", payload, signal, wait=60)
        case "hold":
            await store.signals.hold("c1", payload, signal, places=["all"])
    assert await raw.hgetall(store.keys.inbox_index) == {}
    assert await store.signals.send([signal]) == 1


async def test_what_was_put_back_is_no_longer_its_former_takers(store: Store) -> None:
    await store.signals.send([a_signal(1)])
    before = await take(store)
    assert await store.signals.put_back("c1") == 1
    again = await take(store)
    assert bare(again) == bare(before)
    await store.signals.acknowledge("c1", before)
    await store.signals.later("c1", before, a_signal(1), wait=0)
    await store.signals.hold("c1", before, a_signal(1), places=[])
    assert await store.signals.in_hand("c1") == [again]
    assert await store.signals.count() == 0


async def test_what_was_put_back_goes_on_merging(store: Store) -> None:
    await store.signals.send([a_signal(1)])
    await take(store)
    await store.signals.send([a_signal(1, labelled=True)])
    assert await store.signals.put_back("c1") == 1
    assert await store.signals.send([a_signal(1)]) == 0
    opened = await store.signals.opened(Signal.from_json(await take(store)))
    assert opened.labelled, "what was added before is not forgotten"
    assert await store.signals.send([a_signal(1)]) == 1, "and once it is opened it merges no more"


async def test_who_has_an_older_entry_opens_nothing_of_a_newer_one(store: Store) -> None:
    await store.signals.send([a_signal(1)])
    older = Signal.from_json(await take(store))
    await store.signals.opened(older)
    await store.signals.send([a_signal(1, labelled=True)])
    assert not (await store.signals.opened(older)).labelled
    assert await store.signals.send([a_signal(1)]) == 0, "the newer one still waits"


@pytest.mark.parametrize("mark", ["1", "labelled", "0123456789abcdef.3", "0123456789abcdef+labelled"])
async def test_a_mark_that_stands_for_nothing_is_forgotten(store: Store, raw: Any, mark: str) -> None:
    await store.signals.send([a_signal(2), a_signal(3)])
    await take(store)
    await raw.hset(store.keys.inbox_index, a_signal(1).topic, mark)
    assert await store.signals.send([a_signal(1)]) == 0
    assert await store.signals.heal(["c1"]) == 1
    assert await store.signals.heal(["c1"]) == 0
    assert await store.signals.send([a_signal(n) for n in (1, 2, 3)]) == 1, "those of the others stand"


async def test_what_lost_its_text_keeps_nobody_else_from_coming(store: Store, raw: Any) -> None:
    for key in (store.keys.inbox_later, store.keys.held):
        await raw.zadd(key, {"look:nothing": 0})
    await store.signals.send_later(a_signal(1), wait=0)
    assert await store.signals.ripen({"all": 1}) is None
    assert Signal.from_json(await take(store)) == a_signal(1)


async def test_entries_of_a_release_that_gave_them_no_names_are_read(store: Store, raw: Any) -> None:
    old = a_signal(1).to_json()
    await raw.rpush(store.keys.inbox, old)
    await raw.hset(store.keys.inbox_index, a_signal(1).topic, "labelled")
    payload = await take(store)
    assert payload == old
    assert (await store.signals.opened(Signal.from_json(payload))).labelled
    assert await store.signals.put_back("c1") == 1
    assert bare(await take(store)) == old


async def test_whoever_wants_room_where_there_is_some_is_not_behind_those_who_want_it_elsewhere(store: Store) -> None:
    """However many there are: nobody ever looked at the one behind a thousand."""
    await crowd(store, 1001, "full")
    await held(store, 2000, ["all", "empty"])
    await store.queue.push(a_request(5000, pipeline="full"))
    await store.signals.ripen({"pipeline:full": 1})
    assert [Signal.from_json(text).ticket for text in await inbox(store)] == [ticket_id(2000)]
    assert await store.signals.count() == 1002


async def test_the_oldest_of_all_gets_the_room(store: Store) -> None:
    for number in range(6):
        await held(store, number, ["all", "odd" if number % 2 else "even"])
    await store.signals.ripen({"all": 3})
    assert [Signal.from_json(text).ticket for text in await inbox(store)] == [ticket_id(n) for n in range(3)]


async def test_where_many_take_up_room_each_is_not_looked_at_again_at_once(store: Store, raw: Any) -> None:
    many = {ticket_id(number): "1" for number in range(MANY)}
    await raw.hset(store.keys.queue_index, mapping=many)
    await raw.hset(store.keys.places("all"), mapping=many)
    await raw.pexpire(store.keys.places("all"), 60_000)
    await held(store, 1000, ["all"])

    async def noted() -> bool:
        await store.signals.ripen({"all": MANY})
        return bool(await raw.exists(store.keys.full("all")))

    await wait_until(noted, what="it to be noted that all of them are in hand")
    assert await raw.pttl(store.keys.full("all")) <= FULL_MS
    await raw.hdel(store.keys.queue_index, ticket_id(1))
    await raw.set(store.keys.full("all"), "1", px=60_000)
    await store.signals.ripen({"all": MANY})
    assert await inbox(store) == [], "nobody looked"
    await raw.delete(store.keys.full("all"))
    await store.signals.ripen({"all": MANY})
    assert [Signal.from_json(text).ticket for text in await inbox(store)] == [ticket_id(1000)]


async def test_what_a_release_without_lines_held_back_is_found_and_what_it_let_go_is_forgotten(store: Store) -> None:
    await held(store, 1, ["a"])
    await held(store, 2, ["b"])
    keys = store.keys
    for key in (keys.held_lines, keys.held_line('["b"]')):  # as if ticket 2 had been held back there
        await store.redis.delete(key)
    await store.redis.delete(keys.held_line('["a"]'))
    await store.signals.ripen({"a": 0})
    assert [Signal.from_json(text).ticket for text in await inbox(store)] == [ticket_id(2)]
    await store.signals.ripen()
    assert len(await inbox(store)) == 2
    assert await store.signals.held([ticket_id(1), ticket_id(2)]) == frozenset()


async def inbox(store: Store) -> list[str]:
    return list(await store.redis.lrange(store.keys.inbox, 0, -1))


async def held(store: Store, number: int, places: list[str]) -> None:
    """A signal that was taken and held back."""
    await store.signals.send([a_signal(number)])
    payload = await store.signals.take("c1", wait=1)
    assert payload is not None
    await store.signals.hold("c1", payload, a_signal(number), places=places)


async def crowd(store: Store, count: int, pipeline: str) -> None:
    """Many that want room in the same places."""
    for number in range(count):
        await held(store, number, list(places_of("local", pipeline)))
