"""What happens to requests, see `agentsmith.store.queue`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import PUBLISHED_MS, Key
from agentsmith.store.scripting import Script
from agentsmith.store.scripts.parts import CAPACITY, ENTRIES, LISTED


class Pushed(StrEnum):
    """What became of a push."""

    PUSHED = "pushed"
    QUEUED = "queued"
    """Another request for this ticket is waiting or in flight."""
    LEASED = "leased"
    """The ticket is running."""
    FENCED = "fenced"
    """Somebody took the ticket over since."""
    SETTLING = "settling"


class Push(Script[Pushed]):
    """Put a request on the queue unless its ticket is queued, runs or was taken over (P1); the claim is over then."""

    queue: Key
    index: Key
    fence: Key
    heartbeat: Key
    intent: Key
    intents: Key
    published: Key
    claims: Key
    reservations: Key
    epoch: Key
    settling_key: Key
    places: Sequence[Key]
    ticket: TicketId
    mine: int
    payload: str
    front: bool
    loop_window: int
    settle: int
    uses = (CAPACITY, LISTED)
    published_lives_ms = PUBLISHED_MS
    lua = """
local waiting = redis.call('HGET', index, ticket)
if waiting == payload then return 'pushed' end
if settle > 0 and settling(epoch, settling_key, settle) then return 'settling' end
if newest(fence) > mine then return 'fenced' end
if waiting then return 'queued' end
if redis.call('EXISTS', heartbeat) == 1 then return 'leased' end
redis.call(front and 'LPUSH' or 'RPUSH', queue, listed(payload))
redis.call('HSET', index, ticket, payload)
redis.call('DEL', intent)
redis.call('ZREM', intents, ticket)
redis.call('ZREM', reservations, ticket)
for _, place in ipairs(places) do occupy(place, ticket) end
redis.call('SET', published, 'enqueued', 'PX', published_lives_ms)
if loop_window > 0 then
  redis.call('ZADD', claims, now_us(), text(mine))
  redis.call('PEXPIRE', claims, loop_window)
end
return 'pushed'
"""


class AcknowledgeAndTake(Script[list[str]]):
    """Acknowledge what is done and move what fits into the taker's list, from the head of the queue (P1, P2)."""

    queue: Key
    index: Key
    processing: Key
    room: int
    done: Sequence[str]
    """Ticket and entry of each."""
    uses = (LISTED,)
    lua = """
for i = 1, #done, 2 do
  local ticket, entry = done[i], done[i + 1]
  -- Who has it no longer has nothing to say about it.
  if redis.call('LREM', processing, 1, entry) > 0 and stands_for(entry, redis.call('HGET', index, ticket)) then
    redis.call('HDEL', index, ticket)
  end
end
local taken = {}
while #taken < room do
  local payload = redis.call('LMOVE', queue, processing, 'LEFT', 'RIGHT')
  if not payload then break end
  taken[#taken + 1] = payload
end
return taken
"""


class PutBack(Script[int]):
    """Return a dead consumer's requests to the head of the queue, in their order, under new names (P2); -1: it lives.

    While a lease stands its run may be alive: that request stays where it is until the lease is gone (P1).
    """

    queue: Key
    index: Key
    processing: Key
    alive: Key
    consumers: Key
    epoch: Key
    settling_key: Key
    signals: Key
    consumer: str
    settle: int
    heartbeat_of: str
    name: str
    uses = (ENTRIES, LISTED)
    lua = """
if redis.call('EXISTS', alive) == 1 or settling(epoch, settling_key, settle) then return -1 end
local count = 0
local held = redis.call('LRANGE', processing, 0, -1)
for i = #held, 1, -1 do
  local payload = held[i]  -- its entry; the whole request is in the index
  local ok, request = pcall(cjson.decode, payload)
  local ticket = ok and type(request) == 'table' and type(request.ticket) == 'string' and request.ticket
  if not (ticket and redis.call('EXISTS', heartbeat_of .. ticket) == 1) then
    redis.call('LREM', processing, -1, payload)
    -- A request that is not in the index was withdrawn or replaced; one that nobody can read is to be buried.
    local whole = ticket and redis.call('HGET', index, ticket)
    if not ticket or stands_for(payload, whole) then
      local again = ticket and named(whole, name .. '.' .. i) or payload
      redis.call('LPUSH', queue, listed(again))
      if ticket then redis.call('HSET', index, ticket, again) end
      count = count + 1
    end
  end
end
-- Remembered as long as it owns anything: nobody would look for its lists otherwise.
if redis.call('EXISTS', processing, signals) == 0 then redis.call('ZREM', consumers, consumer) end
return count
"""


