"""Who runs a ticket right now: lease and counters. Each step is one script.

Every acquisition gets the next fence, and every later step is refused once a newer one stands.
"""

from __future__ import annotations

from typing import Literal

from agentsmith.boottime import boottime
from agentsmith.domain.facts import Life
from agentsmith.domain.intent import Intent
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import TicketId
from agentsmith.store.dead_letters import DeadLetter
from agentsmith.store.intents import flat_fields
from agentsmith.store.keys import STOP_MS, Key, Keys
from agentsmith.store.redis_commands import Commands
from agentsmith.store.run_lease import Acquired, NotAcquired, RunLease, Settled
from agentsmith.store.scripts import life
from agentsmith.store.scripts import runs as scripts


class Runs:
    """Ownership of tickets."""

    def __init__(self, redis: Commands, keys: Keys, *, settle_ms: int, renew_ms: int, lapse_ms: int) -> None:
        self._redis, self._keys = redis, keys
        self._settle_ms, self._renew_ms, self._lapse_ms = settle_ms, renew_ms, lapse_ms

    async def acquire(
        self, request: PipelineRequest, payload: str, *, consumer: str, ttl: float, max_deliveries: int
    ) -> Acquired | NotAcquired:
        """Turn a taken request into a lease, counting the delivery."""
        k, t = self._keys, request.ticket
        sent_at = boottime()
        answer = await scripts.Acquire(
            processing=k.queue_processing(consumer),
            index=k.queue_index,
            heartbeat=k.heartbeat(t),
            fence=k.fence(t),
            running=k.running,
            counters=k.counters(t),
            suspects=k.suspects,
            released=k.released,
            ticket=t,
            payload=payload,
            run_id=request.run,
            consumer=consumer,
            tracker=request.tracker,
            key=request.key,
            ttl=_ms(ttl),
            limit=max_deliveries,
            asked_by=request.asked_by or "",
            labelled=request.labelled or "",
            trigger=request.wanted.trigger,
        ).on(self._redis)
        if answer.word != "acquired":
            return NotAcquired(answer.word, answer.figure)
        lease, whole = RunLease.parse(t, answer.value), answer.request or payload
        return Acquired(lease, answer.attempts, answer.deliveries, sent_at, whole)

    async def renew(self, lease: RunLease, *, ttl: float) -> Literal["renewed", "restored", "lost"]:
        """Extend the lease: `restored` after Redis had lost it."""
        k, t = self._keys, lease.ticket
        return await scripts.Renew(
            heartbeat=k.heartbeat(t),
            fence=k.fence(t),
            running=k.running,
            ended=k.ended(t),
            unrenewed=k.unrenewed(t),
            ticket=t,
            mine=lease.fence,
            value=lease.value,
            ttl=_ms(ttl),
        ).on(self._redis)

    async def may_write(self, lease: RunLease) -> bool:
        """Begin-write: whether nobody took the ticket over (P6)."""
        k, t = self._keys, lease.ticket
        return await scripts.MayWrite(
            heartbeat=k.heartbeat(t), fence=k.fence(t), ended=k.ended(t), mine=lease.fence, value=lease.value
        ).on(self._redis)

    async def start(self, lease: RunLease, *, max_attempts: int) -> tuple[Literal["started", "poison", "lost"], int]:
        """Count an attempt; answers the number of attempts too."""
        k, t = self._keys, lease.ticket
        answer = await scripts.Start(
            counters=k.counters(t),
            fence=k.fence(t),
            heartbeat=k.heartbeat(t),
            mine=lease.fence,
            value=lease.value,
            limit=max_attempts,
        ).on(self._redis)
        return answer.word, answer.attempts

    async def settle(
        self,
        lease: RunLease,
        payload: str,
        intent: Intent | None,
        *,
        look_in: float,
        uncount: bool = False,
        letter: DeadLetter | None = None,
    ) -> bool:
        """End the run in Redis, acknowledge its request and record what is to be published.

        False when it was fenced off (P6): then nothing was changed. Without an intent the request is dropped: the
        lease goes and nothing is published. A ticket that is given up leaves a `letter` in the same step.
        """
        k, t = self._keys, lease.ticket
        word = await scripts.Settle(
            heartbeat=k.heartbeat(t),
            fence=k.fence(t),
            running=k.running,
            intent=k.intent(t),
            intents=k.intents,
            stop=k.stop(t),
            counters=k.counters(t),
            processing=k.queue_processing(lease.consumer),
            index=k.queue_index,
            ended=k.ended(t),
            queue=k.queue,
            dead=k.dead_letters,
            ticket=t,
            mine=lease.fence,
            value=lease.value,
            look_in=_ms(look_in),
            uncount=uncount,
            payload=payload,
            letter=letter.to_json() if letter else "",
            fields=flat_fields(intent) if intent else [],
        ).on(self._redis)
        return word == "settled"

    async def settle_again(self, end: Settled) -> Literal["settled", "known", "fenced", "settling"]:
        """End a run once more if Redis lost that it ended; `settling` says: not yet.

        Nobody else does its work again then, and what is not known to be published is to be published still.
        """
        k, lease, t = self._keys, end.lease, end.lease.ticket
        return await scripts.SettleAgain(
            heartbeat=k.heartbeat(t),
            fence=k.fence(t),
            running=k.running,
            intent=k.intent(t),
            intents=k.intents,
            processing=k.queue_processing(lease.consumer),
            index=k.queue_index,
            ended=k.ended(t),
            queue=k.queue,
            epoch=k.epoch,
            settling_key=k.settling,
            ticket=t,
            mine=lease.fence,
            value=lease.value,
            run_id=lease.run,
            settle=self._settle_ms,
            fields=flat_fields(end.intent) if end.intent else [],
        ).on(self._redis)

    async def release_dead(self, lease: RunLease, *, lock_key: Key) -> bool:
        """The run is over and its children are gone, the guard says: housekeeping may have the ticket."""
        k, t = self._keys, lease.ticket
        return await scripts.ReleaseDead(
            heartbeat=k.heartbeat(t),
            running=k.running,
            released=k.released,
            lock=lock_key,
            ended=k.ended(t),
            ticket=t,
            mine=lease.fence,
            value=lease.value,
            holder=lease.lock_holder,
        ).on(self._redis)

    async def life(self, ticket: TicketId, *, patient: bool) -> Life:
        """Whether the ticket's run lives. `patient` asks for two looks before calling it dead."""
        k = self._keys
        return await life.Judge(
            heartbeat=k.heartbeat(ticket),
            running=k.running,
            suspects=k.suspects,
            released=k.released,
            epoch=k.epoch,
            settling_key=k.settling,
            unrenewed=k.unrenewed(ticket),
            ticket=ticket,
            consumer_of=k.consumer(""),
            renew_ms=self._renew_ms,
            lapse_ms=self._lapse_ms,
            settle=self._settle_ms,
            patient=patient,
        ).on(self._redis)

    async def restore_attempts(self, ticket: TicketId, attempts: int) -> int:
        """Remember attempts that the ticket's memo tells of, if Redis forgot them; answers the count."""
        counters = self._keys.counters(ticket)
        return await scripts.RestoreAttempts(counters=counters, attempts=attempts).on(self._redis)

    async def remembers(self, ticket: TicketId) -> bool:
        """Whether Redis knows the ticket; else it is new here, or Redis lost its memory."""
        return bool(await self._redis.exists(self._keys.fence(ticket)))

    async def note_history(self, ticket: TicketId, line: str) -> None:
        """Remember what happened to the ticket's run, to be shown on the ticket; only the latest few are kept."""
        await scripts.NoteHistory(history=self._keys.history(ticket), line=line).on(self._redis)

    async def history(self, ticket: TicketId) -> list[str]:
        """What happened to the ticket's runs since its last final status, oldest first."""
        return list(await self._redis.lrange(self._keys.history(ticket), 0, -1))

    async def attempts(self, ticket: TicketId) -> int | None:
        """How many attempts were begun since the last final status; None when Redis knows nothing."""
        found = await self._redis.hget(self._keys.counters(ticket), "attempts")
        return int(found) if found is not None else None

    async def lease(self, ticket: TicketId) -> RunLease | None:
        """The live lease of the ticket."""
        value = await self._redis.get(self._keys.heartbeat(ticket))
        return RunLease.parse(ticket, value) if value else None

    async def running(self) -> list[RunLease]:
        """Every run that has not settled, dead ones included."""
        entries = await self._redis.hgetall(self._keys.running)
        return [RunLease.parse(TicketId(ticket), value) for ticket, value in entries.items()]

    async def unsettled(self, ticket: TicketId) -> RunLease | None:
        """The run of the ticket that has not settled, dead or alive."""
        value = await self._redis.hget(self._keys.running, ticket)
        return RunLease.parse(ticket, value) if value else None

    async def released(self) -> list[TicketId]:
        """Tickets whose guard let the lease go."""
        return [TicketId(t) for t in await self._redis.zrange(self._keys.released, 0, -1)]

    async def suspects(self) -> list[TicketId]:
        """Tickets whose run showed no sign of life in a first look."""
        return [TicketId(t) for t in await self._redis.zrange(self._keys.suspects, 0, -1)]

    async def forget_suspicion(self, ticket: TicketId) -> None:
        """The ticket needs no recovery (any more); nothing is forgotten of a run that may have ended just now."""
        k = self._keys
        await life.ForgetSuspicion(
            heartbeat=k.heartbeat(ticket), running=k.running, suspects=k.suspects, released=k.released, ticket=ticket
        ).on(self._redis)

    async def forget(self, ticket: TicketId) -> None:
        """The ticket's run is dead, and nothing is to be done about it."""
        k = self._keys
        await life.Forget(
            heartbeat=k.heartbeat(ticket), running=k.running, suspects=k.suspects, released=k.released, ticket=ticket
        ).on(self._redis)

    async def request_stop(self, ticket: TicketId, reason: StopReason) -> bool:
        """Ask whoever runs the ticket to stop; it stands until the run ended. False when it has ended already."""
        k = self._keys
        return await scripts.RequestStop(
            stop=k.stop(ticket),
            heartbeat=k.heartbeat(ticket),
            running=k.running,
            index=k.queue_index,
            ended=k.ended(ticket),
            fence=k.fence(ticket),
            ticket=ticket,
            reason=reason.to_wire(),
        ).on(self._redis)

    async def stop_requested(self, ticket: TicketId) -> StopReason | None:
        """The reason why the ticket's run is to stop, if somebody asked."""
        reason = await self._redis.get(self._keys.stop(ticket))
        return StopReason.from_wire(reason) if reason else None

    async def withdraw_stop(self, ticket: TicketId) -> None:
        """There is nothing (any more) that could be stopped."""
        await self._redis.delete(self._keys.stop(ticket))

    async def note_follow_up(self, ticket: TicketId, by: str) -> None:
        """Run it once more after the live run."""
        await self._redis.set(self._keys.follow_up(ticket), by or "someone", px=STOP_MS)

    async def withdraw_follow_up(self, ticket: TicketId) -> None:
        """Do not run it once more after all."""
        await self._redis.delete(self._keys.follow_up(ticket))

    async def follow_up(self, ticket: TicketId) -> str | None:
        """Who asked for the ticket to run once more after its live run, if anybody did."""
        return await self._redis.get(self._keys.follow_up(ticket))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
