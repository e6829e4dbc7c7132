"""File locks between the processes of one machine. The kernel lets go of them when their holder dies, in any way."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from agentsmith.boottime import boottime
from agentsmith.git import hold
from agentsmith.git.errors import WorkspaceBusy

HOLD: Final = (sys.executable, "-I", "-S", hold.__file__)
"""Put in front of a command line: `*HOLD, lockfile, *argv`."""
_FIRST_LOOK: Final = 0.005
_LAST_LOOK: Final = 0.25


class FileLock:
    """A lock that is held: let go by `release`, or by the end of this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def try_take(cls, path: Path, *, shared: bool = False) -> FileLock | None:
        """Take the lock if nobody holds it; `shared`, if nobody holds it for themselves."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            there = path.stat()
        except (BlockingIOError, FileNotFoundError):
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        mine = os.fstat(descriptor)
        if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino):  # a clean-up removed the file meanwhile
            os.close(descriptor)
            return None
        return cls(descriptor)

    @classmethod
    async def take(cls, path: Path, *, within: float, what: str, shared: bool = False) -> FileLock:
        """Wait for the lock; WorkspaceBusy when it does not come in time."""
        give_up = boottime() + within
        pause = _FIRST_LOOK
        while True:
            lock = cls.try_take(path, shared=shared)
            if lock is not None:
                return lock
            if boottime() > give_up:
                raise WorkspaceBusy(f"another process still holds {what} after {within:g} s")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST_LOOK)

    def release(self) -> None:
        """Let go."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextlib.asynccontextmanager
async def held(path: Path, *, within: float, what: str) -> AsyncIterator[None]:
    """Hold the lock while the block runs."""
    lock = await FileLock.take(path, within=within, what=what)
    try:
        yield
    finally:
        lock.release()
