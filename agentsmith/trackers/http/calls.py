"""One call as the HTTP layer sees it, and how patient the layer is with it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from agentsmith.boottime import boottime


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient the client is. Clock, sleep and chance are here so that tests need not wait."""

    attempt: float = 30.0
    """The longest that one request may take."""
    call: float = 30.0
    """The longest that a call without a deadline may take, waits and retries included."""
    tries: int = 4
    first_delay: float = 0.5
    longest_delay: float = 10.0
    largest_body: int = 20 * 1024 * 1024
    now: Callable[[], float] = boottime
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    def delay(self, failures: int) -> float:
        """How long to wait after so many failures: doubling, with jitter, lest replicas march in step."""
        full = min(self.first_delay * 2.0 ** (failures - 1), self.longest_delay)
        return full * (0.5 + self.chance() / 2)


@dataclass(frozen=True, slots=True)
class Call:
    """A request and everything that decides how it may be sent."""

    method: str
    url: httpx.URL
    finish: float
    """On the boot-time clock: nothing begins after it and nothing outlives it."""
    summary: str
    """How messages name the request; holds no query and no secret."""
    content: bytes | None = None
    repeatable: bool = True
    """Whether sending it twice does no harm."""
    bucket: str = "core"
    etag: str | None = None
    content_type: str = "application/json"

    @property
    def write(self) -> bool:
        """Whether it changes anything over there."""
        return self.method != "GET"


class Broken(Exception):
    """No whole answer came back. `sent`: the platform may have seen the request."""

    def __init__(self, text: str, *, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent
