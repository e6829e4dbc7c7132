"""Retention: workspaces, records and logs that are old, or take too much room, are removed from this machine.

Folders belong to the machine that the runs were on, so every process that runs tickets looks after its own data
directory; of several on one machine, one at a time. What a ticket in hand needs is spared, however old it is, and so is
work that was never pushed, for much longer.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog

from agentsmith import git
from agentsmith.config import Config
from agentsmith.domain.request import MalformedRequest, PipelineRequest
from agentsmith.domain.ticket import slug
from agentsmith.git.locks import FileLock
from agentsmith.pipelines import record
from agentsmith.pipelines.workplace import WORKSPACES, lock_of
from agentsmith.store import AWAY, Store
from agentsmith.ticker import Job, Ticker, scheduled

log = structlog.get_logger()

YOUNGEST: Final = 3600.0
"""However little room there is: what was used within the last hour may be wanted again right now."""
_NOT_TICKETS: Final = frozenset({"mirrors", "vaults", "aside", "locks"})
"""What is kept beside the tickets' folders: git prunes its own, and a lock goes with its folder."""
_LOOK_WITHIN: Final = 60.0
_REMOVING: Final = ".removing-"
"""Where a folder goes before it is removed: whoever looks for it finds it whole, or not at all."""


@dataclass(frozen=True, slots=True)
class InHand:
    """What must be spared: the runs that have not settled, and the workspaces of tickets that are queued or running."""

    runs: frozenset[str] = frozenset()
    workspaces: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Removed:
    """What one clean-up removed: workspaces by name, and how many records. What it kept only because that was never
    pushed, and what it could not remove."""

    workspaces: tuple[str, ...] = ()
    records: int = 0
    unsaved: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Retention:
    """Removes what is past its time, again and again."""

    store: Store
    config: Config

    async def serve(self) -> None:
        """Tidy up at once and then at every interval, for ever."""
        every = self.config.housekeeping.tidy_every
        job = Job("retention", Ticker(every, jitter=every / 10), self._try)
        async with scheduled([job]):
            await job.repeat()

    async def _try(self) -> None:
        try:
            await self.run_once()
        except AWAY as error:
            await asyncio.sleep(self.store.outage.noticed(error))
        except Exception as error:  # whatever is wrong with what is old ends no work
            log.warning("old workspaces and logs could not be removed", error=str(error), exc_info=error)

    async def run_once(self) -> Removed:
        """Remove what is too old or too much, once."""
        halt, loop = threading.Event(), asyncio.get_running_loop()

        def in_hand() -> InHand:
            return asyncio.run_coroutine_threadsafe(self._in_hand(), loop).result(_LOOK_WITHIN)

        try:
            removed = await asyncio.to_thread(self._remove, in_hand, halt)
        finally:
            halt.set()  # nobody waits for a thread that goes on after we were told to end
        if removed.workspaces or removed.records:
            log.info("old workspaces and logs removed", workspaces=removed.workspaces, records=removed.records)
        if removed.unsaved:
            log.warning("old workspaces are kept, because work in them was never pushed", workspaces=removed.unsaved)
        if removed.stuck:
            log.warning(
                "old workspaces could not be removed; do they hold files of another user? remove them by hand",
                workspaces=removed.stuck,
            )
        return removed

    async def _in_hand(self) -> InHand:
        # In the order in which a ticket goes: whoever is taken off the queue in between has a lease by then.
        tickets, runs = set[tuple[str, str]](), set[str]()
        async for payload in self.store.queue.in_flight():
            try:
                request = PipelineRequest.from_json(payload)
            except MalformedRequest:
                continue
            tickets.add((request.tracker, request.key))
            runs.add(request.run)
        for lease in await self.store.runs.running():
            tickets.add((lease.tracker, lease.key))
            runs.add(lease.run)
        return InHand(frozenset(runs), frozenset(slug(key, tracker) for tracker, key in tickets))

    def _remove(self, in_hand: Callable[[], InHand], halt: threading.Event) -> Removed:
        config = self.config
        with _alone(config.data_dir) as alone:
            if not alone:
                return Removed()
            removed = prune_workspaces(
                config.data_dir / WORKSPACES,
                keep_for=config.workspaces.keep_for,
                keep_size=config.workspaces.keep_size,
                keep_unsaved_for=config.workspaces.keep_unsaved_for,
                spare=lambda: in_hand().workspaces,
                now=time.time(),
                halt=halt,
            )
            if halt.is_set():
                return removed
            records = record.prune(
                config.data_dir,
                keep_for=config.run.keep_for,
                keep_size=config.run.keep_size,
                alive=in_hand().runs,
                now=time.time(),
            )
            return replace(removed, records=records)


