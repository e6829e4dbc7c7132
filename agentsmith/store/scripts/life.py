"""Whether a ticket's run lives, see `Runs.life` in `agentsmith.store.runs`."""

from __future__ import annotations

from agentsmith.domain.facts import Life
from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import UNRENEWED_MS, Key
from agentsmith.store.scripting import Script


class Judge(Script[Life]):
    """Whether a ticket's run lives: it is dead when its guard let go, or when lease and consumer are both gone in two
    looks one renewal apart; while Redis may have forgotten something, nobody is declared dead (P1, P5)."""

    heartbeat: Key
    running: Key
    suspects: Key
    released: Key
    epoch: Key
    settling_key: Key
    unrenewed: Key
    ticket: TicketId
    consumer_of: str
    renew_ms: int
    lapse_ms: int
    settle: int
    patient: bool
    unrenewed_lives_ms = UNRENEWED_MS
    lua = """
if redis.call('EXISTS', heartbeat) == 1 then
  redis.call('ZREM', suspects, ticket)
  return 'alive'
end
if settling(epoch, settling_key, settle) then return 'settling' end
if not patient or redis.call('ZSCORE', released, ticket) then return 'dead' end
local value = redis.call('HGET', running, ticket)
local now = now_us() / 1000
local lease = value and cjson.decode(value)
if lease and redis.call('EXISTS', consumer_of .. lease.consumer) == 1 then
  redis.call('ZREM', suspects, ticket)
  -- Whoever carries the run out puts its heartbeat back at once; after the time of a lease nobody can any more.
  local since, fence = (redis.call('GET', unrenewed) or ''):match('^(%d+) (%d+)$')
  if fence ~= lease.fence then
    redis.call('SET', unrenewed, text(now) .. ' ' .. lease.fence, 'PX', unrenewed_lives_ms)
    return 'alive'
  end
  return now - tonumber(since) < lapse_ms and 'alive' or 'dead'
end
local first = redis.call('ZSCORE', suspects, ticket)
if not first then
  redis.call('ZADD', suspects, now, ticket)
  return 'suspected'
end
if now - tonumber(first) < renew_ms then return 'suspected' end
return 'dead'
"""


class ForgetSuspicion(Script[None]):
    """The ticket needs no recovery (any more), unless its run has ended since it was looked at (P5)."""

    heartbeat: Key
    running: Key
    suspects: Key
    released: Key
    ticket: TicketId
    lua = """
-- The guard may have let the lease go since the ticket was looked at: then the mark is all that tells of it.
if redis.call('EXISTS', heartbeat) == 0 and redis.call('HEXISTS', running, ticket) == 1 then return end
for _, marks in ipairs({suspects, released}) do redis.call('ZREM', marks, ticket) end
"""


class Forget(Script[None]):
    """A dead run about which nothing is to be done is looked at no more; one that lives after all stays known (P1)."""

    heartbeat: Key
    running: Key
    suspects: Key
    released: Key
    ticket: TicketId
    lua = """
for _, marks in ipairs({suspects, released}) do redis.call('ZREM', marks, ticket) end
-- A run that lives after all puts its lease back, and itself with it.
if redis.call('EXISTS', heartbeat) == 0 then redis.call('HDEL', running, ticket) end
"""
