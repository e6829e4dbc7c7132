"""Commands that people wrote in comments: each is carried out once, whoever hears of it and however often.

Begun and done are told apart, so that one whose process died in the middle is carried out after all. The caller holds
the ticket's lock: of two who hear of the same comment only one is at it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from agentsmith.store.commands import Commands
from agentsmith.store.keys import COMMAND_MS, Keys
from agentsmith.store.scripting import Script

_BEGIN: Final = Script(f"""
local known = redis.call('GET', KEYS[1])
if known then return known end
redis.call('SET', KEYS[1], 'begun', 'PX', {COMMAND_MS})
return 'new'
""")


class Order(StrEnum):
    """What is known of a command."""

    NEW = "new"
    """Never heard of; it counts as begun now."""
    BEGUN = "begun"
    """Somebody began with it and did not come to its end."""
    DONE = "done"


class Orders:
    """Which commands were carried out."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def begin(self, tracker: str, remark: str) -> Order:
        """What is known of the command in this comment; from now on it is begun."""
        return Order(await _BEGIN(self._redis, [self._keys.command(tracker, remark)]))

    async def done(self, tracker: str, remark: str) -> None:
        """The command was carried out, or is not to be."""
        await self._redis.set(self._keys.command(tracker, remark), Order.DONE.value, px=COMMAND_MS)
