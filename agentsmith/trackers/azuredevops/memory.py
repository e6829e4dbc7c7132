"""What this process remembers about single work items, so that it need not ask again. Forgetting is always safe.

Our own comment changes the revision of its work item, and no answer tells the new one. Without help the next move would
be refused, read, and sent again. So it is worked out: what was last seen, plus what an edit adds. How much that is, is
not taken from anybody's word but learned by looking once; and it counts only for edits by this process, with nothing
read or written in between. Wherever the sum is wrong the service refuses the move, and the work item is read after all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from agentsmith.bounded import Bounded
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.azuredevops.payloads import Snapshot

FRESH: Final = 60.0
"""Seconds for which "there is no comment yet" is believed after our own write showed it."""
_MOST: Final = 1000


@dataclass(slots=True)
class Trace:
    """What is known of one work item."""

    latest: Snapshot | None = None
    """The newest state that this process has read or written."""
    edits: int = 0
    """How often we edited our comment since."""
    blurred: bool = False
    """Something else was written since, or may have been: only a look can tell the revision."""
    writing: bool = False
    wrote_at: float = 0.0
    """When our last comment was on record, on the boot-time clock."""
    comment: int | None = None
    """Our comment, once we have written it or seen that it is ours."""
    author: str = ""
    """The account that our comment shows: ours."""
    said: Sticky | None = None
    """What our comment says, where it was made together with a move."""
    in_doubt: bool = False
    """A comment was sent and its answer was lost: look before sending another."""


class Memory:
    """Traces by id, the oldest dropped first; and one lock per work item, so that our own writes do not collide."""

    def __init__(self) -> None:
        self._traces: Bounded[str, Trace] = Bounded(_MOST)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._per_edit: int | None = None
        """How many revisions an edit of a comment makes; None until one was watched."""

    def lock(self, number: str) -> asyncio.Lock:
        """Held around every write to the work item."""
        return self._locks.setdefault(number, asyncio.Lock())

    def of(self, number: str) -> Trace:
        """The trace of a work item, empty at first."""
        trace = self._traces.setdefault(number, Trace())
        self._traces.move_to_end(number)
        return trace

    def saw(self, snapshot: Snapshot) -> None:
        """This is how the work item is now; not believed of a read that a comment of ours may have overtaken."""
        trace = self.of(snapshot.number)
        if not trace.writing and snapshot.read_at > trace.wrote_at:
            trace.latest, trace.edits, trace.blurred = snapshot, 0, False

    def doubt(self, number: str) -> None:
        """Nobody knows how the work item is now."""
        trace = self.of(number)
        trace.latest, trace.edits, trace.blurred = None, 0, False

    @contextmanager
    def commenting(self, number: str, *, edit: bool, now: Callable[[], float]) -> Iterator[None]:
        """Around the request that makes or edits our comment; only an edit that was answered is certain."""
        trace = self.of(number)
        trace.writing = True
        known = False
        try:
            yield
            known = edit
        finally:
            trace.writing, trace.wrote_at = False, now()
            trace.edits += known
            trace.blurred |= not known

    def revision(self, snapshot: Snapshot) -> int | None:
        """The revision that the work item has if nobody else wrote since `snapshot`; None where a look must tell."""
        trace = self.of(snapshot.number)
        if trace.latest is not snapshot:
            return snapshot.rev  # older than what we know, or somebody else's: the service will tell
        if trace.blurred or (trace.edits and self._per_edit is None):
            return None
        return snapshot.rev + trace.edits * (self._per_edit or 0)

    def edits_since(self, snapshot: Snapshot) -> int:
        """How many edits, and nothing else of ours, came after `snapshot`."""
        trace = self.of(snapshot.number)
        return trace.edits if trace.latest is snapshot and not trace.blurred else 0

    def compare(self, before: Snapshot, edits: int, after: Snapshot) -> None:
        """Learn what an edit does to the revision, from two looks with so many of our own edits in between."""
        grown, author = after.rev - before.rev, self.of(before.number).author
        if grown == 0:
            self._per_edit = 0
        elif grown == edits and author and after.changed_by == author and set(before.tags) == set(after.tags):
            self._per_edit = 1

    def just_said(self, snapshot: Snapshot | None) -> Sticky | None:
        """Our comment, if it was made by the very move that left the ticket like this."""
        if snapshot is None:
            return None
        trace = self.of(snapshot.number)
        return trace.said if trace.latest is snapshot else None

    def silent(self, snapshot: Snapshot) -> bool:
        """Whether nobody had commented when this was read, as far as anybody can tell."""
        trace = self.of(snapshot.number)
        return snapshot.comments == 0 and not trace.in_doubt and trace.comment is None

    def bare(self, snapshot: Snapshot | None, now: float) -> bool:
        """Whether the work item certainly has no comment yet, so that ours need not be looked for.

        Only between our own tag write and the comment that follows it: whoever holds an older read must look.
        """
        if snapshot is None or not snapshot.verified or snapshot.comments != 0:
            return False
        trace = self.of(snapshot.number)
        fresh = trace.latest is snapshot and not trace.blurred and now - snapshot.read_at < FRESH
        return fresh and not trace.in_doubt and trace.comment is None
