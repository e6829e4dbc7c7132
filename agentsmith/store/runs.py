"""Who runs a ticket right now: lease and counters. Each step is one script.

Every acquisition gets the next fence, and every later step is refused once a newer one stands.
"""

from __future__ import annotations

from typing import Final

from agentsmith.boottime import boottime
from agentsmith.domain.facts import Life
from agentsmith.domain.intent import Intent
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands, Value
from agentsmith.store.dead_letters import DeadLetter
from agentsmith.store.entries import ENTRIES
from agentsmith.store.intents import RECORD, flat_fields
from agentsmith.store.keys import COUNTERS_MS, ENDED_MS, FENCE_MS, HISTORY_MS, UNRENEWED_MS, Keys
from agentsmith.store.run_lease import Acquired, NotAcquired, RunLease, Settled
from agentsmith.store.scripting import Script
from agentsmith.store.wishes import Wishes

HISTORY_KEPT: Final = 5

_ACQUIRE: Final = Script(
    ENTRIES
    + f"""
local processing, index, heartbeat, fence, running, counters, suspects, released = unpack(KEYS)
local ticket, payload, run, consumer, tracker, key, ttl, limit, asked_by, labelled, trigger = unpack(ARGV)
if not redis.call('LPOS', processing, payload) then return {{'superseded'}} end
if redis.call('HGET', index, ticket) ~= payload then return {{'superseded'}} end
local held, entry = redis.call('GET', heartbeat), name_of(payload)
if held then
  -- Our own lease, if only an answer was lost; but not that of our earlier run, whose request was put back.
  local lease = cjson.decode(held)
  if lease.run == run and lease.consumer == consumer and (lease.entry or '') == entry then
    redis.call('PEXPIRE', heartbeat, ttl)
    return {{'acquired', lease.fence, held, redis.call('HGET', counters, 'attempts') or '0',
      redis.call('HGET', counters, 'deliveries') or '1'}}
  end
  return {{'leased'}}
end
local deliveries = redis.call('HINCRBY', counters, 'deliveries', 1)
redis.call('PEXPIRE', counters, {COUNTERS_MS})
if deliveries > tonumber(limit) then return {{'poison', tostring(deliveries)}} end
local mine = text(raise_fence(fence))
local since = text(now_us() / 1000)
local value = cjson.encode({{
  run = run, consumer = consumer, tracker = tracker, key = key, fence = mine, since = since,
  asked_by = asked_by ~= '' and asked_by or nil, labelled = labelled ~= '' and labelled or nil,
  trigger = trigger ~= '' and trigger or nil, entry = entry ~= '' and entry or nil}})
redis.call('SET', heartbeat, value, 'PX', ttl)
redis.call('HSET', running, ticket, value)
redis.call('ZREM', suspects, ticket)
redis.call('ZREM', released, ticket)
return {{'acquired', mine, value, redis.call('HGET', counters, 'attempts') or '0', tostring(deliveries)}}
"""
)
_RENEW: Final = Script("""
local heartbeat, fence, running, ended, unrenewed = unpack(KEYS)
local ticket, mine, value, ttl = unpack(ARGV)
local newest_fence = newest(fence)
-- A renewal that was overtaken on its way by the end of the run must not bring the lease back.
if newest_fence > tonumber(mine) or redis.call('GET', ended) == mine then return 'lost' end
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
if newest_fence < tonumber(mine) then redis.call('SET', fence, mine, 'PX', ARGV[5]) end
return 'restored'
""")
_START: Final = Script(f"""
local counters, fence, heartbeat = unpack(KEYS)
local mine, value, limit = unpack(ARGV)
if newest(fence) > tonumber(mine) or redis.call('GET', heartbeat) ~= value then return {{'lost', 0}} end
local attempts = redis.call('HINCRBY', counters, 'attempts', 1)
redis.call('HSET', counters, 'deliveries', 0)
redis.call('PEXPIRE', counters, {COUNTERS_MS})
if attempts > tonumber(limit) then return {{'poison', attempts}} end
return {{'started', attempts}}
""")
_MAY_WRITE: Final = Script("""
local heartbeat, fence, ended = unpack(KEYS)
local mine, value = unpack(ARGV)
if newest(fence) > tonumber(mine) or redis.call('GET', ended) == mine then return 0 end
local held = redis.call('GET', heartbeat)
-- A missing heartbeat alone is not a loss: the next renewal puts it back.
if held and held ~= value then return 0 end
return 1
""")
_SETTLE: Final = Script(
    RECORD
    + ENTRIES
    + f"""
local heartbeat, fence, running, intent, intents, stop, counters, processing, index, ended, queue, dead = unpack(KEYS)
local ticket, mine, value, look_in, uncount, fence_ms, payload, letter = unpack(ARGV)
local held = redis.call('GET', heartbeat)
if newest(fence) > tonumber(mine) or (held and held ~= value) then
  -- Settled already, if only the answer to the first call was lost.
  if redis.call('HGET', intent, 'fence') == mine then return 'settled' end
  return 'fenced'
end
if newest(fence) < tonumber(mine) then redis.call('SET', fence, mine, 'PX', fence_ms) end
redis.call('DEL', heartbeat, stop)
redis.call('SET', ended, mine, 'PX', {ENDED_MS})
local first_time = redis.call('HDEL', running, ticket) == 1
if redis.call('EXISTS', counters) == 1 then
  -- Whoever settles did not die of the request; only deliveries in a row that nobody lived to tell of are poison.
  redis.call('HDEL', counters, 'deliveries')
  if uncount == '1' and first_time then redis.call('HINCRBY', counters, 'attempts', -1) end
end
local in_hand = redis.call('LREM', processing, 1, payload) > 0
local waiting = redis.call('HGET', index, ticket)
if waiting and same_message(waiting, payload) then
  redis.call('HDEL', index, ticket)
  -- We were taken for dead meanwhile, and it was put back, under another name: nobody may begin what has just ended.
  if not in_hand or waiting ~= payload then redis.call('LREM', queue, 1, waiting) end
end
if letter ~= '' and first_time then redis.call('RPUSH', dead, letter) end
if #ARGV > 8 then record(intent, intents, ticket, tonumber(mine), tonumber(look_in), from(9)) end
return 'settled'
"""
)
_SETTLE_AGAIN: Final = Script(
    RECORD
    + f"""
local heartbeat, fence, running, intent, intents, processing, index, ended, queue, epoch, settling_key = unpack(KEYS)
local ticket, mine, value, run, fence_ms, settle = unpack(ARGV)
if redis.call('GET', ended) == mine then return 'known' end
local held, newest_fence = redis.call('GET', heartbeat), newest(fence)
if newest_fence > tonumber(mine) or (held and held ~= value) then return 'fenced' end
-- Nothing is known of the ticket: whoever runs it by now has not put its lease back yet.
if newest_fence == 0 and settling(epoch, settling_key, settle) then return 'settling' end
if newest_fence < tonumber(mine) then redis.call('SET', fence, mine, 'PX', fence_ms) end
redis.call('DEL', heartbeat)
redis.call('SET', ended, mine, 'PX', {ENDED_MS})
redis.call('HDEL', running, ticket)
local waiting = redis.call('HGET', index, ticket)
if waiting and cjson.decode(waiting).run == run then
  redis.call('HDEL', index, ticket)
  redis.call('LREM', queue, 1, waiting)
  redis.call('LREM', processing, 1, waiting)
end
if #ARGV > 6 then record(intent, intents, ticket, tonumber(mine), 0, from(7)) end
return 'settled'
"""
)
_RELEASE_DEAD: Final = Script(f"""
local heartbeat, running, released, lock, ended = unpack(KEYS)
local ticket, mine, value, holder = unpack(ARGV)
if (redis.call('GET', lock) or ''):sub(1, #holder) == holder then redis.call('DEL', lock) end
if redis.call('HGET', running, ticket) ~= value then return 0 end
local held = redis.call('GET', heartbeat)
if held and held ~= value then return 0 end
redis.call('DEL', heartbeat)
redis.call('SET', ended, mine, 'PX', {ENDED_MS})
redis.call('ZADD', released, now_us() / 1000, ticket)
return 1
""")
_LOOK: Final = Script(f"""
local heartbeat, running, suspects, released, epoch, settling_key, unrenewed = unpack(KEYS)
local ticket, consumer_of, renew_ms, lapse_ms, settle, patient = unpack(ARGV)
if redis.call('EXISTS', heartbeat) == 1 then
  redis.call('ZREM', suspects, ticket)
  return 'alive'
end
if settling(epoch, settling_key, settle) then return 'settling' end
if patient == '0' or redis.call('ZSCORE', released, ticket) then return 'dead' end
local value = redis.call('HGET', running, ticket)
local now = now_us() / 1000
local lease = value and cjson.decode(value)
if lease and redis.call('EXISTS', consumer_of .. lease.consumer) == 1 then
  redis.call('ZREM', suspects, ticket)
  -- Whoever carries the run out puts its heartbeat back at once; after the time of a lease nobody can any more.
  local since, fence = (redis.call('GET', unrenewed) or ''):match('^(%d+) (%d+)$')
  if fence ~= lease.fence then
    redis.call('SET', unrenewed, text(now) .. ' ' .. lease.fence, 'PX', {UNRENEWED_MS})
    return 'alive'
  end
  return now - tonumber(since) < tonumber(lapse_ms) and 'alive' or 'dead'
end
local first = redis.call('ZSCORE', suspects, ticket)
if not first then
  redis.call('ZADD', suspects, now, ticket)
  return 'suspected'
end
if now - tonumber(first) < tonumber(renew_ms) then return 'suspected' end
return 'dead'
""")
_FORGET_SUSPICION: Final = Script("""
local heartbeat, running, suspects, released = unpack(KEYS)
-- The guard may have let the lease go since the ticket was looked at: then the mark is all that tells of it.
if redis.call('EXISTS', heartbeat) == 0 and redis.call('HEXISTS', running, ARGV[1]) == 1 then return end
for _, marks in ipairs({suspects, released}) do redis.call('ZREM', marks, ARGV[1]) end
""")
_FORGET: Final = Script("""
local heartbeat, running, suspects, released = unpack(KEYS)
for _, marks in ipairs({suspects, released}) do redis.call('ZREM', marks, ARGV[1]) end
-- A run that lives after all puts its lease back, and itself with it.
if redis.call('EXISTS', heartbeat) == 0 then redis.call('HDEL', running, ARGV[1]) end
""")
_NOTE_HISTORY: Final = Script(f"""
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], -{HISTORY_KEPT}, -1)
redis.call('PEXPIRE', KEYS[1], {HISTORY_MS})
""")
_RESTORE_ATTEMPTS: Final = Script(f"""
if redis.call('HSETNX', KEYS[1], 'attempts', ARGV[1]) == 1 then redis.call('PEXPIRE', KEYS[1], {COUNTERS_MS}) end
return redis.call('HGET', KEYS[1], 'attempts')
""")


