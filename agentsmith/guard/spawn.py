"""Posting a guard: the consumer's end of `spawner.py`, and of the pipes to each guard."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from agentsmith import privacy
from agentsmith.guard import program as guard
from agentsmith.guard import spawner as program

_START_LIMIT: Final = 30.0
"""Seconds; a loaded machine is slow, but a guard that takes longer is broken."""


_CLOSE_LIMIT: Final = 1.0


class NotPosted(Exception):
    """No guard could be started."""


class Ear(Protocol):
    """Who is told what becomes of a guard."""

    def heard(self, data: bytes) -> None:
        """The guard said something."""

    def fell_silent(self) -> None:
        """Nobody is left who could say anything: keeper and guard proper are both dead."""

    def keeper_ended(self) -> None:
        """The keeper is dead; its exit code is known, unless the barracks are gone too."""


class Posted:
    """A guard that was started: the way to it. `close` must follow."""

    def __init__(self, ear: Ear) -> None:
        self._ear = ear
        self._loop = asyncio.get_running_loop()
        self._known: asyncio.Future[int] = self._loop.create_future()
        self._pipes: list[asyncio.BaseTransport] = []
        self._orders: asyncio.WriteTransport | None = None
        self._unwatched = self._silent = False
        self.returncode: int | None = None
        """How the keeper ended: its exit code, or minus the signal."""

    @classmethod
    async def post(cls, ear: Ear, cgroup: Path | None) -> Posted:
        """Starts a guard, which puts its commands into the cgroup, if there is one."""
        try:
            try:
                return await cls._post(ear, cgroup)
            except ConnectionError:  # the barracks were killed in the same moment, so this guard never came to be
                _barracks.close()
                return await cls._post(ear, cgroup)
        except OSError as error:  # a TimeoutError, which says nothing by itself, is one too
            raise NotPosted(f"the guard did not start: {str(error) or 'it takes too long'}") from error

    @classmethod
    async def _post(cls, ear: Ear, cgroup: Path | None) -> Posted:
        posted = cls(ear)
        try:
            await posted._start(cgroup)
            async with asyncio.timeout(_START_LIMIT):
                await asyncio.shield(posted._known)
        except BaseException:
            posted.close()
            raise
        return posted

    @property
    def pid(self) -> int:
        """The keeper's, which is the number of the guard's session too."""
        return self._known.result()

    def order(self, line: bytes) -> None:
        """Tells the guard; never blocks."""
        if self._orders is not None:
            self._orders.write(line)

    def close(self) -> None:
        """Lets go of it: a guard that is still there takes its consumer for dead."""
        for pipe in self._pipes:
            pipe.close()
        self._known.cancel()

    async def _start(self, cgroup: Path | None) -> None:
        with contextlib.ExitStack() as given, contextlib.ExitStack() as kept:
            ours, wire = socket.socketpair()
            kept.callback(ours.close)
            given.callback(wire.close)
            stdin, orders = os.pipe()
            given.callback(os.close, stdin)
            giving = kept.enter_context(os.fdopen(orders, "wb", buffering=0))
            events, stdout = os.pipe()
            given.callback(os.close, stdout)
            hearing = kept.enter_context(os.fdopen(events, "rb", buffering=0))
            _barracks.send_out(cgroup, (stdin, stdout, wire.fileno()))
            kept.pop_all()  # where anything fails, nothing stays open: files may be what we lack
        for connecting in (
            self._loop.connect_accepted_socket(lambda: _Line(self._told, self._lost_sight), ours),
            self._loop.connect_read_pipe(lambda: _Line(self._ear.heard, self._fell_silent), hearing),
        ):
            self._pipes.append((await connecting)[0])
        self._orders, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, giving)
        self._pipes.append(self._orders)

    @property
    def _is_posted(self) -> bool:
        """Whether there is, or was, a guard to tell of: nobody hears of one that never came to be."""
        return self._known.done() and not self._known.cancelled() and self._known.exception() is None

    def _told(self, data: bytes) -> None:
        """The barracks tell the keeper's pid, then how it ended."""
        for word in map(int, data.split()):
            if not self._known.done():
                if word < 0:
                    self._known.set_exception(OSError(-word, f"no process can be started: {os.strerror(-word)}"))
                    return
                self._known.set_result(word)
                if self._silent:
                    self._ear.fell_silent()
            elif self.returncode is None:
                self.returncode = word
                self._ear.keeper_ended()

    def _lost_sight(self) -> None:
        """The barracks are gone. From now on only the guard's silence tells that it ended."""
        self._unwatched = True
        if self._is_posted:
            unwatched.add(self.pid)
        if not self._known.done():
            self._known.set_exception(ConnectionError("the process that starts guards is gone"))
        elif self._is_posted and self._silent and self.returncode is None:
            self._ear.keeper_ended()

    def _fell_silent(self) -> None:
        self._silent = True
        if self._is_posted:
            if self._unwatched and self.returncode is None:
                self._ear.keeper_ended()
            self._ear.fell_silent()


class _Line(asyncio.Protocol):
    """Passes on what comes, and that nothing more will."""

    def __init__(self, heard: Callable[[bytes], None], over: Callable[[], None]) -> None:
        self._heard, self._over = heard, over

    def data_received(self, data: bytes) -> None:
        self._heard(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._over()


class _Barracks:
    """The process that forks guards: one for all of this process, begun when it is needed and again when it is gone."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._gate: socket.socket | None = None
        self._of: tuple[int, str] = (0, "")

    def send_out(self, cgroup: Path | None, files: Sequence[int]) -> None:
        """Has a guard forked that gets these files."""
        place = os.fsencode(cgroup) if cgroup else b""
        knock = len(place).to_bytes(program.KNOCK, "big") + place
        try:
            socket.send_fds(self._open(), [knock], files)
        except ConnectionError:  # somebody killed it
            self.close()
            socket.send_fds(self._open(), [knock], files)

    def close(self) -> None:
        """Ends it; guards that it has started go on."""
        if self._gate is not None:
            self._gate.close()
        if self._process is not None and self._of[0] == os.getpid():
            with contextlib.suppress(subprocess.TimeoutExpired):  # it stays for guards that are still there
                self._process.wait(_CLOSE_LIMIT)
        self._process = self._gate = None

    def _open(self) -> socket.socket:
        wanted = (os.getpid(), guard.__file__)
        if self._gate is not None and self._of == wanted:
            return self._gate
        self.close()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = begin(theirs)
        self._gate, self._of = ours, wanted
        return ours


def begin(gate: socket.socket) -> subprocess.Popen[bytes]:
    """Starts barracks with this gate."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", program.__file__, guard.__file__],
        stdin=gate.fileno(),
        stdout=subprocess.DEVNULL,
        env=privacy.bare(),
        start_new_session=True,  # nothing that a terminal or a shell sends to our group may reach it
    )


unwatched: Final[set[int]] = set()
"""The sessions of guards whose barracks are gone: they are ours to collect, where they come to us."""
_barracks = _Barracks()
atexit.register(_barracks.close)
