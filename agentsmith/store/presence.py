"""Which processes are alive, and whether Redis can be trusted to remember them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands
from agentsmith.store.keys import CYCLE_MS, Keys
from agentsmith.store.scripting import Script

_TICK: Final = Script("""
local alive, consumers, epoch, settling_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local consumer, about, ttl, settle = unpack(ARGV)
settling(epoch, settling_key, settle)
redis.call('SET', alive, about, 'PX', ttl)
redis.call('ZADD', consumers, 'NX', now_us() / 1000, consumer)
local stops = {}
for i = 5, #KEYS do stops[#stops + 1] = redis.call('GET', KEYS[i]) or '' end
return {redis.call('GET', epoch), stops}
""")
_SETTLING: Final = Script("return settling(KEYS[1], KEYS[2], ARGV[1]) and 1 or 0")


@dataclass(frozen=True, slots=True)
class Process:
    """One agentsmith process, as it describes itself."""

    name: str
    host: str
    pid: int
    roles: tuple[str, ...]
    slots: int
    started: float
    version: str
    problem: str = ""
    """What is wrong with the configuration file since it was last good; the last good one is in force."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What a process learns each time it says that it is alive."""

    epoch: str
    """Changes when Redis was restarted or emptied: then put back what you hold."""
    stops: dict[TicketId, str]


class Presence:
    """Liveness of processes, and the settling period after Redis lost its memory."""

    def __init__(self, redis: Commands, keys: Keys, *, settle_ms: int) -> None:
        self._redis, self._keys, self._settle_ms = redis, keys, settle_ms

    async def tick(self, process: Process, *, ttl: float, running: Sequence[TicketId]) -> Tick:
        """Say that the process is alive and learn which of its runs are to stop."""
        k = self._keys
        keys = [k.consumer(process.name), k.consumers, k.epoch, k.settling, *map(k.stop, running)]
        about = json.dumps(asdict(process))
        epoch, stops = await _TICK(self._redis, keys, [process.name, about, round(ttl * 1000), self._settle_ms])
        return Tick(epoch, {t: stop for t, stop in zip(running, stops, strict=True) if stop})

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
        found = [json.loads(about) for about in told if about]
        # A newer release may say more about itself than we know of.
        known = {field.name for field in fields(Process)}
        said = [{name: value for name, value in about.items() if name in known} for about in found]
        return [Process(**{**about, "roles": tuple(about["roles"])}) for about in said]

    async def settling(self) -> bool:
        """Whether nothing may be declared dead for now."""
        return bool(await _SETTLING(self._redis, [self._keys.epoch, self._keys.settling], [self._settle_ms]))

    async def note_cycle(self, role: str, text: str) -> None:
        """The leader of `role` finished a cycle."""
        await self._redis.set(self._keys.leader_cycle(role), text, px=CYCLE_MS)

    async def last_cycle(self, role: str) -> str | None:
        """What the leader of `role` last noted."""
        return await self._redis.get(self._keys.leader_cycle(role))

    async def leader(self, role: str) -> str | None:
        """Who leads `role` now."""
        return await self._redis.get(self._keys.leader(role))
