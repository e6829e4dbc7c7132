"""What is known of a credential's API quota, see `agentsmith.store.quota`."""

from __future__ import annotations

from dataclasses import dataclass

from agentsmith.domain.pacing import EVERYWHERE, FIRST_BACKOFF, FORGIVEN_AFTER, LONGEST_BACKOFF, SAME_WINDOW
from agentsmith.store.keys import QUOTA_MS, SPENT_MS, Key
from agentsmith.store.scripting import Script


@dataclass(frozen=True, slots=True)
class Wait:
    """How many seconds to wait, until when (since the epoch), and why."""

    seconds: float
    until: float
    reason: str


class Reserve(Script[Wait]):
    """How long a request must wait; takes the next slot for a write if that is within the asker's patience (P9)."""

    books: Key
    bucket: str
    spacing: str
    patience: float
    everywhere = EVERYWHERE
    quota_lives_ms = QUOTA_MS
    lua = """
local apart, now = tonumber(spacing), now_us() / 1000000
local until_, reason = now, ''
local function hold(held, why)
  if held and tonumber(held) > until_ then until_, reason = tonumber(held), why end
end
for _, name in ipairs({bucket, everywhere}) do
  hold(redis.call('HGET', books, 'pause-until:' .. name), redis.call('HGET', books, 'pause-reason:' .. name) or '')
end
local remaining = redis.call('HGET', books, 'remaining:' .. bucket)
if remaining and tonumber(remaining) <= 0 then
  local limit = redis.call('HGET', books, 'limit:' .. bucket)
  hold(redis.call('HGET', books, 'reset:' .. bucket),
    'the ' .. bucket .. ' quota of ' .. limit .. ' requests is used up')
end
if apart > 0 then hold(redis.call('HGET', books, 'next-write'), 'writes are kept ' .. spacing .. ' s apart') end
local wait = until_ - now
if apart > 0 and wait <= patience then
  redis.call('HSET', books, 'next-write', string.format('%.6f', until_ + apart))
  redis.call('PEXPIRE', books, quota_lives_ms)
end
return {string.format('%.6f', wait), string.format('%.6f', until_), reason}
"""


class Report(Script[None]):
    """Remember what a platform said is left of a bucket (P9)."""

    books: Key
    bucket: str
    limit: int
    left: int
    resets: str
    same_window = SAME_WINDOW
    quota_lives_ms = QUOTA_MS
    lua = """
local remaining, reset = left, tonumber(resets)
local known = tonumber(redis.call('HGET', books, 'reset:' .. bucket) or '0')
-- Answers overtake each other, and resets waver by a second: within one window the lowest count holds, a window that
-- begins clearly later replaces it, and 0 is believed in any case.
if known > now_us() / 1000000 and remaining > 0 then
  if reset < known - same_window then return end
  if reset < known + same_window then
    remaining = math.min(remaining, tonumber(redis.call('HGET', books, 'remaining:' .. bucket)))
    reset = math.max(reset, known)
  end
end
redis.call('HSET', books, 'limit:' .. bucket, text(limit), 'remaining:' .. bucket, text(remaining),
  'reset:' .. bucket, string.format('%.3f', reset))
redis.call('PEXPIRE', books, quota_lives_ms)
"""


class Pause(Script[None]):
    """Hold a bucket back for so many seconds; below 0 a minute, doubling while it goes on (P9)."""

    books: Key
    bucket: str
    wait: float
    reason: str
    first_backoff = FIRST_BACKOFF
    longest_backoff = LONGEST_BACKOFF
    forgiven_after = FORGIVEN_AFTER
    quota_lives_ms = QUOTA_MS
    lua = """
local now, seconds = now_us() / 1000000, wait
if seconds < 0 then
  local struck = tonumber(redis.call('HGET', books, 'struck-until') or '0')
  if now > struck + forgiven_after then redis.call('HSET', books, 'strikes', 0) end
  local strikes = tonumber(redis.call('HGET', books, 'strikes') or '0')
  seconds = math.min(first_backoff * 2 ^ strikes, longest_backoff)
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
redis.call('PEXPIRE', books, math.max(quota_lives_ms, math.ceil(seconds * 1000)))
"""


class Record(Script[None]):
    """One request was sent: count it, for people to read (P10)."""

    spent: Key
    credentials: Key
    credential: str
    purpose: str
    counted: str
    spent_lives_ms = SPENT_MS
    lua = """
if redis.call('HSETNX', spent, 'since', text(now_us() / 1000000)) == 1 then
  redis.call('PEXPIRE', spent, spent_lives_ms)
end
redis.call('HINCRBY', spent, counted .. ':' .. purpose, 1)
redis.call('ZADD', credentials, now_us() / 1000, credential)
redis.call('PEXPIRE', credentials, spent_lives_ms)
"""
