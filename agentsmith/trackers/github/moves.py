"""Publishing an edge on GitHub: check, add `to`, verify, remove `expect`, verify.

GitHub has no conditional writes on issues (it answers 400), so the check is made where it is free: a conditional GET
right before the write costs no quota while nothing changed. The claim edge is always checked so. A later edge that
starts from the state which our own last write left behind is not read again: the answer to the POST shows every label
that is there at that moment, so whatever somebody did meanwhile shows up before anything is removed.

Requests per edge that count: pending → enqueued 1 (the label to remove is usually not there), enqueued → in-progress
1 by GraphQL or else 2, every other edge 2. GraphQL may remove although its add failed. Where the work has not begun,
a ticket without a label says just that (pending), so those edges may use it; a finished run must never look as if it
had not begun, so the others add first, look, and then remove.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from agentsmith.domain.errors import TrackerError
from agentsmith.domain.foreign import Foreign
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import AlreadySo, Applied, LostRace, Move, MoveOutcome, Unknown
from agentsmith.trackers.github.claims import ClaimRefs
from agentsmith.trackers.github.issues import Issues
from agentsmith.trackers.github.labels import Labels, LabelWriter
from agentsmith.trackers.github.memory import IssueMemory
from agentsmith.trackers.github.payloads import Snapshot, snapshot_of
from agentsmith.trackers.shared.outcomes import IgnoredWrite, outcome_of
from agentsmith.trackers.shared.relabel import Relabel, only, plan

log = structlog.get_logger()

CLAIM: Final = (Status.PENDING, Status.ENQUEUED)
_NOT_BEGUN: Final = frozenset({CLAIM, (Status.ENQUEUED, Status.IN_PROGRESS)})
"""Edges on which a ticket that lost its label altogether would rightly be taken for pending."""
_HELD: Final = (Status.ENQUEUED, Status.IN_PROGRESS)
_ENDED: Final = (Status.WAITING, Status.DONE, Status.FAILED)
"""Statuses in which nobody can be in the middle of a claim."""


class Overtaken(Exception):
    """Somebody else's status turned up in an answer; carries what the issue shows."""

    def __init__(self, labels: Labels) -> None:
        super().__init__()
        self.labels = labels


