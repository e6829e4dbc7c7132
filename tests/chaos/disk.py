"""A small disk of its own for one consumer, so that it can be full: a tmpfs in a mount namespace that ends with us."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path
from typing import Final

_NEW_MOUNTS: Final = 0x00020000
_SIZE: Final = "128m"
"""Room for what thousands of runs leave, or the disk would be full before anybody fills it. Only then is it memory."""
FULL_DISK: Final = "full-disk"
"""What the fault is called."""


def own_mounts() -> str:
    """Let this process, and all that it starts, see mounts that nobody else sees; answers why it cannot be had."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "only root may mount"
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS) != 0:
        return os.strerror(ctypes.get_errno())
    done = subprocess.run(["mount", "--make-rprivate", "/"], check=False, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def mount(folder: Path) -> str:
    """Put a small disk there; answers why it cannot be had."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=755", "chaos", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def unmount(folder: Path) -> None:
    """Take it away, also while somebody is still on it."""
    subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def fill(folder: Path) -> Path:
    """Use up all the room there is; answers the file to remove."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return filler
