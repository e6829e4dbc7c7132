"""A run without work: what a consumer asks of the store from taking a request to settling its run."""

from __future__ import annotations

from typing import Final

from agentsmith.bench.figures import Reading
from agentsmith.bench.ground import TIMES, BenchTrouble, Ground, rate
from agentsmith.bench.queueing import push_all, request
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Owner, Status, edge
from agentsmith.domain.request import PipelineRequest
from agentsmith.store import Acquired, Store

_CONSUMER: Final = "bench"
_AT_ONCE: Final = 50
_STEPS: Final = 5
"""Steps of a run: take, acquire, start, acknowledge, settle. The raw limit is as many bare writes."""


async def measure(ground: Ground) -> list[Reading]:
    """The rows of this module."""
    jobs, store = ground.times(2000), ground.store
    readings = []
    for at_once in (_AT_ONCE, 1):
        await push_all(store, [request(next(ground.numbers)) for _ in range(jobs)])
        raw = await rate(jobs, at_once, lambda: _raw(store))
        done = await rate(jobs, at_once, lambda: _run(store))
        readings.append(Reading(f"run without work, {at_once} at once", "/s", done, raw))
    return readings


async def _raw(store: Store) -> None:
    for _ in range(_STEPS):
        await store.redis.set("raw-step", "x", px=60_000)


async def _run(store: Store) -> None:
    """What a run asks of the store, in its order."""
    (payload,) = await store.queue.acknowledge_and_take(_CONSUMER, (), room=1)
    taken = PipelineRequest.from_json(payload)
    acquired = await store.runs.acquire(taken, payload, consumer=_CONSUMER, ttl=TIMES.ttl, max_deliveries=3)
    if not isinstance(acquired, Acquired):
        raise BenchTrouble(f"a run of the benchmark did not get its lease: {acquired.word}")
    _, attempt = await store.runs.start(acquired.lease, max_attempts=3)
    await store.queue.acknowledge_and_take(_CONSUMER, [(taken.ticket, payload)], room=0)
    intent = Intent(
        ticket=taken.ticket,
        tracker=taken.tracker,
        key=taken.key,
        fence=acquired.lease.fence,
        edge=edge(Status.IN_PROGRESS, Status.DONE, Owner.RUN),
        run=taken.run,
        outcome="done",
        attempt=attempt,
    )
    if not await store.runs.settle(acquired.lease, payload, intent, look_in=TIMES.ttl):
        raise BenchTrouble("a run of the benchmark lost its lease before its end")
