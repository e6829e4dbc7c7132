"""What brings structures into line that stand side by side, see `agentsmith.store.healing`."""

from __future__ import annotations

from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import Key
from agentsmith.store.scripting import Script


class Align(Script[bool]):
    """Have an intent looked at, or what is none forgotten, whatever made them disagree (P5)."""

    intent: Key
    intents: Key
    ticket: TicketId
    lua = """
if redis.call('EXISTS', intent) == 0 then return redis.call('ZREM', intents, ticket) end
return redis.call('ZADD', intents, 'NX', now_us() / 1000, ticket)
"""
