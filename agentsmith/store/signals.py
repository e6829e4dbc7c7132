"""The signals inbox: hints to look at a ticket, taken and acknowledged like requests.

A signal for a ticket that already waits in the inbox is merged. Once taken it no longer absorbs others, because
whatever they announce may be newer than what the taker reads. Those that are put off are merged too: the next look sees
what all of them announced.

What waits is marked in an index, by the name of its entry. Whatever takes an entry out of a list takes its mark along
in the same step, so no mark can outlive its entry and swallow what comes later; `heal` removes one that did so anyway.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands, Value
from agentsmith.store.entries import name_in, new_name
from agentsmith.store.inbox import INBOX
from agentsmith.store.keys import ANNOUNCED_MS, DELIVERIES_MS, DELIVERY_MS, REJECTED_MS, Keys
from agentsmith.store.leases import Lease
from agentsmith.store.places import COUNTING
from agentsmith.store.scripting import Script

DELIVERIES_KEPT: Final = 100
"""Deliveries of one tracker that can be replayed."""
_SEND: Final = Script(
    INBOX
    + """
local inbox, index, leader = unpack(KEYS)
-- Whoever no longer leads has nothing to say: it may have slept over half the world.
if leader and redis.call('GET', leader) ~= ARGV[1] then return -1 end
local sent = 0
for i = 3, #ARGV, 3 do
  local name = ARGV[2] .. '.' .. i
  if deliver(inbox, index, ARGV[i], ARGV[i + 1], ARGV[i + 2] == '1', name) then sent = sent + 1 end
end
return sent
"""
)
_HAND_OVER: Final = Script(
    INBOX
    + f"""
local seen, inbox, index, announced, deliveries = unpack(KEYS)
local topic, payload, keep, delivery, labelled, name = unpack(ARGV)
if tonumber(keep) > 0 and not redis.call('SET', seen, '1', 'NX', 'PX', keep) then return 'seen' end
redis.call('SET', announced, text(now_us() / 1000), 'PX', {ANNOUNCED_MS})
if delivery ~= '' then
  redis.call('RPUSH', deliveries, delivery)
  redis.call('LTRIM', deliveries, -{DELIVERIES_KEPT}, -1)
  redis.call('PEXPIRE', deliveries, {DELIVERIES_MS})
end
return deliver(inbox, index, topic, payload, labelled == '1', name) and 'accepted' or 'merged'
"""
)
_OPENED: Final = Script(
    INBOX
    + """
local index = KEYS[1]
local topic, name = unpack(ARGV)
local mark = redis.call('HGET', index, topic)
if not mark or not owns(name, mark) then return 0 end
redis.call('HDEL', index, topic)
return mark:find('labelled', 1, true) and 1 or 0
"""
)
_ACKNOWLEDGE: Final = Script(INBOX + "return put_away(KEYS[1], KEYS[2], ARGV[1]) and 1 or 0")
_LINES: Final = """
-- Those who want room in the same places stand in one line: who wants it where there is some is not behind others.
local function line(entry) return cjson.encode(cjson.decode(entry).places) end
"""
_HOLD: Final = Script(
    INBOX
    + _LINES
    + """