class Lost(Script[list[str]]):
    """Which requests stand in the index and in none of the lists, ticket and payload of each; `forget` them (P2)."""

    index: Key
    lists: Sequence[Key]
    forget: bool
    asked: Sequence[str]
    """Ticket and request of each; what is forgotten must be that request still."""
    uses = (LISTED,)
    lua = """
local lost = {}
for t = 1, #asked, 2 do
  local payload, found = redis.call('HGET', index, asked[t]), false
  for _, list in ipairs(lists) do found = found or payload and place_of(list, payload) end
  if payload and not found and (not forget or payload == asked[t + 1]) then
    lost[#lost + 1] = asked[t]
    lost[#lost + 1] = payload
    if forget then redis.call('HDEL', index, asked[t]) end
  end
end
return lost
"""


class Restore(Script[bool]):
    """Put a request in hand back where it belongs after Redis lost it (P2), unless there is another one (P1).

    Refused below the newest fence (P6): somebody took the ticket over, and it may have been withdrawn.
    """

    processing: Key
    index: Key
    fence: Key
    ticket: TicketId
    mine: int
    entry: str
    whole: str
    lua = """
if newest(fence) > mine then return 0 end
if redis.call('LPOS', processing, entry) then return 0 end
if redis.call('HEXISTS', index, ticket) == 1 then return 0 end
redis.call('RPUSH', processing, entry)
redis.call('HSET', index, ticket, whole)
return 1
"""


class Position(Script[int]):
    """How many requests are before the ticket's; -1 when none of it waits (P10)."""

    queue: Key
    index: Key
    ticket: TicketId
    uses = (LISTED,)
    lua = """
local payload = redis.call('HGET', index, ticket)
if not payload then return -1 end
return place_of(queue, payload) or -1
"""


class HandBack(Script[bool]):
    """Leave a request that was taken to others, at the tail of the queue, under a new name (P2)."""

    queue: Key
    index: Key
    processing: Key
    payload: str
    name: str
    uses = (ENTRIES, LISTED)
    lua = """
if redis.call('LREM', processing, 1, payload) == 0 then return 0 end
local ok, request = pcall(cjson.decode, payload)
local ticket = ok and type(request) == 'table' and type(request.ticket) == 'string' and request.ticket
local again = payload
if ticket then
  local whole = redis.call('HGET', index, ticket)
  if not stands_for(payload, whole) then return 0 end
  again = named(whole, name)
  redis.call('HSET', index, ticket, again)
end
redis.call('RPUSH', queue, listed(again))
return 1
"""


class Tickets(Script[str]):
    """The tickets in the index, as a JSON list (P10).

    One text instead of an array: tens of thousands of short answers would keep the event loop busy for too long.
    """

    index: Key
    lua = "return cjson.encode(redis.call('HKEYS', index))"


class Requests(Script[list[str]]):
    """The requests of these tickets, as far as there are any, without what is long in the tickets' text (P10)."""

    index: Key
    tickets: Sequence[TicketId]
    uses = (LISTED,)
    lua = """
local found = {}
for _, request in ipairs(redis.call('HMGET', index, unpack(tickets))) do
  if request then found[#found + 1] = listed(request) end
end
return found
"""


class Next(Script[list[str]]):
    """The first requests on the queue, next one first, without what is long in the tickets' text (P10)."""

    queue: Key
    most: int
    uses = (LISTED,)
    lua = """
local found = redis.call('LRANGE', queue, 0, most - 1)
for i, request in ipairs(found) do found[i] = listed(request) end
return found
"""


class Bury(Script[bool]):
    """Move a request from its taker's list to the dead letters (P2: what is given up is kept, with the reason)."""

    processing: Key
    index: Key
    dead: Key
    ticket: str
    payload: str
    letter: str
    uses = (LISTED,)
    lua = """
if redis.call('LREM', processing, 1, payload) == 0 then return 0 end
if ticket ~= '' and stands_for(payload, redis.call('HGET', index, ticket)) then redis.call('HDEL', index, ticket) end
redis.call('RPUSH', dead, letter)
return 1
"""
