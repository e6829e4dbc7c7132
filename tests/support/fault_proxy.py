"""A TCP proxy on loopback that can cut, stall, slow and refuse connections: the network of a test.

What a client has sent is on the wire: it arrives even if the client hangs up meanwhile, and however late. So a stalled
connection does to a write what a real network does, which no error inside the server could.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self, cast

_NOT_AT_ALL: Final = struct.pack("ii", 1, 0)
Upstream = Callable[[Callable[[], asyncio.Protocol]], Coroutine[Any, Any, object]]


def to_tcp(port: int) -> Upstream:
    """An upstream on a TCP port of this machine."""
    return lambda protocol: asyncio.get_running_loop().create_connection(protocol, "127.0.0.1", port)


def to_socket(path: str) -> Upstream:
    """An upstream on a unix socket."""
    return lambda protocol: asyncio.get_running_loop().create_unix_connection(protocol, path)


class FaultProxy:
    """Listens on a port of its own and passes everything on, as well as its state allows."""

    def __init__(self, upstream: Upstream) -> None:
        self.port = 0
        self.seconds = 0.0
        """How long each piece takes on its way."""
        self.stalled = False
        """Whether nothing gets through, while all connections stay open."""
        self.refusing = False
        self._upstream = upstream
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._pairs)

    async def start(self) -> Self:
        """Listen; `port` says where."""
        self._server = await asyncio.get_running_loop().create_server(self._accept, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    def cut(self) -> int:
        """Break every connection off, as a reset does; answers how many there were."""
        pairs = list(self._pairs)
        for pair in pairs:
            pair.abort()
        return len(pairs)

    def refuse(self, refusing: bool) -> None:
        """Break off new connections as soon as they are made, or stop doing so."""
        self.refusing = refusing

    def stall(self) -> None:
        """Hold everything back from now on."""
        self.stalled = True

    def stall_present(self) -> int:
        """Hold back whatever the connections of this moment carry, while new ones work; answers how many there are."""
        for pair in self._pairs:
            pair.stalled = True
        return len(self._pairs)

    def slow(self, seconds: float) -> None:
        """Let every piece take so long."""
        self.seconds = seconds

    def heal(self) -> None:
        """Be an ordinary network again: what was held back arrives now, in order."""
        self.stalled, self.refusing, self.seconds = False, False, 0.0
        for pair in list(self._pairs):
            pair.stalled = False
            pair.pump()

    async def close(self) -> None:
        """Stop listening and break everything off."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self) -> asyncio.Protocol:
        pair = _Pair(self)
        return pair.client

    def _join(self, pair: _Pair) -> None:
        self._pairs.add(pair)
        task = asyncio.create_task(pair.connect(self._upstream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _leave(self, pair: _Pair) -> None:
        self._pairs.discard(pair)


class _Pair:
    """One client and its connection to the upstream."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.stalled = False
        self.client, self.server = _End(self), _End(self)
        self.up, self.down = _Way(self, self.server), _Way(self, self.client)

    @property
    def stuck(self) -> bool:
        """Whether nothing gets through."""
        return self.stalled or self.proxy.stalled

    async def connect(self, upstream: Upstream) -> None:
        try:
            await upstream(lambda: self.server)
        except OSError:
            self.abort()

    def made(self, end: _End) -> None:
        if end is self.client:
            if self.proxy.refusing:
                self.abort()
            else:
                self.proxy._join(self)
        else:
            self.up.pump()

    def received(self, end: _End, data: bytes) -> None:
        (self.up if end is self.client else self.down).feed(data)

    def lost(self, end: _End) -> None:
        if end is self.client:
            self.up.finish()  # what it has sent is on the wire
            if self.server.transport is not None and self.server.transport.is_closing():
                self.proxy._leave(self)
        else:
            self.down.finish()
            self.proxy._leave(self)

    def pump(self) -> None:
        self.up.pump()
        self.down.pump()

    def abort(self) -> None:
        for end in (self.client, self.server):
            if end.transport is not None:
                # Without lingering, closing is a reset.
                end.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOT_AT_ALL)
                end.transport.abort()
        self.proxy._leave(self)


class _End(asyncio.Protocol):
    """One of the two sockets of a pair."""

    def __init__(self, pair: _Pair) -> None:
        self._pair = pair
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._pair.made(self)

    def data_received(self, data: bytes) -> None:
        self._pair.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._pair.lost(self)


class _Way:
    """One direction of a pair: what is under way, and where it goes."""

    def __init__(self, pair: _Pair, to: _End) -> None:
        self._pair, self._to = pair, to
        self._held: deque[tuple[float, bytes]] = deque()
        self._finished = False

    def feed(self, data: bytes) -> None:
        seconds, stuck = self._pair.proxy.seconds, self._pair.stuck
        if not (seconds or stuck or self._held) and self._to.transport is not None:
            self._to.transport.write(data)
            return
        loop = asyncio.get_running_loop()
        self._held.append((loop.time() + seconds, data))
        if not stuck:
            loop.call_later(seconds, self.pump)

    def finish(self) -> None:
        """Nothing more comes: close the other side once all has arrived."""
        self._finished = True
        self.pump()

    def pump(self) -> None:
        if self._pair.stuck or self._to.transport is None:
            return
        now = asyncio.get_running_loop().time()
        # A healed network owes nobody the delay that it had before.
        while self._held and (self._held[0][0] <= now or not self._pair.proxy.seconds):
            self._to.transport.write(self._held.popleft()[1])
        if self._held:
            asyncio.get_running_loop().call_at(self._held[0][0], self.pump)
        elif self._finished:
            self._to.transport.close()
