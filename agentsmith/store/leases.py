"""One coordination primitive: a key, an owner's token and a time to live.

Claim lock and leadership are this; the run lease (runs.py) adds the fence. `Trust` is the owner's own judgement
of how long it may still act, and is always shorter than what Redis grants.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Final

from agentsmith.boottime import boottime
from agentsmith.store.commands import Commands
from agentsmith.store.scripting import Script

_TAKE: Final = Script("""
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0
""")
_TAKE_FENCED: Final = Script("""
if newest(KEYS[2]) > tonumber(ARGV[3]) then return 'fenced' end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) or redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 'held'
end
return 'busy'
""")
_RENEW: Final = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")
_RELEASE: Final = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
""")

_LEAD: Final = Script("""
local leader, fence = unpack(KEYS)
local holder, ttl = unpack(ARGV)
local held = redis.call('GET', leader)
if held then
  -- Our own, if only the answer to the first call was lost.
  local ok, known = pcall(cjson.decode, held)
  if not (ok and type(known) == 'table' and known.holder == holder) then return '' end
  redis.call('PEXPIRE', leader, ttl)
  return held
end
local value = cjson.encode({
  holder = holder, fence = text(raise_fence(fence)), since = text(now_us() / 1000)})
redis.call('SET', leader, value, 'PX', ttl)
return value
""")


@dataclass(slots=True)
class Trust:
    """How long its owner may act on a lease: TTL minus margin, from before the last renewal was sent.

    Counted on the boot-time clock, which runs while the machine sleeps. The wall clock is looked at too, but it
    can only end the trust earlier.
    """

    ttl: float
    margin: float
    _until: float = field(init=False, default=0.0)
    _wall_until: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.renewed(sent_at=boottime())

    def renewed(self, *, sent_at: float) -> None:
        """A renewal that was sent at `sent_at` (boot-time clock) succeeded."""
        self._until = sent_at + self.ttl - self.margin
        self._wall_until = time.time() - (boottime() - sent_at) + self.ttl - self.margin

    @property
    def until(self) -> float:
        """The end of the trust window on the boot-time clock."""
        return min(self._until, boottime() + (self._wall_until - time.time()))

    @property
    def holds(self) -> bool:
        """Whether the owner may still begin a write."""
        return boottime() < self._until and time.time() < self._wall_until

    def end(self) -> None:
        """Trust no more: the lease is known to be lost or was given up."""
        self._until = self._wall_until = 0.0


@dataclass(slots=True)
class Lease:
    """A held key. Renewal and release compare the token, so a late message cannot harm a newer owner."""

    redis: Commands
    key: str
    token: str
    ttl: float
    margin: float
    trust: Trust = field(init=False)

    def __post_init__(self) -> None:
        self.trust = Trust(self.ttl, self.margin)
        self.trust.end()

    async def take(self) -> bool:
        """Take the key if it is free or already ours."""
        sent = boottime()
        if not await _TAKE(self.redis, [self.key], [self.token, _ms(self.ttl)]):
            return False
        self.trust.renewed(sent_at=sent)
        return True

    async def take_fenced(self, fence_key: str, fence: int) -> str:
        """Take the key unless a newer fence stands: `held`, `busy` or `fenced`."""
        sent = boottime()
        word = str(await _TAKE_FENCED(self.redis, [self.key, fence_key], [self.token, _ms(self.ttl), fence]))
        if word == "held":
            self.trust.renewed(sent_at=sent)
        return word

    async def renew(self) -> bool:
        """Extend the lease; False, and no more trust, when somebody else holds the key."""
        sent = boottime()
        if await _RENEW(self.redis, [self.key], [self.token, _ms(self.ttl)]):
            self.trust.renewed(sent_at=sent)
            return True
        self.trust.end()
        return False

    async def release(self) -> None:
        """Give the key up if it is still ours."""
        self.trust.end()
        await _RELEASE(self.redis, [self.key], [self.token])


@dataclass(slots=True)
class LeaderLease(Lease):
    """Leadership of one role. Each term has a fence above every earlier one; what a leader notes is refused below it.

    The key holds the whole term, so that a late message of an earlier term, even one of our own, cannot harm this one.
    """

    fence_key: str = ""
    fence: int = 0
    """Of the term that was last taken."""
    holder: str = field(init=False)

    def __post_init__(self) -> None:
        Lease.__post_init__(self)
        self.holder = self.token

    async def take(self) -> bool:
        """Begin a term if nobody leads; go on with ours if it still stands."""
        sent = boottime()
        value = str(await _LEAD(self.redis, [self.key, self.fence_key], [self.holder, _ms(self.ttl)]))
        if not value:
            return False
        self.token, self.fence = value, int(json.loads(value)["fence"])
        self.trust.renewed(sent_at=sent)
        return True


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
