"""What happens to a key that one process holds for a while, see `agentsmith.store.leases`."""

from __future__ import annotations

from typing import Literal

from agentsmith.store.keys import Key
from agentsmith.store.scripting import Script


class Take(Script[bool]):
    """Take the key if it is free or already ours (P1)."""

    lock: Key
    token: str
    ttl: int
    lua = """
if redis.call('SET', lock, token, 'NX', 'PX', ttl) then return 1 end
if redis.call('GET', lock) == token then
  redis.call('PEXPIRE', lock, ttl)
  return 1
end
return 0
"""


class TakeFenced(Script[Literal["held", "busy", "fenced"]]):
    """Take the key if it is free or ours, unless a newer fence stands: who was taken over writes nothing (P6)."""

    lock: Key
    fence: Key
    token: str
    ttl: int
    mine: int
    lua = """
if newest(fence) > mine then return 'fenced' end
if redis.call('SET', lock, token, 'NX', 'PX', ttl) or redis.call('GET', lock) == token then
  redis.call('PEXPIRE', lock, ttl)
  return 'held'
end
return 'busy'
"""


class Renew(Script[bool]):
    """Hold the key for longer if it is still ours (P1)."""

    lock: Key
    token: str
    ttl: int
    lua = """
if redis.call('GET', lock) ~= token then return 0 end
return redis.call('PEXPIRE', lock, ttl)
"""


class Release(Script[bool]):
    """Give the key up if it is still ours: whoever is late does not harm its next owner (P1)."""

    lock: Key
    token: str
    lua = """
if redis.call('GET', lock) ~= token then return 0 end
return redis.call('DEL', lock)
"""


class Lead(Script[str]):
    """Begin a term if nobody leads, or go on with ours; answers the term as JSON, '' when another process leads.

    Each term has a fence above all earlier ones: what a leader of an earlier one notes is refused (P6).
    """

    leader: Key
    fence: Key
    holder: str
    ttl: int
    lua = """
local held = redis.call('GET', leader)
if held then
  -- Our own, if only the answer to the first call was lost.
  local ok, known = pcall(cjson.decode, held)
  if not (ok and type(known) == 'table' and known.holder == holder) then return '' end
  redis.call('PEXPIRE', leader, ttl)
  return held
end
local value = cjson.encode({holder = holder, fence = text(raise_fence(fence)), since = text(now_us() / 1000)})
redis.call('SET', leader, value, 'PX', ttl)
return value
"""
