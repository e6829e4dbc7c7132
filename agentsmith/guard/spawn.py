"""Starting a guard: the consumer's end of `spawner.py`, and of the pipes to each guard."""

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
from agentsmith.guard import program, spawner

_START_LIMIT: Final = 30.0
"""Seconds; a loaded machine is slow, but a guard that takes longer is broken."""
_CLOSE_LIMIT: Final = 1.0


class NotSpawned(Exception):
    """No guard could be started."""


class Listener(Protocol):
    """Who is told what becomes of a guard."""

    def received(self, data: bytes) -> None:
        """The guard wrote events."""

    def output_closed(self) -> None:
        """Nobody is left who could write any: supervisor and guard proper are both dead."""

    def supervisor_exited(self) -> None:
        """The supervisor is dead; its exit code is known, unless the spawner is gone too."""


class GuardProcess:
    """A guard that was started, and the pipes to it. `close` must follow."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._pid: asyncio.Future[int] = self._loop.create_future()
        self._pipes: list[asyncio.BaseTransport] = []
        self._orders: asyncio.WriteTransport | None = None
        self._spawner_gone = self._output_closed = False
        self.returncode: int | None = None
        """How the supervisor ended: its exit code, or minus the signal."""

    @classmethod
    async def spawn(cls, listener: Listener, cgroup: Path | None) -> GuardProcess:
        """Starts a guard, which puts its commands into the cgroup, if there is one."""
        try:
            try:
                return await cls._spawn(listener, cgroup)
            except ConnectionError:  # the spawner was killed in the same moment, so this guard never came to be
                _spawner.close()
                return await cls._spawn(listener, cgroup)
        except OSError as error:  # a TimeoutError, which says nothing by itself, is one too
            raise NotSpawned(f"the guard did not start: {str(error) or 'it takes too long'}") from error

    @classmethod
    async def _spawn(cls, listener: Listener, cgroup: Path | None) -> GuardProcess:
        process = cls(listener)
        try:
            await process._start(cgroup)
            async with asyncio.timeout(_START_LIMIT):
                await asyncio.shield(process._pid)
        except BaseException:
            process.close()
            raise
        return process

    @property
    def pid(self) -> int:
        """The supervisor's, which is the number of the guard's session too."""
        return self._pid.result()

    def order(self, line: bytes) -> None:
        """Sends the guard an order; never blocks."""
        if self._orders is not None:
            self._orders.write(line)

    def close(self) -> None:
        """Closes the pipes: a guard that is still there takes its consumer for dead."""
        for pipe in self._pipes:
            pipe.close()
        self._pid.cancel()

    async def _start(self, cgroup: Path | None) -> None:
        with contextlib.ExitStack() as given, contextlib.ExitStack() as kept:
            ours, theirs = socket.socketpair()
            kept.callback(ours.close)
            given.callback(theirs.close)
            stdin, orders = os.pipe()
            given.callback(os.close, stdin)
            writing = kept.enter_context(os.fdopen(orders, "wb", buffering=0))
            events, stdout = os.pipe()
            given.callback(os.close, stdout)
            reading = kept.enter_context(os.fdopen(events, "rb", buffering=0))
            _spawner.request(cgroup, (stdin, stdout, theirs.fileno()))
            kept.pop_all()  # where anything fails, nothing stays open: files may be what we lack
        for connecting in (
            self._loop.connect_accepted_socket(lambda: _Reader(self._on_status, self._on_spawner_gone), ours),
            self._loop.connect_read_pipe(lambda: _Reader(self._listener.received, self._on_output_closed), reading),
        ):
            self._pipes.append((await connecting)[0])
        self._orders, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, writing)
        self._pipes.append(self._orders)

    @property
    def _is_spawned(self) -> bool:
        """Whether there is, or was, a guard: the listener is told nothing of one that never came to be."""
        return self._pid.done() and not self._pid.cancelled() and self._pid.exception() is None

    def _on_status(self, data: bytes) -> None:
        """The spawner sends the supervisor's pid, and later how it ended."""
        for number in map(int, data.split()):
            if not self._pid.done():
                if number < 0:
                    self._pid.set_exception(OSError(-number, f"no process can be started: {os.strerror(-number)}"))
                    return
                self._pid.set_result(number)
                if self._output_closed:
                    self._listener.output_closed()
            elif self.returncode is None:
                self.returncode = number
                self._listener.supervisor_exited()

    def _on_spawner_gone(self) -> None:
        """From now on only its closed output tells that the guard ended."""
        self._spawner_gone = True
        if self._is_spawned:
            orphaned.add(self.pid)
        if not self._pid.done():
            self._pid.set_exception(ConnectionError("the process that starts guards is gone"))
        elif self._is_spawned and self._output_closed and self.returncode is None:
            self._listener.supervisor_exited()

    def _on_output_closed(self) -> None:
        self._output_closed = True
        if self._is_spawned:
            if self._spawner_gone and self.returncode is None:
                self._listener.supervisor_exited()
            self._listener.output_closed()


class _Reader(asyncio.Protocol):
    """Passes on what comes, and that nothing more will."""

    def __init__(self, received: Callable[[bytes], None], closed: Callable[[], None]) -> None:
        self._received, self._closed = received, closed

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._closed()


class _Spawner:
    """The spawner of all of this process's guards, started when it is needed and again when it is gone."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._started_for: tuple[int, str] = (0, "")
        """Our pid, and the guard's program: a fork of this process needs a spawner of its own."""

    def request(self, cgroup: Path | None, files: Sequence[int]) -> None:
        """Has a guard forked that gets these files."""
        path = os.fsencode(cgroup) if cgroup else b""
        request = len(path).to_bytes(spawner.HEADER, "big") + path
        try:
            socket.send_fds(self._open(), [request], files)
        except ConnectionError:  # somebody killed it
            self.close()
            socket.send_fds(self._open(), [request], files)

    def close(self) -> None:
        """Ends it; guards that it has started go on."""
        if self._requests is not None:
            self._requests.close()
        if self._process is not None and self._started_for[0] == os.getpid():
            with contextlib.suppress(subprocess.TimeoutExpired):  # it stays for guards that are still there
                self._process.wait(_CLOSE_LIMIT)
        self._process = self._requests = None

    def _open(self) -> socket.socket:
        wanted = (os.getpid(), program.__file__)
        if self._requests is not None and self._started_for == wanted:
            return self._requests
        self.close()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = start_spawner(theirs)
        self._requests, self._started_for = ours, wanted
        return ours


def start_spawner(requests: socket.socket) -> subprocess.Popen[bytes]:
    """Starts a spawner that takes its requests from this socket."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", spawner.__file__, program.__file__],
        stdin=requests.fileno(),
        stdout=subprocess.DEVNULL,
        env=privacy.bare(),
        start_new_session=True,  # nothing that a terminal or a shell sends to our group may reach it
    )


orphaned: Final[set[int]] = set()
"""The sessions of guards whose spawner is gone: where their processes become our children, we reap them."""
_spawner = _Spawner()
atexit.register(_spawner.close)