def prune_workspaces(
    root: Path,
    *,
    keep_for: float,
    keep_size: int,
    keep_unsaved_for: float,
    spare: Callable[[], frozenset[str]],
    now: float,
    halt: threading.Event | None = None,
) -> Removed:
    """Remove folders of tickets that nothing changed for too long, and the oldest while they take too much room.

    Those that `spare` names stay, but their room counts; it is asked again before each removal, and so is the folder's
    age, because much happens while all folders are looked through. A folder whose checkout git keeps, because work in
    it was never pushed, stays whole. Blocks; `halt` ends it early.
    """
    halt = halt or threading.Event()
    stuck = list[str]()
    found = sorted(_folders(root, halt, stuck), reverse=True)
    too_old = max(YOUNGEST, min(keep_for, _age_that_fits(found, keep_size, now)))
    if halt.is_set():
        return Removed()

    @contextmanager
    def alone(folder: Path) -> Iterator[bool]:
        """Whether the folder is nobody's; nobody makes or uses it while the block runs."""
        path = lock_of(folder)
        lock = FileLock.try_take(path)
        if lock is None:
            yield False
            return
        try:
            yield not halt.is_set() and folder.name not in spare()
        finally:
            path.unlink(missing_ok=True)
            lock.release()

    pruned = git.prune(
        root,
        older_than=too_old,
        unsaved_older_than=max(too_old, keep_unsaved_for),
        now=now,
        alone=lambda workspace: alone(root / workspace.parent.name),
    )
    gone = []
    for used, _, folder in found:
        if halt.is_set():
            break
        if now - used <= too_old or (folder / "work" / ".git").exists():
            continue
        with alone(folder) as ours:
            if ours and now - _used_and_size(folder)[0] > too_old and not (folder / "work" / ".git").exists():
                _remove(_put_away(folder), stuck)
                gone.append(folder.name)
    return Removed(tuple(gone), unsaved=pruned.unsaved, stuck=(*pruned.stuck, *stuck))


def _folders(root: Path, halt: threading.Event, stuck: list[str]) -> Iterator[tuple[float, int, Path]]:
    """The tickets' folders, each with when it was last used and its size; what was put away before is removed."""
    try:
        folders = [Path(entry.path) for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return
    for folder in folders:
        if halt.is_set():
            return
        if folder.name.startswith(_REMOVING):
            _remove(folder, stuck)  # somebody ended before this was done
        elif folder.name not in _NOT_TICKETS:
            yield (*_used_and_size(folder), folder)


def _age_that_fits(found: list[tuple[float, int, Path]], room: int, now: float) -> float:
    """How old a folder may be, newest first, before all that are newer take all the room."""
    for used, size, _ in found:
        room -= size
        if room < 0:
            return max(0.0, now - used - 0.001)
    return float("inf")


def _put_away(folder: Path) -> Path:
    return folder.rename(folder.with_name(f"{_REMOVING}{folder.name[:200]}-{uuid.uuid4().hex[:8]}"))


def _remove(folder: Path, stuck: list[str]) -> None:
    """Remove it, or name what cannot be removed: another user's files, say. The others go all the same."""
    try:
        git.remove(folder)
    except OSError:
        stuck.append(folder.name)


def _used_and_size(folder: Path) -> tuple[float, int]:
    """When anything in it was last changed, and the room that it takes on disk; links are not followed.

    The folder itself does not count: it changes when git removes the checkout from it.
    """
    used, size = 0.0, 0
    for top, _, names in os.walk(folder):
        for name in names if top == str(folder) else (*names, "."):
            try:
                details = os.lstat(os.path.join(top, name))
            except OSError:  # gone meanwhile
                continue
            used = max(used, details.st_mtime)
            size += details.st_blocks * 512
    return used, size


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def _alone(data_dir: Path) -> Iterator[bool]:
    """Whether no other process tidies this data directory up; nobody begins while the block runs."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(data_dir / "retention.lock", "a", opener=_privately) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
