"""API quota, shared by all replicas of a credential: who must wait, who spent what, and what is left.

Speaks in plain data, so that trackers, which know nothing of Redis, can be handed it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from redis.exceptions import RedisError

from agentsmith.domain.errors import StoreUnavailable
from agentsmith.domain.pacing import EVERYWHERE, FIRST_BACKOFF, FORGIVEN_AFTER, LONGEST_BACKOFF, SAME_WINDOW
from agentsmith.store.commands import Commands
from agentsmith.store.keys import QUOTA_MS, SPENT_MS, Keys
from agentsmith.store.scripting import Script

_RESERVE: Final = Script(f"""
local books = KEYS[1]
local bucket, spacing, patience = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_us() / 1000000
local until_, reason = now, ''
local function hold(held, why)
  if held and tonumber(held) > until_ then until_, reason = tonumber(held), why end
end
for _, name in ipairs({{bucket, '{EVERYWHERE}'}}) do
  hold(redis.call('HGET', books, 'pause-until:' .. name), redis.call('HGET', books, 'pause-reason:' .. name) or '')
end
local remaining = redis.call('HGET', books, 'remaining:' .. bucket)
if remaining and tonumber(remaining) <= 0 then
  local limit = redis.call('HGET', books, 'limit:' .. bucket)
  hold(redis.call('HGET', books, 'reset:' .. bucket),
    'the ' .. bucket .. ' quota of ' .. limit .. ' requests is used up')
end
if spacing > 0 then hold(redis.call('HGET', books, 'next-write'), 'writes are kept ' .. ARGV[2] .. ' s apart') end
local wait = until_ - now
if spacing > 0 and wait <= patience then
  redis.call('HSET', books, 'next-write', string.format('%.6f', until_ + spacing))
  redis.call('PEXPIRE', books, {QUOTA_MS})
end
return {{string.format('%.6f', wait), string.format('%.6f', until_), reason}}
""")
_REPORT: Final = Script(f"""
local books = KEYS[1]
local bucket, limit = ARGV[1], ARGV[2]
local remaining, reset = tonumber(ARGV[3]), tonumber(ARGV[4])
local known = tonumber(redis.call('HGET', books, 'reset:' .. bucket) or '0')
-- Answers overtake each other, and resets waver by a second: within one window the lowest count holds, a window that
-- begins clearly later replaces it, and 0 is believed in any case.
if known > now_us() / 1000000 and remaining > 0 then
  if reset < known - {SAME_WINDOW} then return end
  if reset < known + {SAME_WINDOW} then
    remaining = math.min(remaining, tonumber(redis.call('HGET', books, 'remaining:' .. bucket)))
    reset = math.max(reset, known)
  end
end
redis.call('HSET', books, 'limit:' .. bucket, limit, 'remaining:' .. bucket, text(remaining),
  'reset:' .. bucket, string.format('%.3f', reset))
redis.call('PEXPIRE', books, {QUOTA_MS})
""")
_PAUSE: Final = Script(f"""
local books = KEYS[1]
local bucket, seconds, reason = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local now = now_us() / 1000000
if seconds < 0 then
  local struck = tonumber(redis.call('HGET', books, 'struck-until') or '0')
  if now > struck + {FORGIVEN_AFTER} then redis.call('HSET', books, 'strikes', 0) end
  local strikes = tonumber(redis.call('HGET', books, 'strikes') or '0')
  seconds = math.min({FIRST_BACKOFF} * 2 ^ strikes, {LONGEST_BACKOFF})
  if now >= struck then
    -- Several requests that were under way together are one strike.
    redis.call('HINCRBY', books, 'strikes', 1)
    redis.call('HSET', books, 'struck-until', string.format('%.6f', now + seconds))
  end
end
local known = tonumber(redis.call('HGET', books, 'pause-until:' .. bucket) or '0')
if now + seconds > known then
  redis.call('HSET', books,
    'pause-until:' .. bucket, string.format('%.6f', now + seconds), 'pause-reason:' .. bucket, reason)
