"""Retention: workspaces, records and logs that are old, or take too much room, are removed from this machine.

Folders belong to the machine that the runs were on, so every process that runs tickets looks after its own data
directory; of several on one machine, one at a time. What a ticket in hand needs is spared, however old it is.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from agentsmith.domain.request import MalformedRequest, PipelineRequest
from agentsmith.domain.ticket import slug
from agentsmith.rhythm import Beat, beating
from agentsmith.store import AWAY, Store

log = structlog.get_logger()

WORKSPACES: Final = "workspaces"
RUNS: Final = "runs"
_ASIDE: Final = ".removing-"
"""Where a folder goes before it is removed: whoever looks for it finds it whole, or not at all."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How long, in seconds, and how much of it, in bytes; the oldest go first."""

    seconds: float
    size: int


@dataclass(frozen=True, slots=True)
class InHand:
    """What must be spared: the runs that have not settled, and the workspaces of tickets that are queued or running."""

    runs: frozenset[str] = frozenset()
    workspaces: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Retention:
    """Removes what is past its time, again and again."""

    store: Store
    data_dir: Path
    workspaces: Keep
    runs: Keep
    every: float

    async def serve(self) -> None:
        """Tidy up at once and then at every interval, for ever."""
        beat = Beat(self.every, jitter=self.every / 10)
        async with beating({"retention": beat}):
            while True:
                await beat.next()
                try:
                    await self.tidy_up()
                except AWAY as error:
                    await asyncio.sleep(self.store.outage.noticed(error))
                except OSError as error:
                    log.warning("old workspaces and logs could not be removed", error=str(error))

    async def tidy_up(self) -> list[str]:
        """Remove what is too old or too much, once; answers the names."""
        halt = threading.Event()
        in_hand = await self._in_hand()
        try:
            gone = await asyncio.to_thread(self._remove, in_hand, halt)
        finally:
            halt.set()  # nobody waits for a thread that goes on after we were told to end
        if gone:
            log.info("old workspaces and logs removed", count=len(gone), names=gone[:20])
        return gone

    async def _in_hand(self) -> InHand:
        leases = await self.store.runs.running()
        tickets = {(lease.tracker, lease.key) for lease in leases}
        runs = {lease.run for lease in leases}
        for payload in await self.store.queue.in_flight():
            try:
                request = PipelineRequest.from_json(payload)
            except MalformedRequest:
                continue
            tickets.add((request.tracker, request.key))
            runs.add(request.run)
        return InHand(frozenset(runs), frozenset(slug(key, tracker) for tracker, key in tickets))

    def _remove(self, in_hand: InHand, halt: threading.Event) -> list[str]:
        with _alone(self.data_dir) as alone:
            if not alone:
                return []
            now = time.time()
            return [
                *prune(self.data_dir / WORKSPACES, self.workspaces, spare=in_hand.workspaces, now=now, halt=halt),
                *prune(self.data_dir / RUNS, self.runs, spare=in_hand.runs, now=now, halt=halt),
            ]


def prune(
    root: Path, keep: Keep, *, spare: frozenset[str], now: float, halt: threading.Event | None = None
) -> list[str]:
    """Remove folders of `root` that nothing touched for too long, and the oldest while they take too much room.

    Those named in `spare` are kept, but their room counts. Blocks; `halt` ends it early.
    """
    found: list[tuple[float, int, Path]] = []
    try:
        folders = [Path(entry.path) for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    for folder in folders:
        if halt is not None and halt.is_set():
            return []
        if folder.name.startswith(_ASIDE):
            shutil.rmtree(folder, ignore_errors=True)  # somebody ended before this was done
        else:
            found.append((*_used_and_size(folder), folder))
    gone, room = [], keep.size
    for used, size, folder in sorted(found, reverse=True):
        room -= size
        if folder.name in spare or (room >= 0 and now - used <= keep.seconds):
            continue
        if halt is not None and halt.is_set():
            break
        _remove(folder)
        room += size
        gone.append(folder.name)
    return gone


def _remove(folder: Path) -> None:
    aside = folder.with_name(f"{_ASIDE}{folder.name}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _used_and_size(folder: Path) -> tuple[float, int]:
    """When anything in it was last changed, and the room that it takes on disk; links are not followed."""
    used, size = 0.0, 0
    for top, _, names in os.walk(folder):
        for name in (*names, "."):
            try:
                details = os.lstat(os.path.join(top, name))
            except OSError:  # gone meanwhile
                continue
            used = max(used, details.st_mtime)
            size += details.st_blocks * 512
    return used, size


@contextmanager
def _alone(data_dir: Path) -> Iterator[bool]:
    """Whether no other process tidies this data directory up; nobody begins while the block runs."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (data_dir / "retention.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
