"""Where git runs: one command at a time, to its end, with its output in files.

`GuardShell` is the one for runs: git is then a process of the run like any other, and dies with its consumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from agentsmith.guard.client import Command, CommandNotStarted, Guard

_LOG_LIMIT: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class EndedCommand:
    """How a command ended. `code` is None when it was killed, by its time limit or otherwise."""

    code: int | None
    timed_out: bool = False
    stopped: str | None = None


class GitShell(Protocol):
    """Runs one command at a time and returns when nothing of it is left."""

    @property
    def ancestor(self) -> int:
        """The process that everything run here descends from: only below it are credentials given out."""

    @property
    def scratch(self) -> Path:
        """A folder of this run alone, mode 700, for files that live as long as one command."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: Path,
        stdout: Path,
        stderr: Path,
        timeout: float,
    ) -> EndedCommand:
        """Run `argv` with `env` as its whole environment; CommandNotStarted when it cannot be started.

        If cancelled, the command is stopped before this returns.
        """


class GuardShell:
    """Runs git under a run's guard. It needs the guard idle: a checkpoint beside a working agent needs a guard of its
    own."""

    def __init__(self, guard: Guard, scratch: Path) -> None:
        self._guard = guard
        self._scratch = scratch
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    def ancestor(self) -> int:
        """The supervisor of the guard."""
        return self._guard.pid

    @property
    def scratch(self) -> Path:
        """Where the files of single commands go."""
        return self._scratch

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: Path,
        stdout: Path,
        stderr: Path,
        timeout: float,
    ) -> EndedCommand:
        """See GitShell."""
        command = Command(
            tuple(argv),
            env,
            cwd,
            log=self._scratch / "shell.log",
            log_limit=_LOG_LIMIT,
            timeout=timeout,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
        ended = await self._guard.run(command)
        return EndedCommand(ended.code, timed_out=ended.timed_out, stopped=ended.stopped)


__all__ = ["CommandNotStarted", "EndedCommand", "GitShell", "GuardShell"]
