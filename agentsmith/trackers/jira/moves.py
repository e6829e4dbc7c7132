"""Publishing an edge on Jira: one edit that adds `to` and removes `expect`, under the label lock, read back.

Jira has no conditional edits, and no read is free. Add and remove are one edit, so the ticket is never without its
state (T8). The answer (Cloud) or another read (Data Center) shows the labels and the property that names the writer, so
whatever somebody did meanwhile shows up after the write. A write starts from what our own last write left behind, or
from a read that is a few seconds old; anything older is read again, and "nothing to write" is never believed without
a fresh look (T4, T5).

In status mode the workflow decides first: of two simultaneous transitions Jira lets one succeed. The label follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import structlog

from agentsmith.domain.errors import TrackerError, TrackerUnavailable
from agentsmith.domain.foreign import Foreign
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import AlreadySo, Applied, LostRace, Move, MoveOutcome
from agentsmith.trackers.http import LabelLock
from agentsmith.trackers.jira.issues import Claim, Issues
from agentsmith.trackers.jira.payloads import snapshot_of
from agentsmith.trackers.jira.workflow import Overtaken, Workflow
from agentsmith.trackers.shared.memory import TicketMemory
from agentsmith.trackers.shared.outcomes import IgnoredWrite, outcome_of
from agentsmith.trackers.shared.relabel import Relabel, only, plan

log = structlog.get_logger()

TRIES: Final = 4
"""How often a write is tried on an issue that keeps changing."""


class Moves:
    """Moves tickets of one project along their edges, one write at a time per issue."""

    def __init__(
        self,
        *,
        issues: Issues,
        labels: LabelSet,
        memory: TicketMemory[Any],
        lock: LabelLock,
        workflow: Workflow | None,
        now: Callable[[], float],
    ) -> None:
        self._issues = issues
        self._labels = labels
        self._memory = memory
        self._lock = lock
        self._workflow = workflow
        self._now = now

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        """Publish one edge (T4 to T11); every failure becomes one of the outcomes."""
        try:
            key = self._issues.key(ticket.key)
            async with self._memory.lock(key), self._lock(ticket.id, deadline=move.deadline) as until:
                return await self._publish(key, ticket, replace(move, deadline=min(move.deadline, until)))
        except Overtaken as overtaken:
            return LostRace(overtaken.ticket)
        except TrackerError as error:
            return outcome_of(error)

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        """Leave the label of `keep` only (T12); nothing is written if the statuses changed since `ticket` was read.

        The caller chose `keep` from what it saw: a `done` that appeared since must not be swept away (P4).
        """
        key = self._issues.key(ticket.key)
        async with self._memory.lock(key), self._lock(ticket.id, deadline=deadline) as until:
            deadline = min(deadline, until)
            wanted = self._labels.lifecycle(ticket.labels)
            seen = await self._issues.read(key, deadline=deadline)
            for _ in range(TRIES):
                if self._labels.lifecycle(seen.labels) != wanted:
                    return seen
                todo = only(self._labels, seen.labels, keep)
                if todo.nothing:
                    return seen
                after = await self._issues.write_labels(seen, todo.adding, todo.remove, None, deadline=deadline)
                if after is not None and only(self._labels, after.labels, keep).nothing:
                    return after
                if after is not None and after.labels == seen.labels:
                    raise _ignored(todo.add or todo.remove[0])
                seen = after or await self._issues.read(key, deadline=deadline)
            raise _kept_changing(key)

    async def relabel(self, ticket: Ticket, wanted: Foreign, *, deadline: float) -> Ticket:
        """Add and remove labels that are not ours (T17); what is so already is not written."""
        key = self._issues.key(ticket.key)
        async with self._memory.lock(key), self._lock(ticket.id, deadline=deadline):
            seen = await self._issues.read(key, deadline=deadline)
            for _ in range(TRIES):
                todo = wanted.left(seen.labels, exact=True)
                if todo.nothing:
                    return seen
                after = await self._issues.write_labels(seen, todo.add, todo.remove, None, deadline=deadline)
                if after is not None and after.labels == seen.labels:
                    raise _ignored((*todo.add, *todo.remove)[0])
                seen = after or await self._issues.read(key, deadline=deadline)
            if wanted.left(seen.labels, exact=True).nothing:
                return seen
            raise _kept_changing(key)

    async def _publish(self, key: str, ticket: Ticket, move: Move) -> MoveOutcome:
        known = self._memory.is_current(snapshot_of(ticket), self._now())
        seen = ticket if known else await self._issues.read(key, deadline=move.deadline)
        todo = plan(self._labels, seen.labels, move)
        if isinstance(todo, type) and known:
            seen = await self._issues.read(key, deadline=move.deadline)
            todo = plan(self._labels, seen.labels, move)
        if isinstance(todo, type):
            return todo(seen)
        claim = Claim.fresh(move.run, move.fence, move.to)
        if self._workflow is not None:
            seen = await self._workflow.advance(seen, move, claim)
        for _ in range(TRIES):
            todo = plan(self._labels, seen.labels, move)
            if isinstance(todo, type):
                return todo(seen)
            after = await self._issues.write_labels(seen, todo.adding, todo.remove, claim, deadline=move.deadline)
            if after is not None and (outcome := self._outcome(seen, after, todo, move, claim)) is not None:
                return outcome
            # A conflict, or an answer in which somebody else's edit is half mixed with ours: look, and decide anew.
            log.warning("Jira mixed our label write with another edit; trying again", ticket=seen.id)
            seen = after or await self._issues.read(key, deadline=move.deadline)
        raise _kept_changing(key)

    def _outcome(
        self, seen: Ticket, after: Ticket, todo: Relabel, move: Move, claim: Claim
    ) -> Applied | LostRace | None:
        """What the labels after our write say; None when they are neither what we wrote nor what was there."""
        shown = snapshot_of(after)
        if shown is not None and shown.claim is not None and not claim.made(shown.claim):
            return LostRace(after)  # the token is somebody else's: they wrote right after us
        if self._labels.statuses(after.labels) - {move.expect, move.to}:
            return LostRace(after)
        if plan(self._labels, after.labels, move) is AlreadySo and _gone(todo, after):
            return Applied(after)
        if after.labels == seen.labels:
            raise _ignored(todo.add or todo.remove[0])
        return None


def _gone(todo: Relabel, after: Ticket) -> bool:
    return not any(name in after.labels for name in todo.remove)


def _ignored(label: str) -> IgnoredWrite:
    return IgnoredWrite(
        f"Jira accepted the edit, but did not change the label {label}: the account may not edit issues, "
        "or the field is not on the edit screen"
    )


def _kept_changing(key: str) -> TrackerUnavailable:
    return TrackerUnavailable(f"Jira: {key} kept changing; its labels were not written in {TRIES} tries")
