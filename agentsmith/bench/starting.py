"""How long the program takes to say anything, and until it serves, beside a bare start of Python."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

from agentsmith.bench.figures import Reading
from agentsmith.bench.ground import BenchTrouble, Ground, daemon, environment

_COMMANDS: Final = (("--version",), ("status",))


async def measure(ground: Ground) -> list[Reading]:
    """The rows of this module."""
    times = ground.times(5)
    bare = min([await _took(ground, "-c", "pass") for _ in range(times)])
    readings = []
    for words in _COMMANDS:
        took = min([await _took(ground, "-m", "agentsmith", *words) for _ in range(times)])
        readings.append(Reading(f"start: {' '.join(words)}", "ms", took, bare))
    readings.append(Reading("start: up, until it serves", "ms", await _until_it_serves(ground), bare))
    return readings


async def _took(ground: Ground, *arguments: str) -> float:
    """Milliseconds of a whole process; the quickest of some, because whatever else is done only adds to it."""
    room = ground.room("start")
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=room, env=environment(room), stdout=asyncio.subprocess.DEVNULL
    )
    if await process.wait() != 0:
        raise BenchTrouble(f"python {' '.join(arguments)} ended with exit code {process.returncode}")
    return (time.perf_counter() - started) * 1000


async def _until_it_serves(ground: Ground) -> float:
    room = ground.room("up")
    started = time.perf_counter()
    async with daemon(room, {}):
        return (time.perf_counter() - started) * 1000
