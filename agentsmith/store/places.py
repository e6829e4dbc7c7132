"""Places: how many tickets are queued and running, in all, of one tracker and of one pipeline.

A ticket takes its places in the very step that begins its claim, also where there is no limit yet: one that is set
tomorrow counts what runs today. Nobody gives places back: one whose ticket is neither queued nor running nor being
claimed is free, and that is found out when it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentsmith.domain.request import PipelineRequest
from agentsmith.store.commands import Commands
from agentsmith.store.keys import PLACES_MS, Keys
from agentsmith.store.scripting import Script

COUNTING: Final = f"""
local function in_hand(ticket, index, running, reservations)
  if redis.call('HEXISTS', index, ticket) == 1 or redis.call('HEXISTS', running, ticket) == 1 then return true end
  local until_ms = redis.call('ZSCORE', reservations, ticket)
  return until_ms and tonumber(until_ms) > now_us() / 1000
end
-- How many places are taken; which of them are free again is looked at only when it matters.
local function taken(places, limit, index, running, reservations)
  local count = redis.call('HLEN', places)
  if (limit and count >= limit) or (count > 0 and count % 1000 == 0) then
    for _, ticket in ipairs(redis.call('HKEYS', places)) do
      if not in_hand(ticket, index, running, reservations) then redis.call('HDEL', places, ticket) end
    end
  end
  return redis.call('HLEN', places)
end
local function occupy(places, ticket)
  redis.call('HSET', places, ticket, '1')
  redis.call('PEXPIRE', places, {PLACES_MS})
end
"""
_OCCUPY: Final = Script(COUNTING + "for _, places in ipairs(KEYS) do occupy(places, ARGV[1]) end")


@dataclass(frozen=True, slots=True)
class Place:
    """Something that has room for so many tickets at once, or for any number."""

    name: str
    limit: int | None = None


class Places:
    """Who takes up room."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def occupy(self, request: PipelineRequest) -> None:
        """Count a ticket that is in hand without having been claimed here: Redis forgot it meanwhile."""
        keys = [self._keys.places(name) for name in all_of(request.tracker, request.pipeline)]
        await _OCCUPY(self._redis, keys, [request.ticket])


def all_of(tracker: str, pipeline: str) -> tuple[str, str, str]:
    """The places that a ticket takes up: in all, of its tracker, of its pipeline."""
    return "all", f"tracker:{tracker}", f"pipeline:{pipeline}"
