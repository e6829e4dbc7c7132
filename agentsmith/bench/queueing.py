"""The queue: push, take and acknowledge, and how soon an idle taker has what was pushed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from agentsmith.bench.figures import Reading, quantile
from agentsmith.bench.ground import Ground
from agentsmith.domain.request import PinnedText, PipelineRequest
from agentsmith.domain.ticket import TicketId
from agentsmith.store import Store

_BATCH: Final = 50
_TAKER: Final = "bench"
_BODY: Final = "A few hundred characters, as people write them when they are in a hurry. " * 5


def request(number: int) -> PipelineRequest:
    """A request such as claims make."""
    ticket = TicketId(f"bench/tickets#{number}")
    text = PinnedText.of("Something is wrong with the settings page", _BODY)
    return PipelineRequest(ticket, "bench", str(number), "work", f"run-{number}", fence=number + 1, pinned=text)


async def measure(ground: Ground) -> list[Reading]:
    """The rows of this module."""
    store, jobs = ground.store, ground.times(5000)
    raw = await _rate(jobs, lambda: _raw_moves(store, jobs))
    requests = [request(next(ground.numbers)) for _ in range(jobs)]
    pushed = await _rate(jobs, lambda: push_all(store, requests))
    taken = await _rate(jobs, lambda: _take_all(store, jobs))
    pick_ups, trips = await _pick_ups(ground, ground.times(200))
    return [
        Reading("queue: push, one at a time", "/s", pushed, raw),
        Reading(f"queue: take and acknowledge, {_BATCH} at once", "/s", taken, raw),
        Reading("queue: idle pick-up, p50", "ms", quantile(pick_ups, 0.5), quantile(trips, 0.5)),
        Reading("queue: idle pick-up, p99", "ms", quantile(pick_ups, 0.99), quantile(trips, 0.99)),
    ]


async def push_all(store: Store, requests: list[PipelineRequest]) -> None:
    """Push them, one after the other."""
    for each in requests:
        await store.queue.push(each)


async def _rate(count: int, work: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await work()
    return count / (time.perf_counter() - started)


async def _raw_moves(store: Store, jobs: int) -> None:
    """What one connection can do at best: push and move, a command each, nothing guarded."""
    waiting, taken = "raw-waiting", "raw-taken"
    payload = request(0).to_json()
    for _ in range(jobs):
        await store.redis.rpush(waiting, payload)
        await store.redis.blmove(waiting, taken, 1, "LEFT", "RIGHT")
    await store.redis.delete(taken)


async def _take_all(store: Store, jobs: int) -> None:
    done: list[tuple[str, str]] = []
    left = jobs
    while left or done:
        taken = await store.queue.acknowledge_and_take(_TAKER, done, room=min(_BATCH, left))
        left -= len(taken)
        done = [(PipelineRequest.from_json(payload).ticket, payload) for payload in taken]


async def _pick_ups(ground: Ground, times: int) -> tuple[list[float], list[float]]:
    """Milliseconds from a push until a blocked taker holds the request, and those of bare round trips."""
    store, took, trips = ground.store, [], []
    for _ in range(times):
        waiting = asyncio.create_task(store.queue.take(_TAKER, wait=5))
        started = time.perf_counter()
        await store.redis.ping()  # by its end the other connection is blocked
        trips.append((time.perf_counter() - started) * 1000)
        pushed = request(next(ground.numbers))
        started = time.perf_counter()
        await store.queue.push(pushed)
        payload = await waiting
        took.append((time.perf_counter() - started) * 1000)
        if payload is not None:
            await store.queue.acknowledge_and_take(_TAKER, [(pushed.ticket, payload)], room=0)
    return took, trips
