"""What people want of a ticket's run, see `agentsmith.store.wishes`."""

from __future__ import annotations

from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import STOP_MS, Key
from agentsmith.store.scripting import Script


class RequestStop(Script[bool]):
    """Ask whoever runs the ticket to stop; not once its run has ended, which would stop the next one (P2)."""

    stop: Key
    heartbeat: Key
    running: Key
    index: Key
    ended: Key
    fence: Key
    ticket: TicketId
    reason: str
    stop_lives_ms = STOP_MS
    lua = """
local runs = redis.call('EXISTS', heartbeat) + redis.call('HEXISTS', running, ticket)
local known = runs + redis.call('HEXISTS', index, ticket)
-- The last run has ended and nothing waits: the request would stop a run that nobody has asked for yet.
if known == 0 and tonumber(redis.call('GET', ended) or '-1') == newest(fence) then return 0 end
redis.call('SET', stop, reason, 'PX', stop_lives_ms)
return 1
"""
