"""Where the commands of a run are carried out: one interface, and processes of this machine behind it.

Whoever implements it further (containers, jobs of a cluster) keeps three promises: a command gets the environment it
is given and nothing else; `run` returns when nothing of the command is left; cancelling it ends the command first.
"""

from __future__ import annotations

import math
import os
import pwd
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from agentsmith.config import RunLimits
from agentsmith.domain.errors import ConfigError
from agentsmith.guard.client import Confinement, Exit, Guard, User

TAIL: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `timeout` and `stall` are seconds; output goes to `log`: `log_limit` bytes, and its end.

    With `report`, all of it goes to files of that name with `.0`, `.1`, … at their end too; see `Guard.run`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    log_limit: int
    timeout: float | None = None
    stall: float | None = None
    stdin: Path | None = None
    tail_limit: int = TAIL
    report: Path | None = None


class Runner(Protocol):
    """Carries out the commands of one run, one after the other."""

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Exit:
        """Run it to its end; CommandNotStarted says what to mend. `on_line` gets the lines that begin with `::`."""


class ProcessRunner:
    """Commands as processes under the run's guard."""

    def __init__(self, guard: Guard, confinement: Confinement) -> None:
        self._guard, self._confinement = guard, confinement

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Exit:
        """See Runner."""
        return await self._guard.run(
            command.argv,
            env=command.env,
            cwd=command.cwd,
            log=command.log,
            log_limit=command.log_limit,
            tail_limit=command.tail_limit,
            timeout=command.timeout,
            stall=command.stall,
            stdin=command.stdin,
            report=command.report,
            confinement=self._confinement,
            on_line=on_line,
        )


def user_called(name: str | None) -> User | None:
    """The user that commands run as; ConfigError when there is none, or we may not become it."""
    if name is None:
        return None
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(
            f"run.user: there is no user {name!r} on this machine; create it, or leave the key out"
        ) from None
    if found.pw_uid == os.getuid():
        return None
    if os.getuid() != 0:
        raise ConfigError(
            f"run.user: only root may run commands as {name!r}; start agentsmith as root, or as that user"
        )
    return User(found.pw_uid, found.pw_gid, tuple(sorted({found.pw_gid, *os.getgrouplist(name, found.pw_gid)})))


def confinement_for(user: User | None, limits: RunLimits) -> Confinement:
    """What the run's cgroup does not see to; with one, it counts for all processes together, which is better."""
    if limits.cgroup is not None:
        return Confinement(user)
    return Confinement(user, limits.memory, math.ceil(limits.cpus) if limits.cpus is not None else None)
