"""Where the commands of a run are carried out: one interface, and processes of this machine behind it.

Whoever implements it further (containers, jobs of a cluster) keeps three promises: a command gets the environment it
is given and nothing else; `run` returns when nothing of the command is left; cancelling it ends the command first.
"""

from __future__ import annotations

import math
import os
import pwd
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from agentsmith.config import RunLimits
from agentsmith.domain.errors import ConfigError
from agentsmith.guard.client import TAIL, Command, Confinement, Exit, Guard, User

__all__ = ["TAIL", "Command", "ProcessRunner", "Runner", "confinement_for", "user_called"]


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
        return await self._guard.run(replace(command, confinement=self._confinement), on_line)


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
    """Limits for each process, where no cgroup limits all of them together, which is better."""
    if limits.cgroup is not None:
        return Confinement(user)
    return Confinement(user, limits.memory, math.ceil(limits.cpus) if limits.cpus is not None else None)
