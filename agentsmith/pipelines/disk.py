"""Free space on the disk that holds the data directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from agentsmith.domain.errors import MachineTrouble

_FULL: Final = 16 * 1024**2
"""Bytes: a disk with less room than this, and than a hundredth of it, is full."""


def check_room(folder: Path) -> None:
    """MachineTrouble when the disk is full: whatever fails then may have failed because of that."""
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < min(_FULL, disk.f_blocks * disk.f_frsize // 100):
        raise MachineTrouble(f"the disk is full: {free // 1024} KiB are left where {folder} is; make room there")
    if disk.f_files and not disk.f_favail:
        raise MachineTrouble(f"the disk can hold no more files, where {folder} is; remove some there")
