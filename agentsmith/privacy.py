"""What this process keeps from others on its machine, also from those of its own user: steps may run as it (P8)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

_PR_SET_DUMPABLE: Final = 4
_HARMLESS: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    # Where Python and its libraries are found, on machines where that is not where they belong.
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE"),
)


def keep_to_ourselves() -> None:
    """From now on only root reads our environment and memory (Linux). What we start is as readable as ever."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, *map(ctypes.c_ulong, (0, 0, 0, 0)))


_kept: Final[dict[str, str]] = {}
"""Variables of a file beside the configuration: ours alone, never inherited by what we start."""


def keep(variables: Mapping[str, str]) -> None:
    """From now on these variables count beside the environment, where it does not have them; former ones do not."""
    _kept.clear()
    _kept.update(variables)


def environment() -> Mapping[str, str]:
    """Our environment, and the variables that are kept beside it."""
    return {**_kept, **os.environ}


def bare(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of the programs that we start: no variable of ours in which a secret could stand."""
    return {name: environ[name] for name in _HARMLESS if name in environ}
