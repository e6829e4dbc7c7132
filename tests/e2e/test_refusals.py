"""Redis is there and refuses: daemons wait, say what is to be done, and go on with the same runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.exceptions import RedisError, ResponseError

from agentsmith.cli.status import gather
from agentsmith.running import release_lease as farewell
from tests.e2e.daemons import DaemonProcess, Daemons
from tests.e2e.place import WITHIN, Place
from tests.e2e.test_daemon import STEADY
from tests.support.redis_server import RedisServer
from tests.support.stores import TIMES, PrivateServer, begin
from tests.support.wait import slowly, wait_until

AWAY = "redis is away, trying again until it is back"
REFUSES = "redis refuses, trying again until it does not"


@pytest.fixture
async def daemons(tmp_path: Path) -> AsyncIterator[Daemons]:
    async with Daemons(tmp_path) as daemons:
        yield daemons


async def noticed(daemon: DaemonProcess, event: str, code: str) -> None:
    """Return once the daemon has said that Redis answers it with this code."""

    def has() -> bool:
        return any(code in line.get("reply", "") + line.get("error", "") for line in daemon.lines(event))

    await wait_until(slowly(has), what=f"the daemon to be told {code}", within=WITHIN)


async def hog(server: RedisServer) -> None:
    """Keep the server busy with a script until it is killed."""
    server.command("CONFIG", "SET", "lua-time-limit", "1")
    with contextlib.suppress(RedisError):
        async with server.client() as client:
            await client.eval("while true do end", 0)


def is_busy(server: RedisServer) -> bool:
    try:
        server.command("PING")
    except ResponseError as error:
        return str(error).startswith("BUSY")
    return False


async def test_no_refusal_ends_a_process_or_a_run(
    tmp_path: Path, daemons: Daemons, private_server: PrivateServer
) -> None:
    server = private_server("--appendonly", "yes", "--appendfsync", "always")
    place = Place(tmp_path, server.url)
    daemon = await daemons.start(place.config(lease=STEADY))
    place.hold()
    keys = await place.open_tickets(3)
    await place.works(runs=2)
    # While tickets run.
    server.command("CONFIG", "SET", "min-replicas-to-write", "1")
    await noticed(daemon, REFUSES, "NOREPLICAS")
    seen = await gather(place.loaded())
    assert "NOREPLICAS" in seen["redis"]["problem"]
    assert "bring the replicas" in seen["redis"]["problem"]
    server.command("CONFIG", "SET", "min-replicas-to-write", "0")
    led = len(daemon.lines("no longer leading"))
    await wait_until(slowly(lambda: len(daemon.lines("leading")) > led), what="work to go on", within=WITHIN)
    # While they end, and another daemon starts.
    hogging = asyncio.create_task(hog(server))
    await wait_until(slowly(lambda: is_busy(server)), what="a busy script", within=WITHIN)
    place.finish()
    late = await daemons.start(place.config(lease=STEADY))
    await noticed(daemon, AWAY, "BUSY")
    await noticed(late, AWAY, "BUSY")
    server.command("SCRIPT", "KILL")
    await hogging
    await late.said("up")
    await place.done(*keys)
    # While everybody is idle: a planned failover, as blocked clients see it.
    server.command("REPLICAOF", "127.0.0.1", "1")
    for each in (daemon, late):
        await wait_until(
            slowly(lambda d=each: len(d.lines(AWAY)) >= 2),  # type: ignore[misc]
            what="the failover to be noticed",
            within=WITHIN,
        )
    server.command("REPLICAOF", "NO", "ONE")
    await place.done(*keys, *await place.open_tickets())
    assert len(place.begun()) == 4, "nothing ran twice"
    assert len(daemon.lines(REFUSES)) == 1, "one line, not a flood"
    for each in (daemon, late):
        each.send(signal.SIGTERM)
        assert await each.ended() == 0


async def test_the_guards_release_waits_for_a_redis_that_refuses(private_server: PrivateServer, tmp_path: Path) -> None:
    server = private_server()
    async with Place(tmp_path, server.url).store() as store:
        lease, _ = await begin(store)
        server.command("CONFIG", "SET", "min-replicas-to-write", "1")
        said = farewell.farewell_for(lease, url=server.url, namespace="agentsmith", times=TIMES, lock_key="lock")
        releasing = asyncio.create_task(farewell._release(json.loads(said.input)))

        async def refused() -> bool:
            return "errorstat_NOREPLICAS" in await store.redis.info("errorstats")

        await wait_until(refused, what="the release to be refused")
        assert not releasing.done()
        server.command("CONFIG", "SET", "min-replicas-to-write", "0")
        await releasing
        assert lease.ticket in await store.runs.released()
