"""Claiming: `signal → lock → read by id → gates → transition → push`. The one door through which work comes in.

A signal is only a hint to look; whatever it announced, the ticket is read again. The same look also notices that a
person withdrew what is running, and puts back a label that somebody removed from a live run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import structlog

from agentsmith import logs
from agentsmith.domain import gates
from agentsmith.domain.asking import WakeReason
from agentsmith.domain.claiming import (
    AlreadyClaimed,
    Asked,
    Claimed,
    ClaimOutcome,
    Deferred,
    Held,
    Rejected,
    WouldClaim,
)
from agentsmith.domain.errors import TrackerError
from agentsmith.domain.gates import Gate, GateResult
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.recovery import Leave
from agentsmith.domain.report import in_queue
from agentsmith.domain.request import PipelineRequest, started_by
from agentsmith.domain.rules import ClaimRules
from agentsmith.domain.signal import Signal, SignalKind, Taken
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import (
    AlreadySo,
    Applied,
    Forbidden,
    Gone,
    Limited,
    LostRace,
    Move,
    Tracker,
    Unknown,
    Words,
)
from agentsmith.domain.vetting import Pin
from agentsmith.store import Begun, Lease, Pushed, Store
from agentsmith.store.places import Place, all_of
from agentsmith.tickets import authority
from agentsmith.tickets.live_rules import Rulebook
from agentsmith.tickets.publish import LOOK_AGAIN, Publisher, shows
from agentsmith.tickets.recover import Recovery
from agentsmith.tickets.refusals import Doing, refused, works
from agentsmith.tickets.requests import new_request, new_run_id
from agentsmith.tickets.under_lock import under_lock

log = structlog.get_logger()


class Claims:
    """Looks at tickets and takes on those that pass every gate."""

    def __init__(
        self,
        store: Store,
        trackers: Mapping[str, Tracker],
        publisher: Publisher,
        recovery: Recovery,
        book: Rulebook,
        *,
        shadow: bool = False,
    ) -> None:
        """A `shadow` decides and writes nothing: no label, no request, no comment."""
        self._store, self._trackers, self._publisher = store, trackers, publisher
        self._recovery, self._book, self._shadow = recovery, book, shadow

    @property
    def rules(self) -> ClaimRules:
        """The rules in force."""
        return self._book.rules

    async def consider(self, signal: Signal, asked: Asked | None = None, taken: Taken | None = None) -> ClaimOutcome:
        """Look at the ticket that the signal names and do what is right; never raises for a tracker's failure.

        `taken` is the signal as it stands in our list: a retry is granted only from there, and only once.
        """
        tracker = self._trackers.get(signal.tracker)
        if tracker is None:
            return AlreadyClaimed(f"no tracker is called {signal.tracker!r}")
        backoff = self.rules.retry_backoff * 2.0 ** min(signal.tries, 6)
        return await under_lock(
            self._store, tracker, signal, backoff, lambda lock: self._look(tracker, signal, lock, backoff, asked, taken)
        )

    async def _look(
        self, tracker: Tracker, signal: Signal, lock: Lease, backoff: float, asked: Asked | None, taken: Taken | None
    ) -> ClaimOutcome:
        ticket = await self._read(tracker, signal.key)
        statuses = tracker.labels.statuses(ticket.labels)
        status = resolve(statuses)
        if self._shadow:
            return await self._imagine(tracker, ticket, status)
        intent = await self._store.intents.of(ticket.id)
        if intent is not None and intent.decided:
            if signal.kind is SignalKind.RETRY and intent.by_person and intent.to is Status.PENDING:
                # Decided before, and then whoever had the signal got no further: once is what was asked for.
                return AlreadyClaimed("it is being retried")
            return Deferred("its last outcome is not published yet", backoff)
        if signal.kind is SignalKind.RETRY:
            answer = await self._retry(tracker, ticket, status, signal, lock, taken)
            if answer is not None:
                return answer
        if status in (Status.ENQUEUED, Status.IN_PROGRESS) or len(statuses) > 1:
            return await self._attend(tracker, ticket, signal, lock)
        if status is Status.WAITING and (by := await authority.wanted_again(tracker, ticket, self.rules)):
            return await self._run_again(tracker, ticket, status, f"{by.name} set its trigger again", lock)
        return await self._pass_gates(tracker, ticket, lock, backoff, signal, asked)

    async def _imagine(self, tracker: Tracker, ticket: Ticket, status: Status) -> ClaimOutcome:
        """What a shadow makes of a ticket."""
        if status in (Status.ENQUEUED, Status.IN_PROGRESS):
            return AlreadyClaimed(f"it is {status.value}, and somebody else's")
        judged = await authority.judge(
            tracker, ticket, self.rules, remembered=lambda: self._recovery.pinned(tracker, ticket)
        )
        # Until the ticket or the rules change, the answer stays the same.
        await self._note_rejected(ticket)
        if not judged.passed:
            return Rejected(judged.gates)
        pipeline = gates.chosen(ticket, self.rules.triggers)[0].pipeline
        return WouldClaim(f"it would be claimed for {pipeline!r}; a shadow writes nothing", judged.gates)

    async def _read(self, tracker: Tracker, key: str) -> Ticket:
        ticket = await tracker.get(key)
        told = await self._store.intents.last_published(ticket.id)
        shown = resolve(tracker.labels.statuses(ticket.labels))
        # A read that disagrees with what we published lately may be a stale one: look twice before acting.
        return ticket if told in (None, shown) else await tracker.get(key)

    async def _retry(
        self, tracker: Tracker, ticket: Ticket, status: Status, signal: Signal, lock: Lease, taken: Taken | None
    ) -> ClaimOutcome | None:
        if signal.text:
            # Whoever asks for a retry has read the text; should it have been changed since, that is another one.
            await self._store.pins.keep(ticket.id, Pin(signal.text, by=signal.by or "a person"))
        if await self._store.runs.lease(ticket.id):
            await self._publisher.note_follow_up(tracker, ticket, signal.by, lock=lock)
            return AlreadyClaimed("it is running: it will run once more afterwards")
        if status not in (Status.DONE, Status.FAILED, Status.WAITING):
            return None
        return await self._run_again(tracker, ticket, status, f"retried by {signal.by or 'a person'}", lock, taken)

    async def _run_again(
        self, tracker: Tracker, ticket: Ticket, status: Status, outcome: str, lock: Lease, taken: Taken | None = None
    ) -> ClaimOutcome:
        """A person wants it: make it pending, and a signal will claim it."""
        if status is Status.WAITING:
            await self._recovery.remember(tracker, ticket)
        intent = Intent(
            ticket.id, tracker.name, ticket.key, 0, status, Status.PENDING, run="retry", outcome=outcome, by_person=True
        )
        word = await self._recovery.decide_and_publish(intent, ticket=ticket, lock=lock, taken=taken)
        if word in ("decided", "put back"):
            return AlreadyClaimed(outcome if word == "decided" else "somebody else was given the signal meanwhile")
        return Deferred(f"not retried yet: {word}", self.rules.retry_backoff)

    async def _attend(self, tracker: Tracker, ticket: Ticket, signal: Signal, lock: Lease) -> ClaimOutcome:
        """A ticket that we have in hand: stop it when it is no longer wanted, revive it when nobody has it."""
        why = "the trigger was removed" if ticket.open else "the ticket was closed"
        if lease := await self._store.runs.lease(ticket.id):
            if not ticket.open or not gates.still_wanted(ticket, lease.wanted, self.rules.triggers):
                await self._store.runs.request_stop(ticket.id, f"withdrawn: {why}")
            elif signal.labelled and (by := await authority.set_again(tracker, ticket, lease.labelled, self.rules)):
                await self._publisher.note_follow_up(tracker, ticket, by.name, lock=lock)
                return AlreadyClaimed(f"it is running: it will run once more, as {by.name} set its trigger again")
            return AlreadyClaimed("it is running")
        if payload := await self._store.queue.request_of(ticket.id):
            if ticket.open and gates.still_wanted(ticket, started_by(payload), self.rules.triggers):
                return AlreadyClaimed("it is queued")
            status = resolve(tracker.labels.statuses(ticket.labels))
            intent = Intent(ticket.id, tracker.name, ticket.key, 0, status, None, run="withdrawn", outcome=why)
            word = await self._recovery.decide_and_publish(intent, ticket=ticket, lock=lock, unqueue=True)
            if word in ("in-flight", "leased"):
                await self._store.runs.request_stop(ticket.id, f"withdrawn: {why}")
            elif word != "decided":
                return Deferred(f"not withdrawn yet: {word}", self.rules.retry_backoff)
            return AlreadyClaimed(why)
        action = await self._recovery.attend(tracker, ticket, lock)
        if isinstance(action, Leave) and await self._store.presence.settling():
            # The signal may be all that is known of the ticket: once it is closed, no list shows it any more.
            why = "Redis lost its memory, and nothing is concluded from that yet"
            return Deferred(why, self._store.times.settle, failed=False)
        return AlreadyClaimed(f"recovery: {type(action).__name__.lower()}")

    async def _note_rejected(self, ticket: Ticket) -> None:
        await self._store.signals.note_rejected(ticket.id, turned_away(ticket, self.rules))

    async def _pass_gates(
        self, tracker: Tracker, ticket: Ticket, lock: Lease, backoff: float, signal: Signal, asked: Asked | None
    ) -> ClaimOutcome:
        rules = self.rules
        judged = await authority.judge(
            tracker,
            ticket,
            rules,
            asked,
            pin=await self._store.pins.of(ticket.id),
            remembered=lambda: self._recovery.pinned(tracker, ticket),
        )
        results = judged.gates
        if not judged.passed:
            if judged.changed:
                return await self._park(tracker, ticket, "text changed", f"Parked: {results[-1].saw}.", results, lock)
            await self._note_rejected(ticket)  # until it changes the poller need not ask again
            return Rejected(results)
        if judged.waited:
            await self._recovery.remember(tracker, ticket)
        pipeline = asked.pipeline if asked is not None else gates.chosen(ticket, rules.triggers)[0].pipeline
        run = new_run_id()
        intent = Intent(ticket.id, tracker.name, ticket.key, 0, Status.PENDING, Status.ENQUEUED, run)
        limits = rules.capacity.limits
        places = [Place(name, limits.get(name)) for name in all_of(tracker.name, pipeline)]
        begun = await self._store.intents.begin_claim(
            intent,
            lock_key=lock.key,
            token=lock.token,
            loop_limit=rules.loop_limit,
            loop_window=rules.loop_window,
            lock_ttl=self._store.times.lock,
            places=places,
        )
        circles = gates.goes_in_circles(begun.claims, rules.loop_limit, rules.loop_window)
        match begun.word:
            case "begun":
                if judged.pin is not None:
                    await self._store.pins.keep(ticket.id, judged.pin)
                attempts = await self._store.runs.attempts(ticket.id) or 0
                wake = WakeReason.UNBLOCKED.value if await self._store.questions.of(ticket.id) else signal.cause
                request = new_request(
                    ticket, pipeline, run=run, fence=begun.fence, attempt=attempts, wake=wake, asked=asked
                )
                trigger = gates.chosen(ticket, rules.triggers)[0].label if asked is None else None
                request = replace(request, labelled=judged.labelled or None, trigger=trigger)
                done = await self._take_on(tracker, ticket, request, lock, backoff, asked)
                room = gates.has_room({rules.capacity.setting(place.name): place.limit for place in places})
                return replace(done, gates=(*results, gates.runs_nowhere(), circles, room))
            case "leased" | "queued":
                keep = Status.IN_PROGRESS if begun.word == "leased" else Status.ENQUEUED
                shut = GateResult(Gate.LEASE, False, f"it is {keep.value}", "nothing: it is being worked on")
                if not await shows(tracker, ticket, keep, lock):
                    return Deferred(f"it is {keep.value}, and its labels were changed in the same moment", backoff)
                return AlreadyClaimed(f"it is {keep.value}; the label was put back", (*results, shut))
            case "loop":
                return await self._park_loop(tracker, ticket, begun, results, lock)
            case "full":
                return self._held(begun, places, (*results, gates.runs_nowhere(), circles))
            case _:
                return Deferred(begun.word, backoff)

    def _held(self, begun: Begun, places: list[Place], results: tuple[GateResult, ...]) -> Held:
        full = begun.full or places[0]
        shut = gates.is_full(begun.count, self.rules.capacity.setting(full.name), full.limit)
        return Held(shut.saw, tuple(place.name for place in places), (*results, shut))

    async def _park_loop(
        self, tracker: Tracker, ticket: Ticket, begun: Begun, results: tuple[GateResult, ...], lock: Lease
    ) -> ClaimOutcome:
        """Stop a loop before it costs: park the ticket with one comment that names the limit and the setting."""
        limit, window = self.rules.loop_limit, self.rules.loop_window
        shut = gates.goes_in_circles(begun.claims, limit, window, first=begun.first_claim)
        note = f"It was {shut.saw}. Something may go in circles."
        results = (*results, gates.runs_nowhere(), shut)
        return await self._park(tracker, ticket, "loop limit", note, results, lock)

    async def _park(
        self, tracker: Tracker, ticket: Ticket, outcome: str, note: str, results: tuple[GateResult, ...], lock: Lease
    ) -> ClaimOutcome:
        """A person has to look at it before it runs: at what the last gate saw. Not while a run may be alive of which
        Redis forgot, and whose label somebody took off."""
        intent = Intent(
            ticket.id,
            tracker.name,
            ticket.key,
            0,
            Status.PENDING,
            Status.WAITING,
            run="parked",
            outcome=outcome,
            note=f"{note}\n\nWhat to do: {results[-1].remedy}.",
        )
        # An empty Redis proves nothing: its run may live, and put its lease back.
        word = await self._recovery.decide_and_publish(intent, ticket=ticket, lock=lock, after_settling=True)
        if word != "decided":
            return Deferred(f"not parked yet: {word}", self.rules.retry_backoff)
        return Rejected(results)

    async def _take_on(
        self,
        tracker: Tracker,
        ticket: Ticket,
        request: PipelineRequest,
        lock: Lease,
        backoff: float,
        asked: Asked | None,
    ) -> ClaimOutcome:
        run, fence = request.run, request.fence
        intent = Intent(
            ticket.id,
            tracker.name,
            ticket.key,
            fence,
            Status.PENDING,
            Status.ENQUEUED,
            run,
            attempt=request.attempt,
            text=request.pinned.sha256,
            trigger=request.wanted.trigger,
            note=in_queue(await self._store.queue.depth()) if asked is None else "",
        )
        words = await self._publisher.words(ticket, Status.ENQUEUED, intent)
        move = Move(Status.PENDING, Status.ENQUEUED, run, fence, deadline=lock.trust.until, say=words)
        outcome = await tracker.move(ticket, move)
        if isinstance(outcome, Unknown):
            # Whether it was written is a matter of reading, not of writing again.
            seen = await tracker.get(ticket.key)
            if tracker.labels.statuses(seen.labels) == {Status.ENQUEUED}:
                outcome = AlreadySo(seen)
        match outcome:
            case Applied(ticket=moved) | AlreadySo(ticket=moved):
                await works(self._store, tracker, Doing.LABELLING)
                return await self._push(tracker, moved, request, intent, words, lock, asked)
            case Unknown(reason=reason):
                return Deferred(f"the tracker did not say whether it was written: {reason}", backoff)
        await self._store.intents.drop(ticket.id, fence)
        match outcome:
            case LostRace():
                return AlreadyClaimed("somebody else moved it first")
            case Gone(reason=reason):
                return AlreadyClaimed(f"the ticket is gone: {reason}")
            case Limited(retry_at=retry_at, reason=reason):
                return Deferred(reason, max(0.0, retry_at - time.time()))
            case Forbidden() as no:
                why = await refused(self._store, tracker, Doing.LABELLING, no) if no.lacking else no.reason
                return Deferred(why, max(backoff, LOOK_AGAIN), told=no.lacking)

    async def _push(
        self,
        tracker: Tracker,
        ticket: Ticket,
        request: PipelineRequest,
        intent: Intent,
        words: Words,
        lock: Lease,
        asked: Asked | None,
    ) -> ClaimOutcome:
        taken_by = asked.consumer if asked is not None else None
        pushed = await self._store.queue.push(request, loop_window=self.rules.loop_window, taken_by=taken_by)
        if pushed is not Pushed.PUSHED:
            return AlreadyClaimed(f"not pushed: {pushed.value}")
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
            await self._publisher.comment(tracker, ticket, Status.ENQUEUED, intent, lock=lock, words=words)
        except TrackerError as error:
            log.warning("the comment could not be written", ticket=ticket.id, error=str(error))
        return Claimed(request.run, request.fence)


def turned_away(ticket: Ticket, rules: ClaimRules) -> str:
    """What a rejection is remembered by: another revision of the ticket, or other rules, deserve another look."""
    return f"{rules.digest}:{ticket.revision}"
