"""The queue of requests: a list, a processing list per consumer, and an index over both.

Taking is not losing: a request moves atomically from the queue to its taker's processing list and stays there,
and in the index, until it is acknowledged. The index holds at most one request per ticket. A request that is put back
goes under another name (`entries`): whoever had it before has it no longer, whatever they say about it later.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands, Value
from agentsmith.store.dead_letters import DeadLetter
from agentsmith.store.entries import ENTRIES, new_name
from agentsmith.store.keys import PUBLISHED_MS, Keys
from agentsmith.store.places import COUNTING, all_of
from agentsmith.store.scripting import Script

_REQUESTS_AT_ONCE: Final = 50
_AT_ONCE: Final = 100
"""Tickets that are looked for in the lists in one step."""
_PUSH: Final = Script(
    COUNTING
    + f"""
local queue, index, fence, heartbeat, intent, intents, published, claims, reservations, epoch, settling_key =
  unpack(KEYS)
local ticket, mine, payload, front, window, settle = unpack(ARGV)
local waiting = redis.call('HGET', index, ticket)
if waiting == payload then return 'pushed' end
if tonumber(settle) > 0 and settling(epoch, settling_key, settle) then return 'settling' end
if newest(fence) > tonumber(mine) then return 'fenced' end
if waiting then return 'queued' end
if redis.call('EXISTS', heartbeat) == 1 then return 'leased' end
redis.call(front == '1' and 'LPUSH' or 'RPUSH', queue, payload)
redis.call('HSET', index, ticket, payload)
redis.call('DEL', intent)
redis.call('ZREM', intents, ticket)
redis.call('ZREM', reservations, ticket)
for i = 12, #KEYS do occupy(KEYS[i], ticket) end
redis.call('SET', published, 'enqueued', 'PX', {PUBLISHED_MS})
if tonumber(window) > 0 then
  redis.call('ZADD', claims, now_us(), mine)
  redis.call('PEXPIRE', claims, window)
