"""What goes wrong, where and how often: drawn afresh for every seed.

Each seed has its own climate: only some kinds of trouble happen in it, some often. Where everything goes wrong all the
time nothing gets far enough to go wrong in an interesting way.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from tests.simulation.faults import Fault
from tests.simulation.processes import Process


class Kind(StrEnum):
    """Everything that can go wrong by itself; `Fault` has what can go wrong with a single request."""

    CRASH = "process killed"
    HOST_LOST = "machine lost"
    SUSPEND = "machine suspended"
    PAUSE = "process stopped"
    DRAIN = "process drained"
    GUARD_KILLED = "guard killed"
    CUT_REDIS = "cut off from Redis"
    CUT_TRACKER = "cut off from the tracker"
    TRACKER_DOWN = "tracker down"
    REDIS_DOWN = "Redis away"
    REDIS_RESTART = "Redis restarted"
    REDIS_WIPED = "Redis restarted empty"
    FLUSH = "FLUSHALL"
    FAILOVER = "failover with lost writes"
    CLOCK = "clock of a machine set"
    REDIS_CLOCK = "clock of Redis set"
    WEBHOOK_LOST = "webhook lost"
    WEBHOOK_DOUBLED = "webhook repeated"
    WEBHOOK_LATE = "webhook late"


_ON_REDIS: Final = (Fault.CRASH, Fault.PAUSE, Fault.FAIL, Fault.LOSE, Fault.SLOW)
_ON_READS: Final = (Fault.CRASH, Fault.PAUSE, Fault.FAIL, Fault.LIMIT, Fault.STALE)
_ON_WRITES: Final = (Fault.CRASH, Fault.PAUSE, Fault.FAIL, Fault.LOSE, Fault.LATE, Fault.LIMIT)
_PERSONS: Final = (Fault.TAG, Fault.UNTRIGGER, Fault.UNLABEL)
_WRITES: Final = ("tracker.add", "tracker.remove", "tracker.write", "tracker.sticky")
_IDLE: Final = frozenset(
    {
        "blmove", "presence.tick", "presence.settling", "signals.ripen", "leader", "zrange", "mget", "hgetall",
        "zrangebyscore", "looks.note",
    }
)  # fmt: skip
"""What processes ask all the time when there is nothing to do; trouble there is rarely of interest."""
_IDLE_SHARE: Final = 0.05
_SILENT_SHARE: Final = 0.1
FORGETFUL: Final = (Kind.REDIS_WIPED, Kind.FLUSH, Kind.FAILOVER)
"""After which Redis does not know any more what it acknowledged."""


class Weather:
    """The climate of one seed."""

    def __init__(self, chance: random.Random, strike: Callable[[Process, Fault], None]) -> None:
        self._random, self._choice = chance.random, chance.choice
        self._strike = strike
        self.rough = False
        self.counts: Counter[str] = Counter()
        self.silent = chance.random() < _SILENT_SHARE
        """Little goes wrong, but work takes long, and who works falls silent for long: when is it taken for dead?"""
        if self.silent:
            self.kinds = [Kind.PAUSE, Kind.CUT_REDIS, *(kind for kind in FORGETFUL if chance.random() < 0.4)]
        else:
            self.kinds = [kind for kind in Kind if chance.random() < 0.4]
        self.faults = frozenset(fault for fault in Fault if chance.random() < 0.5)
        self._per_point = chance.choice((0.0, 0.0, 0.01) if self.silent else (0.0, 0.01, 0.03, 0.1))
        self._between_steps = 0 if self.silent else chance.choice((0, 0, 300, 2000))
        self._fuse = self._new_fuse()
        self._read_stale: set[Process] = set()

    def only(self, *kinds: Kind) -> None:
        """Nothing else goes wrong: all processes are well."""
        self.kinds, self.faults, self.silent = list(kinds), frozenset(), False
        self._per_point = self._between_steps = self._fuse = 0

    def happens(self, kind: Kind, probability: float) -> bool:
        """Whether trouble of this kind comes up now."""
        if not self.rough or kind not in self.kinds or self._random() >= probability:
            return False
        self.counts[kind] += 1
        return True

    def at_step(self, process: Process) -> None:
        """See `Fate`."""
        if self._fuse:
            self._fuse -= 1
            if not self._fuse:
                self._fuse = self._new_fuse()
                if self.rough:
                    self._bring_about(process, self._choice((Fault.CRASH, Fault.PAUSE)))

    def at_point(self, process: Process, point: str) -> Fault | None:
        """See `Fate`."""
        if not self.rough or not self._per_point:
            return None
        share = _IDLE_SHARE if point in _IDLE else 1.0
        if self._random() >= self._per_point * share:
            return None
        fault = self._choice(self._possible(point))
        if fault not in self.faults or (fault is Fault.STALE and process in self._read_stale):
            self._read_stale.discard(process)
            return None
        if fault is Fault.STALE:
            self._read_stale.add(process)  # but not twice in a row: nobody could tell that from the truth
        return self._bring_about(process, fault)

    def _bring_about(self, process: Process, fault: Fault) -> Fault:
        self.counts[f"{fault} (at a step)"] += 1
        self._strike(process, fault)
        return fault

    def _possible(self, point: str) -> tuple[Fault, ...]:
        if not point.startswith("tracker."):
            return _ON_REDIS
        if point in _WRITES:
            return _ON_WRITES + _PERSONS
        return _ON_READS + _PERSONS if point == "tracker.get" else _ON_READS[:-1]

    def _new_fuse(self) -> int:
        return int(self._between_steps * 2 * self._random()) + 1 if self._between_steps else 0
