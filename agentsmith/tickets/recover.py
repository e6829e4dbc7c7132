"""Recovery of one ticket: gather the facts under its lock, ask the domain, apply the one action.

Used by housekeeping for what it finds, and by claim when a signal finds a ticket that nobody has in hand. Two
recoveries at once are harmless: each holds the ticket's lock, reads again, and raises the fence before it writes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import structlog

from agentsmith.domain import recovery
from agentsmith.domain.asking import Question
from agentsmith.domain.errors import TicketNotFound, TrackerError
from agentsmith.domain.gates import Trigger, chosen, matching, still_wanted
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.memo import Memo
from agentsmith.domain.recovery import (
    Action,
    BackToPending,
    Facts,
    Fail,
    Leave,
    Life,
    NotOurs,
    PushAgain,
    Tidy,
    Withdraw,
)
from agentsmith.domain.request import PipelineRequest, Wanted, asked_for, text_hash
from agentsmith.domain.signal import Taken
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.vetting import Pin
from agentsmith.store import Begun, DeadLetter, Lease, Pushed, Store
from agentsmith.tickets.lock import LockBusy, holding
from agentsmith.tickets.publish import LOOK_AGAIN, Publisher, shows

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
        async with holding(self._store, tracker.platform, ticket) as lock:
            try:
                seen = await tracker.get(key)
            except TicketNotFound as error:
                await self._store.runs.forget(ticket)
                return Leave(f"there is no such ticket: {error}")
            return await self.attend(tracker, seen, lock)

    async def attend(self, tracker: Tracker, ticket: Ticket, lock: Lease) -> Action:
        """The same for a ticket that was just read under its lock."""
        intent = await self._store.intents.of(ticket.id)
        if intent is not None and intent.decided:
            await self.finish_intent(ticket.id, tracker, lock, ticket)
            return Leave("its decided outcome was published")
        ticket, settled = await self._doubt(tracker, ticket)
        if settled is not None:
            if await shows(tracker, ticket, settled, lock):
                log.warning("a late write was repaired", ticket=ticket.id, kept=settled.value)
            return Tidy(settled)
        facts, run = await self._facts(tracker, ticket)
        if intent is not None and facts.life is not Life.SETTLING:
            # A claim that died: whoever holds the lock now knows that nobody is in the middle of it. While nothing
            # may be done about it, it stays: nobody would find the ticket again if it were closed meanwhile.
            await self._store.intents.drop(ticket.id, intent.fence)
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
                elif facts.life is Life.DEAD:
                    await self._store.runs.forget(ticket.id)
                elif facts.life is not Life.SETTLING:
                    await self._store.runs.forget_suspicion(ticket.id)
            case NotOurs():
                log.debug("another installation's ticket is left alone", ticket=ticket.id)
            case PushAgain():
                await self._push_again(tracker, ticket, facts.attempts, lock)
            case BackToPending(why=why):
                await self._publish(tracker, ticket, Status.PENDING, "recovered", why, facts, run, lock)
            case Fail(why=why):
                await self._publish(tracker, ticket, Status.FAILED, "given up", why, facts, run, lock)
            case Withdraw(why=why):
                await self._publish(tracker, ticket, None, "withdrawn", why, facts, run, lock)
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
        taken: Taken | None = None,
    ) -> str:
        """Take the ticket over, record the decision and publish it; answers the store's word."""
        begun = await self._decide(intent, lock, after_settling=after_settling, unqueue=unqueue, taken=taken)
        if begun.word == "decided":
            await self._publisher.publish(replace(intent, fence=begun.fence), lock=lock, ticket=ticket)
        return begun.word

    async def _decide(
        self,
        intent: Intent,
        lock: Lease,
        *,
        after_settling: bool = False,
        unqueue: bool = False,
        letter: DeadLetter | None = None,
        taken: Taken | None = None,
    ) -> Begun:
        return await self._store.intents.decide(
            intent.ticket,
            intent,
            lock_key=lock.key,
            token=lock.token,
            look_in=LOOK_AGAIN,
            after_settling=after_settling,
            unqueue=unqueue,
            letter=letter,
            taken=taken,
        )

    async def recall(self, tracker_name: str, key: str, ticket: TicketId) -> bool:
        """Read the time that a waiting ticket waits for off the ticket, if Redis forgot it; True when there is one."""
        tracker = self._trackers.get(tracker_name)
        if tracker is None:
            return False
        async with holding(self._store, tracker.platform, ticket):
            seen = await tracker.get(key)
            if tracker.labels.statuses(seen.labels) != {Status.WAITING} or await self._store.runs.remembers(ticket):
                return False
            memo = await self._memo(tracker, seen)
            if memo is None or not self._took_on(seen, memo):
                return False
            await self._pin_again(seen, memo)
            restored = await self._store.intents.restore_waiting(
                ticket, tracker.name, key, fence=memo.fence, due=memo.due
            )
            return restored and memo.due is not None

    def routes(self, ticket: Ticket) -> bool:
        """Whether one of our triggers is on the ticket."""
        return bool(matching(ticket, self._triggers))

    async def wake(self, tracker_name: str, key: str, ticket: TicketId) -> None:
        """The time that a waiting ticket waited for has come."""
        tracker = self._trackers.get(tracker_name)
        if tracker is None:
            return
        async with holding(self._store, tracker.platform, ticket) as lock:
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
        """What there is to know about the ticket, and the run that it is about."""
        statuses = tracker.labels.statuses(ticket.labels)
        status = resolve(statuses)
        # An enqueued ticket that is neither queued nor leased while we hold its lock is in nobody's hands; a
        # running one may merely have missed a beat.
        life = await self._store.runs.look(ticket.id, patient=status is Status.IN_PROGRESS)
        routed, remembered = self.routes(ticket), await self._store.runs.remembers(ticket.id)
        last = await self._store.runs.unsettled(ticket.id)
        # What Redis forgot stands on the ticket; it is asked only when something would be done about it.
        pin = await self._store.pins.of(ticket.id)
        dead, lost = life is Life.DEAD, not remembered or (pin is None and status is Status.ENQUEUED)
        asked = (lost and (dead or not routed)) or (dead and not routed and last is None)
        memo = await self._memo(tracker, ticket) if asked else None
        if memo is not None:
            pin = await self._pin_again(ticket, memo)
        started = (last.wanted.trigger if last is not None else "") or (memo.trigger if memo is not None else "")
        attempts = 0
        if life is Life.DEAD:
            attempts = await self._store.runs.attempts(ticket.id) or 0
            if memo is not None and memo.attempt:
                attempts = await self._store.runs.restore_attempts(ticket.id, memo.attempt)
        told = await self._store.intents.last_published(ticket.id)
        queued = await self._store.queue.request_of(ticket.id)
        facts = Facts(
            statuses=statuses,
            open=ticket.open,
            triggered=still_wanted(ticket, Wanted(started), self._triggers),
            routed=routed,
            life=life,
            queued=queued is not None,
            asked=queued is not None and asked_for(queued),
            attempts=attempts,
            max_attempts=self._max_attempts,
            # An end that we published stands (P4), whatever a late write put beside it.
            intended=told if told is not None and told.final else None,
            ours=routed or remembered or (memo is not None and self._took_on(ticket, memo)),
            text_changed=pin is None or pin.text != text_hash(ticket.title, ticket.body),
        )
        return facts, last.run if last is not None else memo.run if memo is not None else "unknown"

    async def pinned(self, tracker: Tracker, ticket: Ticket) -> Pin | None:
        """The text that was vetted, as our comment on the ticket remembers it; Redis learns of it again."""
        memo = await self._memo(tracker, ticket)
        return await self._pin_again(ticket, memo) if memo is not None else None

    async def remember(self, tracker: Tracker, ticket: Ticket) -> None:
        """Read off a ticket that waited what Redis forgot of it: before our comment is written anew without it."""
        if not await self._store.runs.remembers(ticket.id):
            await self._memo(tracker, ticket)

    async def question(self, tracker: Tracker, ticket: Ticket) -> Question | None:
        """What was asked on the ticket; our comment is asked where Redis knows of nothing."""
        if await self._store.questions.of(ticket.id) is None:
            await self._memo(tracker, ticket)
        return await self._store.questions.of(ticket.id)

    async def _pin_again(self, ticket: Ticket, memo: Memo) -> Pin:
        pin = Pin(memo.text, memo.ask, memo.by)
        if await self._store.pins.of(ticket.id) is None:
            await self._store.pins.keep(ticket.id, pin)
        return pin

    async def _memo(self, tracker: Tracker, ticket: Ticket) -> Memo | None:
        sticky = await tracker.read_sticky(ticket)
        memo = sticky.memo if sticky is not None else None
        if memo is not None and memo.branch and not await self._store.remembered_branch(ticket.id):
            await self._store.remember_branch(ticket.id, memo.branch)
        if memo is not None and memo.question:
            await self._store.questions.relearn(ticket.id, memo.question)
        return memo

    def _took_on(self, ticket: Ticket, memo: Memo) -> bool:
        """Whether the ticket was taken on by one of our triggers, which may be gone from it by now."""
        return self.routes(replace(ticket, labels=frozenset({memo.trigger})))

    async def _push_again(self, tracker: Tracker, ticket: Ticket, attempts: int, lock: Lease) -> None:
        begun = await self._store.intents.decide(
            ticket.id, None, lock_key=lock.key, token=lock.token, look_in=LOOK_AGAIN, after_settling=True
        )
        if begun.word != "decided":
            return
        request = self._request(ticket, begun.fence, attempts)
        if await self._store.queue.push(request, after_settling=True) is not Pushed.PUSHED:
            return
        log.warning(
            f"re-enqueued orphan ticket {ticket.id}", ticket=ticket.id, platform=tracker.platform, run=request.run
        )
        await self._comment_on_push(tracker, ticket, request, lock)

    async def _comment_on_push(self, tracker: Tracker, ticket: Ticket, request: PipelineRequest, lock: Lease) -> None:
        """Tell the ticket, and pin the text that the new request carries; a comment never stops the work."""
        intent = Intent(
            ticket.id,
            tracker.name,
            ticket.key,
            request.fence,
            Status.ENQUEUED,
            Status.ENQUEUED,
            request.run,
            note="Its place in the queue was lost; it has a new one.",
            attempt=request.attempt,
            text=request.pinned.sha256,
            trigger=request.wanted.trigger,
        )
        with contextlib.suppress(TrackerError):
            await self._publisher.comment(tracker, ticket, Status.ENQUEUED, intent, lock=lock)

    def _request(self, ticket: Ticket, fence: int, attempts: int) -> PipelineRequest:
        for wanted in chosen(ticket, self._triggers) or matching(ticket, self._triggers):
            return replace(self._make_request(ticket, wanted.pipeline, fence, attempts), trigger=wanted.label)
        # Another configuration's: what it runs we do not know, and only a letter about its end is to be written.
        return self._make_request(ticket, "unknown", fence, attempts)

    async def _publish(
        self,
        tracker: Tracker,
        ticket: Ticket,
        to: Status | None,
        outcome: str,
        note: str,
        facts: Facts,
        run: str,
        lock: Lease,
    ) -> None:
        source = resolve(facts.statuses)
        intent = Intent(ticket.id, tracker.name, ticket.key, 0, source, to, run, outcome, note, attempt=facts.attempts)
        letter = None
        if to is Status.FAILED:
            letter = DeadLetter(self._request(ticket, 0, facts.attempts).to_json(), note, time.time())
        # A dead run's request that was put back goes in the same step: nobody takes it while the label is moved.
        begun = await self._decide(intent, lock, after_settling=True, unqueue=facts.queued, letter=letter)
        if begun.word != "decided":
            return
        if to is Status.PENDING and source is Status.IN_PROGRESS:
            await self._store.runs.note_history(ticket.id, _lost(run, facts.attempts))
        await self._publisher.publish(replace(intent, fence=begun.fence), lock=lock, ticket=ticket)


def _lost(run: str, attempts: int) -> str:
    """A line for the ticket about a run that died."""
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"{at}: run `{run}` died" + (f" in attempt {attempts}" if attempts else "") + "; it was queued again"


__all__ = ["LockBusy", "Recovery"]
