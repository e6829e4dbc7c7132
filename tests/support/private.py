"""What others on the machine could read of the files that we make."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def open_to_others(folder: Path) -> list[str]:
    """What other users may read or write below the folder, which they may enter, as the worker's own user may."""
    found: list[str] = []
    for entry in os.scandir(folder):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            continue
        name = os.path.relpath(entry.path, folder)
        if stat.S_ISDIR(mode):
            if mode & 0o066:
                found.append(f"{name}/ {stat.filemode(mode)}")
            if mode & 0o011:
                found += [f"{entry.name}/{inner}" for inner in open_to_others(Path(entry.path))]
        elif mode & 0o066:
            found.append(f"{name} {stat.filemode(mode)}")
    return sorted(found)
