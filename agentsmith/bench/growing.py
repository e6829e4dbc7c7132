"""Whether a daemon grows with what it has done: its memory, and its work per ticket, over many that stay open."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from agentsmith.bench.figures import Reading
from agentsmith.bench.ground import TRIGGER, BenchTrouble, Ground, daemon, working
from agentsmith.domain.lifecycle import LabelSet, Status

if TYPE_CHECKING:
    from agentsmith.simulators.github.playground import GitHubPlayground

_TICKETS: Final = 1800
_THIRDS: Final = 3
_AT_ONCE: Final = 30
_POLL_EVERY: Final = 5.0
"""Seconds; more often than by default, because what is polled is the list that grows."""
_DONE_WITHIN: Final = 120.0
_LOOK_EVERY: Final = 0.01


async def measure(ground: Ground) -> list[Reading]:
    """The rows of this module: of the last third of the tickets, beside the same of the first."""
    # Imported late: whoever asks for other rows need not wait for a web server.
    from agentsmith.simulators import serve
    from agentsmith.simulators.github.playground import GitHubPlayground

    room, stage, each = ground.room("growth"), GitHubPlayground(), ground.times(_TICKETS // _THIRDS)
    stage.simulator.hub.limits.limit = None  # an hour's quota is for fewer tickets
    try:
        async with (
            serve(stage.simulator),
            daemon(
                room,
                working(ground, room, "github", {**stage.tracker(), "poll_interval": _POLL_EVERY}, "true"),
            ) as up,
        ):
            stage.send_webhooks(f"http://127.0.0.1:{up.port}/webhooks/github")
            await _work_off(stage, _AT_ONCE)  # what is loaded and made when it is first needed
            used, memory = [up.processor_seconds()], [up.memory()]
            for _ in range(_THIRDS):
                await _work_off(stage, each)
                used.append(up.processor_seconds())
                memory.append(up.memory())
    finally:
        stage.simulator.git.remove()
    return _readings(each, used, memory)


def _readings(each: int, used: list[float | None], memory: list[float | None]) -> list[Reading]:
    where, readings = f"growth over {_THIRDS * each:,} open tickets", []
    first, after_first, before_last, last = used
    if first is not None and after_first is not None and before_last is not None and last is not None:
        per_ticket = (last - before_last) * 1000 / each, (after_first - first) * 1000 / each
        readings.append(Reading(f"{where}: processor time per ticket, last third to first", "ms", *per_ticket))
    if memory[1] is not None and memory[-1] is not None:
        readings.append(
            Reading(f"{where}: memory, after the last third to after the first", "MB", memory[-1], memory[1])
        )
    return readings


async def _work_off(stage: GitHubPlayground, tickets: int) -> None:
    """Have so many more tickets done, some at once, and leave them open."""
    for begin in range(0, tickets, _AT_ONCE):
        few = range(min(_AT_ONCE, tickets - begin))
        keys, give_up = [stage.tickets.open("Work", [TRIGGER]) for _ in few], time.monotonic() + _DONE_WITHIN
        while left := [key for key in keys if LabelSet().statuses(stage.tickets.labels(key)) != {Status.DONE}]:
            if time.monotonic() > give_up:
                raise BenchTrouble(f"not done within {_DONE_WITHIN:.0f} s: tickets {', '.join(left[:5])}")
            await asyncio.sleep(_LOOK_EVERY)
        stage.simulator.forget_requests()
