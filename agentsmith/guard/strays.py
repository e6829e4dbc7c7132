"""Ends what a run left behind when its keeper, its guard and the process that forks guards were all killed (Linux).

It then comes to this process, as a child that nobody here has started. Children that we did start are left alone, and
with them their exit codes: only what carries the mark of a run, or belongs to the user of steps, is ended; and of the
dead only these, and the guards that nobody else can collect, are collected.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Final

import structlog

from agentsmith.guard import program as guard
from agentsmith.guard import spawn as posting

log = structlog.get_logger()

EVERY: Final = 1.0
"""Seconds between two looks, which read one small file per thread of this process."""
_MARK: Final = b"AGENTSMITH_RUN_ID="


async def keep_ending() -> None:
    """Have them come to us, and end them, until cancelled."""
    guard.prctl(guard.SUBREAPER, 1)
    ended: set[int] = set()
    while True:
        if guard.LINUX:
            look(ended)
        await asyncio.sleep(EVERY)


def look(ended: set[int]) -> None:
    """End what is there now; `ended` is what earlier looks ended and could not collect yet."""
    for pid in guard.children():
        if pid in ended or guard.session_of(pid) in posting.unwatched:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    ended.discard(pid)
                    continue
        if of_a_run(pid):
            if pid not in ended:
                log.warning("a process of a run outlived its guards, and is ended", pid=pid)
            ended.add(pid)
            guard.kill_trees([pid], spared=frozenset())


def of_a_run(pid: int) -> bool:
    """Whether a child was started by a step rather than by us."""
    try:
        # Ours have neither: `privacy.bare` is their environment, and our user theirs.
        return _MARK in Path(f"/proc/{pid}/environ").read_bytes() or os.stat(f"/proc/{pid}").st_uid not in (
            os.getuid(),
            0,
        )
    except OSError:
        return False
