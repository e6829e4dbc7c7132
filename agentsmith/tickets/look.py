"""One look at one ticket, whoever asks for it: `lock → read → decide → record → publish`.

A webhook, a poll, a person's word, a time that has come and what housekeeping finds are all hints to look. The ticket
is read under its lock, `domain.decision.decide` says what to do, and that is done. Two looks at once are harmless: each
holds the lock, reads again, and raises the fence before it writes.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from agentsmith.domain import gates
from agentsmith.domain.actions import Action, Need, Nothing
from agentsmith.domain.decision import decide
from agentsmith.domain.errors import TicketNotFound, TrackerError
from agentsmith.domain.facts import IN_HAND, Cancel, Due, Look, Repair, Retry, RunNow, Wish
from agentsmith.domain.lifecycle import resolve
from agentsmith.domain.outcomes import Deferred, LookOutcome, NothingToDo, Rejected, WouldClaim
from agentsmith.domain.rules import ClaimRules
from agentsmith.domain.signal import Signal, SignalKind, Taken
from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.vetting import Pin
from agentsmith.store import Lease, Store
from agentsmith.tickets import authority
from agentsmith.tickets.apply import Applying
from agentsmith.tickets.claiming import Claiming, turned_away
from agentsmith.tickets.facts import Case, FactFinder
from agentsmith.tickets.live_rules import LiveRules
from agentsmith.tickets.lock import LockBusy, holding
from agentsmith.tickets.publish import Publisher
from agentsmith.tickets.recording import Recording
from agentsmith.tickets.refusals import LACKING, Doing, refused, works
from agentsmith.tickets.remembered import Remembered

Under = Callable[[Lease], Awaitable[LookOutcome]]
"""What is done while the ticket's lock is held."""
_WHILE_BUSY: Final = 0.25
"""Seconds after which a ticket that somebody else was looking at is looked at again."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What was decided, and what came of it."""

    action: Action
    outcome: LookOutcome


