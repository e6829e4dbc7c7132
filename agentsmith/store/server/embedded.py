"""The embedded Redis server: one real server per data directory, started, watched and restarted by us.

The first process on a data directory becomes the server's *keeper*; others *join* and use the same server.
The server dies with its keeper, even by kill -9, and whichever joined process is first to get the keeper's
lock starts it again on the same data. A write that was acknowledged survives all of that.

Where things lie and how they are locked is `home`'s; which program is run is `binary`'s; a single run of it is
`process`'s.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import structlog

from agentsmith.domain.errors import StoreRefused
from agentsmith.store.server.binary import ServerUnavailable, find_binary
from agentsmith.store.server.home import ServerHome
from agentsmith.store.server.process import ParentDeath, ServerProcess, ping

__all__ = ["EmbeddedServer", "ParentDeath", "ServerUnavailable", "find_binary", "joined_if_up"]

_POLL = 0.005
_LOOK_AROUND = 1.0  # for what announces itself by nothing: an orphaned server, a socket that was cleaned away
_JOIN_WITHIN = 20.0  # longer than a keeper needs to clear away an old server and to start a new one
_HIDDEN_FOR = 2.0  # a keeper's socket whose folder cannot be seen from here does not appear by waiting
_STEADY_AFTER = 1.0  # a server that dies younger counts as one that did not start
_FAILURES_TO_GIVE_UP = 6
_FIRST_PAUSE = 0.05  # after one failure; doubled with every further one

log = structlog.get_logger()


class EmbeddedServer:
    """One real Redis-compatible server per data directory, under our supervision."""

    def __init__(self, data_dir: Path, *, binary: Path | None = None, parent_death: ParentDeath | None = None) -> None:
        self._home = ServerHome(data_dir)
        self._named_binary = binary
        self._binary: Path | None = None
        self._parent_death = parent_death
        self._socket: Path | None = None  # set from start to stop
        self._keeper_lock: int | None = None
        self._process: ServerProcess | None = None  # the keeper's
        self._changing = asyncio.Lock()  # start, restart and stop, one at a time

    async def __aenter__(self) -> Self:
        """Start, or join."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, or let go."""
        await self.stop()

    @property
    def url(self) -> str:
        """Where to connect, the same from start to stop whoever keeps the server meanwhile."""
        if self._socket is None:
            raise RuntimeError("the embedded server has an address only from start to stop")
        return f"unix://{quote(str(self._socket))}"

    async def start(self) -> None:
        """Return when the data directory's server takes commands, joined or started by us as its keeper.

        Raises StoreRefused when there is no room for it, ServerUnavailable for everything else.
        """
        async with self._changing:
            try:
                await self._start()
            except ServerUnavailable:
                if lack := await asyncio.to_thread(self._home.lack_of_room):
                    raise lack from None
                raise

    async def _start(self) -> None:
        if self._started():
            return
        self._binary = await asyncio.to_thread(find_binary, self._named_binary)
        self._home.prepare()
        since = time.monotonic()
        while not await self._became_keeper():
            socket = self._home.published_socket()
            answer = await ping(socket) if socket else "silent"
            if answer == "ready":
                self._socket = socket
                log.info("embedded redis joined", socket=str(socket))
                return
            if answer == "loading":
                since = time.monotonic()
            elif time.monotonic() - since > _patience(socket) and (keeper := self._home.keeper()):
                raise self._home.out_of_reach(keeper)
            await asyncio.sleep(_POLL)

    async def keep(self) -> None:
        """Keep the started server alive, or stand by to take over; runs until cancelled or stopped.

        Raises ServerUnavailable when the server fails again and again at, or right after, its start.
        """
        failures = 0
        while self._started():
            if self._keeper_lock is None:
                await self._stand_by()
            elif self._process is not None:
                steady = await self._outlived_its_start(self._process)
                failures = 0 if await self._waited_for_room() or steady else failures + 1
                if failures >= _FAILURES_TO_GIVE_UP:
                    raise ServerUnavailable(
                        f"The embedded Redis server died {failures} times in a row right after its start. "
                        f"The whole story is in {self._home.log}."
                    )
            if failures:
                await asyncio.sleep(_FIRST_PAUSE * 2 ** (failures - 1))
            try:
                await self._restart()
            except ServerUnavailable as error:
                if await self._waited_for_room():
                    failures = 0
                    continue
                failures += 1
                if failures >= _FAILURES_TO_GIVE_UP:
                    raise
                log.warning("embedded redis does not start", failures=failures, error=str(error))

    async def stop(self) -> None:
        """End the server if we are its keeper, else just let go; a joined process that keeps takes over."""
        async with self._changing:
            process, self._process = self._process, None
            self._socket = None
            try:
                if process is not None:
                    await process.end()
            finally:
                self._let_go()

    def _started(self) -> bool:
        return self._socket is not None

    async def _became_keeper(self) -> bool:
        self._keeper_lock = self._home.lock_as_keeper()
        if self._keeper_lock is None:
            return False
        try:
            await self._launch()
        except BaseException:
            self._let_go()
            raise
        return True

    def _let_go(self) -> None:
        if self._keeper_lock is not None:
            self._home.remove_socket_folder()
            os.close(self._keeper_lock)
            self._keeper_lock = None

    async def _stand_by(self) -> None:
        """Return as keeper, or when stopped. A connection that ends is the sign to look for the lock."""
        while (socket := self._socket) is not None:
            self._keeper_lock = self._home.lock_as_keeper()
            if self._keeper_lock is not None:
                log.warning("embedded redis lost its keeper, taking over", socket=str(socket))
                return
            try:
                reader, writer = await asyncio.open_unix_connection(socket)
            except OSError:
                now_at = self._home.published_socket()
                if now_at is not None and now_at != socket and await ping(now_at) == "ready":
                    raise ServerUnavailable(
                        f"The Redis server of {self._home.data_dir} was at {socket} and is now at {now_at}, where a "
                        "newer process put it. Start agentsmith anew."
                    ) from None
                await asyncio.sleep(_POLL)
                continue
            try:
                with suppress(OSError):
                    async with asyncio.timeout(_LOOK_AROUND):
                        await reader.read(1)
            finally:
                writer.close()

    async def _outlived_its_start(self, process: ServerProcess) -> bool:
        """Return after the server's end: whether it had lived long enough to call its start a success."""
        while not await process.ended(within=_LOOK_AROUND):
            if self._socket is not None and not self._socket.exists():
                # Temp directories get cleaned; without its socket the server takes no new connection.
                log.warning("embedded redis lost its socket, restarting", socket=str(self._socket))
                await process.end()
                return True
        if not self._started():
            return True  # it was stopped
        log.warning("embedded redis died, restarting", pid=process.pid, exit=process.exit_code)
        return process.age > _STEADY_AFTER

    async def _waited_for_room(self) -> bool:
        """Whether the disk was full, which no start mends. Returns when there is room again."""
        waited = False
        while self._started() and (lack := await asyncio.to_thread(self._home.lack_of_room)):
            if not waited:
                log.error("embedded redis has no room, waiting for some", why=lack.reply, remedy=lack.remedy)
            waited = True
            await asyncio.sleep(_LOOK_AROUND)
        if waited:
            log.info("embedded redis has room again")
        return waited

    async def _restart(self) -> None:
        async with self._changing:
            if self._started() and self._keeper_lock is not None:
                self._process = None
                await self._launch()

    async def _launch(self) -> None:
        began = time.monotonic()
        try:
            socket = self._home.publish_socket(self._socket)
            if self._socket not in (None, socket):
                raise ServerUnavailable(
                    f"The directory of the server's socket {self._socket} is gone and cannot be made again. "
                    "Start agentsmith anew."
                )
            assert self._binary is not None  # noqa: S101 - start found it
            self._process = await ServerProcess.launch(
                self._home, binary=self._binary, socket=socket, parent_death=self._parent_death
            )
        except OSError as error:
            raise ServerUnavailable(
                f"The embedded Redis server cannot be started in {self._home.folder}: {error}. "
                "See that there is room and that this user may write there."
            ) from error
        self._socket = socket
        milliseconds = round((time.monotonic() - began) * 1000)
        log.info("embedded redis started", pid=self._process.pid, socket=str(socket), ms=milliseconds)


def _patience(socket: Path | None) -> float:
    """For how long a keeper may be about to start its server."""
    hidden = socket is not None and not socket.parent.exists()
    return _HIDDEN_FOR if hidden else _JOIN_WITHIN


async def joined_if_up(home: ServerHome, *, patience: float | None = None) -> Path | None:
    """The socket of the server that another process keeps, or None when nobody keeps one. Starts nothing.

    Raises StoreRefused when the server has no room, ServerUnavailable when it cannot be reached.
    """
    since = time.monotonic()
    while (keeper := await asyncio.to_thread(home.keeper)) is not None:
        socket = home.published_socket()
        answer = await ping(socket) if socket else "silent"
        if answer == "ready":
            return socket
        if lack := await asyncio.to_thread(home.lack_of_room):
            raise lack
        allowed = _patience(socket) if patience is None else patience
        if time.monotonic() - since > allowed:
            if answer == "loading":
                raise StoreRefused(f"our own Redis is still reading its data in {home.folder}", remedy="wait for it")
            raise home.out_of_reach(keeper)
        await asyncio.sleep(_POLL)
    return None
