"""Fixtures for everything that touches Redis. The server is real; one is started per test process.

| Fixture        | What it is                                                                                       |
|----------------|--------------------------------------------------------------------------------------------------|
| `redis_server` | the session's server; `freeze` or `restart` only a private one (`private_server`)                 |
| `namespace`    | the test's own key prefix                                                                        |
| `redis_url`    | an address whose user may touch only `{namespace}:*` (and `agentsmith:*`), for child processes too |
| `store`        | a Store there with short `TIMES`; the settling period of the new server is already over          |
| `make_store`   | another connection to the same namespace: `make_store(ttl=0.05)` changes single times            |
| `raw`          | a client that may do everything, to look behind the store's back                                 |
| `flush`        | `await flush()` empties the server, as FLUSHALL does to production; settling starts again        |
| `settled`      | `await settled()` ends the settling period that a flush began, without waiting                   |
| `private_server` | a factory for servers of the test's own: `private_server("--appendonly", "yes", tcp=True)`     |

After each test with a namespace every key left on the server must be in the table of `agentsmith/store/keys.py`,
with the type and the time to live that it declares; then the server is emptied.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Protocol

import pytest
from hypothesis import settings
from redis.asyncio import Redis

from agentsmith.store import LeaseTimes, Store
from tests.support.declared_keys import complaints
from tests.support.redis_server import RedisServer, Tenant

settings.register_profile("agentsmith", deadline=None, print_blob=True)
settings.load_profile("agentsmith")

TIMES = LeaseTimes(ttl=5.0, renew_every=0.1, margin=0.05, lock=5.0, leader=5.0)
"""Leases outlast a slow machine; what a test waits for (renewal, settling) comes soon."""

_numbers = itertools.count(1)


class MakeStore(Protocol):
    """Connects to the test's namespace once more."""

    def __call__(self, **times: float) -> Store: ...


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def tenant(redis_server: RedisServer) -> Iterator[Tenant]:
    tenant = Tenant(redis_server, f"t{next(_numbers)}")
    yield tenant
    left = complaints(tenant.dump(), (tenant.namespace, "agentsmith"))
    tenant.close()
    assert not left, "keys left behind:\n" + "\n".join(left)


@pytest.fixture
def namespace(tenant: Tenant) -> str:
    return tenant.namespace


@pytest.fixture
def redis_url(tenant: Tenant) -> str:
    return tenant.url


@pytest.fixture
async def raw(redis_server: RedisServer) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_server.url, decode_responses=True, encoding_errors="surrogateescape") as client:
        yield client


@pytest.fixture
async def make_store(redis_url: str, namespace: str) -> AsyncIterator[MakeStore]:
    made: list[Store] = []

    def make(**times: float) -> Store:
        made.append(Store(redis_url, times=replace(TIMES, **times), namespace=namespace))
        return made[-1]

    yield make
    for store in made:
        await store.aclose()


@pytest.fixture
async def settled(make_store: MakeStore) -> Callable[[], Awaitable[None]]:
    other = make_store()

    async def settle() -> None:
        await other.presence.settling()
        await other.redis.delete(other.keys.settling)

    return settle


@pytest.fixture
async def store(make_store: MakeStore, settled: Callable[[], Awaitable[None]]) -> Store:
    await settled()
    return make_store()


@pytest.fixture
def flush(redis_server: RedisServer) -> Callable[[], Awaitable[None]]:
    async def empty() -> None:
        redis_server.command("FLUSHALL")

    return empty


@pytest.fixture
def private_server() -> Iterator[Callable[..., RedisServer]]:
    started: list[RedisServer] = []

    def start(*options: str, tcp: bool = False, password: str = "") -> RedisServer:
        server = RedisServer(*options, tcp=tcp, password=password)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.close()
