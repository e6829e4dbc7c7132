"""What can be measured, by name, and measuring it."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agentsmith.bench import growing, living, queueing, receiving, running, starting
from agentsmith.bench.figures import Reading, Row, over
from agentsmith.bench.ground import Ground, prepared

GROUPS: Final[Mapping[str, Callable[[Ground], Awaitable[list[Reading]]]]] = {
    "queue": queueing.measure,
    "run": running.measure,
    "receiver": receiving.measure,
    "life": living.measure,
    "growth": growing.measure,
    "start": starting.measure,
}
"""By the name that the command line calls them."""
WITHOUT_ASKING: Final = tuple(name for name in GROUPS if name != "growth")
"""What is measured when nothing is named; one pass over the others takes minutes."""

Tell = Callable[[str], None]


async def measured(folder: Path, groups: Sequence[str], *, passes: int, effort: float, tell: Tell) -> list[Row]:
    """The rows of these groups. `tell` hears what is being measured, before it is."""
    rows: list[Row] = []
    async with prepared(folder, effort) as ground:
        for name in groups:
            readings = []
            for number in range(passes):
                tell(f"{name}, {number + 1} of {passes}")
                readings.append(await GROUPS[name](ground))
            rows += over(readings)
    return rows


def machine() -> dict[str, Any]:
    """On what it was measured."""
    return {"system": platform.platform(), "processor": _processor(), "python": platform.python_version()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()