class Moves:
    """Moves tickets of one repository along their edges, one write at a time per issue."""

    def __init__(
        self,
        *,
        issues: Issues,
        writer: LabelWriter,
        labels: LabelSet,
        memory: IssueMemory,
        claims: ClaimRefs | None,
        now: Callable[[], float],
    ) -> None:
        self._issues = issues
        self._writer = writer
        self._labels = labels
        self._memory = memory
        self._claims = claims
        self._now = now

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        """Publish one edge (T4 to T11); every failure becomes one of the outcomes."""
        try:
            number = self._issues.key(ticket.key)
            async with self._memory.lock(number):
                return await self._publish(number, ticket, move)
        except TrackerError as error:
            return outcome_of(error)

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        """Leave the label of `keep` only (T12); nothing is written if the statuses changed since `ticket` was read.

        The caller chose `keep` from what it saw: a `done` that appeared since must not be swept away (P4).
        """
        number = self._issues.key(ticket.key)
        async with self._memory.lock(number):
            seen = await self._issues.read(ticket.key, known=ticket, deadline=deadline)
            if self._labels.lifecycle(seen.labels) != self._labels.lifecycle(ticket.labels):
                return seen
            todo = only(self._labels, seen.labels, keep)
            if todo.nothing:
                if keep in _ENDED:
                    await self._release_claim(number, deadline)
                return seen
            self._memory.forget_state(number)  # until an answer says otherwise
            shown = _ids(seen)
            if todo.add:
                shown = self._verified(todo.add, await self._writer.add(number, todo.add, deadline=deadline))
            for label in todo.remove:
                left = await self._writer.remove(number, label, deadline=deadline)
                shown = _without(shown, label) if left is None else left
            if keep not in _HELD:
                await self._release_claim(number, deadline)
            return self._after(seen, shown)

    async def relabel(self, ticket: Ticket, wanted: Foreign, *, deadline: float) -> Ticket:
        """Add and remove labels that are not ours (T17); what is so already is not written."""
        number = self._issues.key(ticket.key)
        async with self._memory.lock(number):
            seen = await self._issues.read(ticket.key, known=ticket, deadline=deadline)
            todo = wanted.left(seen.labels)
            if todo.nothing:
                return seen
            self._memory.forget_state(number)  # until an answer says otherwise
            shown = _ids(seen)
            if todo.add:
                shown = await self._writer.add(number, *todo.add, deadline=deadline)
                for label in todo.add:
                    self._verified(label, shown)
            for label in todo.remove:
                shown = await self._without(number, label, shown, deadline)
            return self._after(seen, shown)

    async def _without(self, number: str, label: str, shown: Labels, deadline: float) -> Labels:
        """Take one label off; answers those that are left."""
        left = await self._writer.remove(number, label, deadline=deadline)
        shown = _without(shown, label) if left is None else left
        if any(name.casefold() == label.casefold() for name in shown):
            raise IgnoredWrite(f"GitHub answered 200, but the label {label} is still there")
        return shown

    async def _publish(self, number: str, ticket: Ticket, move: Move) -> MoveOutcome:
        seen, taken = ticket, False
        try:
            seen = await self._current(ticket, move)
            todo = plan(self._labels, seen.labels, move)
            if isinstance(todo, type):
                if todo is AlreadySo and move.to in _ENDED:
                    await self._release_claim(number, move.deadline)
                return todo(seen)
            if self._claims is not None and (move.expect, move.to) == CLAIM:
                taken = await self._claims.take(number, move)
                if not taken:
                    return LostRace(seen)
            self._memory.forget_state(number)  # until an answer says otherwise
            shown = await self._relabel(number, seen, todo, move)
        except Overtaken as overtaken:
            return LostRace(self._after(seen, overtaken.labels))
        except TrackerError as error:
            outcome = outcome_of(error)
            if taken and not isinstance(outcome, Unknown):
                await self._release_claim(number, move.deadline)
            return outcome
        if move.to not in _HELD:
            await self._release_claim(number, move.deadline)
        return Applied(self._after(seen, shown))

    async def _release_claim(self, number: str, deadline: float) -> None:
        """Strict mode: the claim on the issue is over."""
        if self._claims is not None:
            await self._claims.release(number, deadline=deadline)

    async def _current(self, ticket: Ticket, move: Move) -> Ticket:
        """The ticket to start from: read again, unless the write's own answer will tell as much."""
        claim = (move.expect, move.to) == CLAIM
        if not claim and self._now() < move.deadline and self._memory.is_current(snapshot_of(ticket), self._now()):
            return ticket
        return await self._issues.read(ticket.key, known=ticket, deadline=move.deadline)

    async def _relabel(self, number: str, seen: Ticket, todo: Relabel, move: Move) -> Labels:
        """Write what is to do; raises Overtaken as soon as an answer shows that somebody else moved the ticket."""
        shown, answered = _ids(seen), False
        if todo.add:
            shown = await self._add(number, seen, todo, move)
            answered = True
        for label in only(self._labels, frozenset(shown), move.to).remove:
            left = await self._writer.remove(number, label, deadline=move.deadline)
            if left is None and not answered:
                # The label was gone before we came, and no answer has told yet what is there instead.
                shown = _ids(await self._issues.read(number, deadline=move.deadline))
            else:
                shown = _without(shown, label) if left is None else left
            if any(name.casefold() == label.casefold() for name in shown):
                raise IgnoredWrite(f"GitHub answered 200, but the label {label} is still there")
            self._check_other_statuses(shown, move)
            answered = True
        return shown

    async def _add(self, number: str, seen: Ticket, todo: Relabel, move: Move) -> Labels:
        """Put `to` on, by GraphQL together with the removal where that is safe; answers the labels there then."""
        assert todo.add is not None  # noqa: S101 - the caller asks only then
        snapshot = snapshot_of(seen)
        edge = (move.expect, move.to)
        if snapshot and todo.remove and edge in _NOT_BEGUN and self._writer.can_swap(snapshot, todo.add, todo.remove):
            swapped = await self._writer.swap(snapshot, todo.add, todo.remove, deadline=move.deadline)
            if swapped is not None and swapped.added is not None:
                left = swapped.added if swapped.removed is None else swapped.removed
                self._check_other_statuses(self._verified(todo.add, swapped.added), move, gone_is_lost=True, now=left)
                return left
            if swapped is not None:
                log.warning("GitHub removed a label and failed to add the next; adding it now", ticket=seen.id)
                return self._verified(todo.add, await self._writer.add(number, todo.add, deadline=move.deadline))
        shown = self._verified(todo.add, await self._writer.add(number, todo.add, deadline=move.deadline))
        self._check_other_statuses(shown, move, gone_is_lost=True)
        return shown

    def _check_other_statuses(
        self, shown: Labels, move: Move, *, gone_is_lost: bool = False, now: Labels | None = None
    ) -> None:
        """Raise Overtaken when the labels show a status that this move knows nothing of, or `expect` no more."""
        statuses = self._labels.statuses(shown)
        gone = gone_is_lost and move.expect is not Status.PENDING and move.expect not in statuses
        if gone or statuses - {move.expect, move.to}:
            raise Overtaken(shown if now is None else now)

    @staticmethod
    def _verified(label: str, shown: Labels) -> Labels:
        if not any(name.casefold() == label.casefold() for name in shown):
            raise IgnoredWrite(
                f"GitHub answered 200, but did not add the label {label}: the token may not write labels"
            )
        return shown

    def _after(self, before: Ticket, shown: Labels) -> Ticket:
        """The ticket with the labels that GitHub's last answer showed."""
        names = frozenset(shown)
        old = snapshot_of(before) or Snapshot(key=before.key)
        snapshot = replace(old, label_ids=dict(shown), etag=None, read_at=self._now(), verified=True)
        self._memory.remember(snapshot)
        digest = hashlib.sha256(" ".join([before.revision, *sorted(names)]).encode()).hexdigest()
        return replace(before, labels=names, revision=f"after {digest[:16]}", native=snapshot)


def _ids(ticket: Ticket) -> Labels:
    snapshot = snapshot_of(ticket)
    known = snapshot.label_ids if snapshot else {}
    return {name: known.get(name, "") for name in ticket.labels}


def _without(shown: Labels, label: str) -> Labels:
    return {name: id_ for name, id_ in shown.items() if name.casefold() != label.casefold()}
