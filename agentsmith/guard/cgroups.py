"""A cgroup (v2) per run, below a folder that was delegated to us: limits for all its processes, and none gets away."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import structlog

from agentsmith.config import RunLimits
from agentsmith.domain.errors import ConfigError

log = structlog.get_logger()

_PERIOD: Final = 100_000
"""Microseconds in which `cpu.max` counts."""


def check(limits: RunLimits) -> None:
    """ConfigError when the delegated folder cannot do what the limits ask for."""
    base = limits.cgroup
    if base is None:
        return
    if not (base / "cgroup.procs").exists():
        raise ConfigError(f"run.limits.cgroup: {base} is no folder of a cgroup v2 tree")
    wanted = {name for name, value in _files(limits) if value}
    needed = {name.partition(".")[0] for name in wanted}
    there = set((base / "cgroup.controllers").read_text().split())
    if missing := sorted(needed - there):
        raise ConfigError(f"run.limits.cgroup: {base} lacks the controllers {', '.join(missing)}; delegate them to it")
    try:
        (base / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(needed)))
        probe = base / "agentsmith-probe"
        probe.mkdir(exist_ok=True)
        probe.rmdir()
    except OSError as error:
        raise ConfigError(
            f"run.limits.cgroup: {base} cannot be used ({error.strerror}); it must be writable for us, "
            "and no process may be in it itself"
        ) from None


def make(limits: RunLimits, run: str) -> Path | None:
    """The run's own group with its limits; None where none was delegated."""
    if limits.cgroup is None:
        return None
    group = limits.cgroup / f"run-{run}"
    group.mkdir(exist_ok=True)
    for name, value in _files(limits):
        if value:
            (group / name).write_text(value)
    return group


def clear(limits: RunLimits) -> None:
    """Take the groups of runs away in which nothing is left."""
    with contextlib.suppress(OSError):
        for old in limits.cgroup.glob("run-*") if limits.cgroup is not None else ():
            with contextlib.suppress(OSError):  # in use, or gone already
                old.rmdir()


def _files(limits: RunLimits) -> list[tuple[str, str]]:
    return [
        ("memory.max", str(int(limits.memory)) if limits.memory else ""),
        ("cpu.max", f"{round(limits.cpus * _PERIOD)} {_PERIOD}" if limits.cpus else ""),
        ("pids.max", str(limits.processes) if limits.processes else ""),
    ]
