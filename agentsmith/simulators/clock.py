"""The simulated clock: limits, expiries and late webhooks read it, so that tests jump instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime


class Clock:
    """Real time plus what was jumped; with `start` it stands still and only `advance` moves it."""

    def __init__(self, start: float | None = None) -> None:
        self._start = start
        self._jumped = 0.0
        self._watchers: list[Callable[[], None]] = []

    def now(self) -> float:
        """Seconds since the epoch, as the simulated service sees them."""
        return (time.time() if self._start is None else self._start) + self._jumped

    def stamp(self) -> datetime:
        """The same as an aware date, cut to whole seconds as the platforms print it."""
        return datetime.fromtimestamp(int(self.now()), UTC)

    def advance(self, seconds: float) -> float:
        """Jump forward; whoever watches (late webhooks) is woken. Answers the new time."""
        if seconds < 0:
            raise ValueError("time only moves forward")
        self._jumped += seconds
        for wake in self._watchers:
            wake()
        return self.now()

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` after every jump."""
        self._watchers.append(wake)

    def reset(self) -> None:
        """Forget the jumps."""
        self._jumped = 0.0
