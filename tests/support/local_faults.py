"""Finds every local operation of a run (files, folders, pipes, processes) and lets one of them fail.

The seam is Python's own: what is done to files and processes raises an audit event first, and a hook that raises then
stands for the system's refusal. What raises no event by itself (a write, a pipe) is given one here.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

_ON_PATHS: Final = frozenset(
    {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.chown", "os.listdir", "os.scandir"}
)
_WRITE: Final = "local-faults.write"
_ELSEWHERE: Final = "local-faults.other"


@dataclass(slots=True)
class Faults:
    """Counts the local operations below a folder; the `strike`-th fails with `errno`, or the first that looks so."""

    below: str
    errno: int = 0
    strike: int = -1
    at: str = ""
    seen: list[str] = field(default_factory=list)

    @property
    def struck(self) -> bool:
        """Whether the time has come for it."""
        return 0 <= self.strike < len(self.seen)

    def heard(self, event: str, args: tuple[Any, ...]) -> None:
        """An operation is about to be done."""
        if event in _ON_PATHS or event == _WRITE:
            path = args[0] if args else None
            name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
            if not name.startswith(self.below) or name.endswith((".py", ".pyc")):
                return
        elif event == _ELSEWHERE:
            name = str(args[0])
        else:
            return
        self.seen.append(f"{event.removeprefix('local-faults.')} {name.removeprefix(self.below)}")
        if self.at and self.strike < 0 and re.search(self.at, self.seen[-1]):
            self.strike = len(self.seen) - 1
        if len(self.seen) == self.strike + 1:
            raise OSError(self.errno, os.strerror(self.errno), name)


_now: Faults | None = None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _now is not None:
        _now.heard(event, args)


_hooked: Final[list[bool]] = []


@contextmanager
def failing(below: Path, *, errno: int = 0, strike: int = -1, at: str = "") -> Iterator[Faults]:
    """While this is entered, one local operation fails: see `Faults`. Without any named, they are only counted."""
    global _now
    if not _hooked:
        sys.addaudithook(_hook)  # it cannot be taken away again
        _hooked.append(True)
    faults = Faults(str(below), errno, strike, at)

    def told(owner: object, name: str) -> Any:
        real = getattr(owner, name)

        def done(*args: Any, **more: Any) -> Any:
            event = (_WRITE, args[0]) if owner is Path else (_ELSEWHERE, name)
            sys.audit(*event)
            return real(*args, **more)

        return patch.object(owner, name, done)

    with (
        told(Path, "write_bytes"),
        told(Path, "write_text"),
        told(os, "pipe"),
        told(os, "statvfs"),
        told(socket, "socketpair"),
        told(socket, "send_fds"),
        told(subprocess.Popen, "_execute_child"),
    ):
        _now = faults
        try:
            yield faults
        finally:
            _now = None
