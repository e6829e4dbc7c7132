"""What happens to the lease of a run, see `agentsmith.store.runs`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import COUNTERS_MS, ENDED_MS, FENCE_MS, HISTORY_MS, STOP_MS, Key
from agentsmith.store.scripting import Script
from agentsmith.store.scripts.parts import ENTRIES, LISTED, RECORD


@dataclass(frozen=True, slots=True)
class AcquireAnswer:
    """What came of it; all but `word` and `figure` is about a lease that was acquired."""

    word: Literal["acquired", "superseded", "leased", "poison"]
    figure: int = 0
    """The fence, or how often a poisonous request was taken."""
    value: str = ""
    attempts: int = 0
    deliveries: int = 0
    request: str = ""
    """The whole of it, where the list has it without the text of its ticket."""


class Acquire(Script[AcquireAnswer]):
    """Turn a request in hand into a lease under the next fence (P1), counting the delivery.

    A request that is taken again and again without anybody living to tell of it is poison (P2: it ends as failed).
    """

    processing: Key
    index: Key
    heartbeat: Key
    fence: Key
    running: Key
    counters: Key
    suspects: Key
    released: Key
    ticket: TicketId
    payload: str
    run_id: str
    consumer: str
    tracker: str
    key: str
    ttl: int
    limit: int
    asked_by: str
    labelled: str
    trigger: str
    uses = (ENTRIES, LISTED)
    counters_live_ms = COUNTERS_MS
    lua = """
if not redis.call('LPOS', processing, payload) then return {'superseded'} end
local whole = redis.call('HGET', index, ticket)
if not stands_for(payload, whole) then return {'superseded'} end
if whole == payload then whole = '' end
local held, entry = redis.call('GET', heartbeat), name_of(payload)
if held then
  -- Our own lease, if only an answer was lost; but not that of our earlier run, whose request was put back.
  local lease = cjson.decode(held)
  if lease.run == run_id and lease.consumer == consumer and (lease.entry or '') == entry then
    redis.call('PEXPIRE', heartbeat, ttl)
    return {'acquired', lease.fence, held, redis.call('HGET', counters, 'attempts') or '0',
      redis.call('HGET', counters, 'deliveries') or '1', whole}
  end
  return {'leased'}
end
local deliveries = redis.call('HINCRBY', counters, 'deliveries', 1)
redis.call('PEXPIRE', counters, counters_live_ms)
if deliveries > limit then return {'poison', tostring(deliveries)} end
local mine = text(raise_fence(fence))
local since = text(now_us() / 1000)
local value = cjson.encode({
  run = run_id, consumer = consumer, tracker = tracker, key = key, fence = mine, since = since,
  asked_by = asked_by ~= '' and asked_by or nil, labelled = labelled ~= '' and labelled or nil,
  trigger = trigger ~= '' and trigger or nil, entry = entry ~= '' and entry or nil})
redis.call('SET', heartbeat, value, 'PX', ttl)
redis.call('HSET', running, ticket, value)
redis.call('ZREM', suspects, ticket)
redis.call('ZREM', released, ticket)
return {'acquired', mine, value, redis.call('HGET', counters, 'attempts') or '0', tostring(deliveries), whole}
"""


class Renew(Script[Literal["renewed", "restored", "lost"]]):
    """Extend the lease, or put it back after Redis lost it; not once somebody took over, or the run ended (P1, P6)."""

    heartbeat: Key
    fence: Key
    running: Key
    ended: Key
    unrenewed: Key
    ticket: TicketId
    mine: int
    value: str
    ttl: int
    fence_lives_ms = FENCE_MS
    lua = """
local newest_fence = newest(fence)
-- A renewal that was overtaken on its way by the end of the run must not bring the lease back.
if newest_fence > mine or redis.call('GET', ended) == text(mine) then return 'lost' end
local held = redis.call('GET', heartbeat)
if held == value then
  redis.call('PEXPIRE', heartbeat, ttl)
  return 'renewed'
end
if held then return 'lost' end
-- A missing heartbeat alone is not a loss: nobody took over, so it is put back.
redis.call('SET', heartbeat, value, 'PX', ttl)
redis.call('HSET', running, ticket, value)
redis.call('DEL', unrenewed)
if newest_fence < mine then redis.call('SET', fence, text(mine), 'PX', fence_lives_ms) end
return 'restored'
"""


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """Whether the run may begin, and how many attempts there were."""

    word: Literal["started", "poison", "lost"]
    attempts: int


class Start(Script[StartAnswer]):
    """Count an attempt of whoever still holds the lease (P1); too many of them end the ticket (P2)."""

    counters: Key
    fence: Key
    heartbeat: Key
    mine: int
    value: str
    limit: int
    counters_live_ms = COUNTERS_MS
    lua = """
if newest(fence) > mine or redis.call('GET', heartbeat) ~= value then return {'lost', 0} end
local attempts = redis.call('HINCRBY', counters, 'attempts', 1)
redis.call('HSET', counters, 'deliveries', 0)
redis.call('PEXPIRE', counters, counters_live_ms)
if attempts > limit then return {'poison', attempts} end
return {'started', attempts}
"""


class MayWrite(Script[bool]):
    """Whether nobody took the ticket over, nor ended its run: asked before each write to the tracker (P6)."""

    heartbeat: Key
    fence: Key
    ended: Key
    mine: int
    value: str
    lua = """
