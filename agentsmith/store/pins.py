"""Pins: the text of a ticket that somebody who may start work has vetted, for as long as that may still run (P7)."""

from __future__ import annotations

import json
from dataclasses import asdict

from agentsmith.domain.ticket import TicketId
from agentsmith.domain.vetting import Pin
from agentsmith.store.keys import PIN_MS, Keys
from agentsmith.store.redis_commands import Commands


class Pins:
    """One pin per ticket. Losing one is safe: the ticket's history is asked instead, and our comment.

    It goes in the step that notes the end of what was asked for (`Intents.published`).
    """

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def keep(self, ticket: TicketId, pin: Pin) -> None:
        """This text was vetted."""
        await self._redis.set(self._keys.pin(ticket), json.dumps(asdict(pin), separators=(",", ":")), px=PIN_MS)

    async def of(self, ticket: TicketId) -> Pin | None:
        """What was vetted last, if that is known."""
        kept = await self._redis.get(self._keys.pin(ticket))
        if kept is None:
            return None
        fields = json.loads(kept)
        return Pin(text=str(fields.get("text", "")), ask=str(fields.get("ask", "")), by=str(fields.get("by", "")))
