"""What processes report about themselves, and what they learn in return, see `agentsmith.store.presence`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentsmith.domain.stop import TAKEN_OVER
from agentsmith.store.keys import CYCLE_MS, Key
from agentsmith.store.scripting import Script


@dataclass(frozen=True, slots=True)
class TickAnswer:
    """What a process learns each time it says that it is alive."""

    epoch: str
    stops: list[str]
    """Why each of its runs is to stop; empty where it may go on."""


class Tick(Script[TickAnswer]):
    """Say that a process is alive; which of its runs are to stop, because somebody asked for it or took over (P6)."""

    alive: Key
    consumers: Key
    epoch: Key
    settling_key: Key
    stops_and_fences: Sequence[Key]
    """Of each run."""
    consumer: str
    about: str
    ttl: int
    settle: int
    mine: Sequence[int]
    """The fence of each run."""
    taken_over = TAKEN_OVER.to_wire()
    lua = """
settling(epoch, settling_key, settle)
redis.call('SET', alive, about, 'PX', ttl)
redis.call('ZADD', consumers, 'NX', now_us() / 1000, consumer)
local stops = {}
for i, fence in ipairs(mine) do
  local stop, newest_fence = stops_and_fences[2 * i - 1], newest(stops_and_fences[2 * i])
  stops[i] = newest_fence > tonumber(fence) and taken_over or redis.call('GET', stop) or ''
end
return {redis.call('GET', epoch), stops}
"""


class NoteCycle(Script[bool]):
    """Note what a leader did in a cycle; not once a newer term has begun (P6)."""

    cycle: Key
    fence: Key
    mine: int
    """0 where there are no terms."""
    what: str
    cycle_lives_ms = CYCLE_MS
    lua = """
if mine > 0 and newest(fence) > mine then return 0 end
redis.call('SET', cycle, cjson.encode({at = text(now_us() / 1000), what = what}), 'PX', cycle_lives_ms)
return 1
"""


class Settling(Script[bool]):
    """Whether Redis may have forgotten something, so that nobody is to be declared dead (P1, P2)."""

    epoch: Key
    settling_key: Key
    settle: int
    lua = "return settling(epoch, settling_key, settle) and 1 or 0"
