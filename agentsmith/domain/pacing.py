"""How requests to a platform are paced: the numbers that every governor goes by, in one process or for all replicas."""

from __future__ import annotations

from typing import Final

EVERYWHERE: Final = "*"
"""The bucket of a pause that holds for all buckets of a credential."""
FIRST_BACKOFF: Final = 60.0
"""Seconds to stay away, at least, when the platform names no time."""
LONGEST_BACKOFF: Final = 3600.0
"""Seconds for which we stay away at most, also when a platform asks for more."""
SAME_WINDOW: Final = 60.0
"""Reset times closer than this belong to one window of a quota."""
FORGIVEN_AFTER: Final = 600.0
"""So long after the end of a pause the next one starts at `FIRST_BACKOFF` again."""
