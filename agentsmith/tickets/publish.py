"""Publishing: making the tracker say what Redis has decided. Repeatable by anybody, refused below the fence."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import structlog

from agentsmith import logs
from agentsmith.domain.errors import RateLimited, TicketNotFound, TrackerError
from agentsmith.domain.gates import Trigger, matching
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.report import sticky_text
from agentsmith.domain.request import NewerRequest, PipelineRequest
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import (
    AlreadySo,
    Applied,
    Forbidden,
    Gone,
    KeepsEveryEdit,
    Limited,
    LostRace,
    Move,
    MoveOutcome,
    Sticky,
    Tracker,
    Unknown,
    Words,
)
from agentsmith.store import Lease, Pushed, Store
from agentsmith.tickets.refusals import LACKING, Doing, refused, works

log = structlog.get_logger()

LOOK_AGAIN: Final = 10.0
"""Seconds after which housekeeping looks at an intent that its owner should have published."""
_AFTER_REFUSAL: Final = 60.0


@dataclass(frozen=True, slots=True)
class Published:
    """The ticket's label says what was decided."""

    status: Status | None


@dataclass(frozen=True, slots=True)
class NotYet:
    """The tracker did not take it; housekeeping tries again no earlier than `retry_at`."""

    why: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class FencedOff:
    """Somebody took the ticket over."""


PublishOutcome = Published | NotYet | FencedOff


async def shows(tracker: Tracker, seen: Ticket, keep: Status | None, lock: Lease) -> bool:
    """Make a ticket that was just read show `keep` alone; False when it shows something else all the same."""
    wanted = frozenset() if keep is None else frozenset({keep})
    if tracker.labels.statuses(seen.labels) == wanted:
        return True
    return tracker.labels.statuses((await keep_only(tracker, seen, keep, lock)).labels) == wanted


async def keep_only(tracker: Tracker, seen: Ticket, keep: Status | None, lock: Lease) -> Ticket:
    """Leave `keep` of several lifecycle labels, or none of them; answers the ticket as it is then."""
    return await tracker.tidy(seen, keep=keep, deadline=lock.trust.until)


def _tells(intent: Intent) -> bool:
    """Whether there is something that our comment does not say yet: a claim and a waking write it themselves."""
    if intent.to is Status.ENQUEUED:
        return bool(intent.request) and intent.source is Status.IN_PROGRESS  # given back by whoever ran it
    return intent.to is not Status.PENDING or bool(intent.note)


def _late(tracker: Tracker, seen: Ticket, intent: Intent) -> Status | None:
    """The end that the ticket shows already, if the intent has to leave it at that.

    Final is final (P4): whatever comes late changes nothing, unless a person asked for it. That holds for the end of a
    run, too: Redis may forget that another run of the ticket was begun since, and ended.
    """
    ended = {status for status in tracker.labels.statuses(seen.labels) if status.final}
    if intent.by_person or intent.to in ended:
        return None
    return max(ended, key=lambda status: status.rank, default=None)


