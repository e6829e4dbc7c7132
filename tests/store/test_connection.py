"""Connecting: every kind of address, requirements that are checked, and calm while Redis is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from redis.exceptions import ConnectionError, ResponseError, TimeoutError
from structlog.testing import capture_logs

from agentsmith.domain.errors import StoreRefused, StoreUnavailable
from agentsmith.store import AWAY, Outage, Store
from agentsmith.store.connection import check_requirements, connect
from agentsmith.store.redis_commands import Commands
from tests.support.redis_server import RedisServer, free_port
from tests.support.stores import TIMES, PrivateServer, a_request, all_queued, begin, ticket_id
from tests.support.wait import wait_until


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Commands]:
    redis = connect(url)
    try:
        yield redis
    finally:
        await redis.aclose()


async def refusal(url: str) -> str:
    """Why the server at this address cannot be used, in the words that a person reads."""
    with pytest.raises(StoreUnavailable) as caught:
        async with connected(url) as redis:
            await check_requirements(redis)
    return str(caught.value)


# Addresses.


async def test_the_server_tells_its_name_and_version(redis_server: RedisServer) -> None:
    async with Store(redis_server.url, times=TIMES) as store:
        assert (await store.check()).split()[0] in ("Valkey", "Redis")


async def test_tcp_with_a_password_and_a_database(private_server: PrivateServer) -> None:
    server = private_server(tcp=True, password="p@ss/word")
    quoted = f"redis://:p%40ss%2Fword@127.0.0.1:{server.port}"
    async with connected(f"{quoted}/3") as third, connected(f"{quoted}/0") as first:
        assert await check_requirements(third)
        await third.set("agentsmith:settling", "1", px=60_000)
        assert await third.get("agentsmith:settling") == "1"
        assert await first.get("agentsmith:settling") is None


async def test_a_unix_socket_with_a_user(redis_url: str, namespace: str) -> None:
    async with connected(redis_url) as redis:
        assert await check_requirements(redis)
        assert await redis.get(f"{namespace}:epoch") is None


@pytest.mark.parametrize("secret", ["", "wrong-secret"])
async def test_a_wrong_or_missing_password_is_told_and_not_repeated(private_server: PrivateServer, secret: str) -> None:
    server = private_server(tcp=True, password="right-secret")
    told = await refusal(f"redis://{f':{secret}@' if secret else ''}127.0.0.1:{server.port}")
    assert "password" in told
    assert "redis.url" in told
    assert "-secret" not in told


async def test_a_user_who_may_not_ask_is_told_what_is_missing(private_server: PrivateServer) -> None:
    server = private_server(tcp=True)
    server.command("ACL", "SETUSER", "smith", "on", ">pw", "~*", "+@all", "-info")
    assert "INFO" in await refusal(f"redis://smith:pw@127.0.0.1:{server.port}")


async def test_nobody_there() -> None:
    assert "cannot be reached" in await refusal(f"redis://:hush@127.0.0.1:{free_port()}")
    assert "cannot be reached" in await refusal("unix:///nowhere/redis.sock?password=hush")
    assert "hush" not in await refusal(f"redis://:hush@127.0.0.1:{free_port()}")


async def test_something_else_there() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port := free_port())
    async with server:
        assert "Redis" in await refusal(f"redis://127.0.0.1:{port}")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:6379",
        "127.0.0.1:6379",
        "redis://127.0.0.1:port",
        "redis+sentinel://127.0.0.1:26379",
        "redis+sentinel://127.0.0.1:port/service",
        "redis+sentinel:///service",
        "redis+sentinel://127.0.0.1:26379/service/zero",
        "",
    ],
)
async def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"redis\.url"):
        connect(url)


async def test_an_address_that_is_none_does_not_tell_its_password() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        connect("redis://:hush@127.0.0.1:port")
    assert "hush" not in str(caught.value)


# Requirements.


async def test_a_server_that_evicts_is_refused(private_server: PrivateServer) -> None:
    server = private_server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    told = await refusal(server.url)
    assert "allkeys-lru" in told
    assert "noeviction" in told


async def test_a_cluster_is_refused(private_server: PrivateServer) -> None:
    server = private_server("--cluster-enabled", "yes", tcp=True)
    assert "cluster mode" in await refusal(server.url)


class Told:
    """A client that answers INFO with what a server of another kind would say."""

    def __init__(self, **info: str) -> None:
        self._info = info

    async def info(self, section: str) -> dict[str, Any]:
        return self._info if section == "server" else {}


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ({"redis_version": "6.2.0"}, "Redis 6.2.0"),
        ({"redis_version": "10.0.1"}, "Redis 10.0.1"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.9"}, "Valkey 7.2.9"),
        ({"redis_version": "6.0.16"}, None),
        ({"redis_version": "5.9.9"}, None),
    ],
)
async def test_a_server_that_is_too_old_is_refused(info: dict[str, str], name: str | None) -> None:
    told = cast(Commands, Told(**info))
    if name is not None:
        assert await check_requirements(told) == name
        return
    with pytest.raises(StoreUnavailable, match=r"too old; use 6\.2"):
        await check_requirements(told)


# Away and back.


@pytest.fixture
def outage() -> Outage:
    return Outage(first_wait=0.001, longest_wait=0.004)


async def test_an_outage_is_told_once_and_its_end_once(outage: Outage) -> None:
    with capture_logs() as logs:
        for _ in range(50):
            assert 0 < outage.noticed(ConnectionError("gone")) <= 0.004
        assert outage.now
        outage.over()
        outage.over()
        assert not outage.now
        outage.noticed(ConnectionError("again"))
    assert [(line["log_level"], line["event"]) for line in logs] == [
        ("warning", "redis is away, trying again until it is back"),
        ("info", "redis is back"),
        ("warning", "redis is away, trying again until it is back"),
    ]
    assert logs[1]["failed_attempts"] == 50


def test_waits_grow_up_to_the_longest() -> None:
    outage = Outage(first_wait=0.05, longest_wait=2.0)
    waits = [outage.noticed(ConnectionError()) for _ in range(2000)]
    assert waits[0] <= 0.1
    assert max(waits) <= 2.0
    assert min(waits[20:]) >= 1.0


async def test_a_step_is_repeated_until_redis_is_back(outage: Outage) -> None:
    errors = iter([ConnectionError(), TimeoutError(), StoreRefused("LOADING"), None])

    async def step() -> str:
        if error := next(errors):
            raise error
        return "done"

    with capture_logs() as logs:
        assert await outage.outlast(step) == "done"
    assert len(logs) == 2


async def test_an_error_of_ours_is_no_outage(outage: Outage) -> None:
    async def step() -> None:
        raise ResponseError("wrong kind of value")

    with pytest.raises(ResponseError):
        await outage.outlast(step)
    assert not outage.now


async def test_a_restart_of_the_server_is_survived_and_told_once(private_server: PrivateServer, outage: Outage) -> None:
    server = private_server("--appendonly", "yes", "--appendfsync", "always")
    async with Store(server.url, times=TIMES) as store:
        store.outage = outage
        lease, _ = await begin(store)
        server.kill()
        with capture_logs() as logs:
            steps: list[Callable[[], Any]] = [
                lambda: store.runs.renew(lease, ttl=60),
                lambda: store.queue.push(a_request(2)),
                lambda: store.queue.take("c2", wait=5),
                lambda: store.queue.position(ticket_id(3)),
            ]
            waiting = [asyncio.create_task(store.outage.outlast(step)) for step in steps]
            await wait_until(lambda: store.outage.now, what="the outage is noticed")
            server.start()
            renewed, pushed, taken, _ = await asyncio.gather(*waiting)
        assert renewed == "renewed"
        assert (pushed, taken) == ("pushed", a_request(2).to_json())
        assert [line["event"].split(",")[0] for line in logs] == ["redis is away", "redis is back"]


async def test_a_blocked_take_ends_when_the_server_dies(private_server: PrivateServer) -> None:
    server = private_server()
    async with Store(server.url, times=TIMES) as store:
        await store.redis.ping()
        taking = asyncio.create_task(store.queue.take("c1", wait=5))
        await wait_until(lambda: "cmd=blmove" in str(server.command("CLIENT", "LIST")), what="the take is blocked")
        server.kill()
        with pytest.raises(AWAY):
            await taking


async def test_a_forgotten_script_is_loaded_again(store: Store, raw: Any) -> None:
    await store.queue.push(a_request(1))
    await raw.script_flush()
    await store.queue.push(a_request(2))
    assert len(await all_queued(store)) == 2