end
redis.call('PEXPIRE', books, math.max({QUOTA_MS}, math.ceil(seconds * 1000)))
""")
_RECORD: Final = Script(f"""
local spent, credentials = unpack(KEYS)
local credential, purpose, counted = unpack(ARGV)
if redis.call('HSETNX', spent, 'since', text(now_us() / 1000000)) == 1 then
  redis.call('PEXPIRE', spent, {SPENT_MS})
end
redis.call('HINCRBY', spent, counted .. ':' .. purpose, 1)
redis.call('ZADD', credentials, now_us() / 1000, credential)
redis.call('PEXPIRE', credentials, {SPENT_MS})
""")


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        raise StoreUnavailable(f"Redis is away: {error}") from None


@dataclass(frozen=True, slots=True)
class Allowance:
    """One allowance of a credential, as the platform last reported it."""

    bucket: str
    limit: int
    remaining: int
    reset: float


@dataclass(frozen=True, slots=True)
class Account:
    """What one credential spent, by purpose, since a moment, and what it has left."""

    credential: str
    since: float
    counted: dict[str, int]
    free: dict[str, int]
    allowances: tuple[Allowance, ...]
    paused_until: float | None
    paused_because: str


class Quotas:
    """Governor and ledger for every replica on this Redis; what fails is StoreUnavailable and nothing else."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def reserve(
        self, credential: str, bucket: str, *, spacing: float, patience: float
    ) -> tuple[float, float, str]:
        """Seconds to wait, until when (since the epoch), and why; takes the slot if the wait is within `patience`."""
        keys = [self._keys.quota(credential)]
        # Redis reads no infinity; a year is patience enough.
        with _unavailable():
            wait, until, reason = await _RESERVE(self._redis, keys, [bucket, f"{spacing:g}", min(patience, 3e7)])
        return float(wait), float(until), str(reason)

    async def report(self, credential: str, bucket: str, *, limit: int, remaining: int, reset: float) -> None:
        """Remember what the platform said is left."""
        with _unavailable():
            await _REPORT(self._redis, [self._keys.quota(credential)], [bucket, limit, remaining, f"{reset:.3f}"])

    async def pause(self, credential: str, bucket: str, *, seconds: float | None, reason: str) -> None:
        """Hold the bucket (`*`: all) back; None: no time was named, so a minute, doubling while it goes on."""
        wait = -1.0 if seconds is None else max(0.0, seconds)
        with _unavailable():
            await _PAUSE(self._redis, [self._keys.quota(credential)], [bucket, wait, reason])

    async def record(self, credential: str, purpose: str, *, counted: bool) -> None:
        """One request was sent; `counted` when the platform takes it off the quota."""
        word = "counted" if counted else "free"
        keys = [self._keys.spent(credential), self._keys.credentials]
        with _unavailable():
            await _RECORD(self._redis, keys, [credential, purpose, word])

    async def accounts(self) -> list[Account]:
        """Every credential that was used within a day."""
        names = await self._redis.zrange(self._keys.credentials, 0, -1)
        return [await self._account(name) for name in sorted(names)]

    async def _account(self, credential: str) -> Account:
        spent = await self._redis.hgetall(self._keys.spent(credential))
        books = await self._redis.hgetall(self._keys.quota(credential))
        by_word: dict[str, dict[str, int]] = {"counted": {}, "free": {}}
        for name, value in spent.items():
            word, _, purpose = name.partition(":")
            if word in by_word:
                by_word[word][purpose] = int(value)
        buckets = sorted(name.partition(":")[2] for name in books if name.startswith("limit:"))
        pauses = {name.partition(":")[2]: float(at) for name, at in books.items() if name.startswith("pause-until:")}
        longest = max(pauses, key=lambda bucket: pauses[bucket], default=None)
        return Account(
            credential=credential,
            since=float(spent.get("since", 0)),
            counted=by_word["counted"],
            free=by_word["free"],
            allowances=tuple(
                Allowance(b, int(books[f"limit:{b}"]), int(books[f"remaining:{b}"]), float(books[f"reset:{b}"]))
                for b in buckets
            ),
            paused_until=pauses[longest] if longest is not None else None,
            paused_because=books.get(f"pause-reason:{longest}", ""),
        )
