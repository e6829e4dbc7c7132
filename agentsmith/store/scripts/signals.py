"""What happens to signals, see `agentsmith.store.signals`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from agentsmith.store.keys import ANNOUNCED_MS, DELIVERIES_MS, Key
from agentsmith.store.scripting import Script
from agentsmith.store.scripts.parts import CAPACITY, INBOX, LINES

DELIVERIES_KEPT: Final = 100
"""Deliveries of one tracker that can be replayed."""


class Send(Script[int]):
    """Put signals into the inbox, those excepted that wait there already (P2); answers how many.

    -1, and nothing is sent, when a leader sends them that no longer leads.
    """

    inbox: Key
    index: Key
    leading: Sequence[Key]
    """The key of the sender's leadership, if it sends as a leader."""
    term: str
    name: str
    signals: Sequence[str]
    """Topic, payload, and '1' where it is labelled, of each."""
    uses = (INBOX,)
    lua = """
-- The sender may have been paused since it was the leader: what it saw is old.
if leading[1] and redis.call('GET', leading[1]) ~= term then return -1 end
local sent = 0
for i = 3, #signals, 3 do
  local topic, payload, labelled = signals[i - 2], signals[i - 1], signals[i] == '1'
  if deliver(inbox, index, topic, payload, labelled, name .. '.' .. i) then sent = sent + 1 end
end
return sent
"""


class HandOver(Script[Literal["accepted", "merged", "seen"]]):
    """Take a webhook's signal in, once per delivery (P2: seen only if it stands in the inbox, in the same step)."""

    seen: Key
    inbox: Key
    index: Key
    announced: Key
    deliveries: Key
    topic: str
    payload: str
    seen_ms: int
    delivery: str
    labelled: bool
    name: str
    uses = (INBOX,)
    announced_lives_ms = ANNOUNCED_MS
    deliveries_live_ms = DELIVERIES_MS
    kept = DELIVERIES_KEPT
    lua = """
if seen_ms > 0 and not redis.call('SET', seen, '1', 'NX', 'PX', seen_ms) then return 'seen' end
redis.call('SET', announced, text(now_us() / 1000), 'PX', announced_lives_ms)
if delivery ~= '' then
  redis.call('RPUSH', deliveries, delivery)
  redis.call('LTRIM', deliveries, -kept, -1)
  redis.call('PEXPIRE', deliveries, deliveries_live_ms)
end
return deliver(inbox, index, topic, payload, labelled, name) and 'accepted' or 'merged'
"""


class Opened(Script[bool]):
    """From now on nothing is merged into a signal that was taken; whether something was that is labelled (P2)."""

    index: Key
    topic: str
    name: str
    uses = (INBOX,)
    lua = """
local mark = redis.call('HGET', index, topic)
if not mark or not owns(name, mark) then return 0 end
redis.call('HDEL', index, topic)
return mark:find('labelled', 1, true) and 1 or 0
"""


class Acknowledge(Script[bool]):
    """A signal was dealt with; False when it is no longer in its taker's hands (P2)."""

    processing: Key
    index: Key
    entry: str
    uses = (INBOX,)
    lua = "return put_away(processing, index, entry) and 1 or 0"


class Hold(Script[bool]):
    """Keep a signal until there is room for its ticket (P2); False when it is no longer in its taker's hands."""

    processing: Key
    index: Key
    held: Key
    payloads: Key
    lines: Key
    taken: str
    topic: str
    entry: str
    line_of: str
    uses = (INBOX, LINES)
    lua = """
if not put_away(processing, index, taken) then return 0 end
redis.call('ZADD', held, 'NX', now_us() / 1000, topic)
local before = redis.call('HGET', payloads, topic)
if before then redis.call('ZREM', line_of .. line(before), topic) end
redis.call('HSET', payloads, topic, entry)
redis.call('HSET', lines, line(entry), '1')
redis.call('ZADD', line_of .. line(entry), redis.call('ZSCORE', held, topic), topic)
return 1
"""


class Held(Script[list[str]]):
    """Which of these wait for room (P10)."""

    held: Key
    topics: Sequence[str]
    lua = """
local found = {}
for _, topic in ipairs(topics) do
  if redis.call('ZSCORE', held, topic) then found[#found + 1] = topic end
end
return found
"""


class Later(Script[bool]):
    """Put a signal off that could not be dealt with (P2); several become one, with what any of them announced."""

    processing: Key
    index: Key
    later: Key
    payloads: Key
    taken: str
    topic: str
    again: str
    wait_ms: int
    uses = (INBOX,)
    lua = """
if not put_away(processing, index, taken) then return 0 end
local waits = redis.call('HGET', payloads, topic)
-- What the waiting one knows beyond this one must not be forgotten.
if not (waits and cjson.decode(waits).labelled) then redis.call('HSET', payloads, topic, again) end
redis.call('ZADD', later, 'LT', now_us() / 1000 + wait_ms, topic)
return 1
"""