class Runs(Wishes):
    """Ownership of tickets."""

    def __init__(self, redis: Commands, keys: Keys, *, settle_ms: int, renew_ms: int, lapse_ms: int) -> None:
        super().__init__(redis, keys)
        self._settle_ms, self._renew_ms, self._lapse_ms = settle_ms, renew_ms, lapse_ms

    async def acquire(
        self, request: PipelineRequest, payload: str, *, consumer: str, ttl: float, max_deliveries: int
    ) -> Acquired | NotAcquired:
        """Turn a taken request into a lease, counting the delivery."""
        k, t = self._keys, request.ticket
        keys = [k.queue_processing(consumer), k.queue_index, k.heartbeat(t), k.fence(t), k.running, k.counters(t)]
        keys += [k.suspects, k.released]
        about: list[Value] = [t, payload, request.run, consumer, request.tracker, request.key]
        args: list[Value] = [*about, _ms(ttl), max_deliveries, request.asked_by or "", request.labelled or ""]
        args.append(request.wanted.trigger)
        sent_at = boottime()
        word, *rest = await _ACQUIRE(self._redis, keys, args)
        if word != "acquired":
            return NotAcquired(word, int(rest[0]) if rest else 0)
        return Acquired(RunLease.parse(t, rest[1]), int(rest[2]), int(rest[3]), sent_at)

    async def renew(self, lease: RunLease, *, ttl: float) -> str:
        """Extend the lease: `renewed`, `restored` after Redis had lost it, or `lost`."""
        k, t = self._keys, lease.ticket
        keys = [k.heartbeat(t), k.fence(t), k.running, k.ended(t), k.unrenewed(t)]
        return str(await _RENEW(self._redis, keys, [t, lease.fence, lease.value, _ms(ttl), FENCE_MS]))

    async def may_write(self, lease: RunLease) -> bool:
        """Begin-write: whether nobody took the ticket over (P6)."""
        k, t = self._keys, lease.ticket
        return bool(await _MAY_WRITE(self._redis, [k.heartbeat(t), k.fence(t), k.ended(t)], [lease.fence, lease.value]))

    async def start(self, lease: RunLease, *, max_attempts: int) -> tuple[str, int]:
        """Count an attempt: `started`, `poison` or `lost`, and the number of attempts."""
        k, t = self._keys, lease.ticket
        keys = [k.counters(t), k.fence(t), k.heartbeat(t)]
        word, attempts = await _START(self._redis, keys, [lease.fence, lease.value, max_attempts])
        return word, int(attempts)

    async def settle(
        self,
        lease: RunLease,
        payload: str,
        intent: Intent | None,
        *,
        look_in: float,
        uncount: bool = False,
        letter: DeadLetter | None = None,
    ) -> bool:
        """End the run in Redis, acknowledge its request and record what is to be published.

        False when it was fenced off (P6): then nothing was changed. Without an intent the request is dropped: the
        lease goes and nothing is published. A ticket that is given up leaves a `letter` in the same step.
        """
        k, t = self._keys, lease.ticket
        keys = [k.heartbeat(t), k.fence(t), k.running, k.intent(t), k.intents, k.stop(t), k.counters(t)]
        keys += [k.queue_processing(lease.consumer), k.queue_index, k.ended(t), k.queue, k.dead_letters]
        head: list[Value] = [t, lease.fence, lease.value, _ms(look_in), int(uncount), FENCE_MS, payload]
        head.append(letter.to_json() if letter else "")
        word = await _SETTLE(self._redis, keys, [*head, *(flat_fields(intent) if intent else ())])
        return str(word) == "settled"

    async def settle_again(self, end: Settled) -> str:
        """End a run once more if Redis lost that it ended: `settled`, `known`, `fenced`, or `settling` for not yet.

        Nobody else does its work again then, and what is not known to be published is to be published still.
        """
        k, lease, t = self._keys, end.lease, end.lease.ticket
        keys = [k.heartbeat(t), k.fence(t), k.running, k.intent(t), k.intents, k.queue_processing(lease.consumer)]
        keys += [k.queue_index, k.ended(t), k.queue, k.epoch, k.settling]
        head: list[Value] = [t, lease.fence, lease.value, lease.run, FENCE_MS, self._settle_ms]
        return str(await _SETTLE_AGAIN(self._redis, keys, [*head, *(flat_fields(end.intent) if end.intent else ())]))

    async def release_dead(self, lease: RunLease, *, lock_key: str) -> bool:
        """The guard's farewell: the run is over and its children are gone; housekeeping may have the ticket."""
        k, t = self._keys, lease.ticket
        keys = [k.heartbeat(t), k.running, k.released, lock_key, k.ended(t)]
        return bool(await _RELEASE_DEAD(self._redis, keys, [t, lease.fence, lease.value, lease.lock_holder]))

    async def look(self, ticket: TicketId, *, patient: bool) -> Life:
        """Whether the ticket's run lives. `patient` asks for two looks before calling it dead."""
        k = self._keys
        keys = [k.heartbeat(ticket), k.running, k.suspects, k.released, k.epoch, k.settling, k.unrenewed(ticket)]
        args: list[Value] = [ticket, k.consumer(""), self._renew_ms, self._lapse_ms, self._settle_ms, int(patient)]
        return Life(await _LOOK(self._redis, keys, args))

    async def restore_attempts(self, ticket: TicketId, attempts: int) -> int:
        """Remember attempts that the ticket's memo tells of, if Redis forgot them; answers the count."""
        return int(await _RESTORE_ATTEMPTS(self._redis, [self._keys.counters(ticket)], [attempts]))

    async def remembers(self, ticket: TicketId) -> bool:
        """Whether Redis knows the ticket; else it is new here, or Redis lost its memory."""
        return bool(await self._redis.exists(self._keys.fence(ticket)))

    async def note_history(self, ticket: TicketId, line: str) -> None:
        """Remember what befell the ticket's run, to be told on the ticket; only the latest few are kept."""
        await _NOTE_HISTORY(self._redis, [self._keys.history(ticket)], [line])

    async def history(self, ticket: TicketId) -> list[str]:
        """What befell the ticket's runs since its last final status, oldest first."""
        return list(await self._redis.lrange(self._keys.history(ticket), 0, -1))

    async def attempts(self, ticket: TicketId) -> int | None:
        """How many attempts were begun since the last final status; None when Redis knows nothing."""
        found = await self._redis.hget(self._keys.counters(ticket), "attempts")
        return int(found) if found is not None else None

    async def lease(self, ticket: TicketId) -> RunLease | None:
        """The live lease of the ticket."""
        value = await self._redis.get(self._keys.heartbeat(ticket))
        return RunLease.parse(ticket, value) if value else None

    async def running(self) -> list[RunLease]:
        """Every run that has not settled, dead ones included."""
        entries = await self._redis.hgetall(self._keys.running)
        return [RunLease.parse(TicketId(ticket), value) for ticket, value in entries.items()]

    async def unsettled(self, ticket: TicketId) -> RunLease | None:
        """The run of the ticket that has not settled, dead or alive."""
        value = await self._redis.hget(self._keys.running, ticket)
        return RunLease.parse(ticket, value) if value else None

    async def released(self) -> list[TicketId]:
        """Tickets whose guard let the lease go."""
        return [TicketId(t) for t in await self._redis.zrange(self._keys.released, 0, -1)]

    async def suspects(self) -> list[TicketId]:
        """Tickets whose run showed no sign of life in a first look."""
        return [TicketId(t) for t in await self._redis.zrange(self._keys.suspects, 0, -1)]

    async def forget_suspicion(self, ticket: TicketId) -> None:
        """The ticket needs no recovery (any more); nothing is forgotten of a run that may have ended just now."""
        k = self._keys
        await _FORGET_SUSPICION(self._redis, [k.heartbeat(ticket), k.running, k.suspects, k.released], [ticket])

    async def forget(self, ticket: TicketId) -> None:
        """The ticket's run is dead, and nothing is to be done about it."""
        k = self._keys
        await _FORGET(self._redis, [k.heartbeat(ticket), k.running, k.suspects, k.released], [ticket])


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
