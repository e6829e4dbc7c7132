"""Recovery of one ticket: gather the facts under its lock, ask the domain, apply the one action.

Used by housekeeping for what it finds, and by claim when a signal finds a ticket that nobody has in hand. Two
recoveries at once are harmless: each holds the ticket's lock, reads again, and raises the fence before it writes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import structlog

from agentsmith.domain import recovery
from agentsmith.domain.errors import TicketNotFound
from agentsmith.domain.gates import Trigger, chosen, matching
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.recovery import Action, BackToPending, Facts, Fail, Leave, Life, PushAgain, Tidy, Withdraw
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.publish import LOOK_AGAIN, Publisher
from agentsmith.store import DeadLetter, Lease, Pushed, Store
from agentsmith.ticketlock import LockBusy, holding

log = structlog.get_logger()

MakeRequest = Callable[[Ticket, str, int, int], PipelineRequest]
"""Ticket, pipeline, fence and attempts to a request under a new run."""


class Recovery:
    """Brings tickets back whose label and lease disagree."""

    def __init__(
        self,
        store: Store,
        trackers: Mapping[str, Tracker],
        publisher: Publisher,
        *,
        triggers: Iterable[Trigger],
        max_attempts: int,
        make_request: MakeRequest,
    ) -> None:
        self._store, self._trackers, self._publisher = store, trackers, publisher
        self._triggers, self._max_attempts, self._make_request = triggers, max_attempts, make_request

    async def recover(self, tracker_name: str, key: str, ticket: TicketId) -> Action:
        """Look at the ticket and do what it needs; TrackerError and LockBusy are the caller's to handle."""
        tracker = self._trackers.get(tracker_name)
        if tracker is None:
            return Leave(f"no tracker is called {tracker_name!r}")
        async with holding(self._store, tracker.platform, ticket, token=uuid.uuid4().hex) as lock:
            try:
                seen = await tracker.get(key)
            except TicketNotFound as error:
                await self._forget(ticket)
                return Leave(f"there is no such ticket: {error}")
            return await self.attend(tracker, seen, lock)

    async def attend(self, tracker: Tracker, ticket: Ticket, lock: Lease) -> Action:
        """The same for a ticket that was just read under its lock."""
        intent = await self._store.intents.of(ticket.id)
        if intent is not None and intent.decided:
            await self.finish_intent(ticket.id, tracker, lock, ticket)
            return Leave("its decided outcome was published")
        if intent is not None:
            # A claim that died: whoever holds the lock now knows that nobody is in the middle of it.
            await self._store.intents.drop(ticket.id, intent.fence)
        ticket, settled = await self._doubt(tracker, ticket)
        if settled is not None:
            await tracker.tidy(ticket, keep=settled, deadline=lock.trust.until)
            log.warning("a late write was repaired", ticket=ticket.id, kept=settled.value)
            return Tidy(settled)
        facts, pipeline = await self._facts(tracker, ticket)
        action = recovery.decide(facts)
        match action:
            case Tidy(keep=keep):
                tidied = await tracker.tidy(ticket, keep=keep, deadline=lock.trust.until)
                log.info("several labels, kept one", ticket=ticket.id, kept=keep.value)
                if len(tracker.labels.statuses(tidied.labels)) > 1:
                    return action
                return await self.attend(tracker, tidied, lock)
            case Leave():
                if facts.life is Life.SUSPECTED:
                    await self._store.intents.remember_where(ticket.id, tracker.name, ticket.key)
                elif facts.life is not Life.SETTLING:
                    await self._forget(ticket.id)
            case PushAgain():
                await self._push_again(tracker, ticket, pipeline, facts.attempts, lock)
            case BackToPending(why=why):
                await self._publish(tracker, ticket, Status.PENDING, "recovered", why, lock)
            case Fail(why=why):
                await self._publish(tracker, ticket, Status.FAILED, "given up", why, lock)
            case Withdraw(why=why):
                await self._publish(tracker, ticket, None, "withdrawn", why, lock)
        return action

    async def finish_intent(
        self, ticket_id: TicketId, tracker: Tracker, lock: Lease, ticket: Ticket | None = None
    ) -> None:
        """Publish what somebody decided and did not get published."""
        intent = await self._store.intents.adopt(
            ticket_id, lock_key=lock.key, token=lock.token, look_in=self._store.times.lock
        )
        if intent is None:
            return
        if intent.decided:
            await self._publisher.publish(intent, lock=lock, ticket=ticket)
        else:
            await self.attend(tracker, ticket or await tracker.get(intent.key), lock)

    async def decide_and_publish(
        self,
        intent: Intent,
        *,
        ticket: Ticket,
        lock: Lease,
        after_settling: bool = False,
        unqueue: bool = False,
    ) -> str:
        """Take the ticket over, record the decision and publish it; answers the store's word."""
        begun = await self._store.intents.decide(
            intent.ticket,
            intent,
            lock_key=lock.key,
            token=lock.token,
            look_in=LOOK_AGAIN,
            after_settling=after_settling,
            unqueue=unqueue,
        )
        if begun.word == "decided":
            await self._publisher.publish(replace(intent, fence=begun.fence), lock=lock, ticket=ticket)
        return begun.word

    async def wake(self, tracker_name: str, key: str, ticket: TicketId) -> None:
        """The time that a waiting ticket waited for has come."""
        tracker = self._trackers.get(tracker_name)
        if tracker is None:
            return
        async with holding(self._store, tracker.platform, ticket, token=uuid.uuid4().hex) as lock:
            try:
                seen = await tracker.get(key)
            except TicketNotFound:
                await self._store.intents.forget_due(ticket)
                return
            if resolve(tracker.labels.statuses(seen.labels)) is not Status.WAITING:
                await self._store.intents.forget_due(ticket)
                return
            intent = Intent(ticket, tracker.name, key, 0, Status.WAITING, Status.PENDING, "due", "its time has come")
            await self.decide_and_publish(intent, ticket=seen, lock=lock)

    async def _doubt(self, tracker: Tracker, ticket: Ticket) -> tuple[Ticket, Status | None]:
        """Look twice when a read says that the ticket is in hand, but we published its end lately.

        Answers the ticket to go by, and the final status to restore when it is no stale read but a late write: no
        person sets these labels.
        """
        told = await self._store.intents.last_published(ticket.id)
        in_hand = {Status.ENQUEUED, Status.IN_PROGRESS}
        if told is None or not told.final or not tracker.labels.statuses(ticket.labels) & in_hand:
            return ticket, None
        again = await tracker.get(ticket.key)
        still = tracker.labels.statuses(again.labels)
        return again, told if still & in_hand and told not in still else None

    async def _facts(self, tracker: Tracker, ticket: Ticket) -> tuple[Facts, str]:
        statuses = tracker.labels.statuses(ticket.labels)
        status = resolve(statuses)
        # An enqueued ticket that is neither queued nor leased while we hold its lock is in nobody's hands; a
        # running one may merely have missed a beat.
        life = await self._store.runs.look(ticket.id, patient=status is Status.IN_PROGRESS)
        matches = matching(ticket, self._triggers)
        facts = Facts(
            statuses=statuses,
            open=ticket.open,
            triggered=bool(matches),
            life=life,
            queued=await self._store.queue.holds(ticket.id),
            attempts=await self._attempts(tracker, ticket) if life is Life.DEAD else 0,
            max_attempts=self._max_attempts,
        )
        wanted = chosen(ticket, self._triggers) or matches
        return facts, wanted[0].pipeline if wanted else ""

    async def _attempts(self, tracker: Tracker, ticket: Ticket) -> int:
        known = await self._store.runs.attempts(ticket.id)
        if known is not None:
            return known
        sticky = await tracker.read_sticky(ticket)
        if sticky is None or sticky.memo is None or not sticky.memo.attempt:
            return 0
        return await self._store.runs.restore_attempts(ticket.id, sticky.memo.attempt)

    async def _push_again(self, tracker: Tracker, ticket: Ticket, pipeline: str, attempts: int, lock: Lease) -> None:
        begun = await self._store.intents.decide(
            ticket.id, None, lock_key=lock.key, token=lock.token, look_in=LOOK_AGAIN, after_settling=True
        )
        if begun.word != "decided":
            return
        request = self._make_request(ticket, pipeline, begun.fence, attempts)
        if await self._store.queue.push(request, after_settling=True) is Pushed.PUSHED:
            log.warning("re-enqueued orphan ticket", ticket=ticket.id, platform=tracker.platform, run=request.run)

    async def _publish(
        self, tracker: Tracker, ticket: Ticket, to: Status | None, outcome: str, note: str, lock: Lease
    ) -> None:
        source = resolve(tracker.labels.statuses(ticket.labels))
        dead = await self._store.runs.unsettled(ticket.id)
        run = dead.run if dead else "unknown"
        intent = Intent(ticket.id, tracker.name, ticket.key, 0, source, to, run, outcome=outcome, note=note)
        word = await self.decide_and_publish(intent, ticket=ticket, lock=lock, after_settling=True)
        if word == "decided" and to is Status.FAILED:
            letter = DeadLetter(payload="", reason=f"{ticket.id}: {note}", at=time.time())
            await self._store.queue.add_dead_letter(letter)

    async def _forget(self, ticket: TicketId) -> None:
        await self._store.runs.forget_suspicion(ticket)


__all__ = ["LockBusy", "Recovery"]
