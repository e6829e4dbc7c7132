"""Error replies: every one that the servers know is sorted, and none that Redis can get over ends a process."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from redis.exceptions import RedisError, ResponseError
from structlog.testing import capture_logs

from agentsmith.domain.errors import StoreRefused, StoreUnavailable
from agentsmith.store import AWAY, Outage, Store
from agentsmith.store.connection import check_requirements
from agentsmith.store.error_replies import PLAIN, REPLIES, Means, meaning
from tests.chaos.disk import fill
from tests.support.redis_server import RedisServer, server_binary
from tests.support.stores import TIMES, PrivateServer, a_request
from tests.support.wait import wait_until

DOCUMENTED: Final = """
    ASK BUSY BUSYGROUP BUSYKEY CLUSTERDOWN CROSSSLOT DENIED EXECABORT INPROG INVALIDOBJ IOERR LOADING MASTERDOWN
    MISCONF MOVED NOAUTH NOGOODPRIMARY NOGOODSLAVE NOGROUP NOMASTERLINK NOPERM NOPROTO NOQUORUM NOREPLICAS NOSCRIPT
    NOTBUSY NOTREADY OOM READONLY REDIRECT TRYAGAIN UNBLOCKED UNKILLABLE WRONGPASS WRONGTYPE
    """
"""The codes of Redis 6.2 to 8 and of Valkey 7.2 to 9, with those of their sentinels and clusters."""
IN_A_PROGRAM: Final = re.compile(rb"(?<![ -~])-([A-Z]{3,}) [ -~]")
WAITED_OUT: Final = sorted(code for code, reply in REPLIES.items() if reply.means is not Means.OURS)
RAISED: Final = sorted(code for code, reply in REPLIES.items() if reply.means is Means.OURS and code != "NOSCRIPT")


@pytest.fixture
async def quick(private_server: PrivateServer) -> AsyncIterator[tuple[Store, RedisServer]]:
    server = private_server("--appendonly", "no")
    async with Store(server.url, times=TIMES) as store:
        await store.redis.ping()
        yield store, server


# The table.


def test_every_documented_code_is_sorted_and_no_other() -> None:
    assert sorted(REPLIES) == DOCUMENTED.split()


@pytest.mark.parametrize("program", ["the one that tests run on", "redis-server"])  # which is Valkey, and Redis
def test_every_code_in_the_server_programs_is_sorted(program: str) -> None:
    found = server_binary() if program.startswith("the") else shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    codes = {code.decode() for code in IN_A_PROGRAM.findall(Path(found).read_bytes())} - {"ERR"}
    assert len(codes) > 20, "the codes are not found in this program"
    assert codes <= set(REPLIES)


def test_whatever_a_person_must_mend_names_the_remedy() -> None:
    for reply in (*REPLIES.values(), *(reply for _, reply in PLAIN)):
        assert bool(reply.remedy) == (reply.means is Means.OPERATOR)


@pytest.mark.parametrize(
    ("reply", "means"),
    [
        ("ERR max number of clients reached", Means.OPERATOR),
        ("ERR max number of clients + cluster connections reached", Means.OPERATOR),
        ("ERR invalid password", Means.OPERATOR),
        ("ERR Client sent AUTH, but no password is set", Means.OPERATOR),
        ("ERR DB index is out of range", Means.OPERATOR),
        (
            "ERR Error running script (call to f_1): @user_script:1: Script killed by user with SCRIPT KILL...",
            Means.AWAY,
        ),
        ("ERR Error running script (call to f_1): @user_script: 3: -NOREPLICAS Not enough replicas", Means.OPERATOR),
        ("ERR Error running script (call to f_1): @user_script: 3: -READONLY You can't write", Means.AWAY),
        ("ERR Error running script (call to f_1): @user_script:3: attempt to index a nil value", Means.OURS),
        ("ERR value is not an integer or out of range", Means.OURS),
        ("ERR unknown command 'FROB'", Means.OURS),
        ("SURPRISE from a proxy", Means.OPERATOR),
        ("upstream failure", Means.OPERATOR),
    ],
)
def test_replies_without_a_code_of_their_own(reply: str, means: Means) -> None:
    assert meaning(*reply.split(" ", 1)).means is means


# The client, on answers that a real server gives.

_ANSWER: Final = "return redis.error_reply(ARGV[1])"


@pytest.mark.parametrize("code", WAITED_OUT)
async def test_what_can_be_waited_out_is_away(store: Store, code: str) -> None:
    text = "12 127.0.0.1:7000" if code in ("MOVED", "ASK") else "for some reason"
    with pytest.raises(AWAY) as caught:
        await store.redis.eval(_ANSWER, 0, f"{code} {text}")
    assert isinstance(caught.value, StoreRefused)
    assert caught.value.reply.startswith(code)
    assert REPLIES[code].remedy in str(caught.value)
    assert await store.redis.ping(), "the client goes on"


@pytest.mark.parametrize("code", RAISED)
async def test_what_is_our_mistake_is_raised(store: Store, code: str) -> None:
    with pytest.raises(RedisError) as caught:
        await store.redis.eval(_ANSWER, 0, f"{code} for some reason")
    assert not isinstance(caught.value, AWAY)


async def test_a_refusal_that_a_person_must_mend_is_told_once_with_its_remedy() -> None:
    outage = Outage(first_wait=0.001, longest_wait=0.004)
    refused = StoreRefused("NOREPLICAS Not enough good replicas to write.", remedy="bring them back")
    with capture_logs() as logs:
        for _ in range(20):
            outage.noticed(refused)
            outage.over()  # something else went through
    assert [(line["log_level"], line["reply"], line["remedy"]) for line in logs] == [
        ("error", refused.reply, "bring them back")
    ]


# Servers that refuse.


class NotingOutage(Outage):
    """Keeps every failure that was noticed: the log tells the first one alone."""

    def __init__(self) -> None:
        super().__init__(first_wait=0.001, longest_wait=0.01)
        self.noted: list[str] = []

    def noticed(self, error: BaseException) -> float:
        self.noted.append(str(error))
        return super().noticed(error)


async def outlives(store: Store, begin: Callable[[], Any], end: Callable[[], Any], *, refused: str) -> str:
    """What the log says of a push that begins while the server refuses, and is done when it no longer does.

    The server goes on refusing until the push has heard `refused`: before that, what changes at the server may have cut
    the connection too.
    """
    outage = store.outage = NotingOutage()
    begin()
    with capture_logs() as logs:
        pushing = asyncio.create_task(outage.outlast(lambda: store.queue.push(a_request(1))))
        await wait_until(lambda: any(refused in error for error in outage.noted), what=f"{refused} is noticed")
        end()
        await pushing
    assert await store.queue.holds(a_request(1).ticket)
    return str([{**line} for line in logs])


async def test_too_few_replicas(quick: tuple[Store, RedisServer]) -> None:
    store, server = quick
    told = await outlives(
        store,
        lambda: server.command("CONFIG", "SET", "min-replicas-to-write", "1"),
        lambda: server.command("CONFIG", "SET", "min-replicas-to-write", "0"),
        refused="NOREPLICAS",
    )
    assert "NOREPLICAS" in told
    assert "min-replicas-to-write" in told


async def test_a_planned_failover_ends_every_blocked_take(quick: tuple[Store, RedisServer]) -> None:
    store, server = quick
    taking = asyncio.create_task(store.queue.take("c1", wait=5))
    await wait_until(lambda: "cmd=blmove" in str(server.command("CLIENT", "LIST")), what="the take is blocked")
    await outlives(
        store,
        lambda: server.command("REPLICAOF", "127.0.0.1", "1"),
        lambda: server.command("REPLICAOF", "NO", "ONE"),
        refused="READONLY",
    )
    with pytest.raises(AWAY):
        await taking


async def test_a_busy_script(quick: tuple[Store, RedisServer]) -> None:
    store, server = quick
    server.command("CONFIG", "SET", "lua-time-limit", "1")

    async def hog() -> None:
        with contextlib.suppress(RedisError):
            async with server.client() as client:
                await client.eval("while true do end", 0)

    hogging = asyncio.create_task(hog())
    await wait_until(lambda: _is_busy(server), what="the script is known to be slow")
    with pytest.raises(StoreRefused, match="BUSY"):
        await check_requirements(store.redis)
    assert "BUSY" in await outlives(store, lambda: None, lambda: server.command("SCRIPT", "KILL"), refused="BUSY")
    await hogging


def _is_busy(server: RedisServer) -> bool:
    try:
        server.command("PING")
    except ResponseError as error:
        return str(error).startswith("BUSY")
    return False


async def test_a_disk_that_cannot_be_written(quick: tuple[Store, RedisServer]) -> None:
    store, server = quick
    (server.folder / "dump.rdb").mkdir()

    server.command("CONFIG", "SET", "save", "900 1")
    server.command("BGSAVE")
    status = "rdb_last_bgsave_status"
    await wait_until(lambda: server.command("INFO", "persistence")[status] == "err", what="a save fails")
    told = await outlives(store, lambda: None, lambda: server.command("CONFIG", "SET", "save", ""), refused="MISCONF")
    assert "MISCONF" in told
    assert "disk" in told


async def test_a_full_disk_under_the_append_only_file(small_disk: Path, private_server: PrivateServer) -> None:
    server = private_server("--appendonly", "yes", "--appendfsync", "everysec", "--dir", str(small_disk))
    async with Store(server.url, times=TIMES) as store:
        junk = fill(small_disk)
        server.command("SET", "agentsmith:probe", "x" * 8192, "PX", "60000")
        status = "aof_last_write_status"
        await wait_until(lambda: server.command("INFO", "persistence")[status] == "err", what="a write fails")
        told = await outlives(store, lambda: None, junk.unlink, refused="MISCONF")
    assert "MISCONF" in told
    assert "make room on the disk" in told


async def test_no_memory_left(quick: tuple[Store, RedisServer]) -> None:
    store, server = quick
    told = await outlives(
        store,
        lambda: server.command("CONFIG", "SET", "maxmemory", "1"),
        lambda: server.command("CONFIG", "SET", "maxmemory", "0"),
        refused="OOM",
    )
    assert "OOM" in told
    assert "maxmemory" in told


async def test_too_many_clients(quick: tuple[Store, RedisServer]) -> None:
    store, server = quick
    with server.admin() as others:
        others.execute_command("CONFIG", "SET", "maxclients", "1")
        # Mostly the connection is closed before its words are read.
        assert await outlives(
            store,
            lambda: others.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
            lambda: others.execute_command("CONFIG", "SET", "maxclients", "1000"),
            refused="",
        )


async def test_a_changed_password_is_told_and_waited_out(private_server: PrivateServer) -> None:
    server = private_server(password="right")
    async with Store(server.url, times=TIMES) as store:
        with server.admin() as admin:

            def change(to: str) -> None:
                admin.execute_command("CONFIG", "SET", "requirepass", to)
                admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

            told = await outlives(store, lambda: change("another"), lambda: change("right"), refused="WRONGPASS")
    assert "WRONGPASS" in told
    assert "redis.url" in told


async def test_a_wrong_password_ends_the_start(private_server: PrivateServer) -> None:
    server = private_server(password="right")
    async with Store(f"unix://{server.socket}?password=wrong", times=TIMES) as store:
        with pytest.raises(StoreUnavailable, match=r"password in redis\.url") as caught:
            await store.check()
    assert not isinstance(caught.value, StoreRefused)
