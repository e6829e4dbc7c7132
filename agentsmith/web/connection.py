"""One connection of a client: it is never without a deadline, and there are never too many of them.

uvicorn waits for ever for the rest of a request's head, and refuses everybody once there are too many connections. Here
a request must come within its time, an answer must be taken within its time, and where there are too many connections
the one goes that we have been waiting for longest: whoever has something to say says it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from enum import Enum
from typing import ClassVar, Final

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

log = structlog.get_logger()

_READ_AT_ONCE: Final = 32 * 1024
"""Bytes: what comes in at once on every connection is in memory before anybody can say no."""


class Awaited(Enum):
    """What a connection is waiting for."""

    HEAD = "the head of a request"
    BODY = "the body of a request"
    REST = "the rest of a body that nobody wants"
    """It was answered already; to hang up at once would lose the answer on its way."""
    ANSWER = "the answer to be made and taken"


class IncomingConnection(H11Protocol):
    """See above. Seconds per stage; bodies of webhooks have a shorter deadline, which is answered."""

    within: ClassVar[dict[Awaited, float]] = {
        Awaited.HEAD: 10.0,
        Awaited.BODY: 20.0,
        Awaited.REST: 2.0,
        Awaited.ANSWER: 60.0,
    }
    most: ClassVar[int] = min(200, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
    """Connections at a time; files that the rest of the process needs are left to it."""
    _stage: Awaited | None = None
    _deadline: asyncio.TimerHandle | None = None
    _since: float = 0.0
    """When we began to wait for the request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """See asyncio.Protocol."""
        with contextlib.suppress(AttributeError):  # a loop of another make reads as it likes
            transport.max_size = _READ_AT_ONCE  # type: ignore[attr-defined]
        super().connection_made(transport)
        self._set_deadline()
        if len(self.connections) > self.most:
            waiting = [
                c for c in self.connections if isinstance(c, IncomingConnection) and c._stage is not Awaited.ANSWER
            ]
            min(waiting, key=lambda connection: connection._since).cut_off("there are too many connections")

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        super().data_received(data)
        self._set_deadline()

    def on_response_complete(self) -> None:
        """See H11Protocol."""
        super().on_response_complete()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def cut_off(self, why: str) -> None:
        """End it without a word."""
        log.info("a connection was cut off", why=why)
        # Of all the connections at once, not of those that are left: what is being closed may linger.
        self.connections.discard(self)
        self.transport.abort()

    def _set_deadline(self) -> None:
        """Set the deadline of what it is waiting for now."""
        stage = self._waiting_for()
        if stage is self._stage:
            return
        self._stage = stage
        if stage is Awaited.HEAD:
            self._since = self.loop.time()
        if self._deadline is not None:
            self._deadline.cancel()
        why = f"it took too long for {stage.value}"
        self._deadline = self.loop.call_later(self.within[stage], self.cut_off, why)

    def _waiting_for(self) -> Awaited:
        if self.conn.their_state is h11.IDLE:
            return Awaited.HEAD
        if self.conn.their_state is not h11.SEND_BODY:
            return Awaited.ANSWER
        return Awaited.REST if self.conn.our_state is h11.DONE else Awaited.BODY
