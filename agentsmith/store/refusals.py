"""What a tracker refuses us for good: noted once, for people to read, until it works again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from agentsmith.boottime import boottime
from agentsmith.store.keys import Keys
from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripts import refusals as scripts

_SURE_FOR: Final = 10.0
"""Seconds for which nobody asks again whether anything is noted: only another process can have done so."""
_STANDS_FOR: Final = 900
"""Seconds within which a ticket that is refused was tried again, if anybody still wants it."""
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
    ticket: str = ""
    """The ticket that it was met on, where another one may be let through."""


class Refusals:
    """One line for each tracker and each kind of thing that it refuses."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys
        self._cleared: dict[str, float] = {}
        """When we last saw that nothing is noted, by field: what works is told again and again."""

    async def noted(self, refusal: Refusal) -> bool:
        """Remember it; True when nobody had noted it yet."""
        fields = {"since": refusal.since, "said": refusal.said, "remedy": refusal.remedy, "ticket": refusal.ticket}
        details = json.dumps(fields)
        field = f"{refusal.tracker}{_BETWEEN}{refusal.doing}"
        self._cleared.pop(field, None)
        return await scripts.Note(refusals=self._keys.refusals, field=field, details=details).on(self._redis)

    async def clear(self, tracker: str, *doings: str, ticket: str = "") -> bool:
        """They work; True when one of them did not before. What others noted meanwhile may stand for some seconds.

        What was refused on another ticket than `ticket` stands until that one is let through, or is not tried any more.
        """
        now = boottime()
        fields = [f"{tracker}{_BETWEEN}{it}" for it in doings]
        if all(now - self._cleared.get(field, -_SURE_FOR) < _SURE_FOR for field in fields):
            return False
        cleared, standing = await scripts.Clear(
            refusals=self._keys.refusals, fields=fields, ticket=ticket, stands_for_s=_STANDS_FOR
        ).on(self._redis)
        if not standing:
            self._cleared.update(dict.fromkeys(fields, now))
        return cleared > 0

    async def standing(self) -> list[Refusal]:
        """All that is refused now, oldest first."""
        found = []
        for field, text in (await self._redis.hgetall(self._keys.refusals)).items():
            tracker, _, doing = field.partition(_BETWEEN)
            details = json.loads(text)
            since = float(details.get("since", 0.0))
            said, remedy, ticket = (str(details.get(name, "")) for name in ("said", "remedy", "ticket"))
            found.append(Refusal(tracker, doing, since, said, remedy, ticket))
        return sorted(found, key=lambda refusal: (refusal.since, refusal.tracker, refusal.doing))
