"""What people want of a ticket's run: that it stops, or that there is one more after it."""

from __future__ import annotations

from typing import Final

from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands
from agentsmith.store.keys import STOP_MS, Keys
from agentsmith.store.scripting import Script

_REQUEST_STOP: Final = Script(f"""
local stop, heartbeat, running, index, ended, fence = unpack(KEYS)
local ticket, reason = unpack(ARGV)
local runs = redis.call('EXISTS', heartbeat) + redis.call('HEXISTS', running, ticket)
local known = runs + redis.call('HEXISTS', index, ticket)
-- The last run has ended and nothing waits: the request would stop a run that nobody has asked for yet.
if known == 0 and tonumber(redis.call('GET', ended) or '-1') == newest(fence) then return 0 end
redis.call('SET', stop, reason, 'PX', {STOP_MS})
return 1
""")


class Wishes:
    """They stand until the run ended, whoever carries it out by then."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def request_stop(self, ticket: TicketId, reason: StopReason) -> bool:
        """Ask whoever runs the ticket to stop; it stands until the run ended. False when it has ended already."""
        k = self._keys
        keys = [k.stop(ticket), k.heartbeat(ticket), k.running, k.queue_index, k.ended(ticket), k.fence(ticket)]
        return bool(await _REQUEST_STOP(self._redis, keys, [ticket, reason.to_wire()]))

    async def stop_requested(self, ticket: TicketId) -> StopReason | None:
        """The reason why the ticket's run is to stop, if somebody asked."""
        reason = await self._redis.get(self._keys.stop(ticket))
        return StopReason.from_wire(reason) if reason else None

    async def withdraw_stop(self, ticket: TicketId) -> None:
        """There is nothing (any more) that could be stopped."""
        await self._redis.delete(self._keys.stop(ticket))

    async def note_follow_up(self, ticket: TicketId, by: str) -> None:
        """Run it once more after the live run."""
        await self._redis.set(self._keys.follow_up(ticket), by or "someone", px=STOP_MS)

    async def withdraw_follow_up(self, ticket: TicketId) -> None:
        """Do not run it once more after all."""
        await self._redis.delete(self._keys.follow_up(ticket))

    async def follow_up(self, ticket: TicketId) -> str | None:
        """Who asked for the ticket to run once more after its live run, if anybody did."""
        return await self._redis.get(self._keys.follow_up(ticket))
