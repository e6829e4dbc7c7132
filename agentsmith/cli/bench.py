"""`agentsmith bench`: how fast the queue is, as ratios to what the same Redis does raw in the same run."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from agentsmith import logs
from agentsmith.cli import output
from agentsmith.domain.request import PinnedText, PipelineRequest
from agentsmith.domain.ticket import TicketId
from agentsmith.store import LeaseTimes, Store
from agentsmith.store.server import EmbeddedServer

_TIMES: Final = LeaseTimes(ttl=120, renew_every=30, margin=20, lock=30, leader=30)
_BATCH: Final = 50


def bench(*, jobs: int, as_json: bool) -> None:
    """Measure on a server of our own in a temporary folder, and show the figures."""
    logs.configure("console", "warning")
    with tempfile.TemporaryDirectory(prefix="agentsmith-bench-") as folder:
        figures = asyncio.run(_measure(Path(folder), jobs))
    if as_json:
        output.json_result(figures)
        return
    for name, value in figures.items():
        output.say(f"{name:32} {value:>12,.2f}")


async def _measure(folder: Path, jobs: int) -> dict[str, Any]:
    async with EmbeddedServer(folder) as server, Store(server.url, times=_TIMES) as store:
        round_trip = await _median(store.redis.ping, 500)
        raw = await _rate(jobs, lambda: _raw_moves(store, jobs))
        requests = [_request(number) for number in range(jobs)]
        pushed = await _rate(jobs, lambda: _push_all(store, requests))
        taken = await _rate(jobs, lambda: _take_all(store, jobs))
        pick_up = await _pick_up(store)
    return {
        "raw_round_trip_ms": round_trip * 1000,
        "raw_moves_per_s": raw,
        "push_per_s": pushed,
        "push_to_raw": pushed / raw,
        "take_and_acknowledge_per_s": taken,
        "take_and_acknowledge_to_raw": taken / raw,
        "idle_pick_up_ms": pick_up * 1000,
        "idle_pick_up_to_round_trip": pick_up / round_trip,
    }


def _request(number: int) -> PipelineRequest:
    ticket = TicketId(f"bench/tickets#{number}")
    return PipelineRequest(
        ticket, "bench", str(number), "work", f"run-{number}", number + 1, 0, 0, PinnedText.of("Title", "Body"), 0.0
    )


async def _rate(count: int, work: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await work()
    return count / (time.perf_counter() - started)


async def _median(call: Callable[[], Awaitable[object]], times: int) -> float:
    took = []
    for _ in range(times):
        started = time.perf_counter()
        await call()
        took.append(time.perf_counter() - started)
    return statistics.median(took)


async def _raw_moves(store: Store, jobs: int) -> None:
    """What one connection can do at best: push and move, a command each, nothing guarded."""
    for number in range(jobs):
        await store.redis.rpush("bench:raw", str(number))
        await store.redis.blmove("bench:raw", "bench:raw-taken", 1, "LEFT", "RIGHT")


async def _push_all(store: Store, requests: list[PipelineRequest]) -> None:
    for request in requests:
        await store.queue.push(request)


async def _take_all(store: Store, jobs: int) -> None:
    done: list[tuple[str, str]] = []
    left = jobs
    while left or done:
        taken = await store.queue.acknowledge_and_take("bench", done, room=min(_BATCH, left))
        left -= len(taken)
        done = [(PipelineRequest.from_json(payload).ticket, payload) for payload in taken]


async def _pick_up(store: Store) -> float:
    """From push to the moment an idle consumer holds the request."""
    took = []
    for number in range(200):
        waiting = asyncio.create_task(store.queue.take("bench-idle", wait=5))
        await store.redis.ping()  # by now the other connection is blocked
        request = _request(1_000_000 + number)
        started = time.perf_counter()
        await store.queue.push(request)
        payload = await waiting
        took.append(time.perf_counter() - started)
        assert payload is not None  # noqa: S101 - it was just pushed
        await store.queue.acknowledge_and_take("bench-idle", [(request.ticket, payload)], room=0)
    return statistics.median(took)