local processing, index, held, payloads, lines = unpack(KEYS)
local taken, topic, entry, line_of = unpack(ARGV)
if not put_away(processing, index, taken) then return 0 end
redis.call('ZADD', held, 'NX', now_us() / 1000, topic)
local before = redis.call('HGET', payloads, topic)
if before then redis.call('ZREM', line_of .. line(before), topic) end
redis.call('HSET', payloads, topic, entry)
redis.call('HSET', lines, line(entry), '1')
redis.call('ZADD', line_of .. line(entry), redis.call('ZSCORE', held, topic), topic)
return 1
"""
)
_HELD: Final = Script("""
local found = {}
for _, topic in ipairs(ARGV) do
  if redis.call('ZSCORE', KEYS[1], topic) then found[#found + 1] = topic end
end
return found
""")
_HOLDABLE: Final = (SignalKind.LOOK, SignalKind.RETRY)
"""What may be held back for want of room; a command is obeyed or not."""
_LATER: Final = Script(
    INBOX
    + """
local processing, index, later, payloads = unpack(KEYS)
local taken, topic, again, wait_ms = unpack(ARGV)
if not put_away(processing, index, taken) then return 0 end
local waits = redis.call('HGET', payloads, topic)
-- Whatever the one that waits was told beyond this one must not be forgotten.
if not (waits and cjson.decode(waits).labelled) then redis.call('HSET', payloads, topic, again) end
redis.call('ZADD', later, 'LT', now_us() / 1000 + tonumber(wait_ms), topic)
return 1
"""
)
_SEND_LATER: Final = Script("""
local later, payloads = unpack(KEYS)
local topic, payload, wait_ms = unpack(ARGV)
local at = now_us() / 1000 + tonumber(wait_ms)
-- Under a name of its own: that somebody looks earlier is no reason not to look then.
local name = text(at) .. ' ' .. topic
redis.call('HSET', payloads, name, payload)
redis.call('ZADD', later, at, name)
""")
_RIPEN: Final = Script(
    INBOX
    + COUNTING
    + _LINES
    + """
local inbox, later, later_payloads, held, payloads, inbox_index, index, running, reservations, lines = unpack(KEYS)
local line_of = ARGV[4]
local count = 0
local function comes(topic, payload)
  count = count + 1
  deliver(inbox, inbox_index, topic, payload, cjson.decode(payload).labelled, ARGV[3] .. '.' .. count)
end
local ripe = redis.call('ZRANGEBYSCORE', later, '-inf', now_us() / 1000, 'LIMIT', 0, 1000)
for _, name in ipairs(ripe) do
  local payload = redis.call('HGET', later_payloads, name)
  redis.call('ZREM', later, name)
  redis.call('HDEL', later_payloads, name)
  -- Without a payload nothing is known of it; it must not keep the others from coming.
  if payload then comes(name:match('^%d+ (.*)$') or name, payload) end
end
local room = {}
local function has_room(place, limit)
  if not limit then return true end
  if not room[place] then
    room[place] = limit - taken(ARGV[1] .. place, limit, index, running, reservations)
  end
  return room[place] > 0
end
local function oldest(told)
  local found = redis.call('ZRANGE', line_of .. told, 0, 0, 'WITHSCORES')
  return found[1], tonumber(found[2])
end
local standing = 0
for _, told in ipairs(redis.call('HKEYS', lines)) do standing = standing + redis.call('ZCARD', line_of .. told) end
if standing ~= redis.call('ZCARD', held) then
  -- A release that knows no lines held some back, or let some go.
  for _, told in ipairs(redis.call('HKEYS', lines)) do
    for _, topic in ipairs(redis.call('ZRANGE', line_of .. told, 0, -1)) do
      if not redis.call('ZSCORE', held, topic) then redis.call('ZREM', line_of .. told, topic) end
    end
  end
  for _, topic in ipairs(redis.call('ZRANGE', held, 0, -1)) do
    local entry = redis.call('HGET', payloads, topic)
    if entry then
      redis.call('HSET', lines, line(entry), '1')
      redis.call('ZADD', line_of .. line(entry), redis.call('ZSCORE', held, topic), topic)
    else
      redis.call('ZREM', held, topic)
    end
  end
end
local heads, limits = {}, cjson.decode(ARGV[2])
for _, told in ipairs(redis.call('HKEYS', lines)) do
  local topic, since = oldest(told)
  if topic then
    heads[#heads + 1] = {line = told, places = cjson.decode(told), topic = topic, since = since}
  else
    redis.call('HDEL', lines, told)
  end
end
-- The oldest of all for whom there is room, again and again; where a line's first finds none, nobody in it does.
for _ = 1, 1000 do
  local chosen
  for _, head in ipairs(heads) do
    if head.topic and (not chosen or head.since < chosen.since) then
      local free = true
      for _, place in ipairs(head.places) do free = free and has_room(place, limits[place]) end
      if free then chosen = head else head.topic = nil end
    end
  end
  if not chosen then break end
  local found = redis.call('HGET', payloads, chosen.topic)
  redis.call('ZREM', held, chosen.topic)
  redis.call('ZREM', line_of .. chosen.line, chosen.topic)
  redis.call('HDEL', payloads, chosen.topic)
  if found then
    for _, place in ipairs(chosen.places) do room[place] = room[place] and room[place] - 1 end
    comes(chosen.topic, cjson.decode(found).payload)
  end
  chosen.topic, chosen.since = oldest(chosen.line)
end
local first = redis.call('ZRANGE', later, 0, 0, 'WITHSCORES')
local soon = first[2] and math.max(0, tonumber(first[2]) - now_us() / 1000)
-- Nobody says when there is room: while somebody waits for it, it is looked for.
if redis.call('ZCARD', held) > 0 then soon = math.min(soon or 250, 250) end
return soon and tostring(soon) or '-1'
"""
)
_PUT_BACK: Final = Script(
    INBOX
    + """
local inbox, processing, index, alive, epoch, settling_key = unpack(KEYS)
if redis.call('EXISTS', alive) == 1 or settling(epoch, settling_key, ARGV[1]) then return -1 end
local count = 0
local entry = redis.call('RPOP', processing)
while entry do
  count = count + 1
  local topic, name = topic_of(entry), ARGV[2] .. '.' .. count
  local mark = redis.call('HGET', index, topic)
  if topic ~= '' and (not mark or owns(name_of(entry), mark)) then
    redis.call('HSET', index, topic, name .. (mark and mark:match('%+.*$') or ''))
  end
  redis.call('LPUSH', inbox, named(entry, name))
  entry = redis.call('RPOP', processing)
end
return count
"""
)
_UNMARK: Final = Script("""
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
""")


class Signals:
    """Hints, from send to acknowledge."""

    def __init__(self, redis: Commands, keys: Keys, *, settle_ms: int) -> None:
        self._redis, self._keys, self._settle_ms = redis, keys, settle_ms

    async def send(self, signals: Iterable[Signal], *, leading: Lease | None = None) -> int | None:
        """Put signals into the inbox; answers how many were not merged into waiting ones.

        With `leading` that lease must still stand, in the same step: None says that it does not, and nothing was sent.
        """
        flat = [part for signal in signals for part in (signal.topic, signal.to_json(), str(int(signal.labelled)))]
        if not flat:
            return 0
        keys = [self._keys.inbox, self._keys.inbox_index, *([leading.key] if leading else ())]
        sent = int(await _SEND(self._redis, keys, [leading.token if leading else "", new_name(), *flat]))
        return sent if sent >= 0 else None

    async def hand_over(self, signal: Signal, *, delivery: str, keep: str = "") -> str:
        """Take a webhook's signal in, once per delivery: `accepted`, `merged` or `seen`.

        The delivery counts as seen only if the signal stands in the inbox, in one step: what failed may be sent again.
        `keep` is what is remembered of the delivery, so that it can be replayed.
        """
        k = self._keys
        named = hashlib.sha256(delivery.encode("utf-8", "replace")).hexdigest()[:32]
        tracker = signal.tracker
        keys = [k.delivery(tracker, named), k.inbox, k.inbox_index, k.announced(signal.ticket), k.deliveries(tracker)]
        remembered = DELIVERY_MS if delivery else 0
        args: list[Value] = [signal.topic, signal.to_json(), remembered, keep, int(signal.labelled), new_name()]
        return str(await _HAND_OVER(self._redis, keys, args))

    async def kept(self, tracker: str) -> list[str]:
        """The latest deliveries that were handed over, oldest first, as `hand_over` was told to keep them."""
        return list(await self._redis.lrange(self._keys.deliveries(tracker), 0, -1))

    async def announced(self, tickets: Sequence[TicketId]) -> dict[TicketId, float]:
        """When a webhook last told of these tickets, in seconds since the epoch; of others it did not."""
        found = await self._redis.mget([self._keys.announced(t) for t in tickets]) if tickets else []
        return {ticket: float(at) / 1000 for ticket, at in zip(tickets, found, strict=True) if at}

    async def take(self, consumer: str, *, wait: float) -> str | None:
        """Move the oldest signal to the taker's list, waiting up to `wait` seconds for one."""
        return await self._redis.blmove(self._keys.inbox, self._keys.inbox_processing(consumer), wait, "LEFT", "RIGHT")

    async def opened(self, signal: Signal) -> Signal:
        """The signal with all that was merged into it; from now on others are not. Call before reading the ticket."""
        noted = await _OPENED(self._redis, [self._keys.inbox_index], [signal.topic, signal.entry])
        return replace(signal, labelled=True) if noted else signal

    async def acknowledge(self, consumer: str, payload: str) -> None:
        """The signal was dealt with."""
        await _ACKNOWLEDGE(self._redis, [self._keys.inbox_processing(consumer), self._keys.inbox_index], [payload])

    async def later(self, consumer: str, payload: str, signal: Signal, *, wait: float) -> None:
        """What was taken as `payload` could not be dealt with: it comes back as `signal` in `wait` seconds.

        Several that are put off come back as one, when the first of them would.
        """
        k = self._keys
        keys = [k.inbox_processing(consumer), k.inbox_index, k.inbox_later, k.later_payloads]
        await _LATER(self._redis, keys, [payload, signal.topic, signal.to_json(), round(wait * 1000)])

    async def hold(self, consumer: str, payload: str, signal: Signal, *, places: Sequence[str]) -> None:
        """There is no room for the ticket: keep the signal until there is; `ripen` sees to that."""
        k = self._keys
        keys = [k.inbox_processing(consumer), k.inbox_index, k.held, k.held_payloads, k.held_lines]
        entry = json.dumps({"payload": signal.to_json(), "places": list(places)})
        await _HOLD(self._redis, keys, [payload, signal.topic, entry, k.held_line("")])

    async def held(self, tickets: Sequence[TicketId]) -> frozenset[TicketId]:
        """Those of the tickets that wait for room."""
        asked = [f"{kind.value}:{ticket}" for ticket in tickets for kind in _HOLDABLE]
        waiting = set(await _HELD(self._redis, [self._keys.held], asked)) if asked else set()
        return frozenset(t for t in tickets if any(f"{kind.value}:{t}" in waiting for kind in _HOLDABLE))

    async def send_later(self, signal: Signal, *, wait: float) -> None:
        """Put a signal into the inbox once `wait` seconds have passed."""
        keys = [self._keys.inbox_later, self._keys.later_payloads]
        await _SEND_LATER(self._redis, keys, [signal.topic, signal.to_json(), round(wait * 1000)])

    async def ripen(self, limits: Mapping[str, int] | None = None) -> float | None:
        """Move signals whose time has come into the inbox, and those for which there is room within `limits` by now.

        Answers the seconds until the next look is worth while.
        """
        k = self._keys
        later = [k.inbox_later, k.later_payloads]
        keys = [k.inbox, *later, k.held, k.held_payloads, k.inbox_index, k.queue_index, k.running]
        args = [k.places(""), json.dumps(dict(limits or {})), new_name(), k.held_line("")]
        left = float(await _RIPEN(self._redis, [*keys, k.reservations, k.held_lines], args))
        return left / 1000 if left >= 0 else None

    async def in_hand(self, consumer: str) -> list[str]:
        """What was taken and not acknowledged, also when the answer to a take was lost."""
        return list(await self._redis.lrange(self._keys.inbox_processing(consumer), 0, -1))

    async def put_back(self, consumer: str) -> int:
        """Return a dead taker's signals to the inbox, under new names; -1 when it may be alive."""
        k = self._keys
        keys = [k.inbox, k.inbox_processing(consumer), k.inbox_index, k.consumer(consumer), k.epoch, k.settling]
        return int(await _PUT_BACK(self._redis, keys, [self._settle_ms, new_name()]))

    async def heal(self, consumers: Iterable[str]) -> int:
        """Forget marks whose entry is neither in the inbox nor in the hands of any of these; answers how many.

        The lists are read one after another, so an entry that is moved meanwhile may be missed: that costs a look.
        """
        marks = await self._redis.hgetall(self._keys.inbox_index)
        if not marks:
            return 0
        lists = [self._keys.inbox, *map(self._keys.inbox_processing, consumers)]
        waiting = {name_in(entry) for key in lists for entry in await self._redis.lrange(key, 0, -1)}
        gone = [(topic, mark) for topic, mark in marks.items() if mark.partition("+")[0] not in waiting]
        for topic, mark in gone:
            await _UNMARK(self._redis, [self._keys.inbox_index], [topic, mark])
        return len(gone)

    async def note_rejected(self, ticket: TicketId, revision: str) -> None:
        """A gate turned the ticket away as it stands."""
        await self._redis.set(self._keys.rejected(ticket), revision, px=REJECTED_MS)

    async def rejected(self, tickets: Sequence[TicketId]) -> dict[TicketId, str]:
        """The revisions in which these tickets were turned away lately."""
        found = await self._redis.mget([self._keys.rejected(t) for t in tickets]) if tickets else []
        return {ticket: revision for ticket, revision in zip(tickets, found, strict=True) if revision}

    async def count(self) -> int:
        """How many signals wait, those for later and those without room included."""
        inbox = await self._redis.llen(self._keys.inbox)
        later = await self._redis.zcard(self._keys.inbox_later)
        held = await self._redis.zcard(self._keys.held)
        return int(inbox) + int(later) + int(held)
