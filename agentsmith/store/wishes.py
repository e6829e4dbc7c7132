"""What people want of a ticket's run: that it stops, or that there is one more after it."""

from __future__ import annotations

from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands
from agentsmith.store.keys import STOP_MS, Keys
from agentsmith.store.scripts import stop_requests as scripts


class Wishes:
    """They stand until the run ended, whoever carries it out by then."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def request_stop(self, ticket: TicketId, reason: str) -> bool:
        """Ask whoever runs the ticket to stop; it stands until the run ended. False when it has ended already."""
        k = self._keys
        return await scripts.RequestStop(
            stop=k.stop(ticket),
            heartbeat=k.heartbeat(ticket),
            running=k.running,
            index=k.queue_index,
            ended=k.ended(ticket),
            fence=k.fence(ticket),
            ticket=ticket,
            reason=reason,
        ).run(self._redis)

    async def stop_requested(self, ticket: TicketId) -> str | None:
        """The reason why the ticket's run is to stop, if somebody asked."""
        return await self._redis.get(self._keys.stop(ticket))

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
