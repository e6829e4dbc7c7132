"""The queue of requests: a list, a processing list per consumer, and an index over both.

Taking is not losing: a request moves atomically from the queue to its taker's processing list and stays there,
and in the index, until it is acknowledged. The index holds at most one request per ticket, and the whole of it; the
lists have its entry, without the text of the ticket where that is long. A request that is put back
goes under another name (`entries`): whoever had it before has it no longer, whatever they say about it later.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import TicketId
from agentsmith.store.capacity import places_of
from agentsmith.store.dead_letters import DeadLetter
from agentsmith.store.entries import new_name
from agentsmith.store.keys import Key, Keys
from agentsmith.store.redis_commands import Commands
from agentsmith.store.run_lease import RunLease
from agentsmith.store.scripts import queue as scripts
from agentsmith.store.scripts.queue import Pushed

_REQUESTS_AT_ONCE: Final = 50
_AT_ONCE: Final = 100
"""Tickets that are looked for in the lists in one step."""


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
        claimed = loop_window > 0  # else no claim has made room for it: it was given back, or Redis forgot it
        return await scripts.Push(
            queue=k.queue if taken_by is None else k.queue_processing(taken_by),
            index=k.queue_index,
            fence=k.fence(ticket),
            heartbeat=k.heartbeat(ticket),
            intent=k.intent(ticket),
            intents=k.intents,
            published=k.published(ticket),
            claims=k.claims(ticket),
            reservations=k.reservations,
            epoch=k.epoch,
            settling_key=k.settling,
            places=[] if claimed else [k.places(name) for name in places_of(request.tracker, request.pipeline)],
            ticket=ticket,
            mine=request.fence,
            payload=request.to_json(),
            front=front,
            loop_window=round(loop_window * 1000),
            settle=self._settle_ms if after_settling else 0,
        ).on(self._redis)

    async def take(self, consumer: str, *, wait: float) -> str | None:
        """Move the oldest request to the consumer's processing list, waiting for one if there is none."""
        return await self._redis.blmove(self._keys.queue, self._keys.queue_processing(consumer), wait, "LEFT", "RIGHT")

    async def acknowledge_and_take(
        self, consumer: str, done: Sequence[tuple[TicketId | str, str]], *, room: int
    ) -> list[str]:
        """Acknowledge what is `done` (ticket and entry each) and take up to `room` more, in one step."""
        k = self._keys
        return await scripts.AcknowledgeAndTake(
            queue=k.queue,
            index=k.queue_index,
            processing=k.queue_processing(consumer),
            room=room,
            done=[part for pair in done for part in pair],
        ).on(self._redis)

    async def in_hand(self, consumer: str) -> list[str]:
        """What the consumer took and did not acknowledge, also when the answer to a take was lost."""
        return list(await self._redis.lrange(self._keys.queue_processing(consumer), 0, -1))

    async def restore(self, lease: RunLease, entry: str, whole: str) -> bool:
        """Put the request of a run back where it belongs after Redis lost it: its entry, and the whole of it."""
        k = self._keys
        return await scripts.Restore(
            processing=k.queue_processing(lease.consumer),
            index=k.queue_index,
            fence=k.fence(lease.ticket),
            ticket=lease.ticket,
            mine=lease.fence,
            entry=entry,
            whole=whole,
        ).on(self._redis)

    async def put_back(self, consumer: str) -> int:
        """Return a dead consumer's requests to the head of the queue, under new names; -1 when it may be alive."""
        k = self._keys
        return await scripts.PutBack(
            queue=k.queue,
            index=k.queue_index,
            processing=k.queue_processing(consumer),
            alive=k.consumer(consumer),
            consumers=k.consumers,
            epoch=k.epoch,
            settling_key=k.settling,
            signals=k.inbox_processing(consumer),
            consumer=consumer,
            settle=self._settle_ms,
            heartbeat_of=k.heartbeat(TicketId("")),
            name=new_name(),
        ).on(self._redis)

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
        lists, left = self._lists(consumers), list(asked.items())
        found: dict[str, str] = {}
        for at in range(0, len(left), _AT_ONCE):
            flat = [part for pair in left[at : at + _AT_ONCE] for part in pair]
            answer = await scripts.Lost(index=self._keys.queue_index, lists=lists, forget=forget, asked=flat).on(
                self._redis
            )
            found.update(zip(answer[::2], answer[1::2], strict=True))
        return found

    def _lists(self, consumers: Sequence[str]) -> list[Key]:
        return [self._keys.queue, *map(self._keys.queue_processing, consumers)]

    async def hand_back(self, consumer: str, payload: str) -> bool:
        """Leave a request that we took to others, at the tail of the queue."""
        k = self._keys
        return await scripts.HandBack(
            queue=k.queue,
            index=k.queue_index,
            processing=k.queue_processing(consumer),
            payload=payload,
            name=new_name(),
        ).on(self._redis)

    async def bury(self, consumer: str, ticket: TicketId | str, payload: str, letter: DeadLetter) -> bool:
        """Move a request that we hold to the dead letters."""
        k = self._keys
        return await scripts.Bury(
            processing=k.queue_processing(consumer),
            index=k.queue_index,
            dead=k.dead_letters,
            ticket=ticket,
            payload=payload,
            letter=letter.to_json(),
        ).on(self._redis)

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
        k = self._keys
        found = await scripts.Position(queue=k.queue, index=k.queue_index, ticket=ticket).on(self._redis)
        return found if found >= 0 else None

    async def request_of(self, ticket: TicketId) -> str | None:
        """The request of the ticket that is waiting or in flight, without what is long in the ticket's text."""
        found = await scripts.Requests(index=self._keys.queue_index, tickets=[ticket]).on(self._redis)
        return found[0] if found else None

    async def depth(self) -> int:
        """How many requests wait."""
        return int(await self._redis.llen(self._keys.queue))

    async def holds(self, ticket: TicketId) -> bool:
        """Whether a request for the ticket is waiting or in flight."""
        return bool(await self._redis.hexists(self._keys.queue_index, ticket))

    async def tickets(self) -> list[TicketId]:
        """The tickets whose requests are waiting, or taken and not acknowledged, in no order."""
        return list(json.loads(await scripts.Tickets(index=self._keys.queue_index).on(self._redis)))

    async def in_flight(self) -> AsyncIterator[str]:
        """Every request that is waiting or taken and not acknowledged, in no order, without long texts of tickets."""
        tickets = await self.tickets()
        for start in range(0, len(tickets), _REQUESTS_AT_ONCE):
            some = tickets[start : start + _REQUESTS_AT_ONCE]
            for payload in await scripts.Requests(index=self._keys.queue_index, tickets=some).on(self._redis):
                yield payload

    async def next_ones(self, most: int) -> list[str]:
        """The first requests on the queue, next one first, without what is long in the tickets' text."""
        return await scripts.Next(queue=self._keys.queue, most=most).on(self._redis)