if newest(fence) > mine or redis.call('GET', ended) == text(mine) then return 0 end
local held = redis.call('GET', heartbeat)
-- A missing heartbeat alone is not a loss: the next renewal puts it back.
if held and held ~= value then return 0 end
return 1
"""


class Settle(Script[Literal["settled", "fenced"]]):
    """End a run: its lease and its request go, and what is to be published is recorded, all or nothing (P2, P5).

    Refused below the newest fence (P6).
    """

    heartbeat: Key
    fence: Key
    running: Key
    intent: Key
    intents: Key
    stop: Key
    counters: Key
    processing: Key
    index: Key
    ended: Key
    queue: Key
    dead: Key
    ticket: TicketId
    mine: int
    value: str
    look_in: int
    uncount: bool
    payload: str
    letter: str
    fields: Sequence[str]
    """Of the intent; none where nothing is to be published."""
    uses = (RECORD, ENTRIES, LISTED)
    fence_lives_ms = FENCE_MS
    ended_lives_ms = ENDED_MS
    lua = """
local held = redis.call('GET', heartbeat)
if newest(fence) > mine or (held and held ~= value) then
  -- Settled already, if only the answer to the first call was lost.
  if redis.call('HGET', intent, 'fence') == text(mine) then return 'settled' end
  return 'fenced'
end
if newest(fence) < mine then redis.call('SET', fence, text(mine), 'PX', fence_lives_ms) end
redis.call('DEL', heartbeat, stop)
redis.call('SET', ended, text(mine), 'PX', ended_lives_ms)
local first_time = redis.call('HDEL', running, ticket) == 1
if redis.call('EXISTS', counters) == 1 then
  -- A run that settles has survived its request; only deliveries in a row that ended in a crash are poison.
  redis.call('HDEL', counters, 'deliveries')
  if uncount and first_time then redis.call('HINCRBY', counters, 'attempts', -1) end
end
local in_hand = redis.call('LREM', processing, 1, payload) > 0
local waiting = redis.call('HGET', index, ticket)
if waiting and same_message(listed(waiting), listed(payload)) then
  redis.call('HDEL', index, ticket)
  -- We were taken for dead meanwhile, and it was put back, under another name: nobody may begin what has just ended.
  if not in_hand or not stands_for(payload, waiting) then take_out(queue, waiting) end
end
if letter ~= '' and first_time then redis.call('RPUSH', dead, letter) end
if #fields > 0 then record(intent, intents, ticket, mine, look_in, fields) end
return 'settled'
"""


class SettleAgain(Script[Literal["settled", "known", "fenced", "settling"]]):
    """End a run once more if Redis lost that it ended: what was finished is not done again (P2), nor below the newest
    fence (P6)."""

    heartbeat: Key
    fence: Key
    running: Key
    intent: Key
    intents: Key
    processing: Key
    index: Key
    ended: Key
    queue: Key
    epoch: Key
    settling_key: Key
    ticket: TicketId
    mine: int
    value: str
    run_id: str
    settle: int
    fields: Sequence[str]
    uses = (RECORD, LISTED)
    fence_lives_ms = FENCE_MS
    ended_lives_ms = ENDED_MS
    lua = """
if redis.call('GET', ended) == text(mine) then return 'known' end
local held, newest_fence = redis.call('GET', heartbeat), newest(fence)
if newest_fence > mine or (held and held ~= value) then return 'fenced' end
-- Nothing is known of the ticket: whoever runs it by now has not put its lease back yet.
if newest_fence == 0 and settling(epoch, settling_key, settle) then return 'settling' end
if newest_fence < mine then redis.call('SET', fence, text(mine), 'PX', fence_lives_ms) end
redis.call('DEL', heartbeat)
redis.call('SET', ended, text(mine), 'PX', ended_lives_ms)
redis.call('HDEL', running, ticket)
local waiting = redis.call('HGET', index, ticket)
if waiting and cjson.decode(waiting).run == run_id then
  redis.call('HDEL', index, ticket)
  take_out(queue, waiting)
  take_out(processing, waiting)
end
if #fields > 0 then record(intent, intents, ticket, mine, 0, fields) end
return 'settled'
"""


class ReleaseDead(Script[bool]):
    """A guard says that its run is over and nothing of it is left: the ticket may be recovered at once (P1, P5)."""

    heartbeat: Key
    running: Key
    released: Key
    lock: Key
    ended: Key
    ticket: TicketId
    mine: int
    value: str
    holder: str
    """How the token begins under which the run holds the ticket's lock, which goes too."""
    ended_lives_ms = ENDED_MS
    lua = """
if (redis.call('GET', lock) or ''):sub(1, #holder) == holder then redis.call('DEL', lock) end
if redis.call('HGET', running, ticket) ~= value then return 0 end
local held = redis.call('GET', heartbeat)
if held and held ~= value then return 0 end
redis.call('DEL', heartbeat)
redis.call('SET', ended, text(mine), 'PX', ended_lives_ms)
redis.call('ZADD', released, now_us() / 1000, ticket)
return 1
"""


class NoteHistory(Script[None]):
    """Remember what happened to a ticket's runs, the latest few entries (P10)."""

    history: Key
    line: str
    kept = 5
    history_lives_ms = HISTORY_MS
    lua = """
redis.call('RPUSH', history, line)
redis.call('LTRIM', history, -kept, -1)
redis.call('PEXPIRE', history, history_lives_ms)
"""


class RestoreAttempts(Script[int]):
    """Remember the attempts that a ticket's comment tells of, if Redis forgot them; answers the count (P2)."""

    counters: Key
    attempts: int
    counters_live_ms = COUNTERS_MS
    lua = """
if redis.call('HSETNX', counters, 'attempts', attempts) == 1 then redis.call('PEXPIRE', counters, counters_live_ms) end
return redis.call('HGET', counters, 'attempts')
"""


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
