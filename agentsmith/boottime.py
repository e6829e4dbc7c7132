"""The clock that trust windows are measured on."""

from __future__ import annotations

import time

# Where the name is missing (macOS), CLOCK_MONOTONIC is the one that counts on while the machine sleeps;
# time.monotonic() does not.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since some fixed moment of this boot; runs during suspend, so a lease cannot outlive a nap."""
    return time.clock_gettime(_CLOCK)
