"""Intents: what was decided about a ticket, recorded before the tracker hears of it.

One script compares the fence and records the decision; the tracker write only publishes it, and anybody may
repeat it. A decided intent is finished, never rolled back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.signal import Signal, SignalKind, Taken
from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands, Value
from agentsmith.store.dead_letters import DeadLetter
from agentsmith.store.entries import new_name
from agentsmith.store.inbox import INBOX
from agentsmith.store.keys import FENCE_MS, PUBLISHED_MS, QUESTION_MS, REASONS_AFTER_END_MS, REASONS_MS, WHERE_MS, Keys
from agentsmith.store.places import COUNTING, Place
from agentsmith.store.questions import PARKING
from agentsmith.store.scripting import Script

RECORD: Final = """
local function record(intent, intents, ticket, fence, look_in, fields)
  redis.call('DEL', intent)
  redis.call('HSET', intent, 'fence', text(fence), unpack(fields))
  redis.call('ZADD', intents, now_us() / 1000 + look_in, ticket)
end
local function from(first)
  local rest = {}
  for i = first, #ARGV do rest[#rest + 1] = ARGV[i] end
  return rest
end
"""
_BEGIN_CLAIM: Final = Script(
    RECORD
    + COUNTING
    + """
local lock, fence, heartbeat, index, intent, intents, claims, reservations, running = unpack(KEYS)
local ticket, token, loop_limit, loop_window, lock_ms = unpack(ARGV)
local places = #KEYS - 9
local now = now_us()
if redis.call('GET', lock) ~= token then return {'unlocked', 0} end
if (redis.call('HGET', intent, 'outcome') or '') ~= '' then return {'unpublished', 0} end
if redis.call('EXISTS', heartbeat) == 1 then return {'leased', 0} end
if redis.call('HEXISTS', index, ticket) == 1 then return {'queued', 0} end
redis.call('ZREMRANGEBYSCORE', claims, '-inf', now - tonumber(loop_window) * 1000)
local recent = redis.call('ZCARD', claims)
if recent >= tonumber(loop_limit) then
  return {'loop', recent, recent, redis.call('ZRANGE', claims, 0, 0, 'WITHSCORES')[2] or '0'}
end
redis.call('ZREMRANGEBYSCORE', reservations, '-inf', now / 1000)
for i = 1, places do
  local limit = tonumber(ARGV[5 + i])
  redis.call('HDEL', KEYS[9 + i], ticket)
  local count = taken(KEYS[9 + i], limit, index, running, reservations)
  if limit and count >= limit then return {'full', count, recent, i} end
end
-- Longer than the slowest tracker takes; whoever finds the claim dead gives the place back at once.
redis.call('ZADD', reservations, now / 1000 + 10 * tonumber(lock_ms), ticket)
for i = 1, places do occupy(KEYS[9 + i], ticket) end
local mine = raise_fence(fence)
record(intent, intents, ticket, mine, tonumber(lock_ms), from(6 + places))
return {'begun', text(mine), recent}
"""
)
_DECIDE: Final = Script(
    RECORD
    + INBOX
    + """
local lock, fence, heartbeat, intent, intents, running, suspects, released, due, epoch, settling_key, index, queue,
  dead, signals, inbox_index = unpack(KEYS)
local ticket, token, settle, look_in, unqueue, letter, signal = unpack(ARGV)
if redis.call('GET', lock) ~= token then return {'unlocked', 0} end
if (redis.call('HGET', intent, 'outcome') or '') ~= '' then return {'unpublished', 0} end
if tonumber(settle) > 0 and settling(epoch, settling_key, settle) then return {'settling', 0} end
if redis.call('EXISTS', heartbeat) == 1 then return {'leased', 0} end
-- A consumer may take what is queued in any moment, lock or not: recovery leaves such a ticket to it, or unqueues it.
if tonumber(settle) > 0 and unqueue ~= '1' and redis.call('HEXISTS', index, ticket) == 1 then return {'queued', 0} end
if unqueue == '1' then
  local payload = redis.call('HGET', index, ticket)
  if not payload or redis.call('LREM', queue, 1, payload) == 0 then return {'in-flight', 0} end
  redis.call('HDEL', index, ticket)
