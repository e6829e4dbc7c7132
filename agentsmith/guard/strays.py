"""Ends what a run left behind when its supervisor, its guard and the spawner were all killed (Linux).

It then becomes a child of this process, which did not start it. Children that we did start are left alone, and with
them their exit codes: only what carries the mark of a run, or belongs to the user of steps, is killed; and of the dead
only these, and the guards that nobody else can reap, are reaped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Final

import structlog

from agentsmith.guard import processes, spawn

log = structlog.get_logger()

EVERY: Final = 1.0
"""Seconds between two looks, which read one small file per thread of this process."""
_MARK: Final = b"AGENTSMITH_RUN_ID="


async def keep_ending() -> None:
    """Let them become our children, and kill them, until cancelled."""
    processes.prctl(processes.SUBREAPER, 1)
    ended: set[int] = set()
    while True:
        if processes.LINUX:
            look(ended)
        await asyncio.sleep(EVERY)


def look(ended: set[int]) -> None:
    """Kill what is there now; `ended` is what earlier looks killed and could not reap yet."""
    for pid in processes.children():
        if pid in ended or processes.session_of(pid) in spawn.orphaned:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    ended.discard(pid)
                    continue
        if of_a_run(pid):
            if pid not in ended:
                log.warning("a process of a run outlived its guards, and is ended", pid=pid)
            ended.add(pid)
            processes.kill_trees([pid], spared=frozenset())


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
