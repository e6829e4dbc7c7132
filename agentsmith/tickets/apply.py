"""Doing what was decided about a ticket: recorded in Redis first, under the next fence, and then published."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import assert_never

import structlog

from agentsmith.domain.actions import (
    Action,
    BackToPending,
    Claim,
    EndWait,
    Fail,
    FinishIntent,
    FollowUp,
    ForgetDue,
    Later,
    Nothing,
    NotOurs,
    Park,
    PushAgain,
    PutEndBack,
    RunAgain,
    Stop,
    StopAsCancelled,
    Tidy,
    TurnAway,
    Unqueue,
    Withdraw,
)
from agentsmith.domain.errors import TrackerError
from agentsmith.domain.facts import Cancel, Life, RunNow, Wish
from agentsmith.domain.gates import chosen, matching
from agentsmith.domain.intent import NO_RUN
from agentsmith.domain.lifecycle import Edge, Owner, Status, edge
from agentsmith.domain.outcomes import Cancelled, Deferred, LookOutcome, NothingToDo, Rejected, Stopping
from agentsmith.domain.request import MalformedRequest, PipelineRequest
from agentsmith.domain.signal import Taken
from agentsmith.domain.stop import StopKind, StopReason
from agentsmith.domain.ticket import Ticket
from agentsmith.store import DeadLetter, Pushed, Store
from agentsmith.tickets.claiming import Claiming, turned_away
from agentsmith.tickets.facts import Case
from agentsmith.tickets.publish import Publisher, keep_only, shows
from agentsmith.tickets.recording import Recording
from agentsmith.tickets.remembered import Remembered
from agentsmith.tickets.requests import new_request, new_run_id

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Applying:
    """Carries out actions."""

    store: Store
    publisher: Publisher
    recording: Recording
    claiming: Claiming
    remembered: Remembered

    async def apply(
        self, case: Case, wish: Wish, action: Action, *, backoff: float, taken: Taken | None
    ) -> LookOutcome | Ticket:
        """Do it; answers what came of it, or the ticket as it is now, which has to be looked at again."""
        ticket = case.ticket
        match action:
            case Nothing(why=why, life=life):
                await self._note_life(case, life)
                return NothingToDo(why)
            case NotOurs():
                log.debug("another installation's ticket is left alone", ticket=ticket.id)
                return NothingToDo("it is another installation's")
            case Later(why=why, settling=True):
                return Deferred(why, self.store.times.settle, failed=False)
            case Later(why=why):
                return Deferred(why, backoff)
            case FinishIntent():
                return await self._finish(case)
            case FollowUp(by=by, why=why):
                await self.publisher.note_follow_up(case.tracker, ticket, by, lock=case.lock)
                return NothingToDo(why)
            case Stop(why=why):
                await self.store.runs.request_stop(ticket.id, StopReason(StopKind.WITHDRAWN, why))
                return NothingToDo(f"it is running, and was asked to stop: {why}")
            case StopAsCancelled(reason=reason):
                return await self._stop_as_cancelled(case, reason)
            case Unqueue():
                return await self._unqueue(case, wish, action)
            case RunAgain():
                return await self._run_again(case, action, taken)
            case EndWait():
                return await self._wake(case, action)
            case ForgetDue():
                await self.store.intents.forget_due(ticket.id)
                return NothingToDo("it waits no more")
            case Tidy():
                return await self._tidy(case, action)
            case PutEndBack(keep=keep):
                if await shows(case.tracker, ticket, keep, case.lock):
                    log.warning("a late write was repaired", ticket=ticket.id, kept=keep.value)
                return NothingToDo(f"it is {keep.value}")
            case PushAgain():
                await self._push_again(case)
                return NothingToDo("its place in the queue was lost; it has a new one")
            case BackToPending(edge=along, why=why):
                return await self._bring_back(case, along, "recovered", why)
            case Fail(edge=along, why=why):
                return await self._bring_back(case, along, "given up", why)
            case Withdraw(edge=along, why=why):
                return await self._bring_back(case, along, "withdrawn", why)
            case Claim():
                return await self.claiming.claim(case, wish if isinstance(wish, RunNow) else None, backoff)
            case Park():
                return await self.claiming.park_changed(case)
            case TurnAway():
                # Until it changes, the poller need not ask again.
                await self.store.signals.note_rejected(ticket.id, turned_away(ticket, case.rules))
                return Rejected(case.gates)
        assert_never(action)

    async def _note_life(self, case: Case, life: Life | None) -> None:
        match life:
            case Life.SUSPECTED:
                await self.store.intents.remember_where(case.ticket.id, case.tracker.name, case.ticket.key)
            case Life.DEAD:
                await self.store.runs.forget(case.ticket.id)
            case Life.ALIVE:
                await self.store.runs.forget_suspicion(case.ticket.id)

    async def _finish(self, case: Case) -> LookOutcome:
        intent = await self.recording.adopt(case.ticket.id, case.lock)
        if intent is not None and intent.decided:
            await self.publisher.publish(intent, lock=case.lock, ticket=case.ticket)
        return NothingToDo("its decided outcome was published")

    async def _stop_as_cancelled(self, case: Case, reason: StopReason) -> LookOutcome:
        await self.store.runs.withdraw_follow_up(case.ticket.id)
        if await self.store.runs.request_stop(case.ticket.id, reason):
            return Stopping(str(reason))
        return NothingToDo("it ended in this very moment")

    async def _unqueue(self, case: Case, wish: Wish, action: Unqueue) -> LookOutcome:
        run = await self._waiting_run(case) if isinstance(wish, Cancel) else NO_RUN
        outcome = action.outcome
        intent = self.recording.intent(case, action.edge, outcome, run=run, note=action.note)
        # The word says whether a consumer was faster.
        word = await self.recording.record_and_publish(intent, case, unqueue=True)
        if word == "decided":
            return Cancelled(outcome) if isinstance(wish, Cancel) else NothingToDo(outcome)
        if isinstance(wish, Cancel):
            return await self._stop_as_cancelled(case, wish.reason)
        if word in ("in-flight", "leased"):
            await self.store.runs.request_stop(case.ticket.id, StopReason(StopKind.WITHDRAWN, outcome))
            return NothingToDo(outcome)
        return Deferred(f"not withdrawn yet: {word}", case.rules.retry_backoff)

    async def _waiting_run(self, case: Case) -> str:
        payload = await self.store.queue.request_of(case.ticket.id)
        with contextlib.suppress(MalformedRequest):
            return PipelineRequest.from_json(payload).run if payload else NO_RUN
        return NO_RUN

    async def _run_again(self, case: Case, action: RunAgain, taken: Taken | None) -> LookOutcome:
        if action.edge.source is Status.WAITING:
            await self.remembered.before_it_is_rewritten(case.tracker, case.ticket)
        intent = replace(self.recording.intent(case, action.edge, action.outcome), by_person=True)
        word = await self.recording.record_and_publish(intent, case, taken=taken)
        if word in ("decided", "put back"):
            return NothingToDo(action.outcome if word == "decided" else "somebody else was given the signal meanwhile")
        return Deferred(f"not retried yet: {word}", case.rules.retry_backoff)

    async def _wake(self, case: Case, action: EndWait) -> LookOutcome:
        intent = self.recording.intent(case, action.edge, "its time has come")
        word = await self.recording.record_and_publish(intent, case)
        return NothingToDo(intent.outcome if word == "decided" else f"not woken yet: {word}")

    async def _tidy(self, case: Case, action: Tidy) -> LookOutcome | Ticket:
        tidied = await keep_only(case.tracker, case.ticket, action.keep, case.lock)
        log.info("several labels, kept one", ticket=case.ticket.id, kept=action.keep.value)
        several = len(case.tracker.labels.statuses(tidied.labels)) > 1
        return NothingToDo("its labels were changed in the same moment") if several else tidied

    async def _bring_back(self, case: Case, along: Edge, outcome: str, why: str) -> LookOutcome:
        """A run is dead, or a request lost: nobody has the ticket in hand any more."""
        remains, ticket = case.facts.remains, case.ticket
        assert remains is not None  # noqa: S101 - what the decision was made from
        intent = self.recording.intent(case, along, outcome, run=case.run, note=why)
        intent, letter = replace(intent, attempt=remains.attempts), None
        if along.to is Status.FAILED:
            letter = DeadLetter(self._request(case, 0).to_json(), why, time.time())
        # A dead run's request that was put back goes in the same step: nobody takes it while the label is moved.
        begun = await self.recording.record(intent, case, after_settling=True, unqueue=remains.queued, letter=letter)
        if begun.word != "decided":
            return NothingToDo(f"not {outcome} yet: {begun.word}")
        if along.to is Status.PENDING and along.source is Status.IN_PROGRESS:
            await self.store.runs.note_history(ticket.id, _died(case.run, remains.attempts))
        await self.publisher.publish(replace(intent, fence=begun.fence), lock=case.lock, ticket=ticket)
        return NothingToDo(f"{outcome}: {why}")

    async def _push_again(self, case: Case) -> None:
        ticket = case.ticket
        begun = await self.recording.record(None, case, after_settling=True)
        if begun.word != "decided":
            return
        request = self._request(case, begun.fence)
        if await self.store.queue.push(request, after_settling=True) is not Pushed.PUSHED:
            return
        log.warning(
            f"re-enqueued orphan ticket {ticket.id}", ticket=ticket.id, platform=case.tracker.platform, run=request.run
        )
        again = edge(Status.ENQUEUED, Status.ENQUEUED, Owner.HOUSEKEEPING)
        intent = replace(
            self.recording.intent(
                case, again, "", run=request.run, note="Its place in the queue was lost; it has a new one."
            ),
            fence=request.fence,
            attempt=request.attempt,
            text=request.pinned.sha256,
            trigger=request.wanted.trigger,
        )
        with contextlib.suppress(TrackerError):  # a comment never stops the work
            await self.publisher.comment(case.tracker, ticket, intent, lock=case.lock)

    def _request(self, case: Case, fence: int) -> PipelineRequest:
        """What is pushed again, or written down as given up."""
        ticket, triggers = case.ticket, case.rules.triggers
        attempts = case.facts.remains.attempts if case.facts.remains is not None else 0
        wanted = next(iter(chosen(ticket, triggers) or matching(ticket, triggers)), None)
        # Another configuration's: what it runs we do not know, and only a letter about its end is to be written.
        pipeline, trigger = (wanted.pipeline, wanted.label) if wanted is not None else ("unknown", None)
        run = new_run_id()
        request = new_request(ticket, pipeline, run=run, fence=fence, attempt=attempts, wake="re-enqueued")
        return replace(request, trigger=trigger)


def _died(run: str, attempts: int) -> str:
    """A line for the ticket about a run that died."""
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"{at}: run `{run}` died" + (f" in attempt {attempts}" if attempts else "") + "; it was queued again"
