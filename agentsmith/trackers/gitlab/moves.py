"""Publishing an edge on GitLab: one PUT that adds `to` and removes `expect`, and the labels in its answer.

GitLab has no conditional writes, and no read is free. Add and remove are one transaction, so the ticket is never
without its state (T8); the answer shows all labels, so whatever somebody did meanwhile shows up after the write. A
write starts from what our own last write left behind, or from a read that is a few seconds old; anything older is
read again, and "nothing to write" is never believed without a fresh look (T4, T5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from agentsmith.domain.errors import TrackerError, TrackerUnavailable
from agentsmith.domain.foreign import Foreign
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Applied, LostRace, Move, MoveOutcome
from agentsmith.trackers.gitlab.issues import Issues
from agentsmith.trackers.gitlab.payloads import snapshot_of
from agentsmith.trackers.gitlab.spelling import Spelling
from agentsmith.trackers.shared.memory import TicketMemory
from agentsmith.trackers.shared.outcomes import IgnoredWrite, outcome_of
from agentsmith.trackers.shared.relabel import Relabel, only, plan

log = structlog.get_logger()

_TRIES: Final = 2
"""How often labels are written that somebody else's write took away at once."""


class Moves:
    """Moves tickets of one project along their edges, one write at a time per issue."""

    def __init__(
        self, *, issues: Issues, spelling: Spelling, memory: TicketMemory[Any], now: Callable[[], float]
    ) -> None:
        self._issues = issues
        self._spelling = spelling
        self._memory = memory
        self._now = now

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        """Publish one edge (T4 to T11); every failure becomes one of the outcomes."""
        try:
            iid = self._issues.key(ticket.key)
            async with self._memory.lock(iid):
                return await self._publish(iid, ticket, move)
        except TrackerError as error:
            return outcome_of(error)

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        """Leave the label of `keep` only (T12); nothing is written if the statuses changed since `ticket` was read.

        The caller chose `keep` from what it saw: a `done` that appeared since must not be swept away (P4).
        """
        iid = self._issues.key(ticket.key)
        async with self._memory.lock(iid):
            seen = await self._issues.read(iid, deadline=deadline)
            labels = self._spelling.labels
            if labels.lifecycle(seen.labels) != labels.lifecycle(ticket.labels):
                return seen
            todo = only(self._spelling, _shown(seen), keep)
            return seen if todo.nothing else await self._write(iid, seen, todo, deadline)

    async def relabel(self, ticket: Ticket, wanted: Foreign, *, deadline: float) -> Ticket:
        """Add and remove labels that are not ours (T17); what is so already is not written."""
        iid = self._issues.key(ticket.key)
        async with self._memory.lock(iid):
            seen = await self._issues.read(iid, deadline=deadline)
            for _ in range(_TRIES):
                todo = wanted.left(_shown(seen), exact=True)
                if todo.nothing:
                    return seen
                after = await self._issues.write_labels(iid, todo.add, todo.remove, deadline=deadline)
                if _shown(after) == _shown(seen):
                    raise IgnoredWrite("GitLab answered 200, but changed no label: the token may not write labels")
                seen = after
            if wanted.left(_shown(seen), exact=True).nothing:
                return seen
            raise TrackerUnavailable(f"GitLab: issue {iid} kept changing; its labels were not written")

    async def _publish(self, iid: str, ticket: Ticket, move: Move) -> MoveOutcome:
        known = self._memory.is_current(snapshot_of(ticket), self._now())
        seen = ticket if known else await self._issues.read(iid, deadline=move.deadline)
        todo = plan(self._spelling, _shown(seen), move)
        if isinstance(todo, type) and known:
            seen = await self._issues.read(iid, deadline=move.deadline)
            todo = plan(self._spelling, _shown(seen), move)
        if isinstance(todo, type):
            return todo(seen)
        after = await self._write(iid, seen, todo, move.deadline, move)
        if self._shows_other_status(after, move):
            return LostRace(await self._withdrawn(iid, after, todo, move))
        return Applied(after)

    async def _withdrawn(self, iid: str, after: Ticket, todo: Relabel, move: Move) -> Ticket:
        """Take our label off again where somebody else's status stands: theirs was there first."""
        if todo.add is None or not _has(after, todo.add):
            return after
        try:
            return await self._issues.write_labels(iid, (), todo.adding, deadline=move.deadline)
        except TrackerError as error:
            log.warning("two statuses were left on a ticket", ticket=after.id, error=str(error))
            return after

    async def _write(self, iid: str, seen: Ticket, todo: Relabel, deadline: float, move: Move | None = None) -> Ticket:
        """Write and verify; a label that survived its removal is removed once more. A 200 in vain: IgnoredWrite."""
        after = await self._issues.write_labels(iid, todo.adding, todo.remove, deadline=deadline)
        if move is not None and self._shows_other_status(after, move):
            return after
        if todo.add is not None and not _has(after, todo.add):
            raise IgnoredWrite(
                f"GitLab answered 200, but did not add the label {todo.add}: the token may not write labels"
            )
        left = tuple(name for name in todo.remove if name in _shown(after))
        if not left:
            return after
        if _shown(after) != _shown(seen):
            # Seen with scoped labels, and with two writers at once: the old one sometimes comes back.
            log.warning("GitLab kept a label that was to go; removing it again", ticket=seen.id, labels=left)
            after = await self._issues.write_labels(iid, (), left, deadline=deadline)
        if any(name in _shown(after) for name in left):
            raise IgnoredWrite(
                f"GitLab answered 200, but the label {left[0]} is still there: the token may not write labels"
            )
        return after

    def _shows_other_status(self, after: Ticket, move: Move) -> bool:
        """Whether the labels show a status that this move knows nothing of."""
        return bool(self._spelling.statuses(_shown(after)) - {move.expect, move.to})


def _shown(ticket: Ticket) -> frozenset[str]:
    """The labels as spelled on GitLab."""
    snapshot = snapshot_of(ticket)
    return ticket.labels if snapshot is None else snapshot.shown


def _has(ticket: Ticket, label: str) -> bool:
    folded = label.casefold()
    return any(name.casefold() == folded for name in _shown(ticket))
