"""What tests of the store are made of: short times, tickets, requests and processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import EDGES, Edge, Status
from agentsmith.domain.request import PinnedText, PipelineRequest
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import TicketId
from agentsmith.store import Acquired, Lease, LeaseTimes, Process, Pushed, RunLease, Store
from tests.support.redis_server import RedisServer

TIMES: Final = LeaseTimes(ttl=5.0, renew_every=0.1, margin=0.05, lock=5.0, leader=5.0)
"""Leases outlast a slow machine; what a test waits for (renewal, settling) comes soon."""

Flush = Callable[[], Awaitable[None]]
Settled = Callable[[], Awaitable[None]]


class MakeStore(Protocol):
    """Connects to the test's namespace once more."""

    def __call__(self, **times: float) -> Store: ...


class PrivateServer(Protocol):
    """Starts a server of the test's own."""

    def __call__(self, *options: str, tcp: bool = False, password: str = "") -> RedisServer: ...


def ticket_id(number: int) -> TicketId:
    """The canonical identity of a ticket of `local`."""
    return TicketId(f"local/tickets#{number}")


def a_request(number: int = 1, **changes: Any) -> PipelineRequest:
    """A request for ticket `number`."""
    fields: dict[str, Any] = {
        "ticket": ticket_id(number),
        "tracker": "local",
        "key": str(number),
        "pipeline": "fix-bug",
        "run": f"run-{number}",
        "fence": 1,
        "attempt": 0,
        "delivery": 0,
        "pinned": PinnedText.of("title", "body"),
        "enqueued_at": 1.5,
    }
    return PipelineRequest(**{**fields, **changes})


def an_intent(number: int = 1, **changes: Any) -> Intent:
    """An intent for ticket `number`; without an outcome it marks a claim."""
    fields: dict[str, Any] = {
        "ticket": ticket_id(number),
        "tracker": "local",
        "key": str(number),
        "fence": 0,
        "run": f"run-{number}",
    }
    along = an_edge(changes.pop("source", Status.PENDING), changes.pop("to", Status.ENQUEUED))
    return Intent(**{**fields, "edge": along, **changes})


def an_edge(source: Status, to: Status | None) -> Edge:
    """An edge between the two, whoever may take it."""
    return next(edge for edge in sorted(EDGES, key=lambda edge: edge.owner) if (edge.source, edge.to) == (source, to))


def a_signal(number: int = 1, **changes: Any) -> Signal:
    """A hint to look at ticket `number`."""
    fields: dict[str, Any] = {"tracker": "local", "key": str(number), "ticket": ticket_id(number), "cause": "poll"}
    return Signal(**{**fields, **changes})


def a_process(name: str = "c1", **changes: Any) -> Process:
    """A process that calls itself `name`."""
    fields: dict[str, Any] = {
        "name": name,
        "host": "here",
        "pid": 1,
        "roles": ("consumer",),
        "slots": 2,
        "started": 1.0,
        "version": "0",
    }
    return Process(**{**fields, **changes})


async def begin(store: Store, number: int = 1, *, consumer: str = "c1", **changes: Any) -> tuple[RunLease, str]:
    """Push a request, take it and acquire its lease; answers lease and payload."""
    fence = int(await store.redis.get(store.keys.fence(ticket_id(number))) or 1)
    request = a_request(number, **{"fence": fence, **changes})
    assert await store.queue.push(request) is Pushed.PUSHED
    payload = await store.queue.take(consumer, wait=1)
    assert payload == request.to_json()
    return await acquired(store, request, consumer=consumer), payload


async def acquired(store: Store, request: PipelineRequest, *, consumer: str = "c1") -> RunLease:
    """Acquire the lease for a request that was taken."""
    answer = await store.runs.acquire(
        request, request.to_json(), consumer=consumer, ttl=store.times.ttl, max_deliveries=3
    )
    assert isinstance(answer, Acquired), answer
    return answer.lease


async def locked(store: Store, number: int = 1, *, by: str = "me") -> Lease:
    """Hold the lock of ticket `number` under the token `by`."""
    lock = store.ticket_lock("local", ticket_id(number), by)
    assert await lock.take()
    return lock
