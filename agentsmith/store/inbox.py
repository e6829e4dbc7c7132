"""What every script does that puts a signal into the inbox, or takes one out of its taker's list."""

from __future__ import annotations

from typing import Final

from agentsmith.store.entries import ENTRIES

LABELLED: Final = "+labelled"
INBOX: Final = (
    ENTRIES
    + f"""
-- A mark is the name of the entry that waits, and what was added to it since. An entry without a name is of a release
-- that gave none: it owns whatever mark there is.
local function owns(name, mark) return name == '' or mark:match('^[^+]*') == name end
-- Put a signal into the inbox, unless one like it waits there: then what it adds is noted for whoever takes that one.
local function deliver(inbox, index, topic, payload, labelled, name)
  if redis.call('HSETNX', index, topic, name .. (labelled and '{LABELLED}' or '')) == 1 then
    redis.call('RPUSH', inbox, named(payload, name))
    return true
  end
  local mark = redis.call('HGET', index, topic)
  if labelled and not mark:find('labelled', 1, true) then redis.call('HSET', index, topic, mark .. '{LABELLED}') end
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
