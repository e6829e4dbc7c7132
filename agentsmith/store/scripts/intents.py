"""What is decided about a ticket, and what becomes of the decision, see `agentsmith.store.intents`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import (
    FENCE_MS,
    PUBLISHED_MS,
    QUESTION_MS,
    REASONS_AFTER_END_MS,
    REASONS_MS,
    WHERE_MS,
    Key,
)
from agentsmith.store.scripting import Script
from agentsmith.store.scripts.parts import CAPACITY, INBOX, LISTED, PARKED, RECORD

ClaimWord = Literal["begun", "unlocked", "unpublished", "leased", "queued", "loop", "full"]
DecideWord = Literal["decided", "unlocked", "unpublished", "settling", "leased", "queued", "in-flight", "put back"]


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """Whether the claim may go on, and what it was judged by."""

    word: ClaimWord
    figure: int
    """The fence; or how many claims, or tickets in the place that is full, there are already."""
    claims: int = 0
    """Within the window, before this one."""
    detail: float = 0
    """Where there are too many, when the first of them was, in µs; where a place is full, its number from 1."""


class BeginClaim(Script[ClaimAnswer]):
    """Begin to claim a ticket: nobody has it (P1), the loop limit allows it, and there is room, which it takes up.

    The claim is noted as an intent under the next fence (P6): whoever finds it dead finishes it or gives it up (P2).
    """

    lock: Key
    fence: Key
    heartbeat: Key
    index: Key
    intent: Key
    intents: Key
    claims: Key
    reservations: Key
    running: Key
    places: Sequence[Key]
    ticket: TicketId
    token: str
    loop_limit: int
    loop_window: int
    lock_ms: int
    limits: str
    """JSON: how many tickets each of the places has room for, null for any number."""
    fields: Sequence[str]
    """Of the intent."""
    uses = (RECORD, CAPACITY)
    lua = """
local now = now_us()
if redis.call('GET', lock) ~= token then return {'unlocked', 0} end
if (redis.call('HGET', intent, 'outcome') or '') ~= '' then return {'unpublished', 0} end
if redis.call('EXISTS', heartbeat) == 1 then return {'leased', 0} end
if redis.call('HEXISTS', index, ticket) == 1 then return {'queued', 0} end
redis.call('ZREMRANGEBYSCORE', claims, '-inf', now - loop_window * 1000)
local recent = redis.call('ZCARD', claims)
local within_loop_limit = recent < loop_limit
if not within_loop_limit then
  return {'loop', recent, recent, redis.call('ZRANGE', claims, 0, 0, 'WITHSCORES')[2] or '0'}
end
redis.call('ZREMRANGEBYSCORE', reservations, '-inf', now / 1000)
for i, most in ipairs(cjson.decode(limits)) do
  local limit = type(most) == 'number' and most
  redis.call('HDEL', places[i], ticket)
  local count = taken(places[i], limit, index, running, reservations)
  if limit and count >= limit then return {'full', count, recent, i} end
end
-- Longer than the slowest tracker takes; whoever finds the claim dead gives the place back at once.
redis.call('ZADD', reservations, now / 1000 + 10 * lock_ms, ticket)
for _, place in ipairs(places) do occupy(place, ticket) end
local mine = raise_fence(fence)
record(intent, intents, ticket, mine, lock_ms, fields)
return {'begun', text(mine), recent}
"""


@dataclass(frozen=True, slots=True)
class DecideAnswer:
    """Whether it was decided, under which fence, or what was in the way."""

    word: DecideWord
    fence: int = 0


class Decide(Script[DecideAnswer]):
    """Take a ticket over that nobody runs (P1) under the next fence (P6), and record what is to happen to it (P5)."""

    lock: Key
    fence: Key
    heartbeat: Key
    intent: Key
    intents: Key
    running: Key
    suspects: Key
    released: Key
    due: Key
    epoch: Key
    settling_key: Key
    index: Key
    queue: Key
    dead: Key
    signals: Key
    inbox_index: Key
    ticket: TicketId
    token: str
    settle: int
    look_in: int
    unqueue: bool
    letter: str
    signal: str
    fields: Sequence[str]
    """Of the intent; none where nothing is to be published."""
    uses = (RECORD, INBOX, LISTED)
    lua = """
