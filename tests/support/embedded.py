"""Daemons in processes of their own that share embedded servers, and a look at which servers run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Self, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from agentsmith.store.server.home import ServerHome
from tests.support.wait import wait_until

_DAEMON = """
import asyncio, os, signal, sys
from pathlib import Path
import structlog
from agentsmith.store.server.embedded import EmbeddedServer

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

async def main(data_dir, parent_death, bystander):
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    async with EmbeddedServer(Path(data_dir), parent_death=parent_death or None) as server:
        # Unlike subprocess, this closes nothing but what is marked to be closed; the pipe to the test apart.
        close = [(os.POSIX_SPAWN_CLOSE, 1)]
        sleep = "sleep", ["sleep", "60"], os.environ
        child = os.posix_spawnp(*sleep, file_actions=close) if bystander else 0
        print(server.url, child, flush=True)
        await server.keep()

asyncio.run(main(*sys.argv[1:]))
"""


class Daemon:
    """A process that starts or joins the server of a data directory and keeps it."""

    def __init__(self, process: Process, url: str, bystander: int) -> None:
        self.process = process
        self.url = url
        self.bystander = bystander  # a child of the daemon that has nothing to do with the server

    async def kill(self) -> None:
        """Kill -9, and reap."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def terminate(self) -> None:
        """Ask for a clean stop and wait for it."""
        self.process.send_signal(signal.SIGTERM)
        await self.process.wait()


class Daemons:
    """Starts daemons, and leaves no process behind at the end."""

    def __init__(self) -> None:
        self._processes: list[Process] = []
        self._bystanders: list[int] = []
        self._data_dirs: set[Path] = set()

    async def spawn(
        self,
        data_dir: Path,
        *,
        parent_death: str = "",
        bystander: bool = False,
        environment: dict[str, str] | None = None,
    ) -> Daemon:
        """Return a daemon whose server takes commands."""
        self._data_dirs.add(data_dir)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _DAEMON, data_dir, parent_death, "yes" if bystander else ""),
            stdout=PIPE,
            env=os.environ | (environment or {}),
        )
        self._processes.append(process)
        assert process.stdout is not None
        url, child = (await process.stdout.readline()).decode().split()
        if bystander:
            self._bystanders.append(int(child))
        return Daemon(process, url, int(child))

    async def close(self) -> None:
        """End every process that was started; AssertionError if that left a server running, which is then ended."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
        _kill(self._bystanders)
        for data_dir in self._data_dirs:
            try:
                await wait_until(
                    lambda at=data_dir: not servers_of(at) + watchdogs_of(at),  # type: ignore[misc]
                    what="no server outlives its daemons",
                )
            finally:
                _kill(servers_of(data_dir) + watchdogs_of(data_dir))


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def servers_of(data_dir: Path) -> list[int]:
    """Return the pids of all server programs, not their watchdogs, that run for a data directory."""
    home = ServerHome(data_dir)
    marks = (
        str(home.folder),
        home._private_name(os.geteuid()),
    )  # as argument, then in the title that the server gives itself
    return [
        pid
        for pid, command in _commands()
        if any(mark in command for mark in marks) and "-server" in command and "watchdog.py" not in command
    ]


def watchdogs_of(data_dir: Path) -> list[int]:
    """Return the pids of all watchdogs that run for a data directory."""
    folder = str(ServerHome(data_dir).folder)
    return [pid for pid, command in _commands() if folder in command and "watchdog.py" in command]


def _commands() -> list[tuple[int, str]]:
    found = []
    if Path("/proc/self/cmdline").exists():
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found.append((int(entry.name), os.fsdecode(command)))
        return found
    listing = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        number, _, command_line = line.strip().partition(" ")
        found.append((int(number), command_line))
    return found


class Writer:
    """Counts up in the server from a thread, through every interruption, and watches what was acknowledged.

    The counter returns every time one more than all acknowledged before; a smaller answer is a lost write.
    """

    def __init__(self, url: str) -> None:
        self.acknowledged = 0
        self.lost: list[str] = []
        self._url = url
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    async def goes_on(self, by: int = 20) -> None:
        """Return after so many further acknowledgements."""
        goal = self.acknowledged + by
        await wait_until(lambda: self.acknowledged >= goal, what="writes are acknowledged again")

    def _run(self) -> None:
        with connect(self._url) as client:
            while not self._stopping.is_set():
                try:
                    answer = cast(int, client.incr("count"))
                except redis.RedisError:
                    self._stopping.wait(0.002)
                    continue
                if answer <= self.acknowledged:
                    self.lost.append(f"{self.acknowledged} was acknowledged, and then {answer}")
                self.acknowledged = answer


def connect(url: str) -> redis.Redis:
    """Return a client that never repeats a command by itself, so that each success is one acknowledgement."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=60)
