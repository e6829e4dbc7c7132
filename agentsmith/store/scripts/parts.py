"""Lua functions that several scripts share; a script names those that it needs under `uses`."""

from __future__ import annotations

from typing import Final

from agentsmith.store.keys import FULL_MS, PLACES_MS, QUESTION_MS

MANY: Final = 500
"""Tickets in one place: it takes milliseconds to look at each of them."""
LONGEST_IN_A_LIST: Final = 1000
"""Bytes of a ticket's text that a list holds beside the index: so short a request is the same in both."""

ENTRIES: Final = """
local function name_of(entry) return entry:match('^{"entry":"([^"]*)",') or '' end
local function named(entry, name)
  -- Whatever is no object is nobody's message; it is left as it is, to be buried.
  if entry:sub(1, 2) ~= '{"' then return entry end
  local text = entry:gsub('^{"entry":"[^"]*",', '{')
  return '{"entry":"' .. name .. '",' .. text:sub(2)
end
local function same_message(one, other) return named(one, '') == named(other, '') end
"""
"""The names of list entries, see `entries`."""

INBOX: Final = (
    ENTRIES
    + """
-- A mark is the name of the entry that waits, and what was added to it since. An entry without a name is of a release
-- that gave none: it owns whatever mark there is.
local function owns(name, mark) return name == '' or mark:match('^[^+]*') == name end
-- Put a signal into the inbox, unless one like it waits there: then what it adds is noted for whoever takes that one.
local function deliver(inbox, index, topic, payload, labelled, name)
  if redis.call('HSETNX', index, topic, name .. (labelled and '+labelled' or '')) == 1 then
    redis.call('RPUSH', inbox, named(payload, name))
    return true
  end
  local mark = redis.call('HGET', index, topic)
  if labelled and not mark:find('labelled', 1, true) then redis.call('HSET', index, topic, mark .. '+labelled') end
  return false
end
-- What merging compares, as `Signal.topic` has it; '' for what is no signal, which has no mark either.
local function topic_of(entry)
  local ok, signal = pcall(cjson.decode, entry)
  if not ok or type(signal) ~= 'table' or not signal.kind or not signal.ticket then return '' end
  local remark = signal.remark or ''
  return signal.kind .. ':' .. signal.ticket .. (remark ~= '' and ':' .. remark or '')
end
-- Take a signal out of its taker's list, and its mark with it; false when it is not there any more.
local function put_away(processing, index, entry)
  if redis.call('LREM', processing, 1, entry) == 0 then return false end
  local topic = topic_of(entry)
  local mark = redis.call('HGET', index, topic)
  if mark and owns(name_of(entry), mark) then redis.call('HDEL', index, topic) end
  return true
end
"""
)
"""Putting a signal into the inbox, and taking one out of its taker's list."""

LINES: Final = """
-- Those who want room in the same places stand in one line: who wants it where there is some is not behind others.
local function line(entry) return cjson.encode(cjson.decode(entry).places) end
"""
"""Signals that are held back for want of room."""

CAPACITY: Final = (
    f"local places_live_ms, full_lives_ms, many = {PLACES_MS}, {FULL_MS}, {MANY}"
    + """
local function in_hand(ticket, index, running, reservations)
  if redis.call('HEXISTS', index, ticket) == 1 or redis.call('HEXISTS', running, ticket) == 1 then return true end
  local until_ms = redis.call('ZSCORE', reservations, ticket)
  return until_ms and tonumber(until_ms) > now_us() / 1000
end
-- How many places are taken; which of them are free again is looked at only when it matters, and where that takes long
-- not at every claim, nor whenever somebody asks for those who wait for room.
local function taken(place, limit, index, running, reservations)
  local count, full = redis.call('HLEN', place), (place:gsub('^(.*):places:', '%1:full:'))
  if (limit and count >= limit) or (count > 0 and count % 1000 == 0) then
    if count >= many and redis.call('EXISTS', full) == 1 then return count end
    for _, ticket in ipairs(redis.call('HKEYS', place)) do
      if not in_hand(ticket, index, running, reservations) then redis.call('HDEL', place, ticket) end
    end
    if count >= many and redis.call('HLEN', place) == count then redis.call('SET', full, '1', 'PX', full_lives_ms) end
  end
  return redis.call('HLEN', place)
end
local function occupy(place, ticket)
  redis.call('HSET', place, ticket, '1')
  redis.call('PEXPIRE', place, places_live_ms)
end
"""
)
"""Counting the tickets that take up room, see `capacity`."""

LISTED: Final = (
    f"local longest_in_a_list = {LONGEST_IN_A_LIST}"
    + """
-- The index has the whole request; its entry in a list goes without the text of the ticket where that is long, so that
-- it is there once, and whoever only lists requests is spared it. As text: cjson would round numbers. Inside of a JSON
-- text every quote has a backslash before it, so the end that is looked for stands in no ticket.
local function listed(request)
  local _, before = request:find('"pinned":{"body":"', 1, true)
  local after = before and request:find('","sha256":"', before + 1, true)
  if not after or after - before - 1 <= longest_in_a_list then return request end
  return request:sub(1, before) .. request:sub(after)
end
-- Earlier releases put the whole of it into the lists.
local function stands_for(entry, request) return request and (entry == request or entry == listed(request)) end
local function place_of(list, request)
  return redis.call('LPOS', list, listed(request)) or redis.call('LPOS', list, request)
end
local function take_out(list, request)
  local count = redis.call('LREM', list, 1, listed(request))
  return count > 0 and count or redis.call('LREM', list, 1, request)
end
"""
)
"""Requests as they stand in the index, and in the lists."""

RECORD: Final = """
local function record(intent, intents, ticket, fence, look_in, fields)
  redis.call('DEL', intent)
  redis.call('HSET', intent, 'fence', text(fence), unpack(fields))
  redis.call('ZADD', intents, now_us() / 1000 + look_in, ticket)
end
"""
"""Noting an intent, see `intents`."""

PARKED: Final = (
    f"local parked_lives_ms = {QUESTION_MS}"
    + """
local function note_parked(parked, ticket, is_parked)
  local now = now_us() / 1000
  -- Older ones were closed or taken back by people: of those nobody tells us.
  redis.call('ZREMRANGEBYSCORE', parked, '-inf', now - parked_lives_ms)
  if is_parked then redis.call('ZADD', parked, 'NX', now, ticket) else redis.call('ZREM', parked, ticket) end
end
"""
)
"""Noting who waits for a person, see `questions`."""