if redis.call('GET', lock) ~= token then return {'unlocked', 0} end
if (redis.call('HGET', intent, 'outcome') or '') ~= '' then return {'unpublished', 0} end
if settle > 0 and settling(epoch, settling_key, settle) then return {'settling', 0} end
if redis.call('EXISTS', heartbeat) == 1 then return {'leased', 0} end
-- A consumer may take what is queued in any moment, lock or not: recovery leaves such a ticket to it, or unqueues it.
if settle > 0 and not unqueue and redis.call('HEXISTS', index, ticket) == 1 then return {'queued', 0} end
if unqueue then
  local payload = redis.call('HGET', index, ticket)
  if not payload or take_out(queue, payload) == 0 then return {'in-flight', 0} end
  redis.call('HDEL', index, ticket)
end
-- A signal that is no longer the caller's was given to another process, which has dealt with it or will.
if signal ~= '' and not put_away(signals, inbox_index, signal) then return {'put back', 0} end
redis.call('HDEL', running, ticket)
redis.call('ZREM', suspects, ticket)
redis.call('ZREM', released, ticket)
redis.call('ZREM', due, ticket)
local mine = raise_fence(fence)
if letter ~= '' then redis.call('RPUSH', dead, letter) end
if #fields > 0 then record(intent, intents, ticket, mine, look_in, fields) end
return {'decided', text(mine)}
"""


class Adopt(Script[list[str]]):
    """Take an unpublished intent over under the next fence (P5, P6): its fields and values, or nothing."""

    lock: Key
    fence: Key
    intent: Key
    intents: Key
    heartbeat: Key
    ticket: TicketId
    token: str
    look_in: int
    lua = """
if redis.call('GET', lock) ~= token then return {} end
-- A live run settles the ticket itself; raising the fence now would only kill it.
if redis.call('EXISTS', heartbeat) == 1 then
  redis.call('ZADD', intents, now_us() / 1000 + look_in, ticket)
  return {}
end
if redis.call('EXISTS', intent) == 0 then
  redis.call('ZREM', intents, ticket)
  return {}
end
redis.call('HSET', intent, 'fence', text(raise_fence(fence)))
redis.call('ZADD', intents, now_us() / 1000 + look_in, ticket)
return redis.call('HGETALL', intent)
"""


class Published(Script[Literal["published", "fenced"]]):
    """Note that the label says what was decided; whatever belonged to the work ends with it, and who asked for more is
    heard now (P2, P7). Refused below the newest fence (P6)."""

    intent: Key
    intents: Key
    fence: Key
    published: Key
    counters: Key
    due: Key
    follow_up: Key
    inbox: Key
    inbox_index: Key
    where: Key
    reservations: Key
    history: Key
    reasons: Key
    word: Key
    pin: Key
    question: Key
    parked: Key
    ticket: TicketId
    mine: int
    status: str
    fresh_start: bool
    due_ms: str
    look: str
    look_topic: str
    wake: bool
    whereabouts: str
    retry: str
    retry_topic: str
    name: str
    over: bool
    asked: str
    uses = (INBOX, PARKED)
    published_lives_ms = PUBLISHED_MS
    question_lives_ms = QUESTION_MS
    where_lives_ms = WHERE_MS
    reasons_live_ms = REASONS_AFTER_END_MS
    word_lives_ms = REASONS_MS
    lua = """
