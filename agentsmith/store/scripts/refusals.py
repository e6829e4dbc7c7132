"""What a tracker refuses us, see `agentsmith.store.refusals`."""

from __future__ import annotations

from collections.abc import Sequence

from agentsmith.store.keys import REFUSALS_MS, Key
from agentsmith.store.scripting import Script


class Note(Script[bool]):
    """Remember a refusal for people to read, and on which ticket it was met last (P10); False when it was known."""

    refusals: Key
    field: str
    details: str
    refusals_live_ms = REFUSALS_MS
    lua = """
local old = redis.call('HGET', refusals, field)
local readable, noted = pcall(cjson.decode, details)
if readable then
  local known, was = pcall(cjson.decode, old or '')
  if known then noted.since = was.since end
  noted.last = now_us() / 1000000
  details = cjson.encode(noted)
end
redis.call('HSET', refusals, field, details)
redis.call('PEXPIRE', refusals, refusals_live_ms)
return old and 0 or 1
"""


class Clear(Script[list[int]]):
    """Forget refusals of what works (P10). Answers how many were forgotten, and how many stand all the same.

    What works on one ticket says nothing about another one that was refused lately: rights may differ.
    """

    refusals: Key
    fields: Sequence[str]
    ticket: str
    stands_for_s: int
    lua = """
local cleared, standing = 0, 0
for _, field in ipairs(fields) do
  local old = redis.call('HGET', refusals, field)
  if old then
    local readable, was = pcall(cjson.decode, old)
    local on = readable and was.ticket or ''
    if on ~= '' and on ~= ticket and now_us() / 1000000 - (was.last or 0) < tonumber(stands_for_s) then
      standing = standing + 1
    else
      cleared = cleared + redis.call('HDEL', refusals, field)
    end
  end
end
return {cleared, standing}
"""
