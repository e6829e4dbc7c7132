"""What came of a seed, and the way into the processes that play many: cheap to import, unlike what is played."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a seed."""

    seed: int
    violations: tuple[str, ...]
    faults: Counter[str]
    tickets: int
    runs: int
    seconds: float
    """Virtual ones, from the first start to the end."""
    recovered_in: float
    """Of these, how many after the end of all trouble."""
    steps: int
    trace: tuple[str, ...]


def play_each(seeds: range) -> list[Played]:
    """Play these seeds; called in a process of its own, which finds it by its name."""
    from tests.simulation.seed import play

    return [play(seed) for seed in seeds]
