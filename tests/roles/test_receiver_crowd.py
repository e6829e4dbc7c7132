"""The receiver among clients that are slow, silent, huge and many: it stays small, and a platform is still answered."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest

from agentsmith.store import Store
from agentsmith.web.app import make_app
from agentsmith.web.connection import Awaited, IncomingConnection
from agentsmith.web.receiver import Endpoint, Receiver
from agentsmith.web.room import Crowded, Reading, Room
from agentsmith.web.server import WebServer, listen
from tests.support.senders import SECRET, SENDERS
from tests.support.wait import wait_until

HUGE: Final = 16 * 1024 * 1024
WITHIN: Final = 30.0
"""A generous second."""


class Served:
    """A server with an endpoint for every platform, and what is known about it from inside."""

    def __init__(self, store: Store) -> None:
        endpoints = {name: Endpoint(sender.tracker(), sender.reader()) for name, sender in SENDERS.items()}
        self.receiver = Receiver(store, endpoints)
        self.web = WebServer(make_app(self.receiver, ready=_ready), listen("127.0.0.1", 0))

    @property
    def connections(self) -> set[Any]:
        """Those that are open."""
        return self.web._server.server_state.connections

    async def client(self, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client that has sent so much, and waits."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.web.port)
        writer.write(sent)
        return reader, writer

    async def deliver(self, number: int = 1) -> None:
        """A platform's delivery is taken."""
        headers, body = SENDERS["github"].delivery(SENDERS["github"].labelled(), f"d-{number}")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.web.port}", timeout=WITHIN) as platform:
            answer = await platform.post("/webhooks/github", content=body, headers=headers)
        assert answer.status_code == 202, answer.text


async def _ready() -> None:
    return None


