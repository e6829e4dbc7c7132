"""What the system tells about a process, asked without a race against its end."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def state(pid: int) -> str:
    """The one-letter state of a process; X when it is gone."""
    with suppress(OSError):  # it may end between opening the file and reading it, which is not FileNotFoundError
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "X"


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is more than a zombie."""
    if Path("/proc/self/stat").exists():
        return state(pid) not in "ZX"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def descendants(pid: int) -> set[int]:
    """Every process below this one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(entry.name))
    found, new = set[int](), [pid]
    while new:
        new = [child for parent in new for child in parents.get(parent, ()) if child not in found]
        found.update(new)
    return found
