"""Gathering the facts that a decision about a ticket turns on: cheap ones at once, dear ones only when asked for.

Everything is read while the ticket's lock is held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentsmith.domain.facts import IN_HAND, Fact, Facts, Judged, Life, Recorded, Remains, RunNow, Wish
from agentsmith.domain.gates import GateResult, still_wanted
from agentsmith.domain.intent import NO_RUN, Intent
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.request import Wanted, asked_for, started_by, text_hash
from agentsmith.domain.rules import ClaimRules
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Tracker
from agentsmith.store import Lease, RunLease, Store
from agentsmith.tickets import authority
from agentsmith.tickets.live_rules import LiveRules
from agentsmith.tickets.remembered import Remembered


@dataclass(frozen=True, slots=True)
class Case:
    """A ticket under its lock: what was read, what is known by now, and what that was concluded from."""

    tracker: Tracker
    ticket: Ticket
    lock: Lease
    rules: ClaimRules
    """Those in force when the look began: all of it goes by the same."""
    facts: Facts
    intent: Intent | None = None
    lease: RunLease | None = None
    judged: authority.Judgement | None = None
    run: str = NO_RUN
    """The run that its remains are about."""
    cause: str = ""
    """Where the look came from."""

    @property
    def gates(self) -> tuple[GateResult, ...]:
        """What the gates said, as far as they were asked."""
        return self.judged.gates if self.judged is not None else ()


@dataclass(frozen=True, slots=True)
class FactFinder:
    """Finds out what there is to know about a ticket."""

    store: Store
    rules: LiveRules
    remembered: Remembered
    max_attempts: int

    async def begin(self, tracker: Tracker, ticket: Ticket, lock: Lease) -> Case:
        """The case of a ticket that was just read under its lock."""
        intent = await self.store.intents.of(ticket.id)
        facts = Facts(tracker.labels.statuses(ticket.labels), ticket.open, _recorded(intent))
        return Case(tracker, ticket, lock, self.rules.in_force, facts, intent)

    def _access(self, case: Case) -> authority.AccessCheck:
        return authority.AccessCheck(case.tracker, self.store)

    async def find_out(self, case: Case, fact: Fact, wish: Wish) -> Case:
        """The case with this fact known."""
        match fact:
            case Fact.LEASE:
                return await self._lease(case)
            case Fact.QUEUE:
                return await self._queue(case)
            case Fact.LATE_WRITE:
                return await self._late_write(case)
            case Fact.REMAINS:
                return await self._remains(case)
            case Fact.SET_AGAIN:
                labelled = case.lease.labelled if case.lease is not None else ""
                by = await authority.set_again(self._access(case), case.ticket, labelled, case.rules)
                return replace(case, facts=replace(case.facts, set_again=by.name if by is not None else ""))
            case Fact.WANTED_AGAIN:
                by = await authority.wanted_again(self._access(case), case.ticket, case.rules)
                return replace(case, facts=replace(case.facts, wanted_again=by.name if by is not None else ""))
            case Fact.GATES:
                return await self._gates(case, wish if isinstance(wish, RunNow) else None)

    async def _lease(self, case: Case) -> Case:
        lease = await self.store.runs.lease(case.ticket.id)
        if lease is None:
            return replace(case, facts=replace(case.facts, leased=False))
        wanted = self._wanted(case, lease.wanted)
        return replace(case, lease=lease, facts=replace(case.facts, leased=True, wanted=wanted))

    async def _queue(self, case: Case) -> Case:
        payload = await self.store.queue.request_of(case.ticket.id)
        if payload is None:
            return replace(case, facts=replace(case.facts, queued=False))
        wanted = self._wanted(case, started_by(payload))
        return replace(case, facts=replace(case.facts, queued=True, wanted=wanted))

    def _wanted(self, case: Case, wanted: Wanted) -> bool:
        return case.ticket.open and still_wanted(case.ticket, wanted, case.rules.triggers)

    async def _late_write(self, case: Case) -> Case:
        """Look twice when a read says that the ticket is in hand, but we published its end lately.

        Its end is put back when that was no stale read but a late write: no person sets these labels.
        """
        ended = await self.store.intents.last_published(case.ticket.id)
        if ended is None or not ended.final or not case.facts.statuses & IN_HAND:
            return replace(case, facts=replace(case.facts, doubted=True))
        again = await case.tracker.get(case.ticket.key)
        still = case.tracker.labels.statuses(again.labels)
        late = ended if still & IN_HAND and ended not in still else None
        facts = replace(case.facts, statuses=still, open=again.open, doubted=True, late_write=late)
        return replace(case, ticket=again, facts=facts)

    async def _remains(self, case: Case) -> Case:
        """What there is to know about the ticket, and the run that it is about."""
        store, ticket, status = self.store, case.ticket, resolve(case.facts.statuses)
        # An enqueued ticket that is neither queued nor leased while we hold its lock is in nobody's hands; a
        # running one may merely have missed a beat.
        life = await store.runs.life(ticket.id, patient=status is Status.IN_PROGRESS)
        routed, known = self.remembered.routes(ticket), await store.runs.remembers(ticket.id)
        last, pin = await store.runs.unsettled(ticket.id), await store.pins.of(ticket.id)
        # What Redis forgot stands on the ticket; it is asked only when something would be done about it.
        dead, lost = life is Life.DEAD, not known or (pin is None and status is Status.ENQUEUED)
        ask = (lost and (dead or not routed)) or (dead and not routed and last is None)
        memo = await self.remembered.memo(case.tracker, ticket) if ask else None
        if memo is not None:
            pin = await self.remembered.pin(ticket, memo)
        started = (last.wanted.trigger if last is not None else "") or (memo.trigger if memo is not None else "")
        attempts = 0
        if dead:
            attempts = await store.runs.attempts(ticket.id) or 0
            if memo is not None and memo.attempt:
                attempts = await store.runs.restore_attempts(ticket.id, memo.attempt)
        published, queued = await store.intents.last_published(ticket.id), await store.queue.request_of(ticket.id)
        remains = Remains(
            life=life,
            triggered=still_wanted(ticket, Wanted(started), case.rules.triggers),
            queued=queued is not None,
            asked=queued is not None and asked_for(queued),
            attempts=attempts,
            max_attempts=self.max_attempts,
            ended=published if published is not None and published.final else None,
            ours=routed or known or (memo is not None and self.remembered.took_on(ticket, memo)),
            text_changed=pin is None or pin.text != text_hash(ticket.title, ticket.body),
            routed=routed,
        )
        if case.intent is not None and not case.intent.decided and life is not Life.SETTLING:
            # A claim that died: whoever holds the lock now knows that nobody is in the middle of it. While nothing
            # may be done about it, it stays: nobody would find the ticket again if it were closed meanwhile.
            await store.intents.drop(ticket.id, case.intent.fence)
        run = last.run if last is not None else memo.run if memo is not None else "unknown"
        return replace(case, run=run, facts=replace(case.facts, remains=remains))

    async def _gates(self, case: Case, now: RunNow | None) -> Case:
        tracker, ticket = case.tracker, case.ticket
        judged = await authority.judge(
            self._access(case),
            ticket,
            case.rules,
            now,
            pin=await self.store.pins.of(ticket.id),
            remembered=lambda: self.remembered.pinned(tracker, ticket),
        )
        facts = replace(case.facts, judged=Judged(judged.passed, judged.changed))
        return replace(case, judged=judged, facts=facts)


def _recorded(intent: Intent | None) -> Recorded:
    if intent is None:
        return Recorded.NOTHING
    if not intent.decided:
        return Recorded.CLAIM
    return Recorded.RETRY if intent.by_person and intent.to is Status.PENDING else Recorded.OUTCOME
