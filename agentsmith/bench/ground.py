"""Where it is measured: a folder, a Redis of our own in it, and processes of agentsmith, all gone afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import yaml

from agentsmith.domain.errors import AgentSmithError
from agentsmith.store import LeaseTimes, Store
from agentsmith.store.server.embedded import EmbeddedServer

TIMES: Final = LeaseTimes(ttl=120, renew_every=30, margin=20, lock=30, leader=30)
TRIGGER: Final = "agent-smith"
SLOTS: Final = 10
_LOOK_EVERY: Final = 0.005
_UP_WITHIN: Final = 60.0
_STOP_WITHIN: Final = 20.0


class BenchTrouble(AgentSmithError):
    """A process of the benchmark did not do its part; the message says which, and what it said last."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a row is measured on."""

    folder: Path
    store: Store
    """On a server of our own, whose address the processes are given too."""
    url: str
    effort: float
    """How much is done for each row: 1 for a figure to publish, less to see that it works."""
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """For tickets that no row has used yet."""

    def times(self, count: int) -> int:
        """How often, for this effort."""
        return max(3, round(count * self.effort))

    def room(self, name: str) -> Path:
        """A new, empty folder."""
        number = sum(1 for _ in self.folder.glob(f"{name}-*"))
        room = self.folder / f"{name}-{number}"
        room.mkdir()
        return room


@contextlib.asynccontextmanager
async def prepared(folder: Path, effort: float) -> AsyncIterator[Ground]:
    """A server in the folder, and nothing on it."""
    async with EmbeddedServer(folder / "redis") as server, Store(server.url, times=TIMES, namespace="bench") as store:
        yield Ground(folder, store, server.url, effort)


async def rate(count: int, at_once: int, work: Callable[[], Awaitable[None]]) -> float:
    """How often in a second it can be done, so many at once."""
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            await work()

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return count / (time.perf_counter() - started)


def working(ground: Ground, room: Path, tracker: str, settings: Mapping[str, Any], step: str) -> dict[str, Any]:
    """The settings of a daemon that carries out one step for each ticket with the trigger."""
    return {
        "trackers": {tracker: dict(settings)},
        "redis": {"url": ground.url, "namespace": room.name},
        "consumer": {"slots": SLOTS},
        "triggers": [{"label": TRIGGER, "pipeline": "work"}],
        "pipelines": {"work": {"steps": [{"run": step}]}},
    }


def environment(room: Path) -> dict[str, str]:
    """What a process of the benchmark sees: nobody's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTSMITH_")}
    return kept | {"AGENTSMITH_DATA_DIR": str(room / "data")}


class Daemon:
    """`agentsmith up` in a process of its own."""

    def __init__(self, room: Path, process: subprocess.Popen[bytes]) -> None:
        self._room, self._process = room, process
        self.port = 0

    async def serving(self) -> None:
        """Return when it serves."""
        give_up = time.monotonic() + _UP_WITHIN
        while not (found := self._said("serving")):
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise BenchTrouble(f"agentsmith up did not come up; it said last: {self._last()}")
            await asyncio.sleep(_LOOK_EVERY)
        self.port = int(found["port"] or 0)

    def _said(self, event: str) -> dict[str, Any] | None:
        for line in self._log().split("\n"):
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and entry.get("event") == event:
                    return entry
        return None

    def _log(self) -> str:
        return (self._room / "log").read_text(errors="replace")

    def _last(self) -> str:
        return self._log().strip().rpartition("\n")[2] or "nothing"

    def processor_seconds(self) -> float | None:
        """What it and everything that it started have used so far; None where the system does not tell (no /proc)."""
        children: dict[int, list[int]] = {}
        used: dict[int, float] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                words = stat.read_text().rpartition(")")[2].split(" ")  # from the state on, one space each
                pid = int(stat.parent.name)
                children.setdefault(int(words[2]), []).append(pid)
                # In user and kernel mode, and the same of children that were waited for.
                used[pid] = sum(int(word) for word in words[12:16]) / os.sysconf("SC_CLK_TCK")
        if self._process.pid not in used:
            return None
        family, seconds = [self._process.pid], 0.0
        while family:
            pid = family.pop()
            seconds += used.get(pid, 0.0)
            family += children.get(pid, ())
        return seconds

    def memory(self) -> float | None:
        """Megabytes that the process itself has in memory; None where the system does not tell."""
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split(" ")[1])
        except OSError:
            return None
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    async def stop(self) -> None:
        """End it, politely first."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, _STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)


@contextlib.asynccontextmanager
async def daemon(room: Path, settings: Mapping[str, Any], *arguments: str) -> AsyncIterator[Daemon]:
    """`agentsmith up` with these settings, until the block ends; it serves when the block begins."""
    file = room / "agentsmith.yaml"
    always = {"data_dir": str(room / "data"), "server": {"port": 0}, "log": {"format": "json"}}
    file.write_text(yaml.safe_dump(always | dict(settings)))
    with (room / "log").open("wb") as log:
        process = python(room, "-m", "agentsmith", "up", "--config", str(file), *arguments, stdout=log)
    started = Daemon(room, process)
    try:
        await started.serving()
        yield started
    finally:
        await started.stop()


def python(room: Path, *arguments: str, stdout: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """A process of Python, in the room; what it says on standard error comes with the rest where that is a file."""
    stderr = subprocess.DEVNULL if isinstance(stdout, int) else stdout
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=room,
        env=environment(room),
    )
