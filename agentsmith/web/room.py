"""Room for bodies that are being read: all together never more than fits.

A body must be read before its signature can be checked, so anybody can make us read. When there is no room left,
whoever has been sending for longest is cut off, not whoever comes next: a delivery of a platform comes in one go, and
what takes long is slow, or huge, or meant to be in the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Crowded(Exception):
    """Somebody else needed the room."""


class Reading:
    """One body, as far as it has come."""

    def __init__(self, room: Room, deadline: asyncio.Timeout) -> None:
        self._room, self._deadline = room, deadline
        self._chunks: list[bytes] = []
        self.size = 0
        self.cut_off = False

    def take(self, chunk: bytes) -> None:
        """Keep the next piece; Crowded where this is the one that others need the room of."""
        if not self.cut_off:
            self._room.make(len(chunk))
        if self.cut_off:
            raise Crowded
        self._chunks.append(chunk)
        self.size += len(chunk)
        self._room.held += len(chunk)

    def whole(self) -> bytes:
        """All of it."""
        if self.cut_off:
            raise Crowded
        return b"".join(self._chunks)

    def give_way(self) -> None:
        """Let go of everything, and wake whoever waits for more."""
        self.cut_off = True
        self.forget()
        if not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time())

    def forget(self) -> None:
        """Let go of everything."""
        self._room.held -= self.size
        self.size = 0
        self._chunks.clear()


class Room:
    """All bodies that are being read."""

    def __init__(self, most: int) -> None:
        """`most` is how many bytes there may be at a time."""
        self.most = most
        self.held = 0
        self._readings: dict[Reading, None] = {}

    @asynccontextmanager
    async def reading(self, within: float) -> AsyncIterator[Reading]:
        """Read a body; TimeoutError when that takes longer than `within` seconds, Crowded when others need the room."""
        reading: Reading | None = None
        try:
            async with asyncio.timeout(within) as deadline:
                reading = Reading(self, deadline)
                self._readings[reading] = None
                try:
                    yield reading
                finally:
                    self._readings.pop(reading, None)
                    reading.forget()
        except TimeoutError:
            if reading is not None and reading.cut_off:
                raise Crowded from None
            raise

    def make(self, size: int) -> None:
        """Make room for so many bytes: the oldest readings give way."""
        while self.held + size > self.most and self._readings:
            oldest = next(iter(self._readings))
            del self._readings[oldest]
            oldest.give_way()
