"""Publishing an edge on Azure DevOps: one patch, all or nothing, refused by the service if anybody wrote meanwhile.

This is a true compare-and-set, so nothing is read before the write: the patch tests the revision that the caller read.
A refusal (412, or 409 when the race is lost at the last moment) says only that somebody changed something, a comment
for instance. Then the work item is read again, and the same question is asked of what it shows now: written again if
it still shows `expect`, lost if it does not. "Nothing to write" is never answered from an old read (T4, T5).
"""

from __future__ import annotations

import dataclasses
from typing import Final

from agentsmith.domain.errors import TrackerError, TrackerUnavailable
from agentsmith.domain.foreign import Foreign
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Applied, Move, MoveOutcome
from agentsmith.trackers.azuredevops import tags
from agentsmith.trackers.azuredevops.comment_format import CommentFormat, CommentInMove
from agentsmith.trackers.azuredevops.items import Items
from agentsmith.trackers.azuredevops.memory import ItemMemory
from agentsmith.trackers.azuredevops.payloads import Snapshot, snapshot_of
from agentsmith.trackers.http import Pace
from agentsmith.trackers.shared.outcomes import outcome_of

TRIES: Final = 5
"""How often a write is tried on a work item that keeps changing."""


class Moves:
    """Moves tickets of one project along their edges."""

    def __init__(self, *, items: Items, labels: LabelSet, form: CommentFormat, memory: ItemMemory, pace: Pace) -> None:
        self._items = items
        self._form = form
        self._labels = labels
        self._memory = memory
        self._pace = dataclasses.replace(pace, first_delay=min(pace.first_delay, 0.1), longest_delay=1.0)

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        """Publish one edge (T4 to T11); every failure becomes one of the outcomes.

        The words of a move travel in the same patch where nobody has commented yet (T18).
        """
        comment = self._form.for_move(move.say) if move.say else None
        try:
            async with self._memory.lock(self._items.key(ticket.key)):
                return await self._publish(ticket, move, comment)
        except TrackerError as error:
            return outcome_of(error)

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        """Leave the tag of `keep` only (T12); nothing is written if the statuses changed since `ticket` was read.

        The caller chose `keep` from what it saw: a `done` that appeared since must not be swept away (P4).
        """
        number = self._items.key(ticket.key)
        async with self._memory.lock(number):
            wanted = self._labels.lifecycle(ticket.labels)
            for failures in range(1, TRIES + 1):
                seen, shown = await self._look(ticket, deadline)
                if not tags.same(self._labels.lifecycle(seen.labels), wanted):
                    return seen
                left = tags.only(self._labels, shown.tags, keep)
                if left == shown.tags:
                    return seen
                after = await self._items.relabel(seen, shown, left, rev=shown.rev, deadline=deadline)
                if after is not None:
                    return after
                await self._pause(failures, deadline)
            raise TrackerUnavailable(_kept_changing(number))

    async def relabel(self, ticket: Ticket, wanted: Foreign, *, deadline: float) -> Ticket:
        """Add and remove tags that are not ours, under the test of the revision (T17)."""
        number = self._items.key(ticket.key)
        async with self._memory.lock(number):
            for failures in range(1, TRIES + 1):
                seen, shown = await self._look(ticket, deadline)
                todo = wanted.left(shown.tags)
                if todo.nothing:
                    return seen
                left = tags.changed(shown.tags, todo)
                after = await self._items.relabel(seen, shown, left, rev=shown.rev, deadline=deadline)
                if after is not None:
                    return after
                await self._pause(failures, deadline)
            raise TrackerUnavailable(_kept_changing(number))

    async def _publish(self, ticket: Ticket, move: Move, comment: CommentInMove | None) -> MoveOutcome:
        seen, shown, rev = await self._start(ticket, move)
        for failures in range(1, TRIES + 1):
            todo = tags.plan(self._labels, shown.tags, move)
            if isinstance(todo, type):
                return todo(seen)
            after = await self._items.relabel(seen, shown, todo, rev=rev, deadline=move.deadline, comment=comment)
            if after is not None:
                return Applied(after)
            if failures > 1:
                await self._pause(failures - 1, move.deadline)
            seen, shown = await self._look(seen, move.deadline)
            rev = shown.rev
        raise TrackerUnavailable(_kept_changing(ticket.key))

    async def _start(self, ticket: Ticket, move: Move) -> tuple[Ticket, Snapshot, int]:
        """The ticket to start from and its revision: as the caller read it, wherever a write can follow from that."""
        shown = snapshot_of(ticket)
        if shown is not None and not isinstance(tags.plan(self._labels, shown.tags, move), type):
            rev = self._memory.revision(shown)
            if rev is not None:
                return ticket, shown, rev
        edits = 0 if shown is None else self._memory.edits_since(shown)
        seen, fresh = await self._look(ticket, move.deadline)
        if shown is not None and edits:
            self._memory.compare(shown, edits, fresh)
        return seen, fresh, fresh.rev

    async def _look(self, ticket: Ticket, deadline: float) -> tuple[Ticket, Snapshot]:
        seen = await self._items.read(ticket.key, deadline=deadline)
        shown = snapshot_of(seen)
        assert shown is not None  # noqa: S101 - every ticket that is read has one
        return seen, shown

    async def _pause(self, failures: int, deadline: float) -> None:
        """Wait a little, with jitter: two writers that march in step would disturb each other for ever."""
        delay = self._pace.delay(failures)
        if self._pace.now() + delay < deadline:
            await self._pace.sleep(delay)


def _kept_changing(number: str) -> str:
    return f"Azure DevOps: work item {number} kept changing; it was not written in {TRIES} tries"