end
-- Whoever slept over its signal, or crashed, does not ask a second time for what others have granted.
if signal ~= '' and not put_away(signals, inbox_index, signal) then return {'put back', 0} end
redis.call('HDEL', running, ticket)
redis.call('ZREM', suspects, ticket)
redis.call('ZREM', released, ticket)
redis.call('ZREM', due, ticket)
local mine = raise_fence(fence)
if letter ~= '' then redis.call('RPUSH', dead, letter) end
if #ARGV > 7 then record(intent, intents, ticket, mine, tonumber(look_in), from(8)) end
return {'decided', text(mine)}
"""
)
_ADOPT: Final = Script("""
local lock, fence, intent, intents, heartbeat = unpack(KEYS)
local ticket, token, look_in = unpack(ARGV)
if redis.call('GET', lock) ~= token then return {} end
-- A live run settles the ticket itself; raising the fence now would only kill it.
if redis.call('EXISTS', heartbeat) == 1 then
  redis.call('ZADD', intents, now_us() / 1000 + tonumber(look_in), ticket)
  return {}
end
if redis.call('EXISTS', intent) == 0 then
  redis.call('ZREM', intents, ticket)
  return {}
end
redis.call('HSET', intent, 'fence', text(raise_fence(fence)))
redis.call('ZADD', intents, now_us() / 1000 + tonumber(look_in), ticket)
return redis.call('HGETALL', intent)
""")
_PUBLISHED: Final = Script(
    INBOX
    + PARKING
    + f"""
local intent, intents, fence, published, counters, due, follow_up, inbox, inbox_index, where, reservations, history,
  reasons, word, pin, question, parked = unpack(KEYS)
local ticket, mine, status, fresh_start, due_ms, look, look_topic, wake, whereabouts, retry, retry_topic, name, over,
  asked = unpack(ARGV)
if newest(fence) > tonumber(mine) then return 'fenced' end
redis.call('DEL', intent)
redis.call('ZREM', intents, ticket)
redis.call('ZREM', reservations, ticket)
redis.call('SET', published, status, 'PX', {PUBLISHED_MS})
if fresh_start == '1' then redis.call('DEL', counters, history) end
-- What was vetted was vetted for this: whoever asks for the ticket next is looked at anew (P7).
if over == '1' then redis.call('DEL', pin, question)
elseif asked ~= '' then redis.call('SET', question, asked, 'PX', {QUESTION_MS}) end
if status == 'done' or status == 'failed' then
  redis.call('PEXPIRE', reasons, {REASONS_AFTER_END_MS})
  redis.call('SET', word, status .. ' ' .. text(now_us() / 1000000), 'PX', {REASONS_MS})
end
if due_ms ~= '' then
  redis.call('ZADD', due, due_ms, ticket)
  redis.call('SET', where, whereabouts, 'PX', {WHERE_MS})
end
note_parked(parked, ticket, status == 'waiting' and due_ms == '')
local asked_again = redis.call('DEL', follow_up) == 1
if wake == '1' then
  deliver(inbox, inbox_index, look_topic, look, false, name)
elseif asked_again and status ~= 'pending' then
  deliver(inbox, inbox_index, retry_topic, retry, false, name)
end
return 'published'
"""
)
_RESTORE_WAITING: Final = Script(f"""
{PARKING}
local fence, due, where, parked = unpack(KEYS)
local ticket, known, due_ms, whereabouts = unpack(ARGV)
-- The fence says that Redis knows the ticket again; a newer one means that somebody took it on meanwhile.
if not redis.call('SET', fence, known, 'NX', 'PX', {FENCE_MS}) then return 0 end
if due_ms ~= '' then
  redis.call('ZADD', due, due_ms, ticket)
  redis.call('SET', where, whereabouts, 'PX', {WHERE_MS})