class Publisher:
    """Writes decisions onto tickets."""

    def __init__(self, store: Store, trackers: Mapping[str, Tracker], triggers: Iterable[Trigger] = ()) -> None:
        self._store, self._trackers, self._triggers = store, trackers, triggers

    async def publish(self, intent: Intent, *, lock: Lease, ticket: Ticket | None = None) -> PublishOutcome:
        """Make the ticket show `intent.to`. The caller holds the ticket's lock under the intent's fence."""
        tracker = self._trackers.get(intent.tracker)
        if tracker is None:
            return await self._later(intent, f"no tracker is called {intent.tracker!r}", _AFTER_REFUSAL)
        try:
            ticket = ticket or await tracker.get(intent.key)
            intent = await self._or_once_more(tracker, ticket, intent)
            if _tells(intent) and not _late(tracker, ticket, intent):
                await self.comment(tracker, ticket, intent, lock=lock)
            return await self._move(tracker, ticket, intent, lock)
        except TicketNotFound:
            return await self._settled(tracker, intent, intent.to, "the ticket is gone")
        except LACKING as error:
            why = await refused(self._store, tracker, Doing.READING, error, ticket=intent.ticket)
            return await self._later(intent, why, _AFTER_REFUSAL, warned=True)
        except TrackerError as error:
            wait = LOOK_AGAIN if error.retryable else _AFTER_REFUSAL
            return await self._later(intent, str(error), error.retry_at - time.time() if error.retry_at else wait)

    async def _or_once_more(self, tracker: Tracker, ticket: Ticket, intent: Intent) -> Intent:
        """The intent, or the one to run the ticket once more, if a person asked for that during the run."""
        if intent.source is Status.PENDING or intent.to not in (Status.DONE, Status.FAILED, Status.WAITING):
            return intent  # what did not run is parked, and whoever asked for it is heard afterwards
        by = await self._store.runs.follow_up(ticket.id)
        if by is None and intent.attempt and await self._store.runs.attempts(ticket.id) is None:
            # The run outlived what Redis knew of it; the ticket itself remembers.
            sticky = await tracker.read_sticky(ticket)
            by = "someone" if sticky is not None and sticky.memo is not None and sticky.memo.follow_up else None
        if by is None:
            return intent
        ended = f"Run `{intent.run}` ended: {intent.outcome}. It runs once more, as {by} asked meanwhile."
        note = f"{ended}\n\n{intent.note}" if intent.note else ended
        return intent.diverted(Status.PENDING, note=note, due=None, by_person=True)

    async def move(
        self, tracker: Tracker, ticket: Ticket, intent: Intent, *, until: float, words: Words | None = None
    ) -> MoveOutcome:
        """Move the label along the intent's edge: the one place where a label is moved.

        The write ends by `until`. `words` are what our comment is to say, where the platform takes both at once. What a
        person has to mend before it can work is told once.
        """
        move = Move(intent.source, intent.to, intent.run, intent.fence, deadline=until, say=words)
        outcome = await tracker.move(ticket, move)
        match outcome:
            case Applied() | AlreadySo():
                await works(self._store, tracker, Doing.READING, Doing.LABELLING, ticket=ticket.id)
            case Forbidden(lacking=True) as no:
                said = await refused(self._store, tracker, Doing.LABELLING, no, ticket=ticket.id)
                return replace(no, reason=said)
        return outcome

    async def _move(self, tracker: Tracker, ticket: Ticket, intent: Intent, lock: Lease) -> PublishOutcome:
        match await self.move(tracker, ticket, intent, until=lock.trust.until):
            case Applied() | AlreadySo():
                return await self._settled(tracker, intent, intent.to, intent.outcome)
            case LostRace(ticket=seen):
                return await self._overtaken(tracker, seen, intent, lock)
            case Gone(reason=reason):
                return await self._settled(tracker, intent, intent.to, reason)
            case Forbidden(reason=reason, lacking=False):
                log.error("the tracker refuses our label", ticket=intent.ticket, reason=reason)
                return await self._later(intent, reason, _AFTER_REFUSAL)
            case Forbidden(reason=reason):
                return await self._later(intent, reason, _AFTER_REFUSAL, warned=True)
            case Limited(retry_at=retry_at, reason=reason):
                return await self._later(intent, reason, retry_at - time.time())
            case Unknown(reason=reason):
                return await self._later(intent, reason, LOOK_AGAIN)

    async def _overtaken(self, tracker: Tracker, seen: Ticket, intent: Intent, lock: Lease) -> PublishOutcome:
        late = _late(tracker, seen, intent)
        # Unless it comes late, a person took our label off meanwhile, and what was decided still has to show.
        keep = late or intent.to
        if not await shows(tracker, seen, keep, lock):
            return await self._later(intent, "its labels were changed in the same moment", LOOK_AGAIN)
        return await self._settled(tracker, intent, keep, "it had ended already" if late else intent.outcome)

    async def _settled(self, tracker: Tracker, intent: Intent, status: Status | None, outcome: str) -> PublishOutcome:
        if status is Status.ENQUEUED and intent.request:
            try:
                request = PipelineRequest.from_json(intent.request)
            except NewerRequest as error:  # whoever wrote it, or a process like it, can push it
                return await self._later(intent, str(error), _AFTER_REFUSAL)
            request = request.again(run=intent.run, fence=intent.fence, wake_reason=request.wake_reason)
            done = await self._store.queue.push(request, front=True) in (Pushed.PUSHED, Pushed.QUEUED)
        else:
            wake = Signal(intent.tracker, intent.key, intent.ticket, cause=intent.outcome)
            asks_a_person = status is Status.WAITING and intent.due is None
            fresh = status is None or status.final or asks_a_person or intent.by_person
            # What was withdrawn may be wanted again by now, and whoever told so meanwhile was told that it runs.
            done = await self._store.intents.published(
                intent, status, wake=wake, wake_now=status in (Status.PENDING, None), fresh_start=fresh
            )
        if not done:
            return FencedOff()
        logs.transition(
            log,
            ticket=intent.ticket,
            platform=tracker.platform,
            run=intent.run,
            fence=intent.fence,
            from_=intent.source,
            to=status,
            outcome=outcome,
        )
        return Published(status)

    async def _later(self, intent: Intent, why: str, wait: float, *, warned: bool = False) -> NotYet:
        """`warned` says that people were warned of the reason already."""
        wait = max(1.0, wait)
        await self._store.intents.postpone(intent.ticket, wait=wait)
        (log.debug if warned else log.warning)("not published yet", ticket=intent.ticket, to=intent.to, why=why)
        return NotYet(why, time.time() + wait)

    async def words(self, ticket: Ticket, intent: Intent) -> Words:
        """What our comment says of a ticket with this intent, and the memo that survives in it."""
        history, pin = await self._store.runs.history(ticket.id), await self._store.pins.of(ticket.id)
        attempt = intent.before + intent.attempt
        text = sticky_text(intent.to, run=intent.run, attempt=attempt, note=intent.note, history=history)
        over = intent.to is None or intent.to.final
        memo = Memo(
            intent.run,
            intent.fence,
            intent.attempt,
            pin.text if pin is not None else intent.text,
            intent.due,
            follow_up=intent.to is Status.IN_PROGRESS and await self._store.runs.follow_up(ticket.id) is not None,
            trigger=intent.trigger or next((trigger.label for trigger in matching(ticket, self._triggers)), ""),
            ask=pin.ask if pin is not None else "",
            by=pin.by if pin is not None else "",
            branch=await self._branch(ticket),
            question="" if over else intent.question or await self._store.questions.kept(ticket.id),
        )
        return Words(text, memo)

    async def _branch(self, ticket: Ticket) -> str:
        """Where the ticket's work is; our comment is asked before it is written anew by a Redis that knows neither.

        Only where there are several trackers: with one, the branch has the name that it always had.
        """
        kept = await self._store.remembered_branch(ticket.id)
        tracker = self._trackers.get(ticket.tracker)
        if kept or tracker is None or len(self._trackers) == 1 or await self._store.remembered_sticky(ticket.id):
            return kept
        try:
            before = await tracker.read_sticky(ticket)
        except TrackerError as error:
            if error.retryable:
                raise
            return ""
        if before is not None and before.memo is not None and before.memo.branch:
            await self._store.remember_branch(ticket.id, before.memo.branch)
            return before.memo.branch
        return ""

    async def comment(
        self,
        tracker: Tracker,
        ticket: Ticket,
        intent: Intent,
        *,
        lock: Lease,
        passing: bool = False,
        words: Words | None = None,
    ) -> None:
        """Bring our comment up to date. A comment that may not be written never stops the label.

        `passing` says that it will be written again before the run ends: where every edit is kept for ever, and there
        is a comment already, it is left as it is. `words` are what it is to say, if that was settled before.
        """
        words = words or await self.words(ticket, intent)
        try:
            if not words.memo.trigger and (before := await tracker.read_sticky(ticket)) and before.memo:
                # A person took the trigger off meanwhile; that it was ours still has to be told from the ticket.
                words = replace(words, memo=replace(words.memo, trigger=before.memo.trigger))
            known = await self._known_sticky(ticket)
            if passing and known is not None and isinstance(tracker, KeepsEveryEdit):
                return
            sticky = await tracker.write_sticky(ticket, words.text, words.memo, known=known, deadline=lock.trust.until)
        except RateLimited:
            raise
        except LACKING as error:
            await refused(self._store, tracker, Doing.COMMENTING, error, ticket=ticket.id)
            return
        except TrackerError as error:
            if error.retryable:
                raise
            log.warning("the comment could not be written", ticket=ticket.id, error=str(error))
            return
        await works(self._store, tracker, Doing.COMMENTING, ticket=ticket.id)
        await self._store.remember_sticky(ticket.id, sticky.ref)
        if words.memo.branch:
            await self._store.remember_branch(ticket.id, words.memo.branch)

    async def note_follow_up(self, tracker: Tracker, ticket: Ticket, by: str, *, lock: Lease) -> None:
        """Have a running ticket run once more afterwards; noted beside the lease, and on the ticket, which survives."""
        await self._store.runs.note_follow_up(ticket.id, by)
        sticky = await tracker.read_sticky(ticket)
        if sticky is None or sticky.memo is None or sticky.memo.follow_up:
            return
        memo = replace(sticky.memo, follow_up=True)
        note = f"It will run once more afterwards, as {by or 'someone'} asked."
        text = sticky_text(Status.IN_PROGRESS, run=memo.run, attempt=memo.attempt, note=note)
        await tracker.write_sticky(ticket, text, memo, known=sticky, deadline=lock.trust.until)

    async def _known_sticky(self, ticket: Ticket) -> Sticky | None:
        ref = await self._store.remembered_sticky(ticket.id)
        return Sticky(ref=ref, text="", memo=None) if ref else None
