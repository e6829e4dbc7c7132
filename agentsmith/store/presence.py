"""Which processes are alive, and whether Redis can be trusted to remember them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import Keys
from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripts import presence as scripts


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
        answer = await scripts.Tick(
            alive=k.consumer(process.name),
            consumers=k.consumers,
            epoch=k.epoch,
            settling_key=k.settling,
            stops_and_fences=[key for ticket in running for key in (k.stop(ticket), k.fence(ticket))],
            consumer=process.name,
            about=_description(process),
            ttl=round(ttl * 1000),
            settle=self._settle_ms,
            mine=list(running.values()),
        ).on(self._redis)
        return Tick(
            answer.epoch, {t: StopReason.from_wire(stop) for t, stop in zip(running, answer.stops, strict=True) if stop}
        )

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
        descriptions = await self._redis.mget([self._keys.consumer(name) for name in names]) if names else []
        return [read_process(about) for about in descriptions if about]

    async def settling(self) -> bool:
        """Whether nothing may be declared dead for now."""
        k = self._keys
        return await scripts.Settling(epoch=k.epoch, settling_key=k.settling, settle=self._settle_ms).on(self._redis)

    async def find_owners(self) -> int:
        """Get to know processes that own a list and never ticked, or not since Redis was emptied; answers how many.

        It scans every key, so not too often.
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
        k = self._keys
        return await scripts.NoteCycle(
            cycle=k.leader_cycle(role), fence=k.leader_fence(role), mine=fence, what=what
        ).on(self._redis)

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
    values: dict[str, Any] = {name: value for name, value in said.items() if name in known}
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Process(**values)


@functools.lru_cache(maxsize=8)
def _description(process: Process) -> str:
    """What a process says about itself; it says the same every few hundred milliseconds."""
    return json.dumps(asdict(process))