end
note_parked(parked, ticket, due_ms == '')
return 1
""")
_POSTPONE: Final = Script("redis.call('ZADD', KEYS[1], 'XX', now_us() / 1000 + tonumber(ARGV[2]), ARGV[1])")
_DROP_INTENT: Final = Script("""
local intent, intents, fence, reservations = unpack(KEYS)
local ticket, mine = unpack(ARGV)
if redis.call('HGET', intent, 'fence') ~= mine then return 0 end
redis.call('DEL', intent)
redis.call('ZREM', intents, ticket)
redis.call('ZREM', reservations, ticket)
return 1
""")


@dataclass(frozen=True, slots=True)
class Begun:
    """A claim or a recovery may go on under this fence; otherwise `fence` is 0 and `word` says why."""

    word: str
    fence: int = 0
    count: int = 0
    full: Place | None = None
    """What has no room left."""
    claims: int = 0
    """How often it was claimed within the window, before this time."""
    first_claim: float = 0.0
    """When the first of those was, in seconds since the epoch, where they are too many."""


class Intents:
    """Decisions that are on their way to the tracker."""

    def __init__(self, redis: Commands, keys: Keys, *, settle_ms: int) -> None:
        self._redis, self._keys, self._settle_ms = redis, keys, settle_ms

    async def begin_claim(
        self,
        intent: Intent,
        *,
        lock_key: str,
        token: str,
        loop_limit: int,
        loop_window: float,
        lock_ttl: float,
        places: Sequence[Place] = (),
    ) -> Begun:
        """Reserve room, raise the fence and note the claim; the caller holds the ticket's lock."""
        k, t = self._keys, intent.ticket
        keys = [
            lock_key,
            k.fence(t),
            k.heartbeat(t),
            k.queue_index,
            k.intent(t),
            k.intents,
            k.claims(t),
            k.reservations,
            k.running,
            *(k.places(place.name) for place in places),
        ]
        window, lock_ms = round(loop_window * 1000), round(lock_ttl * 1000)
        limits = ["" if place.limit is None else place.limit for place in places]
        args: list[Value] = [t, token, loop_limit, window, lock_ms, *limits, *flat_fields(intent)]
        word, figure, *more = await _BEGIN_CLAIM(self._redis, keys, args)
        match word, more:
            case "begun", [claims]:
                return Begun(word, fence=int(figure), claims=int(claims))
            case "loop", [claims, first]:
                return Begun(word, count=int(figure), claims=int(claims), first_claim=float(first) / 1e6)
            case "full", [claims, which]:
                return Begun(word, count=int(figure), claims=int(claims), full=places[which - 1])
        return Begun(word, count=int(figure))

    async def decide(
        self,
        ticket: TicketId,
        intent: Intent | None,
        *,
        lock_key: str,
        token: str,
        look_in: float,
        after_settling: bool = False,
        unqueue: bool = False,
        letter: DeadLetter | None = None,
        taken: Taken | None = None,
    ) -> Begun:
        """Take a ticket over that nobody runs: raise the fence and record what is to happen to it.

        `unqueue` takes its waiting request off the queue in the same step; `in-flight` says a consumer has it. A
        ticket that is given up leaves a `letter` in the same step. `after_settling` is for recovery, which must not
        take an empty Redis for the truth, nor race with whoever takes a queued request. `taken` is a signal that is
        dealt with by this, in the same step; `put back` says that it is no longer in its taker's hands.
        """
        k = self._keys
        keys = [
            lock_key,
            k.fence(ticket),
            k.heartbeat(ticket),
            k.intent(ticket),
            k.intents,
            k.running,
            k.suspects,
            k.released,
            k.due,
            k.epoch,
            k.settling,
            k.queue_index,
            k.queue,
            k.dead_letters,
            k.inbox_processing(taken.taker if taken is not None else ""),
            k.inbox_index,
        ]
        args = [
            ticket,
            token,
            self._settle_ms if after_settling else 0,
            round(look_in * 1000),
            int(unqueue),
            letter.to_json() if letter else "",
            taken.payload if taken is not None else "",
            *(flat_fields(intent) if intent else ()),
        ]
        word, figure = await _DECIDE(self._redis, keys, args)
        return Begun(word, fence=int(figure))

    async def adopt(self, ticket: TicketId, *, lock_key: str, token: str, look_in: float) -> Intent | None:
        """Take an unpublished intent over under a new fence; None when there is nothing to take."""
        k = self._keys
        keys = [lock_key, k.fence(ticket), k.intent(ticket), k.intents, k.heartbeat(ticket)]
        flat = await _ADOPT(self._redis, keys, [ticket, token, round(look_in * 1000)])
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        return Intent.from_fields(ticket, fields) if fields else None

    async def published(
        self, intent: Intent, status: Status | None, *, wake: Signal, wake_now: bool, fresh_start: bool
    ) -> bool:
        """Note that the label says so, and have the ticket looked at if asked for or `wake_now`; False: fenced off."""
        k, t = self._keys, intent.ticket
        keys = [k.intent(t), k.intents, k.fence(t), k.published(t), k.counters(t), k.due, k.follow_up(t), k.inbox]
        keys += [k.inbox_index, k.where(t), k.reservations, k.history(t), k.reasons(t), k.last_word(t), k.pin(t)]
        keys += [k.question(t), k.parked]
        follow_up = replace(wake, kind=SignalKind.RETRY, cause="asked for again while it was running")
        args: list[Value] = [
            t,
            intent.fence,
            (status or Status.PENDING).value,
            int(fresh_start),
            str(round(intent.due * 1000)) if intent.due is not None else "",
            wake.to_json(),
            wake.topic,
            int(wake_now),
            json.dumps([intent.tracker, intent.key]),
            follow_up.to_json(),
            follow_up.topic,
            new_name(),
            int(status is None or status.final),
            intent.question,
        ]
        return str(await _PUBLISHED(self._redis, keys, args)) == "published"

    async def restore_waiting(self, ticket: TicketId, tracker: str, key: str, *, fence: int, due: float | None) -> bool:
        """Remember a parked ticket that Redis forgot, and its time; False when it is known after all."""
        k = self._keys
        keys = [k.fence(ticket), k.due, k.where(ticket), k.parked]
        at = str(round(due * 1000)) if due is not None else ""
        return bool(await _RESTORE_WAITING(self._redis, keys, [ticket, fence, at, json.dumps([tracker, key])]))

    async def drop(self, ticket: TicketId, fence: int) -> bool:
        """Forget a claim that did not come about."""
        k = self._keys
        keys = [k.intent(ticket), k.intents, k.fence(ticket), k.reservations]
        return bool(await _DROP_INTENT(self._redis, keys, [ticket, str(fence)]))

    async def of(self, ticket: TicketId) -> Intent | None:
        """The ticket's intent, if there is one."""
        fields = await self._redis.hgetall(self._keys.intent(ticket))
        return Intent.from_fields(ticket, fields) if fields else None

    async def to_look_at(self, *, now: float) -> list[TicketId]:
        """Tickets whose intent should have been published by now."""
        found = await self._redis.zrangebyscore(self._keys.intents, "-inf", now * 1000)
        return [TicketId(ticket) for ticket in found]

    async def postpone(self, ticket: TicketId, *, wait: float) -> None:
        """Look at this intent again no earlier than in `wait` seconds, by Redis' clock: ours may be wrong."""
        await _POSTPONE(self._redis, [self._keys.intents], [ticket, round(wait * 1000)])

    async def due(self, *, now: float) -> list[tuple[TicketId, str, str]]:
        """Waiting tickets whose time has come, with tracker and key."""
        found = [TicketId(t) for t in await self._redis.zrangebyscore(self._keys.due, "-inf", now * 1000)]
        wheres = await self._redis.mget([self._keys.where(t) for t in found]) if found else []
        return [(t, *json.loads(where)) for t, where in zip(found, wheres, strict=True) if where]

    async def remember_where(self, ticket: TicketId, tracker: str, key: str) -> None:
        """Note where a ticket lives that is to be looked at again."""
        await self._redis.set(self._keys.where(ticket), json.dumps([tracker, key]), px=WHERE_MS)

    async def keep_where(self, ticket: TicketId, tracker: str, key: str) -> None:
        """The same for a ticket that waits for a time, which may be further away than we remember."""
        if await self._redis.zscore(self._keys.due, ticket) is not None:
            await self.remember_where(ticket, tracker, key)

    async def where(self, ticket: TicketId) -> tuple[str, str] | None:
        """Tracker and key of a ticket that was noted."""
        found = await self._redis.get(self._keys.where(ticket))
        if found is None:
            return None
        tracker, key = json.loads(found)
        return tracker, key

    async def waiting(self) -> list[tuple[TicketId, float]]:
        """Tickets parked until a time, soonest first."""
        found = [TicketId(ticket) for ticket in await self._redis.zrange(self._keys.due, 0, -1)]
        scores = [await self._redis.zscore(self._keys.due, ticket) for ticket in found]
        return [(ticket, score / 1000) for ticket, score in zip(found, scores, strict=True) if score is not None]

    async def forget_due(self, ticket: TicketId) -> None:
        """The ticket no longer waits for a time."""
        await self._redis.zrem(self._keys.due, ticket)

    async def last_published(self, ticket: TicketId) -> Status | None:
        """The status that we published within the last hour; no label at all counts as pending."""
        found = await self._redis.get(self._keys.published(ticket))
        return Status(found) if found else None

    async def last_ended(self, ticket: TicketId) -> str | None:
        """What tells the ticket's last run that ended within the last hour from every other one."""
        return await self._redis.get(self._keys.ended(ticket))

    async def note_published(self, ticket: TicketId, status: Status) -> None:
        """Remember what the label says now; the caller holds the ticket's lock and just wrote it."""
        await self._redis.set(self._keys.published(ticket), status.value, px=PUBLISHED_MS)


def flat_fields(intent: Intent) -> list[str]:
    """The intent as the scripts take it: name, value, name, value, …"""
    return [part for pair in intent.to_fields().items() for part in pair]
