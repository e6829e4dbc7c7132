"""What a tracker refuses us for good: noted once, for people to read, until it works again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from agentsmith.boottime import boottime
from agentsmith.store.commands import Commands
from agentsmith.store.keys import REFUSALS_MS, Keys
from agentsmith.store.scripting import Script

_NOTE: Final = Script(f"""
local refusals = KEYS[1]
local field, told = unpack(ARGV)
local new = redis.call('HSETNX', refusals, field, told)
redis.call('PEXPIRE', refusals, {REFUSALS_MS})
return new
""")
_CLEAR: Final = Script("return redis.call('HDEL', KEYS[1], unpack(ARGV))")
_SURE_FOR: Final = 10.0
"""Seconds for which nobody asks again whether anything is noted: only another process can have done so."""
_BETWEEN: Final = "\n"
"""Stands in no tracker's name."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a tracker does not let us do, since when, in its own words, and what a person can do about it."""

    tracker: str
    doing: str
    since: float
    said: str
    remedy: str


class Refusals:
    """One line for each tracker and each kind of thing that it refuses."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys
        self._cleared: dict[str, float] = {}
        """When we last saw that nothing is noted, by field: what works is told again and again."""

    async def noted(self, refusal: Refusal) -> bool:
        """Remember it; True when nobody had noted it yet."""
        told = json.dumps({"since": refusal.since, "said": refusal.said, "remedy": refusal.remedy})
        field = f"{refusal.tracker}{_BETWEEN}{refusal.doing}"
        self._cleared.pop(field, None)
        return bool(await _NOTE(self._redis, [self._keys.refusals], [field, told]))

    async def clear(self, tracker: str, *doings: str) -> bool:
        """They work; True when one of them did not before. What others noted meanwhile may stand for some seconds."""
        now = boottime()
        fields = [f"{tracker}{_BETWEEN}{it}" for it in doings]
        if all(now - self._cleared.get(field, -_SURE_FOR) < _SURE_FOR for field in fields):
            return False
        cleared = bool(await _CLEAR(self._redis, [self._keys.refusals], fields))
        self._cleared.update(dict.fromkeys(fields, now))
        return cleared

    async def standing(self) -> list[Refusal]:
        """All that is refused now, oldest first."""
        found = []
        for field, text in (await self._redis.hgetall(self._keys.refusals)).items():
            tracker, _, doing = field.partition(_BETWEEN)
            told = json.loads(text)
            since = float(told.get("since", 0.0))
            found.append(Refusal(tracker, doing, since, str(told.get("said", "")), str(told.get("remedy", ""))))
        return sorted(found, key=lambda refusal: (refusal.since, refusal.tracker, refusal.doing))