class Looks:
    """Looks at tickets, and does what is right."""

    def __init__(
        self,
        store: Store,
        trackers: Mapping[str, Tracker],
        publisher: Publisher,
        rules: LiveRules,
        *,
        max_attempts: int,
        shadow: bool = False,
    ) -> None:
        """A `shadow` decides and writes nothing: no label, no request, no comment."""
        self._store, self._trackers, self._publisher = store, trackers, publisher
        self._rules, self._shadow = rules, shadow
        self.remembered = Remembered(store, rules)
        self._recording = Recording(store, publisher)
        claiming = Claiming(store, publisher, self._recording, self.remembered)
        self._facts = FactFinder(store, rules, self.remembered, max_attempts)
        self._applying = Applying(store, publisher, self._recording, claiming, self.remembered)

    @property
    def rules(self) -> ClaimRules:
        """The rules in force."""
        return self._rules.in_force

    def backoff(self, signal: Signal) -> float:
        """How long to wait after this try, should it fail."""
        return self.rules.retry_backoff * 2.0 ** min(signal.tries, 6)

    async def on_signal(self, signal: Signal, now: RunNow | None = None, taken: Taken | None = None) -> LookOutcome:
        """Look at the ticket that the signal names; never raises for a tracker's failure.

        `taken` is the signal as it stands in our list: a retry is granted only from there, and only once.
        """
        tracker = self._trackers.get(signal.tracker)
        if tracker is None:
            return NothingToDo(f"no tracker is called {signal.tracker!r}")
        return await self.tried(signal, tracker, lambda lock: self._signalled(tracker, signal, lock, now, taken))

    async def tried(self, signal: Signal, tracker: Tracker, look: Under) -> LookOutcome:
        """What `look` makes of the signal's ticket under its lock; what a tracker fails at is tried again later."""
        backoff = self.backoff(signal)
        try:
            async with holding(self._store, tracker.platform, signal.ticket) as lock:
                seen = await look(lock)
            await works(self._store, tracker, Doing.READING, ticket=signal.ticket)
            return seen
        except LockBusy:
            return Deferred("somebody else is looking at it", min(backoff, _WHILE_BUSY), failed=False, looked=False)
        except TicketNotFound as error:
            return NothingToDo(f"there is no such ticket: {error}")
        except LACKING as error:
            said = await refused(self._store, tracker, Doing.READING, error, ticket=signal.ticket)
            return Deferred(said, backoff, warned=True)
        except TrackerError as error:
            wait = error.retry_at - time.time() if error.retry_at else backoff
            return Deferred(f"the tracker failed: {error}", max(wait, 0.0))

    async def _signalled(
        self, tracker: Tracker, signal: Signal, lock: Lease, now: RunNow | None, taken: Taken | None
    ) -> LookOutcome:
        ticket = await self._read(tracker, signal.key)
        if self._shadow:
            return await self._imagine(tracker, ticket)
        case = replace(await self._facts.begin(tracker, ticket, lock), cause=signal.cause)
        wish = now or _wish_of(signal)
        if isinstance(wish, Retry) and signal.text and not case.facts.recorded.decided:
            # Whoever asks for a retry has read the text; should it have been changed since, that is another one.
            await self._store.pins.keep(ticket.id, Pin(signal.text, by=signal.by or "a person"))
        taken = taken if isinstance(wish, Retry) else None
        return (await self._look(case, wish, backoff=self.backoff(signal), taken=taken)).outcome

    async def _read(self, tracker: Tracker, key: str) -> Ticket:
        ticket = await tracker.get(key)
        published = await self._store.intents.last_published(ticket.id)
        shown = resolve(tracker.labels.statuses(ticket.labels))
        # A read that disagrees with what we published lately may be a stale one: look twice before acting.
        return ticket if published in (None, shown) else await tracker.get(key)

    async def _look(self, case: Case, wish: Wish, *, backoff: float = 0.0, taken: Taken | None = None) -> Looked:
        while True:
            action = decide(case.facts, wish)
            if isinstance(action, Need):
                case = await self._facts.find_out(case, action.fact, wish)
                continue
            outcome = await self._applying.apply(case, wish, action, backoff=backoff, taken=taken)
            if not isinstance(outcome, Ticket):
                return Looked(action, outcome)
            case = replace(await self._facts.begin(case.tracker, outcome, case.lock), cause=case.cause)

    async def repair(self, tracker_name: str, key: str, ticket: TicketId) -> Action:
        """Bring a ticket back that nobody has in hand; TrackerError and LockBusy are the caller's to handle."""
        tracker = self._trackers.get(tracker_name)
        if tracker is None:
            return Nothing(f"no tracker is called {tracker_name!r}")
        async with holding(self._store, tracker.platform, ticket) as lock:
            try:
                seen = await tracker.get(key)
            except TicketNotFound as error:
                await self._store.runs.forget(ticket)
                return Nothing(f"there is no such ticket: {error}")
            return await self.repair_read(tracker, seen, lock)

    async def repair_read(self, tracker: Tracker, ticket: Ticket, lock: Lease) -> Action:
        """The same for a ticket that was just read under its lock."""
        return (await self._look(await self._facts.begin(tracker, ticket, lock), Repair())).action

    async def finish(self, tracker: Tracker, ticket: TicketId) -> None:
        """Publish what somebody decided and did not get published; TrackerError and LockBusy are the caller's."""
        async with holding(self._store, tracker.platform, ticket) as lock:
            intent = await self._recording.adopt(ticket, lock)
            if intent is not None and intent.decided:
                await self._publisher.publish(intent, lock=lock)
            elif intent is not None:
                await self.repair_read(tracker, await tracker.get(intent.key), lock)

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
            await self._look(await self._facts.begin(tracker, seen, lock), Due())

    async def cancel(self, tracker: Tracker, ticket: Ticket, reason: StopReason, lock: Lease) -> LookOutcome:
        """Take a ticket that was just read under its lock off the queue, or ask its run to stop."""
        return (await self._look(await self._facts.begin(tracker, ticket, lock), Cancel(reason))).outcome

    async def _imagine(self, tracker: Tracker, ticket: Ticket) -> LookOutcome:
        """What a shadow makes of a ticket."""
        status = resolve(tracker.labels.statuses(ticket.labels))
        if status in IN_HAND:
            return NothingToDo(f"it is {status.value}, and somebody else's")
        rules = self.rules
        judged = await authority.judge(
            authority.AccessCheck(tracker, self._store),
            ticket,
            rules,
            remembered=lambda: self.remembered.pinned(tracker, ticket),
        )
        # Until the ticket or the rules change, the answer stays the same.
        await self._store.signals.note_rejected(ticket.id, turned_away(ticket, rules))
        if not judged.passed:
            return Rejected(judged.gates)
        pipeline = gates.chosen(ticket, rules.triggers)[0].pipeline
        return WouldClaim(f"it would be claimed for {pipeline!r}; a shadow writes nothing", judged.gates)


def _wish_of(signal: Signal) -> Look | Retry:
    return Retry(signal.by) if signal.kind is SignalKind.RETRY else Look(signal.labelled)
