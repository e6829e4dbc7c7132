"""HTTP load over a few connections that are kept open: requests as bytes, answers read just far enough."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentsmith.bench.ground import BenchTrouble

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Load:
    """What came of it."""

    per_second: float
    took: list[float]
    """Milliseconds of each request."""


async def fire(port: int, requests: Sequence[bytes], *, connections: int) -> Load:
    """Send each request once, to a server on this machine, each connection one after the other."""
    left, took = iter(requests), list[float]()
    started = time.perf_counter()
    await asyncio.gather(*(_connection(port, left, took) for _ in range(min(connections, len(requests)))))
    return Load(len(took) / (time.perf_counter() - started), took)


async def _connection(port: int, left: Iterator[bytes], took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for request in left:
            started = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            took.append((time.perf_counter() - started) * 1000)
            if not head.startswith(b"HTTP/1.1 2"):
                raise BenchTrouble(f"a delivery was refused: {head[:32]!r} {body[:200]!r}")
    finally:
        writer.close()
