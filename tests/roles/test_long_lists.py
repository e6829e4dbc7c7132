"""Long queues and long lists: no poll reads the requests themselves, nor keeps the event loop to itself for long.

What is measured is how much is done between two turns of the loop, not how long it takes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import PinnedText, PipelineRequest
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.housekeeping.passes import labelled
from agentsmith.intake import poller as poller_module
from agentsmith.intake.poller import Poller
from agentsmith.store import Acquired, Store
from agentsmith.tickets import explain
from agentsmith.trackers.local.tracker import LocalTracker
from tests.support.redis_server import RedisServer
from tests.support.stores import a_request
from tests.support.world import TRIGGER, open_world

MOST_AT_ONCE: Final = 500
COUNT: Final = 2 * MOST_AT_ONCE + 1


class LongList(LocalTracker):
    """Finds as many pending tickets as it is told to, and reads none."""

    count = 0
    yielding: Callable[[], None] = staticmethod(lambda: None)

    async def find(self, *labels: str) -> AsyncIterator[Ticket]:  # noqa: ARG002
        for number in range(1, self.count + 1):
            self.yielding()
            key = str(number)
            yield Ticket(self.ticket_id(key), key, self.name, "x", "", "", frozenset({TRIGGER}), True, "1")


def long_list(tmp_path: Path, like: Any) -> LongList:
    return LongList(name="local", path=tmp_path / "none.sqlite3", project="tickets", labels=like.labels)


async def test_a_poll_deals_with_a_few_hundred_tickets_at_a_time(
    tmp_path: Path, store: Store, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world(tmp_path, store, redis_server.url) as world:
        tracker = long_list(tmp_path, world.trackers["local"])
        tracker.count = COUNT
        poller = Poller(store, tracker, world.parts.triggers, 60.0)
        turn, done, listed = 0, Counter[int](), Counter[int]()

        async def take_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        def counted(ticket: Ticket, rules: Any) -> str:
            done[turn] += 1
            return f"{rules.digest}:{ticket.revision}"

        def listing() -> None:
            listed[turn] += 1

        asked: list[int] = []

        def watched(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            async def watching(some: Any, **more: Any) -> Any:
                asked.append(len(some))
                return await call(some, **more)

            return watching

        for name in ("rejected", "held", "send"):
            monkeypatch.setattr(store.signals, name, watched(getattr(store.signals, name)))
        monkeypatch.setattr(poller_module, "turned_away", counted)
        monkeypatch.setattr(LongList, "yielding", staticmethod(listing))
        turning = asyncio.create_task(take_turns())
        polled = await poller.poll()
        turning.cancel()
        assert (polled.found, polled.signalled) == (COUNT, COUNT)
        assert max(asked) <= MOST_AT_ONCE
        assert max(done.values()) <= MOST_AT_ONCE
        assert max(listed.values()) <= MOST_AT_ONCE
        await tracker.aclose()


async def test_housekeeping_lists_a_few_hundred_tickets_at_a_time(
    tmp_path: Path, store: Store, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world(tmp_path, store, redis_server.url) as world:
        tracker = long_list(tmp_path, world.trackers["local"])
        tracker.count = COUNT
        turn, listed = 0, Counter[int]()

        async def take_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        def listing() -> None:
            listed[turn] += 1

        monkeypatch.setattr(LongList, "yielding", staticmethod(listing))
        turning = asyncio.create_task(take_turns())
        assert len(await labelled(tracker, Status.ENQUEUED)) == COUNT
        turning.cancel()
        assert max(listed.values()) <= MOST_AT_ONCE
        await tracker.aclose()


async def test_a_poll_reads_the_names_of_what_is_queued_and_no_request(
    tmp_path: Path, store: Store, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world(tmp_path, store, redis_server.url) as world:
        tracker = long_list(tmp_path, world.trackers["local"])
        poller = Poller(store, tracker, world.parts.triggers, 60.0)
        for number in (1, 2, 3):
            ticket = TicketId("other/tickets#3") if number == 3 else tracker.ticket_id(str(number))
            await store.queue.push(a_request(number, ticket=ticket, key=str(number), tracker="local"))

        async def never(*_: Any, **__: Any) -> Any:
            raise AssertionError("requests are long, and a poll needs none of them")

        for name in ("next_ones", "in_flight", "request_of"):
            monkeypatch.setattr(store.queue, name, never)
        tracker.count = 1
        polled = await poller.poll()
        assert (polled.in_hand, polled.signalled) == (2, 2)  # the one that was found, and the one that lost its trigger
        await tracker.aclose()


async def test_requests_in_flight_are_read_a_few_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 121):
        await store.queue.push(a_request(number))
    answers = []
    evalsha = store.redis.evalsha

    async def counted(*args: Any) -> Any:
        answer = await evalsha(*args)
        answers.append(len(answer) if isinstance(answer, list) else 1)
        return answer

    monkeypatch.setattr(store.redis, "evalsha", counted)
    assert len([payload async for payload in store.queue.in_flight()]) == 120
    assert max(answers) <= 50


async def test_whoever_lists_requests_is_spared_the_text_of_their_tickets(store: Store) -> None:
    """2,000 bodies of 60 kB take a third of a second, and nobody looks at them."""
    bodies = ('its "end" comes \\","sha256":"not here\\"' + "long " * 2000, "", "short", "\\")
    requests = [
        # Numbers that Lua would round.
        a_request(number, pinned=PinnedText.of('a "title"', body), fence=1700000029308497, enqueued_at=1.123456789)
        for number, body in enumerate(bodies)
    ]
    for request in requests:
        await store.queue.push(request)
    listed = [PipelineRequest.from_json(payload) for payload in await store.queue.next_ones(10)]
    in_flight = [PipelineRequest.from_json(payload) async for payload in store.queue.in_flight()]
    long, *short = requests
    assert listed == [replace(long, pinned=replace(long.pinned, body="")), *short]
    assert sorted(in_flight, key=lambda request: request.key) == listed
    for request, payload in zip(requests, await store.queue.acknowledge_and_take("c1", (), room=10), strict=True):
        acquired = await store.runs.acquire(request, payload, consumer="c1", ttl=60, max_deliveries=3)
        assert isinstance(acquired, Acquired)
        assert PipelineRequest.from_json(acquired.request) == request, "who runs it has all of it"


async def test_however_many_tickets_wait_one_question_tells_of_them(
    store: Store, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = TicketId("local/tickets#1"), TicketId("local/tickets#2")
    for key in (store.keys.due, store.keys.parked):
        await raw.zadd(key, {one: 1_000_500, two: 2_000_000})
    asked = []
    execute = store.redis.execute_command  # type: ignore[attr-defined]

    async def counted(*args: Any, **options: Any) -> Any:
        asked.append(args[0])
        return await execute(*args, **options)

    monkeypatch.setattr(store.redis, "execute_command", counted)
    assert await store.intents.waiting() == await store.questions.parked() == [(one, 1000.5), (two, 2000.0)]
    assert asked == ["ZRANGE", "ZRANGE"]
    told = await explain.known(store, one)
    assert told.where == f"waiting until {explain.when(1000.5)}"
    assert "ZRANGE" not in asked[2:], "why asks of its own ticket alone"


async def test_a_request_in_another_form_is_listed_as_it_is(store: Store) -> None:
    for number, payload in enumerate(("not a request", '{"body": 1, "pinned":{"body":"'), start=1):
        await store.redis.rpush(store.keys.queue, payload)
        assert (await store.queue.next_ones(number))[-1] == payload
