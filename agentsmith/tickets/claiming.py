"""Claiming a ticket whose gates are open: reserve room and raise the fence, set the label to enqueued, push."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import StrEnum

import structlog

from agentsmith import logs
from agentsmith.domain import gates
from agentsmith.domain.asking import WakeReason
from agentsmith.domain.errors import TrackerError
from agentsmith.domain.facts import RunNow
from agentsmith.domain.gates import Gate, GateResult
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Owner, Status, edge
from agentsmith.domain.outcomes import Claimed, Deferred, Held, LookOutcome, NothingToDo, Rejected
from agentsmith.domain.report import in_queue
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.rules import ClaimRules
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import (
    AlreadySo,
    Applied,
    Forbidden,
    Gone,
    Limited,
    LostRace,
    Unknown,
    Words,
)
from agentsmith.store import Begun, Pushed, Store
from agentsmith.store.capacity import Place, places_of
from agentsmith.tickets.facts import Case
from agentsmith.tickets.publish import LOOK_AGAIN, Publisher, shows
from agentsmith.tickets.recording import Recording
from agentsmith.tickets.remembered import Remembered
from agentsmith.tickets.requests import new_request, new_run_id

log = structlog.get_logger()

_CLAIMED = edge(Status.PENDING, Status.ENQUEUED, Owner.CLAIM)
_PARKED = edge(Status.PENDING, Status.WAITING, Owner.CLAIM)


class Parked(StrEnum):
    """Why a ticket waits for a person before it runs at all."""

    LOOP = "loop limit"
    TEXT = "text changed"


@dataclass(frozen=True, slots=True)
class Claiming:
    """Takes tickets on, within the limits."""

    store: Store
    publisher: Publisher
    recording: Recording
    remembered: Remembered

    async def claim(self, case: Case, now: RunNow | None, backoff: float) -> LookOutcome:
        """Take it on, unless it is in hand after all, there is no room, or it was claimed too often."""
        tracker, ticket, rules, judged = case.tracker, case.ticket, case.rules, case.judged
        assert judged is not None  # noqa: S101 - what the decision was made from
        if judged.waited:
            await self.remembered.before_it_is_rewritten(tracker, ticket)
        pipeline = now.pipeline if now is not None else gates.chosen(ticket, rules.triggers)[0].pipeline
        limits, run = rules.capacity.limits, new_run_id()
        places = [Place(name, limits.get(name)) for name in places_of(tracker.name, pipeline)]
        begun = await self.store.intents.begin_claim(
            self.recording.intent(case, _CLAIMED, "", run=run),
            lock=case.lock,
            loop_limit=rules.loop_limit,
            loop_window=rules.loop_window,
            places=places,
        )
        loop = gates.within_loop_limit(begun.claims, rules.loop_limit, rules.loop_window)
        match begun.word:
            case "begun":
                if judged.pin is not None:
                    await self.store.pins.keep(ticket.id, judged.pin)
                request = await self._request(case, pipeline, run, begun.fence, now)
                done = await self._take_on(case, request, backoff, now)
                room = gates.has_room({rules.capacity.setting(place.name): place.limit for place in places})
                return replace(done, gates=(*case.gates, gates.runs_nowhere(), loop, room))
            case "leased" | "queued":
                return await self._in_hand(case, Status.IN_PROGRESS if begun.word == "leased" else Status.ENQUEUED)
            case "loop":
                return await self._park_loop(case, begun)
            case "full":
                return self._held(case, begun, places, (*case.gates, gates.runs_nowhere(), loop))
            case "unlocked" | "unpublished":
                return Deferred(begun.word, backoff)

    async def _request(self, case: Case, pipeline: str, run: str, fence: int, now: RunNow | None) -> PipelineRequest:
        ticket, cause = case.ticket, case.cause
        attempts = await self.store.runs.attempts(ticket.id) or 0
        wake = WakeReason.UNBLOCKED.value if await self.store.questions.of(ticket.id) else cause
        by = now.by if now is not None else None
        request = new_request(ticket, pipeline, run=run, fence=fence, attempt=attempts, wake=wake)
        trigger = gates.chosen(ticket, case.rules.triggers)[0].label if now is None else None
        labelled = case.judged.labelled if case.judged is not None else ""
        return replace(request, labelled=labelled or None, trigger=trigger, asked_by=by)

    async def _in_hand(self, case: Case, keep: Status) -> LookOutcome:
        """Somebody took its label off; it is put back."""
        shut = GateResult(Gate.LEASE, False, f"it is {keep.value}", "nothing: it is being worked on")
        if not await shows(case.tracker, case.ticket, keep, case.lock):
            why = f"it is {keep.value}, and its labels were changed in the same moment"
            return Deferred(why, case.rules.retry_backoff)
        return NothingToDo(f"it is {keep.value}; the label was put back", (*case.gates, shut))

    def _held(self, case: Case, begun: Begun, places: list[Place], results: tuple[GateResult, ...]) -> Held:
        full = begun.full or places[0]
        shut = gates.is_full(begun.count, case.rules.capacity.setting(full.name), full.limit)
        return Held(shut.saw, tuple(place.name for place in places), (*results, shut))

    async def _park_loop(self, case: Case, begun: Begun) -> LookOutcome:
        """Stop a loop before it costs: park the ticket with one comment that names the limit and the setting."""
        limit, window = case.rules.loop_limit, case.rules.loop_window
        shut = gates.within_loop_limit(begun.claims, limit, window, first=begun.first_claim)
        note = f"It was {shut.saw}. Something may go in circles."
        return await self._park(case, Parked.LOOP, note, (*case.gates, gates.runs_nowhere(), shut))

    async def park_changed(self, case: Case) -> LookOutcome:
        """Its text was changed by somebody who may not start work: a person has to look at it before it runs."""
        return await self._park(case, Parked.TEXT, f"Parked: {case.gates[-1].saw}.", case.gates)

    async def _park(self, case: Case, why: Parked, note: str, results: tuple[GateResult, ...]) -> LookOutcome:
        note = f"{note}\n\nWhat to do: {results[-1].remedy}."
        intent = self.recording.intent(case, _PARKED, why.value, note=note)
        # An empty Redis proves nothing: its run may live, and put its lease back.
        word = await self.recording.record_and_publish(intent, case, after_settling=True)
        if word != "decided":
            return Deferred(f"not parked yet: {word}", case.rules.retry_backoff)
        return Rejected(results)

    async def _take_on(self, case: Case, request: PipelineRequest, backoff: float, now: RunNow | None) -> LookOutcome:
        tracker, ticket = case.tracker, case.ticket
        note = in_queue(await self.store.queue.depth()) if now is None else ""
        intent = replace(
            self.recording.intent(case, _CLAIMED, "", run=request.run, note=note),
            fence=request.fence,
            attempt=request.attempt,
            text=request.pinned.sha256,
            trigger=request.wanted.trigger,
        )
        words = await self.publisher.words(ticket, intent)
        until = case.lock.trust.until
        outcome = await self.publisher.move(tracker, ticket, intent, until=until, words=words)
        if isinstance(outcome, Unknown):
            # Whether it was written is a matter of reading, not of writing again.
            seen = await tracker.get(ticket.key)
            if tracker.labels.statuses(seen.labels) == {Status.ENQUEUED}:
                outcome = AlreadySo(seen)
        match outcome:
            case Applied(ticket=moved) | AlreadySo(ticket=moved):
                return await self._push(replace(case, ticket=moved), request, intent, words, now)
            case Unknown(reason=reason):
                return Deferred(f"the tracker did not say whether it was written: {reason}", backoff)
        await self.store.intents.drop(ticket.id, request.fence)
        match outcome:
            case LostRace():
                return NothingToDo("somebody else moved it first")
            case Gone(reason=reason):
                return NothingToDo(f"the ticket is gone: {reason}")
            case Limited(retry_at=retry_at, reason=reason):
                return Deferred(reason, max(0.0, retry_at - time.time()))
            case Forbidden(reason=reason, lacking=lacking):
                return Deferred(reason, max(backoff, LOOK_AGAIN), warned=lacking)

    async def _push(
        self, case: Case, request: PipelineRequest, intent: Intent, words: Words, now: RunNow | None
    ) -> LookOutcome:
        tracker, ticket = case.tracker, case.ticket
        window, taken_by = case.rules.loop_window, now.consumer if now is not None else None
        pushed = await self.store.queue.push(request, loop_window=window, taken_by=taken_by)
        if pushed is not Pushed.PUSHED:
            return NothingToDo(f"not pushed: {pushed.value}")
        logs.transition(
            log,
            ticket=ticket.id,
            platform=tracker.platform,
            run=request.run,
            fence=request.fence,
            from_=Status.PENDING,
            to=Status.ENQUEUED,
            outcome="claimed",
        )
        try:
            await self.publisher.comment(tracker, ticket, intent, lock=case.lock, words=words)
        except TrackerError as error:
            log.warning("the comment could not be written", ticket=ticket.id, error=str(error))
        return Claimed(request.run, request.fence)


def turned_away(ticket: Ticket, rules: ClaimRules) -> str:
    """What a rejection is remembered by: another revision of the ticket, or other rules, deserve another look."""
    return f"{rules.digest}:{ticket.revision}"
