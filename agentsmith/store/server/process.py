"""One run of the embedded server: a process that takes commands, until it ends or is ended.

Restarting, and who may start one at all, is `embedded`'s business.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

from agentsmith import privacy
from agentsmith.store.server.binary import ServerUnavailable
from agentsmith.store.server.home import ServerHome

ParentDeath = Literal["signal", "watchdog"]

_WATCHDOG = Path(__file__).with_name("watchdog.py")
_POLL = 0.005
_LEFTOVER_GONE_WITHIN = 5.0
_ANSWERS_WITHIN = 10.0  # from its start, not counting the time it says that it is loading
_SHUTDOWN_GRACE = 5.0


class ServerProcess:
    """A server that was ready for commands when this was made, and dies with our process."""

    def __init__(self, process: Process) -> None:
        self._process = process  # the server or its watchdog; the leader of their group
        self._ready_at = time.monotonic()

    @classmethod
    async def launch(cls, home: ServerHome, *, binary: Path, socket: Path, parent_death: ParentDeath | None) -> Self:
        """Return when the server is ready; after a failure nothing of it runs. Only for the keeper."""
        home.write_configuration(socket)
        server_lock = await _lock_for_server(home)
        log_file = home.open_log()
        try:
            said_before = os.fstat(log_file).st_size
            # Forked right here, in the thread of the event loop: see _way_to_die.
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _WATCHDOG, parent_death or _way_to_die(), str(os.getpid())),
                *(binary, home.configuration),
                stdin=asyncio.subprocess.PIPE,
                stdout=log_file,
                stderr=log_file,
                pass_fds=[server_lock],
                env=privacy.bare(),
                start_new_session=True,  # Ctrl-C is for us; and a group of its own can be signalled as one
                cwd=home.folder,
            )
            try:
                home.note_server(server_lock, process.pid)
                if not await _got_ready(process, socket):
                    words = home.last_words(since=said_before)
                    code = process.returncode
                    ended = "does not answer" if code is None else f"ended with code {code}"
                    raise ServerUnavailable(
                        f"The embedded Redis server {ended}: {words or 'it said nothing'}. {home.remedy(words, binary)}"
                    )
            except BaseException:
                await _end(process, grace=0)
                raise
            return cls(process)
        finally:
            os.close(log_file)
            os.close(server_lock)

    @property
    def pid(self) -> int:
        """The number of the process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the server ended; None while it lives."""
        return self._process.returncode

    @property
    def age(self) -> float:
        """Seconds since the server got ready."""
        return time.monotonic() - self._ready_at

    async def ended(self, within: float) -> bool:
        """Wait for the server's end, for so many seconds at most, and tell whether it came."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._process.wait()
        return self._process.returncode is not None

    async def end(self) -> None:
        """Shut the server down; if it does not within its grace, kill it."""
        await _end(self._process, _SHUTDOWN_GRACE)


async def ping(socket: Path) -> Literal["ready", "loading", "silent"]:
    """Ask whoever listens there whether it takes commands."""
    try:
        async with asyncio.timeout(1):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                writer.write(b"PING\r\n")
                answer = await reader.readline()
            finally:
                writer.close()
    except OSError:
        return "silent"
    if answer == b"+PONG\r\n":
        return "ready"
    return "loading" if answer.startswith(b"-LOADING") else "silent"


def _way_to_die() -> ParentDeath:
    # Linux sends the parent-death signal when the *thread* that forked ends; only the main one lives as long
    # as the process.
    in_main_thread = threading.current_thread() is threading.main_thread()
    return "signal" if sys.platform == "linux" and in_main_thread else "watchdog"


async def _lock_for_server(home: ServerHome) -> int:
    give_up = time.monotonic() + _LEFTOVER_GONE_WITHIN
    while (lock := home.lock_for_server()) is None:
        pid = home.kill_leftover()
        if time.monotonic() > give_up:
            raise ServerUnavailable(
                f"An older Redis server (process {pid or 'unknown'}) still runs on {home.folder}. "
                "End it and start again."
            )
        await asyncio.sleep(_POLL)
    return lock


async def _got_ready(process: Process, socket: Path) -> bool:
    give_up = time.monotonic() + _ANSWERS_WITHIN
    while (answer := await ping(socket)) != "ready":
        if answer == "loading":
            give_up = time.monotonic() + _ANSWERS_WITHIN
        if process.returncode is not None or time.monotonic() > give_up:
            return False
        await asyncio.sleep(_POLL)
    return True


async def _end(process: Process, grace: float) -> None:
    try:
        if grace and process.returncode is None:
            _signal_group(process, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await process.wait()
    finally:
        if process.returncode is None:
            _signal_group(process, signal.SIGKILL)
            await process.wait()


def _signal_group(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
