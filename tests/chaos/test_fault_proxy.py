"""The network of the tests: passes everything on, until it is told not to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import cast

import pytest

from tests.support.fault_proxy import FaultProxy, to_tcp
from tests.support.wait import wait_until


class Echo:
    """A server that answers what it gets, and remembers it."""

    def __init__(self) -> None:
        self.got = b""

    def talk(self) -> asyncio.Protocol:
        echo = self

        class CommentCommands(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                self.transport = cast(asyncio.Transport, transport)

            def data_received(self, data: bytes) -> None:
                echo.got += data
                self.transport.write(data)

        return CommentCommands()


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, FaultProxy]]:
    echo = Echo()
    server = await asyncio.get_running_loop().create_server(echo.talk, "127.0.0.1", 0)
    proxy = await FaultProxy(to_tcp(server.sockets[0].getsockname()[1])).start()
    yield echo, proxy
    await proxy.close()
    server.close()


@asynccontextmanager
async def connected(proxy: FaultProxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def say(proxy: FaultProxy, text: bytes = b"hello") -> bytes:
    async with connected(proxy) as (reader, writer):
        writer.write(text)
        return await reader.readexactly(len(text))


async def test_it_passes_everything_on_in_both_directions(echo: tuple[Echo, FaultProxy]) -> None:
    _, proxy = echo
    text = bytes(range(256)) * 4000
    assert await asyncio.gather(*(say(proxy, text) for _ in range(3))) == [text] * 3
    await wait_until(lambda: proxy.connections == 0, what="closed connections to be forgotten")


async def test_cut_breaks_off_what_is_there_and_nothing_else(echo: tuple[Echo, FaultProxy]) -> None:
    _, proxy = echo
    async with connected(proxy) as (reader, writer):
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        assert proxy.cut() == 1
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
    assert await say(proxy) == b"hello"


async def test_who_is_refused_gets_no_connection(echo: tuple[Echo, FaultProxy]) -> None:
    _, proxy = echo
    proxy.refuse(True)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await say(proxy)
    proxy.refuse(False)
    assert await say(proxy) == b"hello"


async def test_an_upstream_that_is_away_is_an_ended_connection(echo: tuple[Echo, FaultProxy]) -> None:
    _, living = echo
    proxy = await FaultProxy(to_tcp(living.port)).start()
    await living.close()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await say(proxy)
    await proxy.close()


async def test_what_stalls_arrives_later_also_after_its_sender_has_left(echo: tuple[Echo, FaultProxy]) -> None:
    server, proxy = echo
    async with connected(proxy) as (reader, writer):
        writer.write(b"first ")
        assert await reader.readexactly(6) == b"first "
        assert proxy.stall_present() == 1
        writer.write(b"late")
        await writer.drain()
    assert await say(proxy, b"other ") == b"other ", "a new connection works"
    assert server.got == b"first other "
    proxy.heal()
    await wait_until(lambda: server.got == b"first other late", what="what was held back to arrive")
    await wait_until(lambda: proxy.connections == 0, what="the connection to be forgotten")


async def test_a_stalled_network_lets_nothing_through_and_keeps_the_order(echo: tuple[Echo, FaultProxy]) -> None:
    server, proxy = echo
    proxy.stall()
    async with connected(proxy) as (reader, writer):
        for piece in (b"one ", b"two ", b"three"):
            writer.write(piece)
            await writer.drain()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1)
        assert server.got == b""
        proxy.heal()
        assert await reader.readexactly(13) == b"one two three"


async def test_a_slow_network_takes_its_time_in_both_directions(echo: tuple[Echo, FaultProxy]) -> None:
    _, proxy = echo
    proxy.slow(0.05)
    began = asyncio.get_running_loop().time()
    assert await say(proxy) == b"hello"
    assert asyncio.get_running_loop().time() - began >= 0.1
    proxy.slow(600)
    waiting = asyncio.create_task(say(proxy))
    await wait_until(lambda: proxy.connections > 0, what="it to connect")
    proxy.heal()
    assert await waiting == b"hello", "a healed network owes nobody the delay that it had"
