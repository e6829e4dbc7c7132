"""The signals inbox: hints to look at a ticket, taken and acknowledged like requests.

A signal for a ticket that already waits in the inbox is merged. Once taken it no longer absorbs others, because
whatever they announce may be newer than what the taker reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands
from agentsmith.store.keys import DELIVERY_MS, REJECTED_MS, Keys
from agentsmith.store.scripting import Script

_SEND: Final = Script("""
local inbox, index = unpack(KEYS)
local sent = 0
for i = 1, #ARGV, 2 do
  if redis.call('HSETNX', index, ARGV[i], '1') == 1 then
    redis.call('RPUSH', inbox, ARGV[i + 1])
    sent = sent + 1
  end
end
return sent
""")
_HAND_OVER: Final = Script("""
local seen, inbox, index = unpack(KEYS)
local topic, payload, keep = unpack(ARGV)
if tonumber(keep) > 0 and not redis.call('SET', seen, '1', 'NX', 'PX', keep) then return 'seen' end
if redis.call('HSETNX', index, topic, '1') == 0 then return 'merged' end
redis.call('RPUSH', inbox, payload)
return 'accepted'
""")
_LATER: Final = Script("""
local processing, later = unpack(KEYS)
local payload, again, wait_ms = unpack(ARGV)
if redis.call('LREM', processing, 1, payload) == 0 then return 0 end
redis.call('ZADD', later, now_us() / 1000 + tonumber(wait_ms), again)
return 1
""")
_SEND_LATER: Final = Script("""
redis.call('ZADD', KEYS[1], now_us() / 1000 + tonumber(ARGV[2]), ARGV[1])
""")
_RIPEN: Final = Script("""
local inbox, later = unpack(KEYS)
local ripe = redis.call('ZRANGEBYSCORE', later, '-inf', now_us() / 1000, 'LIMIT', 0, 1000)
for _, payload in ipairs(ripe) do
  redis.call('ZREM', later, payload)
  redis.call('RPUSH', inbox, payload)
end
local first = redis.call('ZRANGE', later, 0, 0, 'WITHSCORES')
return first[2] and tostring(math.max(0, tonumber(first[2]) - now_us() / 1000)) or '-1'
""")
_PUT_BACK: Final = Script("""
local inbox, processing, alive, epoch, settling_key = unpack(KEYS)
if redis.call('EXISTS', alive) == 1 or settling(epoch, settling_key, ARGV[1]) then return -1 end
local count = 0
while redis.call('LMOVE', processing, inbox, 'RIGHT', 'LEFT') do count = count + 1 end
return count
""")


class Signals:
    """Hints, from send to acknowledge."""

    def __init__(self, redis: Commands, keys: Keys, *, settle_ms: int) -> None:
        self._redis, self._keys, self._settle_ms = redis, keys, settle_ms

    async def send(self, signals: Iterable[Signal]) -> int:
        """Put signals into the inbox; answers how many were not merged into waiting ones."""
        flat = [part for signal in signals for part in (signal.topic, signal.to_json())]
        if not flat:
            return 0
        return int(await _SEND(self._redis, [self._keys.inbox, self._keys.inbox_index], flat))

    async def hand_over(self, signal: Signal, *, delivery: str) -> str:
        """Take a webhook's signal in, once per delivery: `accepted`, `merged` or `seen`.

        The delivery counts as seen only if the signal stands in the inbox, in one step: what failed may be sent again.
        """
        k = self._keys
        named = hashlib.sha256(delivery.encode("utf-8", "replace")).hexdigest()[:32]
        keys = [k.delivery(signal.tracker, named), k.inbox, k.inbox_index]
        keep = DELIVERY_MS if delivery else 0
        return str(await _HAND_OVER(self._redis, keys, [signal.topic, signal.to_json(), keep]))

    async def take(self, consumer: str, *, wait: float) -> str | None:
        """Move the oldest signal to the taker's list, waiting up to `wait` seconds for one."""
        return await self._redis.blmove(self._keys.inbox, self._keys.inbox_processing(consumer), wait, "LEFT", "RIGHT")

    async def opened(self, signal: Signal) -> None:
        """From now on a new signal for this ticket is not merged into this one. Call before reading the ticket."""
        await self._redis.hdel(self._keys.inbox_index, signal.topic)

    async def acknowledge(self, consumer: str, payload: str) -> None:
        """The signal was dealt with."""
        await self._redis.lrem(self._keys.inbox_processing(consumer), 1, payload)

    async def later(self, consumer: str, payload: str, signal: Signal, *, wait: float) -> None:
        """The signal could not be dealt with: try again in `wait` seconds."""
        keys = [self._keys.inbox_processing(consumer), self._keys.inbox_later]
        await _LATER(self._redis, keys, [payload, signal.again().to_json(), round(wait * 1000)])

    async def send_later(self, signal: Signal, *, wait: float) -> None:
        """Put a signal into the inbox once `wait` seconds have passed."""
        await _SEND_LATER(self._redis, [self._keys.inbox_later], [signal.to_json(), round(wait * 1000)])

    async def ripen(self) -> float | None:
        """Move signals whose time has come into the inbox; answers the seconds until the next one."""
        left = float(await _RIPEN(self._redis, [self._keys.inbox, self._keys.inbox_later]))
        return left / 1000 if left >= 0 else None

    async def in_hand(self, consumer: str) -> list[str]:
        """What was taken and not acknowledged, also when the answer to a take was lost."""
        return list(await self._redis.lrange(self._keys.inbox_processing(consumer), 0, -1))

    async def put_back(self, consumer: str) -> int:
        """Return a dead taker's signals to the inbox; -1 when it may be alive."""
        k = self._keys
        keys = [k.inbox, k.inbox_processing(consumer), k.consumer(consumer), k.epoch, k.settling]
        return int(await _PUT_BACK(self._redis, keys, [self._settle_ms]))

    async def note_rejected(self, ticket: TicketId, revision: str) -> None:
        """A gate turned the ticket away as it stands."""
        await self._redis.set(self._keys.rejected(ticket), revision, px=REJECTED_MS)

    async def rejected(self, tickets: Sequence[TicketId]) -> dict[TicketId, str]:
        """The revisions in which these tickets were turned away lately."""
        found = await self._redis.mget([self._keys.rejected(t) for t in tickets]) if tickets else []
        return {ticket: revision for ticket, revision in zip(tickets, found, strict=True) if revision}

    async def count(self) -> int:
        """How many signals wait, those for later included."""
        inbox = await self._redis.llen(self._keys.inbox)
        later = await self._redis.zcard(self._keys.inbox_later)
        return int(inbox) + int(later)