end
return 'pushed'
"""
)
_ACKNOWLEDGE_AND_TAKE: Final = Script("""
local queue, index, processing = unpack(KEYS)
local room = tonumber(ARGV[1])
for i = 2, #ARGV, 2 do
  -- Who has it no longer has nothing to say about it.
  if redis.call('LREM', processing, 1, ARGV[i + 1]) > 0 and redis.call('HGET', index, ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', index, ARGV[i])
  end
end
local taken = {}
while #taken < room do
  local payload = redis.call('LMOVE', queue, processing, 'LEFT', 'RIGHT')
  if not payload then break end
  taken[#taken + 1] = payload
end
return taken
""")
_PUT_BACK: Final = Script(
    ENTRIES
    + """
local queue, index, processing, alive, consumers, epoch, settling_key, signals = unpack(KEYS)
local consumer, settle, heartbeat_of, name = unpack(ARGV)
if redis.call('EXISTS', alive) == 1 or settling(epoch, settling_key, settle) then return -1 end
local count = 0
local held = redis.call('LRANGE', processing, 0, -1)
for i = #held, 1, -1 do
  local payload = held[i]
  local ok, request = pcall(cjson.decode, payload)
  local ticket = ok and type(request) == 'table' and type(request.ticket) == 'string' and request.ticket
  -- While a lease stands its run may be alive: the request waits here until the lease is gone.
  if not (ticket and redis.call('EXISTS', heartbeat_of .. ticket) == 1) then
    redis.call('LREM', processing, -1, payload)
    -- A request that is not in the index was withdrawn or replaced; one that nobody can read is to be buried.
    if not ticket or redis.call('HGET', index, ticket) == payload then
      local again = ticket and named(payload, name .. '.' .. i) or payload
      redis.call('LPUSH', queue, again)
      if ticket then redis.call('HSET', index, ticket, again) end
      count = count + 1
    end
  end
end
-- Remembered as long as it owns anything: nobody would look for its lists otherwise.
if redis.call('EXISTS', processing, signals) == 0 then redis.call('ZREM', consumers, consumer) end
return count
"""
)
_LOST: Final = Script("""
local index, forget, lost = KEYS[1], ARGV[1] == '1', {}
for t = 2, #ARGV, 2 do
  local payload, found = redis.call('HGET', index, ARGV[t]), false
  for i = 2, #KEYS do found = found or payload and redis.call('LPOS', KEYS[i], payload) end
  if payload and not found and (not forget or payload == ARGV[t + 1]) then
    lost[#lost + 1] = ARGV[t]
    lost[#lost + 1] = payload
    if forget then redis.call('HDEL', index, ARGV[t]) end
  end
end
return lost
""")
_RESTORE: Final = Script("""
local processing, index = unpack(KEYS)
local ticket, payload = unpack(ARGV)
if redis.call('LPOS', processing, payload) then return 0 end
if redis.call('HEXISTS', index, ticket) == 1 then return 0 end
redis.call('RPUSH', processing, payload)
redis.call('HSET', index, ticket, payload)
return 1
""")
_POSITION: Final = Script("""
local payload = redis.call('HGET', KEYS[2], ARGV[1])
if not payload then return -1 end
return redis.call('LPOS', KEYS[1], payload) or -1
""")
_HAND_BACK: Final = Script(
    ENTRIES
    + """
local queue, index, processing = unpack(KEYS)
local payload, name = unpack(ARGV)
if redis.call('LREM', processing, 1, payload) == 0 then return 0 end
local ok, request = pcall(cjson.decode, payload)
local ticket = ok and type(request) == 'table' and type(request.ticket) == 'string' and request.ticket
local again = ticket and named(payload, name) or payload
if ticket then
  if redis.call('HGET', index, ticket) ~= payload then return 0 end
  redis.call('HSET', index, ticket, again)
end
redis.call('RPUSH', queue, again)
return 1
"""
)
_TICKETS: Final = Script("return cjson.encode(redis.call('HKEYS', KEYS[1]))")
"""One text instead of an array: tens of thousands of short answers would keep the event loop busy for too long."""
_REQUESTS: Final = Script("return redis.call('HMGET', KEYS[1], unpack(ARGV))")
_BURY: Final = Script("""
local processing, index, dead = unpack(KEYS)
local ticket, payload, entry = unpack(ARGV)
if redis.call('LREM', processing, 1, payload) == 0 then return 0 end
if ticket ~= '' and redis.call('HGET', index, ticket) == payload then redis.call('HDEL', index, ticket) end
redis.call('RPUSH', dead, entry)
return 1
""")


class Pushed(StrEnum):
    """What became of a push."""

    PUSHED = "pushed"
    QUEUED = "queued"
    """Another request for this ticket is waiting or in flight."""
    LEASED = "leased"
    """The ticket is running."""
    FENCED = "fenced"
    """Somebody took the ticket over since."""
    SETTLING = "settling"


class Queue:
    """Requests, from push to acknowledge."""

    def __init__(self, redis: Commands, keys: Keys, *, settle_ms: int) -> None:
        self._redis, self._keys, self._settle_ms = redis, keys, settle_ms

    async def push(
        self,
        request: PipelineRequest,
        *,
        front: bool = False,
        loop_window: float = 0,
        after_settling: bool = False,
        taken_by: str | None = None,
    ) -> Pushed:
        """Put the request on the queue, once, unless the ticket is queued, running or taken over.

        With `taken_by` it goes straight into that consumer's hands, as if it had been waited for and taken.
        `loop_window` counts it as a claim for the loop limit; `after_settling` is for recovery, which must not
        take an empty Redis for the truth.
        """
        k, ticket = self._keys, request.ticket
        keys = [
            k.queue if taken_by is None else k.queue_processing(taken_by),
            k.queue_index,
            k.fence(ticket),
            k.heartbeat(ticket),
            k.intent(ticket),
            k.intents,
            k.published(ticket),
            k.claims(ticket),
            k.reservations,
            k.epoch,
            k.settling,
        ]
        if not loop_window:  # no claim has made room for it: it was given back, or Redis forgot it
            keys += [k.places(name) for name in all_of(request.tracker, request.pipeline)]
        settle = self._settle_ms if after_settling else 0
        window = round(loop_window * 1000)
        args: list[Value] = [ticket, request.fence, request.to_json(), int(front), window, settle]
        return Pushed(await _PUSH(self._redis, keys, args))

    async def take(self, consumer: str, *, wait: float) -> str | None:
        """Move the oldest request to the consumer's processing list, waiting for one if there is none."""
        return await self._redis.blmove(self._keys.queue, self._keys.queue_processing(consumer), wait, "LEFT", "RIGHT")

    async def acknowledge_and_take(
        self, consumer: str, done: Sequence[tuple[TicketId | str, str]], *, room: int
    ) -> list[str]:
        """Acknowledge what is `done` (ticket and payload each) and take up to `room` more, in one step."""
        k = self._keys
        flat = [part for pair in done for part in pair]
        taken: list[str] = await _ACKNOWLEDGE_AND_TAKE(
            self._redis, [k.queue, k.queue_index, k.queue_processing(consumer)], [room, *flat]
        )
        return taken

    async def in_hand(self, consumer: str) -> list[str]:
        """What the consumer took and did not acknowledge, also when the answer to a take was lost."""
        return list(await self._redis.lrange(self._keys.queue_processing(consumer), 0, -1))

    async def restore(self, consumer: str, ticket: TicketId, payload: str) -> bool:
        """Put a request in hand back where it belongs after Redis lost it."""
        k = self._keys
        return bool(await _RESTORE(self._redis, [k.queue_processing(consumer), k.queue_index], [ticket, payload]))

    async def put_back(self, consumer: str) -> int:
        """Return a dead consumer's requests to the head of the queue, under new names; -1 when it may be alive."""
        k = self._keys
        keys = [
            k.queue,
            k.queue_index,
            k.queue_processing(consumer),
            k.consumer(consumer),
            k.consumers,
            k.epoch,
            k.settling,
            k.inbox_processing(consumer),
        ]
        args: list[Value] = [consumer, self._settle_ms, k.heartbeat(TicketId("")), new_name()]
        return int(await _PUT_BACK(self._redis, keys, args))

    async def lost(self, consumers: Sequence[str]) -> dict[str, str]:
        """Requests by ticket that stand in the index and in no list, neither the queue nor one of these consumers'.

        Nobody would ever run them, and no other of their tickets could be queued. Looked for only where the index holds
        more than the lists do. A consumer that came just now may have one of them: see whether it is still lost later.
        """
        held = 0
        for key in self._lists(consumers):
            held += await self._redis.llen(key)
        if await self._redis.hlen(self._keys.queue_index) <= held:
            return {}
        return await self._missing(consumers, dict.fromkeys(await self._redis.hkeys(self._keys.queue_index), ""))

    async def forget_lost(self, consumers: Sequence[str], lost: Mapping[str, str]) -> int:
        """Forget these requests if they are lost still; answers how many were."""
        return len(await self._missing(consumers, lost, forget=True))

    async def _missing(
        self, consumers: Sequence[str], asked: Mapping[str, str], *, forget: bool = False
    ) -> dict[str, str]:
        keys, left = [self._keys.queue_index, *self._lists(consumers)], list(asked.items())
        found: dict[str, str] = {}
        for at in range(0, len(left), _AT_ONCE):
            flat = [part for pair in left[at : at + _AT_ONCE] for part in pair]
            answer: list[str] = await _LOST(self._redis, keys, [int(forget), *flat])
            found.update(zip(answer[::2], answer[1::2], strict=True))
        return found

    def _lists(self, consumers: Sequence[str]) -> list[str]:
        return [self._keys.queue, *map(self._keys.queue_processing, consumers)]

    async def hand_back(self, consumer: str, payload: str) -> bool:
        """Leave a request that we took to others, at the tail of the queue."""
        k = self._keys
        keys = [k.queue, k.queue_index, k.queue_processing(consumer)]
        return bool(await _HAND_BACK(self._redis, keys, [payload, new_name()]))

    async def bury(self, consumer: str, ticket: TicketId | str, payload: str, letter: DeadLetter) -> bool:
        """Move a request that we hold to the dead letters."""
        k = self._keys
        return bool(
            await _BURY(
                self._redis,
                [k.queue_processing(consumer), k.queue_index, k.dead_letters],
                [ticket, payload, letter.to_json()],
            )
        )

    async def dead_letters(self) -> list[DeadLetter]:
        """Every dead letter, oldest first."""
        entries = await self._redis.lrange(self._keys.dead_letters, 0, -1)
        return [DeadLetter.from_json(entry) for entry in entries]

    async def count_dead_letters(self) -> int:
        """How many dead letters there are."""
        return int(await self._redis.llen(self._keys.dead_letters))

    async def drop_dead_letter(self, letter: DeadLetter) -> bool:
        """Forget a dead letter; False when somebody else did so before."""
        return bool(await self._redis.lrem(self._keys.dead_letters, 1, letter.to_json()))

    async def position(self, ticket: TicketId) -> int | None:
        """How many requests are before this ticket's; None when it is not waiting."""
        found = int(await _POSITION(self._redis, [self._keys.queue, self._keys.queue_index], [ticket]))
        return found if found >= 0 else None

    async def request_of(self, ticket: TicketId) -> str | None:
        """The request of the ticket that is waiting or in flight."""
        return await self._redis.hget(self._keys.queue_index, ticket)

    async def depth(self) -> int:
        """How many requests wait."""
        return int(await self._redis.llen(self._keys.queue))

    async def holds(self, ticket: TicketId) -> bool:
        """Whether a request for the ticket is waiting or in flight."""
        return bool(await self._redis.hexists(self._keys.queue_index, ticket))

    async def tickets(self) -> list[TicketId]:
        """The tickets whose requests are waiting, or taken and not acknowledged, in no order."""
        return list(json.loads(await _TICKETS(self._redis, [self._keys.queue_index])))

    async def in_flight(self) -> AsyncIterator[str]:
        """Every request that is waiting or taken and not acknowledged, in no order; a few at a time: they are long."""
        tickets = await self.tickets()
        for start in range(0, len(tickets), _REQUESTS_AT_ONCE):
            some = tickets[start : start + _REQUESTS_AT_ONCE]
            for payload in await _REQUESTS(self._redis, [self._keys.queue_index], some):
                if payload:
                    yield payload

    async def next_ones(self, most: int) -> list[str]:
        """The first requests on the queue, next one first; however long it is."""
        return list(await self._redis.lrange(self._keys.queue, 0, most - 1))

    async def waiting(self) -> list[str]:
        """Every request on the queue, next one first."""
        return list(await self._redis.lrange(self._keys.queue, 0, -1))
