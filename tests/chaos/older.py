"""Daemons of an older release beside those of this one: forked by what tormented that release, in its own words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support import older_release

OTHER_RELEASE: Final = "other-release"
"""What the fault is called."""
PROGRAM: Final = "forks_daemons"
_SOURCE: Final = "from tests.chaos.daemon import serve\n\nserve()\n"


def unpack(folder: Path) -> str:
    """Put the older release there, and the program that forks its daemons; answers why it cannot be had."""
    why = older_release.unpack(folder)
    if not why:
        (folder / f"{PROGRAM}.py").write_text(_SOURCE)
    return why
