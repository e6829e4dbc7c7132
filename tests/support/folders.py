"""Looking through folders in which others work: what is removed meanwhile is not there, and that is no error."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path


def files_below(folder: Path, pattern: str) -> list[Path]:
    """The files below the folder whose name fits; `Path.rglob` fails when a folder goes while it looks."""
    return [Path(top) / name for top, _, names in os.walk(folder) for name in names if fnmatch(name, pattern)]
