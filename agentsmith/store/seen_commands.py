"""Commands that people wrote in comments: each is carried out once, whoever hears of it and however often.

Begun and done are told apart, so that one whose process died in the middle is carried out after all. The caller holds
the ticket's lock: of two who hear of the same comment only one is at it.
"""

from __future__ import annotations

from agentsmith.store.keys import COMMAND_MS, Keys
from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripts import seen_commands as scripts
from agentsmith.store.scripts.seen_commands import Seen


class SeenCommands:
    """Which commands were carried out."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def begin(self, tracker: str, remark: str) -> Seen:
        """What is known of the command in this comment; from now on it is begun."""
        return await scripts.Begin(command=self._keys.command(tracker, remark)).on(self._redis)

    async def done(self, tracker: str, remark: str) -> None:
        """The command was carried out, or is not to be."""
        await self._redis.set(self._keys.command(tracker, remark), Seen.DONE.value, px=COMMAND_MS)
