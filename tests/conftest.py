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
with the type and the time to live that it declares; then the server is emptied. Types of the factories, `TIMES` and
builders of requests, signals and so on are in `tests/support/stores.py`.

Whatever the shell or the runner hands down (variables, signals, umask) is forgotten first, and what a test leaves in
the process (loggers, secrets to be hidden) after it: `tests/support/hermetic.py`.

Tests that take longer than some ten seconds are marked `@pytest.mark.long`, and begin first.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from hypothesis import settings
from redis.asyncio import Redis

from agentsmith.store import Store
from tests.support.declared_keys import complaints
from tests.support.delays import delay_scripts
from tests.support.hermetic import left_as_found, make_hermetic
from tests.support.order import long_first
from tests.support.redis_server import RedisServer, Tenant
from tests.support.stores import TIMES, Flush, MakeStore, PrivateServer, Settled

make_hermetic()
# Nothing is remembered from one run to the next, nor written into the checkout: `print_blob` says how to play it again.
settings.register_profile("agentsmith", deadline=None, print_blob=True, database=None)
settings.load_profile("agentsmith")

_numbers = itertools.count(1)


def pytest_collection_finish() -> None:
    """Keep thousands of tests out of every garbage collection to come: it takes a twentieth of the time."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is marked `long`, after the plugin that shuffles."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = long_first(items, lambda item: item.get_closest_marker("long") is not None, workers)


@pytest.fixture(scope="session", autouse=True)
def late_scripts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        delay_scripts(patch)
        yield


@pytest.fixture(autouse=True)
def process_as_found() -> Iterator[None]:
    with left_as_found():
        yield


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def tenant(redis_server: RedisServer) -> Iterator[Tenant]:
    tenant = redis_server.tenant(f"t{next(_numbers)}")
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
    async with redis_server.client() as client:
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
async def settled(make_store: MakeStore) -> Settled:
    other = make_store()

    async def settle() -> None:
        await other.presence.settling()
        await other.redis.delete(other.keys.settling)

    return settle


@pytest.fixture
async def store(make_store: MakeStore, settled: Settled) -> Store:
    await settled()
    return make_store()


@pytest.fixture
def flush(redis_server: RedisServer) -> Flush:
    async def empty() -> None:
        redis_server.command("FLUSHALL")

    return empty


@pytest.fixture
def private_server() -> Iterator[PrivateServer]:
    started: list[RedisServer] = []

    def start(*options: str, tcp: bool = False, password: str = "") -> RedisServer:
        server = RedisServer(*options, tcp=tcp, password=password)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.close()
