"""Lua scripts as values: each atomic step of the store is one `Script`, called with keys and arguments.

A script sees these functions:
  now_us()                     Redis time in microseconds
  text(number)                 a whole number as text, all digits (tostring would cut a fence)
  newest(fence_key)            the newest fence that was given out, 0 if none is known
  raise_fence(fence_key)       the next fence: above every earlier one, also after a flush
  settling(epoch, settling_key, ms)   whether Redis may have lost state; a new or emptied server starts the period
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from redis.exceptions import NoScriptError

from agentsmith.store.commands import Commands, Value
from agentsmith.store.keys import FENCE_MS

_PREAMBLE: Final = (
    """
local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
local function text(number) return string.format('%.0f', number) end
local function newest(key) return tonumber(redis.call('GET', key) or '0') end
local function raise_fence(key)
  local fence = math.max(newest(key) + 1, now_us())
  redis.call('SET', key, text(fence), 'PX', """
    + str(FENCE_MS)
    + """)
  return fence
end
local function settling(epoch_key, settling_key, ms)
  -- A restarted server has a new run id, an emptied one has lost the key: either way what is missing now
  -- may only be missing because Redis forgot it.
  local info = redis.pcall('INFO', 'server')
  local id = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or 'unknown'
  local known = redis.call('GET', epoch_key)
  if not known or string.match(known, '^%w+') ~= id then
    redis.call('SET', epoch_key, id .. ':' .. text(now_us()))
    redis.call('SET', settling_key, '1', 'PX', ms)
  end
  return redis.call('EXISTS', settling_key) == 1
end
"""
)


class Script:
    """One atomic step. Loaded on first use, and again after the server forgot it."""

    def __init__(self, body: str) -> None:
        self._text = _PREAMBLE + body
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, redis: Commands, keys: Sequence[str], args: Sequence[Value] = ()) -> Any:
        """Run the script in one step and return what it returns."""
        try:
            return await redis.evalsha(self._sha, len(keys), *keys, *args)
        except NoScriptError:
            return await redis.eval(self._text, len(keys), *keys, *args)
