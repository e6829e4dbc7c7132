"""The order of tests: what takes long begins first, or the last worker would be busy with it long after the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def long_first(tests: Sequence[T], is_long: Callable[[T], bool], workers: int) -> list[T]:
    """The same tests, with the long ones first in the share that each worker begins with.

    pytest-xdist (`--dist worksteal`) deals the list out in equal pieces, one after another; others steal from the end
    of a piece, so what stands first in it is not moved about. Neighbours resemble each other, and each worker begins
    elsewhere among them: so those that wait for processes meet those that need a core.
    """
    long, short = [test for test in tests if is_long(test)], [test for test in tests if not is_long(test)]
    ordered: list[T] = []
    for worker in range(workers):
        mine = long[worker::workers]
        begin = worker * len(mine) // workers
        mine = [*mine[begin:], *mine[:begin]]
        share = (len(tests) - len(ordered)) // (workers - worker)
        filling = max(0, share - len(mine))
        ordered += [*mine, *short[:filling]]
        short = short[filling:]
    return ordered + short