if newest(fence) > mine then return 'fenced' end
redis.call('DEL', intent)
redis.call('ZREM', intents, ticket)
redis.call('ZREM', reservations, ticket)
redis.call('SET', published, status, 'PX', published_lives_ms)
if fresh_start then redis.call('DEL', counters, history) end
-- What was vetted was vetted for this: whoever asks for the ticket next is looked at anew (P7).
if over then redis.call('DEL', pin, question)
elseif asked ~= '' then redis.call('SET', question, asked, 'PX', question_lives_ms) end
if status == 'done' or status == 'failed' then
  redis.call('PEXPIRE', reasons, reasons_live_ms)
  redis.call('SET', word, status .. ' ' .. text(now_us() / 1000000), 'PX', word_lives_ms)
end
if due_ms ~= '' then
  redis.call('ZADD', due, due_ms, ticket)
  redis.call('SET', where, whereabouts, 'PX', where_lives_ms)
end
note_parked(parked, ticket, status == 'waiting' and due_ms == '')
local asked_again = redis.call('DEL', follow_up) == 1
if wake then
  deliver(inbox, inbox_index, look_topic, look, false, name)
elseif asked_again and status ~= 'pending' then
  deliver(inbox, inbox_index, retry_topic, retry, false, name)
end
return 'published'
"""


class KnowsWait(Script[bool]):
    """Whether Redis knows what a waiting ticket waits for, time or person, or that somebody has it in hand (P2)."""

    fence: Key
    due: Key
    parked: Key
    intent: Key
    heartbeat: Key
    index: Key
    ticket: TicketId
    lua = """
if redis.call('EXISTS', fence) == 0 then return 0 end
if redis.call('ZSCORE', due, ticket) or redis.call('ZSCORE', parked, ticket) then return 1 end
if redis.call('EXISTS', intent) == 1 or redis.call('EXISTS', heartbeat) == 1 then return 1 end
return redis.call('HEXISTS', index, ticket)
"""


class RestoreWaiting(Script[bool]):
    """Remember a parked ticket that Redis forgot, and when it is due (P2); not once somebody took it on again.

    Redis may know the ticket and not what it waits for: whoever settles a run again knows no more than that it ended.
    """

    fence: Key
    due: Key
    where: Key
    parked: Key
    ticket: TicketId
    known: int
    due_ms: str
    whereabouts: str
    uses = (PARKED,)
    fence_lives_ms = FENCE_MS
    where_lives_ms = WHERE_MS
    lua = """
-- A newer fence means that somebody took it on meanwhile; without one, Redis knows the ticket again from now on.
if newest(fence) > known then return 0 end
redis.call('SET', fence, text(known), 'NX', 'PX', fence_lives_ms)
if due_ms ~= '' then
  redis.call('ZADD', due, due_ms, ticket)
  redis.call('SET', where, whereabouts, 'PX', where_lives_ms)
end
note_parked(parked, ticket, due_ms == '')
return 1
"""


class Postpone(Script[None]):
    """Look at an intent again later, by Redis' clock (P5)."""

    intents: Key
    ticket: TicketId
    wait_ms: int
    lua = "redis.call('ZADD', intents, 'XX', now_us() / 1000 + wait_ms, ticket)"


class DropIntent(Script[bool]):
    """Forget a claim that did not come about, and give its room back; not if somebody took it over since (P6)."""

    intent: Key
    intents: Key
    reservations: Key
    ticket: TicketId
    mine: int
    lua = """
if redis.call('HGET', intent, 'fence') ~= text(mine) then return 0 end
redis.call('DEL', intent)
redis.call('ZREM', intents, ticket)
redis.call('ZREM', reservations, ticket)
return 1
"""


class Align(Script[bool]):
    """Have an intent looked at, or what is none forgotten, whatever made them disagree (P5)."""

    intent: Key
    intents: Key
    ticket: TicketId
    lua = """
if redis.call('EXISTS', intent) == 0 then return redis.call('ZREM', intents, ticket) end
return redis.call('ZADD', intents, 'NX', now_us() / 1000, ticket)
"""
