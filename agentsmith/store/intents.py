"""Intents: what was decided about a ticket, recorded before the tracker hears of it.

One script compares the fence and records the decision; the tracker write only publishes it, and anybody may
repeat it. A decided intent is finished, never rolled back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.signal import Signal, SignalKind, Taken
from agentsmith.domain.ticket import TicketId
from agentsmith.store.capacity import Place
from agentsmith.store.dead_letters import DeadLetter
from agentsmith.store.entries import new_name
from agentsmith.store.keys import PUBLISHED_MS, WHERE_MS, Keys
from agentsmith.store.leases import Lease
from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripts import intents as scripts
from agentsmith.store.scripts.intents import ClaimWord, DecideAnswer


@dataclass(frozen=True, slots=True)
class Begun:
    """A claim may go on under this fence; otherwise `fence` is 0 and `word` says why."""

    word: ClaimWord
    fence: int = 0
    count: int = 0
    full: Place | None = None
    """What has no room left."""
    claims: int = 0
    """How often it was claimed within the window, before this time."""
    first_claim: float = 0.0
    """When the first of those was, in seconds since the epoch, where they are too many."""


class Intents:
    """Decisions that are on their way to the tracker."""

    def __init__(self, redis: Commands, keys: Keys, *, settle_ms: int) -> None:
        self._redis, self._keys, self._settle_ms = redis, keys, settle_ms

    async def begin_claim(
        self,
        intent: Intent,
        *,
        lock: Lease,
        loop_limit: int,
        loop_window: float,
        places: Sequence[Place] = (),
    ) -> Begun:
        """Reserve room, raise the fence and note the claim; the caller holds the ticket's lock."""
        k, t = self._keys, intent.ticket
        answer = await scripts.BeginClaim(
            lock=lock.key,
            fence=k.fence(t),
            heartbeat=k.heartbeat(t),
            index=k.queue_index,
            intent=k.intent(t),
            intents=k.intents,
            claims=k.claims(t),
            reservations=k.reservations,
            running=k.running,
            places=[k.places(place.name) for place in places],
            ticket=t,
            token=lock.token,
            loop_limit=loop_limit,
            loop_window=round(loop_window * 1000),
            lock_ms=round(lock.ttl * 1000),
            limits=json.dumps([place.limit for place in places]),
            fields=flat_fields(intent),
        ).on(self._redis)
        begun = Begun(answer.word, claims=answer.claims)
        match answer.word:
            case "begun":
                return replace(begun, fence=answer.figure)
            case "loop":
                return replace(begun, count=answer.figure, first_claim=answer.detail / 1e6)
            case "full":
                return replace(begun, count=answer.figure, full=places[int(answer.detail) - 1])
        return begun

    async def decide(
        self,
        ticket: TicketId,
        intent: Intent | None,
        *,
        lock: Lease,
        look_in: float,
        after_settling: bool = False,
        unqueue: bool = False,
        letter: DeadLetter | None = None,
        taken: Taken | None = None,
    ) -> DecideAnswer:
        """Take a ticket over that nobody runs: raise the fence and record what is to happen to it.

        `unqueue` takes its waiting request off the queue in the same step; `in-flight` says a consumer has it. A
        ticket that is given up leaves a `letter` in the same step. `after_settling` is for recovery, which must not
        take an empty Redis for the truth, nor race with whoever takes a queued request. `taken` is a signal that is
        dealt with by this, in the same step; `put back` says that it is no longer in its taker's hands.
        """
        k = self._keys
        return await scripts.Decide(
            lock=lock.key,
            fence=k.fence(ticket),
            heartbeat=k.heartbeat(ticket),
            intent=k.intent(ticket),
            intents=k.intents,
            running=k.running,
            suspects=k.suspects,
            released=k.released,
            due=k.due,
            epoch=k.epoch,
            settling_key=k.settling,
            index=k.queue_index,
            queue=k.queue,
            dead=k.dead_letters,
            signals=k.inbox_processing(taken.taker if taken is not None else ""),
            inbox_index=k.inbox_index,
            ticket=ticket,
            token=lock.token,
            settle=self._settle_ms if after_settling else 0,
            look_in=round(look_in * 1000),
            unqueue=unqueue,
            letter=letter.to_json() if letter else "",
            signal=taken.payload if taken is not None else "",
            fields=flat_fields(intent) if intent else [],
        ).on(self._redis)

    async def adopt(self, ticket: TicketId, *, lock: Lease, look_in: float) -> Intent | None:
        """Take an unpublished intent over under a new fence; None when there is nothing to take."""
        k = self._keys
        flat = await scripts.Adopt(
            lock=lock.key,
            fence=k.fence(ticket),
            intent=k.intent(ticket),
            intents=k.intents,
            heartbeat=k.heartbeat(ticket),
            ticket=ticket,
            token=lock.token,
            look_in=round(look_in * 1000),
        ).on(self._redis)
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        return Intent.from_fields(ticket, fields) if fields else None

    async def published(
        self, intent: Intent, status: Status | None, *, wake: Signal, wake_now: bool, fresh_start: bool
    ) -> bool:
        """Note that the label says so, and have the ticket looked at if asked for or `wake_now`; False: fenced off."""
        k, t = self._keys, intent.ticket
        follow_up = replace(wake, kind=SignalKind.RETRY, cause="asked for again while it was running")
        word = await scripts.Published(
            intent=k.intent(t),
            intents=k.intents,
            fence=k.fence(t),
            published=k.published(t),
            counters=k.counters(t),
            due=k.due,
            follow_up=k.follow_up(t),
            inbox=k.inbox,
            inbox_index=k.inbox_index,
            where=k.where(t),
            reservations=k.reservations,
            history=k.history(t),
            reasons=k.reasons(t),
            word=k.last_word(t),
            pin=k.pin(t),
            question=k.question(t),
            parked=k.parked,
            ticket=t,
            mine=intent.fence,
            status=(status or Status.PENDING).value,
            fresh_start=fresh_start,
            due_ms=str(round(intent.due * 1000)) if intent.due is not None else "",
            look=wake.to_json(),
            look_topic=wake.topic,
            wake=wake_now,
            whereabouts=json.dumps([intent.tracker, intent.key]),
            retry=follow_up.to_json(),
            retry_topic=follow_up.topic,
            name=new_name(),
            over=status is None or status.final,
            asked=intent.question,
        ).on(self._redis)
        return word == "published"

    async def knows_wait(self, ticket: TicketId) -> bool:
        """Whether it is known what a waiting ticket waits for, or that it is in somebody's hands."""
        k = self._keys
        return await scripts.KnowsWait(
            fence=k.fence(ticket),
            due=k.due,
            parked=k.parked,
            intent=k.intent(ticket),
            heartbeat=k.heartbeat(ticket),
            index=k.queue_index,
            ticket=ticket,
        ).on(self._redis)

    async def restore_waiting(self, ticket: TicketId, tracker: str, key: str, *, fence: int, due: float | None) -> bool:
        """Remember a parked ticket that Redis forgot, and its time; False when somebody took it on after `fence`."""
        k = self._keys
        return await scripts.RestoreWaiting(
            fence=k.fence(ticket),
            due=k.due,
            where=k.where(ticket),
            parked=k.parked,
            ticket=ticket,
            known=fence,
            due_ms=str(round(due * 1000)) if due is not None else "",
            whereabouts=json.dumps([tracker, key]),
        ).on(self._redis)

    async def drop(self, ticket: TicketId, fence: int) -> bool:
        """Forget a claim that did not come about."""
        k = self._keys
        return await scripts.DropIntent(
            intent=k.intent(ticket), intents=k.intents, reservations=k.reservations, ticket=ticket, mine=fence
        ).on(self._redis)

    async def of(self, ticket: TicketId) -> Intent | None:
        """The ticket's intent, if there is one."""
        fields = await self._redis.hgetall(self._keys.intent(ticket))
        return Intent.from_fields(ticket, fields) if fields else None

    async def to_look_at(self, *, now: float) -> list[TicketId]:
        """Tickets whose intent should have been published by now."""
        found = await self._redis.zrangebyscore(self._keys.intents, "-inf", now * 1000)
        return [TicketId(ticket) for ticket in found]

    async def postpone(self, ticket: TicketId, *, wait: float) -> None:
        """Look at this intent again no earlier than in `wait` seconds, by Redis' clock: ours may be wrong."""
        await scripts.Postpone(intents=self._keys.intents, ticket=ticket, wait_ms=round(wait * 1000)).on(self._redis)

    async def align(self) -> int:
        """Have every intent looked at, and nothing that is none, whatever made them disagree; answers how many.

        It scans every key, so not too often.
        """
        family = self._keys.intent(TicketId(""))
        tickets = set(await self._redis.zrange(self._keys.intents, 0, -1))
        cursor = None
        while cursor != 0:
            cursor, found = await self._redis.scan(cursor or 0, match=f"{family}*", count=1000)
            tickets.update(key.removeprefix(family) for key in found)
        count = 0
        for ticket in map(TicketId, sorted(tickets)):
            aligned = scripts.Align(intent=self._keys.intent(ticket), intents=self._keys.intents, ticket=ticket)
            count += await aligned.on(self._redis)
        return count

    async def due(self, *, now: float) -> list[tuple[TicketId, str, str]]:
        """Waiting tickets whose time has come, with tracker and key."""
        found = [TicketId(t) for t in await self._redis.zrangebyscore(self._keys.due, "-inf", now * 1000)]
        wheres = await self._redis.mget([self._keys.where(t) for t in found]) if found else []
        return [(t, *json.loads(where)) for t, where in zip(found, wheres, strict=True) if where]

    async def remember_where(self, ticket: TicketId, tracker: str, key: str) -> None:
        """Note where a ticket lives that is to be looked at again."""
        await self._redis.set(self._keys.where(ticket), json.dumps([tracker, key]), px=WHERE_MS)

    async def keep_where(self, ticket: TicketId, tracker: str, key: str) -> None:
        """The same for a ticket that waits for a time, which may be further away than we remember."""
        if await self._redis.zscore(self._keys.due, ticket) is not None:
            await self.remember_where(ticket, tracker, key)

    async def where(self, ticket: TicketId) -> tuple[str, str] | None:
        """Tracker and key of a ticket that was noted."""
        found = await self._redis.get(self._keys.where(ticket))
        if found is None:
            return None
        tracker, key = json.loads(found)
        return tracker, key

    async def waiting(self) -> list[tuple[TicketId, float]]:
        """Tickets parked until a time, soonest first."""
        found = await self._redis.zrange(self._keys.due, 0, -1, withscores=True)
        return [(TicketId(ticket), score / 1000) for ticket, score in found]

    async def waits_until(self, ticket: TicketId) -> float | None:
        """When the ticket is due, if it waits for a time."""
        score = await self._redis.zscore(self._keys.due, ticket)
        return score / 1000 if score is not None else None

    async def forget_due(self, ticket: TicketId) -> None:
        """The ticket no longer waits for a time."""
        await self._redis.zrem(self._keys.due, ticket)

    async def last_published(self, ticket: TicketId) -> Status | None:
        """The status that we published within the last hour; no label at all counts as pending."""
        found = await self._redis.get(self._keys.published(ticket))
        return Status(found) if found else None

    async def last_ended(self, ticket: TicketId) -> str | None:
        """What tells the ticket's last run that ended within the last hour from every other one."""
        return await self._redis.get(self._keys.ended(ticket))

    async def note_published(self, ticket: TicketId, status: Status) -> None:
        """Remember what the label says now; the caller holds the ticket's lock and just wrote it."""
        await self._redis.set(self._keys.published(ticket), status.value, px=PUBLISHED_MS)


def flat_fields(intent: Intent) -> list[str]:
    """The intent as the scripts take it: name, value, name, value, …"""
    return [part for pair in intent.to_fields().items() for part in pair]