class SendLater(Script[None]):
    """Have a signal come after a while (P2)."""

    later: Key
    payloads: Key
    topic: str
    payload: str
    wait_ms: int
    lua = """
local at = now_us() / 1000 + wait_ms
-- Under a name of its own: that somebody looks earlier is no reason not to look then.
local name = text(at) .. ' ' .. topic
redis.call('HSET', payloads, name, payload)
redis.call('ZADD', later, at, name)
"""


class Ripen(Script[float]):
    """Bring signals whose time has come, and those for whose tickets there is room now, oldest first (P2).

    Answers the ms until the next look is worth while, -1 when nothing waits.
    """

    inbox: Key
    later: Key
    later_payloads: Key
    held: Key
    payloads: Key
    inbox_index: Key
    index: Key
    running: Key
    reservations: Key
    lines: Key
    places_of: str
    limits: str
    name: str
    line_of: str
    uses = (INBOX, CAPACITY, LINES)
    lua = """
local count = 0
local function comes(topic, payload)
  count = count + 1
  deliver(inbox, inbox_index, topic, payload, cjson.decode(payload).labelled, name .. '.' .. count)
end
local ripe = redis.call('ZRANGEBYSCORE', later, '-inf', now_us() / 1000, 'LIMIT', 0, 1000)
for _, put_off in ipairs(ripe) do
  local payload = redis.call('HGET', later_payloads, put_off)
  redis.call('ZREM', later, put_off)
  redis.call('HDEL', later_payloads, put_off)
  -- Without a payload nothing is known of it; it must not keep the others from coming.
  if payload then comes(put_off:match('^%d+ (.*)$') or put_off, payload) end
end
local room = {}
local function has_room(place, limit)
  if not limit then return true end
  if not room[place] then
    room[place] = limit - taken(places_of .. place, limit, index, running, reservations)
  end
  return room[place] > 0
end
local function oldest(places)
  local found = redis.call('ZRANGE', line_of .. places, 0, 0, 'WITHSCORES')
  return found[1], tonumber(found[2])
end
local standing = 0
for _, places in ipairs(redis.call('HKEYS', lines)) do standing = standing + redis.call('ZCARD', line_of .. places) end
if standing ~= redis.call('ZCARD', held) then
  -- A release that knows no lines held some back, or let some go.
  for _, places in ipairs(redis.call('HKEYS', lines)) do
    for _, topic in ipairs(redis.call('ZRANGE', line_of .. places, 0, -1)) do
      if not redis.call('ZSCORE', held, topic) then redis.call('ZREM', line_of .. places, topic) end
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
local heads, most = {}, cjson.decode(limits)
for _, places in ipairs(redis.call('HKEYS', lines)) do
  local topic, since = oldest(places)
  if topic then
    heads[#heads + 1] = {line = places, places = cjson.decode(places), topic = topic, since = since}
  else
    redis.call('HDEL', lines, places)
  end
end
-- The oldest of all for whom there is room, again and again; where a line's first finds none, nobody in it does.
for _ = 1, 1000 do
  local chosen
  for _, head in ipairs(heads) do
    if head.topic and (not chosen or head.since < chosen.since) then
      local free = true
      for _, place in ipairs(head.places) do free = free and has_room(place, most[place]) end
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


class PutBack(Script[int]):
    """Return a dead taker's signals to the inbox, in their order, under new names (P2); -1 when it may be alive."""

    inbox: Key
    processing: Key
    index: Key
    alive: Key
    epoch: Key
    settling_key: Key
    settle: int
    name: str
    uses = (INBOX,)
    lua = """
if redis.call('EXISTS', alive) == 1 or settling(epoch, settling_key, settle) then return -1 end
local count = 0
local entry = redis.call('RPOP', processing)
while entry do
  count = count + 1
  local topic, again = topic_of(entry), name .. '.' .. count
  local mark = redis.call('HGET', index, topic)
  if topic ~= '' and (not mark or owns(name_of(entry), mark)) then
    redis.call('HSET', index, topic, again .. (mark and mark:match('%+.*$') or ''))
  end
  redis.call('LPUSH', inbox, named(entry, again))
  entry = redis.call('RPOP', processing)
end
return count
"""


class Unmark(Script[bool]):
    """Forget a mark whose signal is gone: it would swallow whatever comes for its ticket (P2)."""

    index: Key
    topic: str
    mark: str
    lua = """
if redis.call('HGET', index, topic) ~= mark then return 0 end
return redis.call('HDEL', index, topic)
"""
