"""Which processes are alive, and whether Redis can be trusted to remember them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from agentsmith.domain.stop import TAKEN_OVER, StopReason
from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands, Value
from agentsmith.store.keys import CYCLE_MS, Keys
from agentsmith.store.scripting import Script

_TICK: Final = Script(f"""
local alive, consumers, epoch, settling_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local consumer, about, ttl, settle = unpack(ARGV)
settling(epoch, settling_key, settle)
redis.call('SET', alive, about, 'PX', ttl)
redis.call('ZADD', consumers, 'NX', now_us() / 1000, consumer)
local stops = {{}}
for i = 1, #ARGV - 4 do
  local stop, fence, mine = KEYS[3 + 2 * i], KEYS[4 + 2 * i], tonumber(ARGV[4 + i])
  stops[i] = newest(fence) > mine and '{TAKEN_OVER.to_wire()}' or redis.call('GET', stop) or ''
end
return {{redis.call('GET', epoch), stops}}
""")
_NOTE_CYCLE: Final = Script(f"""
local cycle, fence = unpack(KEYS)
local mine, what = unpack(ARGV)
if tonumber(mine) > 0 and newest(fence) > tonumber(mine) then return 0 end
redis.call('SET', cycle, cjson.encode({{at = text(now_us() / 1000), what = what}}), 'PX', {CYCLE_MS})
return 1
""")
_SETTLING: Final = Script("return settling(KEYS[1], KEYS[2], ARGV[1]) and 1 or 0")


@dataclass(frozen=True, slots=True)
class Process:
    """One agentsmith process, as it describes itself."""

    name: str
    host: str = ""
    pid: int = 0
    roles: tuple[str, ...] = ()
    slots: int = 0
    started: float = 0.0
    version: str = ""
    problem: str = ""
    """What is wrong with the configuration file since it was last good; the last good one is in force."""
    trouble: str = ""
    """What is wrong with its machine: until that is over, it takes no work."""
    runs: tuple[str, ...] | None = None
    """The pipelines that it knows, and the trackers as `tracker:`; None where an older release does not say."""

    def may_run(self, tracker: str, pipeline: str) -> bool:
        """Whether it takes requests, and perhaps knows what this one is about."""
        return bool(self.slots) and (self.runs is None or {f"{tracker}:", pipeline} <= set(self.runs))


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a role, since when, and under which fence."""

    holder: str
    fence: int
    since: float


@dataclass(frozen=True, slots=True)
class Cycle:
    """The last cycle that a leader finished, and what it did."""

    at: float
    what: str


@dataclass(frozen=True, slots=True)
class Tick:
    """What a process learns each time it says that it is alive."""

    epoch: str
    """Changes when Redis was restarted or emptied: then put back what you hold."""
    stops: dict[TicketId, StopReason]
    """Runs that are to stop, and why: somebody asked for it, or took the ticket over."""


class Presence:
    """Liveness of processes, and the settling period after Redis lost its memory."""

    def __init__(self, redis: Commands, keys: Keys, *, settle_ms: int) -> None:
        self._redis, self._keys, self._settle_ms = redis, keys, settle_ms

    async def tick(self, process: Process, *, ttl: float, running: Mapping[TicketId, int]) -> Tick:
        """Say that the process is alive and learn which of its runs, each with its fence, are to stop."""
        k = self._keys
        asked = [key for ticket in running for key in (k.stop(ticket), k.fence(ticket))]
        keys = [k.consumer(process.name), k.consumers, k.epoch, k.settling, *asked]
        args: list[Value] = [process.name, _told_by(process), round(ttl * 1000), self._settle_ms, *running.values()]
        epoch, stops = await _TICK(self._redis, keys, args)
        return Tick(epoch, {t: StopReason.from_wire(stop) for t, stop in zip(running, stops, strict=True) if stop})

    async def leave(self, process: str) -> None:
        """The process ends and holds nothing any more."""
        await self._redis.delete(self._keys.consumer(process))

    async def known(self) -> list[str]:
        """Every process that may own a processing list."""
        return list(await self._redis.zrange(self._keys.consumers, 0, -1))

    async def forget(self, process: str) -> None:
        """The process is gone and nothing of it is left."""
        await self._redis.zrem(self._keys.consumers, process)

    async def alive(self) -> list[Process]:
        """Every process that said so lately."""
        names = await self.known()
        told = await self._redis.mget([self._keys.consumer(name) for name in names]) if names else []
        return [read_process(about) for about in told if about]

    async def settling(self) -> bool:
        """Whether nothing may be declared dead for now."""
        return bool(await _SETTLING(self._redis, [self._keys.epoch, self._keys.settling], [self._settle_ms]))

    async def find_owners(self) -> int:
        """Get to know processes that own a list and never ticked, or not since Redis was emptied; answers how many.

        It walks over every key: for now and then.
        """
        names: set[str] = set()
        for family in (self._keys.queue_processing(""), self._keys.inbox_processing("")):
            cursor = None
            while cursor != 0:
                cursor, found = await self._redis.scan(cursor or 0, match=f"{family}*", count=1000)
                names.update(key.removeprefix(family) for key in found)
        unknown = names - set(await self.known())
        if unknown:
            await self._redis.zadd(self._keys.consumers, dict.fromkeys(unknown, 0.0), nx=True)
        return len(unknown)

    async def note_cycle(self, role: str, what: str, *, fence: int = 0) -> bool:
        """The leader of `role` finished a cycle in the term of `fence`; False when a newer term has begun."""
        keys = [self._keys.leader_cycle(role), self._keys.leader_fence(role)]
        return bool(await _NOTE_CYCLE(self._redis, keys, [fence, what]))

    async def last_cycle(self, role: str) -> Cycle | None:
        """What the leader of `role` last noted."""
        found = await self._redis.get(self._keys.leader_cycle(role))
        if found is None:
            return None
        noted = json.loads(found)
        return Cycle(float(noted["at"]) / 1000, noted["what"])

    async def leader(self, role: str) -> Leader | None:
        """Who leads `role` now."""
        found = await self._redis.get(self._keys.leader(role))
        if found is None:
            return None
        term = json.loads(found)
        return Leader(term["holder"], int(term["fence"]), float(term["since"]) / 1000)


def read_process(about: str) -> Process:
    """What a process says about itself; another release may say more than we know of, or less."""
    known, said = {field.name for field in fields(Process)}, json.loads(about)
    told: dict[str, Any] = {name: value for name, value in said.items() if name in known}
    told |= {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
    return Process(**told)


@functools.lru_cache(maxsize=8)
def _told_by(process: Process) -> str:
    """What a process says about itself; it says the same every few hundred milliseconds."""
    return json.dumps(asdict(process))