@pytest.fixture
async def served(store: Store) -> AsyncIterator[Served]:
    made = Served(store)
    task = asyncio.create_task(made.web.serve())
    try:
        await wait_until(lambda: made.web._server.started, what="the server to listen")
        yield made
    finally:
        made.web.stop()
        await task


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines that a test can wait for."""
    monkeypatch.setattr(IncomingConnection, "within", dict.fromkeys(Awaited, 0.3) | {Awaited.ANSWER: 60.0})


def head(path: str, length: int, **headers: str) -> bytes:
    lines = {"host": "x", "content-type": "application/json", "content-length": str(length)}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    return "\r\n".join([f"POST {path} HTTP/1.1", *(f"{n}: {v}" for n, v in lines.items()), "", ""]).encode()


GUESSED: Final = head("/webhooks/github", HUGE, x_hub_signature_256="sha256=" + "0" * 64)


async def hung_up(reader: asyncio.StreamReader) -> bytes:
    """What came before the other end hung up."""
    try:
        async with asyncio.timeout(WITHIN):
            return await reader.read()
    except ConnectionError:
        return b""


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /webhooks/github HT",
        b"POST /webhooks/github HTTP/1.1\r\nhost: x\r\n",
        head("/webhooks/github", 50, x_hub_signature_256="sha256=" + "0" * 64) + b"{",
        head("/healthz", 50).replace(b"POST", b"GET"),
    ],
    ids=["nothing", "half a line", "half a head", "half a body", "no body, though it is not wanted"],
)
async def test_who_does_not_go_on_is_hung_up_on(served: Served, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [await served.client(sent) for _ in range(20)]
    for reader, writer in clients:
        await hung_up(reader)
        writer.close()
    await wait_until(lambda: not served.connections, what="all connections to be gone")
    monkeypatch.undo()  # a busy machine may be as slow
    await served.deliver()


@pytest.mark.usefixtures("hasty")
async def test_who_sends_a_byte_now_and_then_is_hung_up_on_too(served: Served) -> None:
    reader, writer = await served.client(b"POST /webhooks/github HTTP/1.1\r\nx-slow: ")
    ended = asyncio.create_task(hung_up(reader))
    while not ended.done():
        writer.write(b"x")
        await asyncio.wait([ended], timeout=0.02)
    writer.close()


@pytest.mark.usefixtures("hasty")
async def test_who_does_not_fetch_the_answers_is_hung_up_on(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IncomingConnection.within, Awaited.ANSWER, 0.3)
    stingy = socket.socket()
    stingy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    stingy.connect(("127.0.0.1", served.web.port))
    stingy.setblocking(False)
    asking = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * 1000
    loop = asyncio.get_running_loop()

    async def ask_for_ever() -> None:
        while True:
            await loop.sock_sendall(stingy, asking)

    with pytest.raises(ConnectionError):
        async with asyncio.timeout(WITHIN):
            await ask_for_ever()
    stingy.close()
    await wait_until(lambda: not served.connections, what="the connection to be gone")


async def test_the_many_never_keep_a_platform_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """With deadlines that do not help: silent ones take every place, and whoever comes next gets one of theirs."""
    monkeypatch.setattr(IncomingConnection, "most", 20)
    halves = [b"", b"POST /webhooks/github HTTP/1.1\r\n", GUESSED]
    clients = [await served.client(halves[number % 3]) for number in range(70)]
    for number in range(5):
        await served.deliver(number)
        assert len(served.connections) <= 20
    for _, writer in clients:
        writer.close()


@asynccontextmanager
async def huge_ones(served: Served, count: int) -> AsyncIterator[None]:
    """Clients that send what we take of GitHub at most, as fast as it goes, with a signature that they made up."""

    async def send() -> None:
        while True:
            _, writer = await served.client(GUESSED)
            try:
                for _ in range(HUGE // 65536):
                    writer.write(b" " * 65536)
                    await writer.drain()
            except ConnectionError:
                pass
            finally:
                writer.transport.abort()

    tasks = [asyncio.create_task(send()) for _ in range(count)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_huge_bodies_take_no_more_room_than_one(served: Served) -> None:
    most: list[int] = []
    room = served.receiver.room
    take = Reading.take

    def counted(reading: Reading, chunk: bytes) -> None:
        take(reading, chunk)
        most.append(room.held)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Reading, "take", counted)
        async with huge_ones(served, 10):
            await wait_until(lambda: room.held > room.most // 2, what="the room to be full", within=WITHIN)
            for number in range(5):
                await served.deliver(number)
    assert max(most) <= room.most == HUGE
    await wait_until(lambda: room.held == 0, what="the room to be empty", within=WITHIN)


@pytest.mark.parametrize(
    "sent",
    [
        head("/webhooks/gitlab", HUGE, x_gitlab_token="guessed"),
        head("/webhooks/gitlab", HUGE),
        head("/webhooks/gitlab-signed", HUGE, webhook_signature="v1,x", webhook_timestamp="1"),
        head("/webhooks/azure-devops", 50_000, authorization="Basic Z3Vlc3NlZDpndWVzc2Vk"),
        head("/webhooks/azure-devops", 50_000, x_agentsmith_secret="guessed"),
        head("/webhooks/jira", 50_000),
        head(f"/webhooks/jira/{SECRET.replace(' ', '%20')}", 50_000),
        head("/webhooks/github", HUGE),
        head("/webhooks/github", HUGE, x_hub_signature_256="sha256=guessed"),
    ],
)
async def test_what_the_headers_do_not_prove_is_refused_before_the_body_is_read(served: Served, sent: bytes) -> None:
    reader, writer = await served.client(sent)
    async with asyncio.timeout(WITHIN):
        assert b" 401 " in await reader.readline()
    writer.close()


async def test_the_answer_to_what_was_refused_arrives_although_the_body_follows(served: Served) -> None:
    """To hang up at once would reset the connection, and a platform's log would not say what is wrong."""
    reader, writer = await served.client(head("/webhooks/gitlab", 100_000, x_gitlab_token="guessed"))
    async with asyncio.timeout(WITHIN):
        assert b" 401 " in await reader.readline()
    writer.write(b" " * 100_000)
    await writer.drain()
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert (await hung_up(reader)).endswith(b"ok\n")
    writer.close()


async def test_answers_are_sent_without_delay(served: Served) -> None:
    _, writer = await served.client()
    await wait_until(lambda: bool(served.connections), what="the connection to be accepted")
    [connection] = served.connections
    accepted = connection.transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    writer.close()


async def test_whoever_has_sent_for_longest_gives_way() -> None:
    room = Room(100)
    async with room.reading(WITHIN) as first, room.reading(WITHIN) as second:
        first.take(b"x" * 60)
        second.take(b"x" * 40)
        assert (room.held, first.cut_off) == (100, False)
        second.take(b"x")
        assert (room.held, first.cut_off, second.cut_off) == (41, True, False)
        with pytest.raises(Crowded):
            first.take(b"x")
        with pytest.raises(Crowded):
            second.take(b"x" * 60)  # alone, and too much
        with pytest.raises(Crowded):
            first.whole()
    assert room.held == 0


async def test_who_waits_for_more_is_woken_to_give_way() -> None:
    room = Room(100)

    async def waits() -> None:
        async with room.reading(WITHIN) as reading:
            reading.take(b"x" * 90)
            await asyncio.Event().wait()

    waiting = asyncio.create_task(waits())
    await wait_until(lambda: room.held == 90, what="it to read")
    async with room.reading(WITHIN) as reading:
        reading.take(b"x" * 20)
        assert room.held == 20
        assert reading.whole() == b"x" * 20
    with pytest.raises(Crowded):
        await waiting
