"""Watches Redis from inside: every fence that is raised, in the order in which Redis did it (MONITOR).

It reads two families of keys and knows none of the scripts. Nothing passes it unseen: whoever starts Redis lets nobody
else in before the witness watches.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.chaos.history import History

_SET: Final = re.compile(
    rb'\+(\d+)\.(\d{6}) \[\d+ lua\] "SET" "agentsmith:(fence|heartbeat):((?:[^"\\]|\\.)+)" "((?:[^"\\]|\\.)*)"'
)
_FENCE: Final = re.compile(rb'\\"fence\\":\\"(\d+)\\"')


class Witness:
    """Notes fences and leases."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._watching: dict[Path, asyncio.Task[None]] = {}

    async def watch(self, socket: Path) -> None:
        """Return once everything that the Redis there does is seen; scripts run on primaries alone."""
        await self._leave(socket)
        reader, writer = await asyncio.open_unix_connection(str(socket), limit=1 << 24)
        writer.write(b"MONITOR\r\n")
        assert await reader.readline() == b"+OK\r\n"
        self._watching[socket] = asyncio.create_task(self._read(reader, writer))

    async def leave(self) -> None:
        """Watch no more."""
        for socket in list(self._watching):
            await self._leave(socket)

    async def _leave(self, socket: Path) -> None:
        watching = self._watching.pop(socket, None)
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            rest = b""
            while data := await reader.read(1 << 20):
                # The server's clock is the machine's: what it is ahead of the one that history goes by.
                ahead = time.time_ns() - time.monotonic_ns()
                *lines, rest = (rest + data).split(b"\r\n")
                for line in lines:
                    if b'lua] "SET" "agentsmith:' in line and (found := _SET.match(line)):
                        self._note(found, ahead)
        except ConnectionError:
            pass  # it was killed; whoever starts it again calls us
        finally:
            writer.close()

    def _note(self, found: re.Match[bytes], ahead: int) -> None:
        at = int(found[1]) * 1_000_000_000 + int(found[2]) * 1_000 - ahead
        ticket, value = found[4].decode(), found[5]
        if found[3] == b"fence":
            self._history.note("fence", at=at, id=ticket, fence=int(value))
        elif fence := _FENCE.search(value):
            self._history.note("lease", at=at, id=ticket, fence=int(fence[1]))
