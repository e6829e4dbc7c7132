"""Whether this machine can carry out runs: it is tried out at the start, and again whenever something of ours broke.

While it cannot, its consumer takes no work, so that a ticket that one sick machine gave back runs on another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import structlog

from agentsmith.boottime import boottime
from agentsmith.config import RunLimits
from agentsmith.domain.errors import MachineTrouble, describe
from agentsmith.git import GuardShell
from agentsmith.git.command import Git, TimeLimits, check_version
from agentsmith.guard import cgroups
from agentsmith.guard.client import Command, CommandNotStarted, Guard, User
from agentsmith.pipelines.disk import check_room
from agentsmith.pipelines.record import FOLDER
from agentsmith.pipelines.runner import confinement_for
from agentsmith.pipelines.workplace import WORKSPACES

log = structlog.get_logger()

Check = Callable[[], Awaitable[None]]
"""Tries the machine out; whatever it raises is what is wrong."""
_FILES: Final = 16
"""A run has more files open at once than this only for moments."""
_WITHIN: Final = 60.0


class Machine:
    """Whether this machine works, as its consumer knows."""

    def __init__(self, check: Check | None = None, *, first_pause: float = 2.0, longest_pause: float = 60.0) -> None:
        """Without a check it counts as well again after each pause."""
        self.trouble = ""
        """Why no work is taken; empty while all is well."""
        self._check = check
        self.first_pause, self.longest_pause = first_pause, longest_pause
        self._doubted, self._pause = check is not None, 0.0

    def broke(self, why: str) -> None:
        """Something of ours broke: no work is taken before a check has passed."""
        if not self.trouble:
            log.error("this machine is in trouble; it takes no work until it has got over it", why=why)
        self.trouble, self._doubted = why, True
        self._pause = min(self.longest_pause, max(self.first_pause, self._pause * 2))

    def served(self) -> None:
        """A run ended by itself, so the pauses between checks begin small again."""
        self._pause = 0.0

    async def until_well(self, leaving: asyncio.Event) -> None:
        """Return when the machine is well, or `leaving` is set; the pauses between checks grow."""
        while self._doubted and not leaving.is_set():
            if self._pause:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause):
                        await leaving.wait()
                        return
            self._doubted = False
            try:
                async with asyncio.timeout(_WITHIN):
                    await (self._check or _nothing)()
            except Exception as error:
                self.broke(describe(error))
                continue
            if self.trouble and not self._doubted:  # a run that went on meanwhile may have broken too
                log.info("this machine has got over its trouble and takes work again", was=self.trouble)
                self.trouble = ""


async def _nothing() -> None:
    return


async def try_out(
    data_dir: Path,
    *,
    limits: RunLimits,
    user: User | None,
    open_guard: Callable[..., Awaitable[Guard]] = Guard.open,
    git: bool = False,
) -> None:
    """Try what every run does: folders, files, a cgroup, a guard, a command, and git if there is code."""
    for base in (data_dir / WORKSPACES, data_dir / FOLDER):
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        place = Path(tempfile.mkdtemp(prefix=".check-", dir=base))
        try:
            with ExitStack() as open_files:
                for number in range(_FILES):
                    open_files.enter_context((place / str(number)).open("xb", buffering=0)).write(bytes(4096))
            check_room(place)
            if base.name == FOLDER:
                await _run_something(place, limits, user, open_guard, git=git)
        finally:
            shutil.rmtree(place, ignore_errors=True)


async def _run_something(
    place: Path, limits: RunLimits, user: User | None, open_guard: Callable[..., Awaitable[Guard]], *, git: bool
) -> None:
    cgroup = cgroups.make(limits, f"check-{os.getpid()}")
    guard = await open_guard(
        trusted_until=boottime() + _WITHIN,
        grace=0.0,
        release=None,
        **({"cgroup": cgroup} if cgroup is not None else {}),
    )
    try:
        command = Command(
            ("/bin/sh", "-c", ":"),
            env={},
            cwd=Path("/"),
            log=place / "log",
            log_limit=4096,
            timeout=_WITHIN,
            confinement=confinement_for(user, limits),
        )
        ended = await guard.run(command)
        if ended.code != 0:
            raise MachineTrouble("a shell that has nothing to do fails here")
        if git:
            limit = TimeLimits(network=_WITHIN, local=_WITHIN, stall=_WITHIN)
            await check_version(Git(GuardShell(guard, place / "git"), "", _no_credential, limit))
    except CommandNotStarted as error:
        raise MachineTrouble(f"commands cannot be started: {error}") from None
    finally:
        await guard.close()
        if cgroup is not None:
            cgroup.rmdir()


async def _no_credential() -> None:
    return None
