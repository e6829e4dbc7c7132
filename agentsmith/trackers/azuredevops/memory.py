"""What this process remembers about single work items: what every tracker does, and which revision they have.

Our own comment changes the revision of its work item, and no answer tells the new one. Without help the next move would
be refused, read, and sent again. So it is worked out: what was last seen, plus what an edit adds. How much that is, is
not taken from anybody's word but learned by looking once; and it counts only for edits by this process, with nothing
read or written in between. Wherever the sum is wrong the service refuses the move, and the work item is read after all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.azuredevops.payloads import Snapshot
from agentsmith.trackers.shared import memory
from agentsmith.trackers.shared.memory import RememberedTicket, TicketMemory


@dataclass(slots=True)
class RememberedItem(RememberedTicket):
    """What is remembered of one work item."""

    edits: int = 0
    """How often we edited our comment since `latest`."""
    uncertain: bool = False
    """Something else was written since, or may have been: only a look can tell the revision."""
    writing: bool = False
    wrote_at: float = 0.0
    """When our last comment was on record, on the boot-time clock."""
    author: str = ""
    """The account that our comment shows: ours."""
    said: Sticky | None = None
    """What our comment says, where it was made together with a move."""


class ItemMemory(TicketMemory[RememberedItem]):
    """What is remembered by id of a work item."""

    def __init__(self) -> None:
        super().__init__(RememberedItem)
        self._per_edit: int | None = None
        """How many revisions an edit of a comment makes; None until one was watched."""

    def remember(self, snapshot: memory.Snapshot) -> None:
        """This is how the work item is now; not believed of a read that a comment of ours may have overtaken."""
        item = self.of(snapshot.key)
        if not item.writing and snapshot.read_at > item.wrote_at:
            item.latest, item.edits, item.uncertain = snapshot, 0, False

    def forget_state(self, key: str) -> None:
        """Nobody knows how the work item is now."""
        item = self.of(key)
        item.latest, item.edits, item.uncertain = None, 0, False

    def commented(self, key: str, comment: str) -> None:
        """Our comment was written: it is the one with this id."""
        super().commented(key, comment)
        self.of(key).said = None

    def comment_gone(self, key: str) -> None:
        """The comment that we took for ours is not there any more."""
        super().comment_gone(key)
        self.of(key).said = None

    @contextmanager
    def commenting(self, number: str, *, edit: bool, now: Callable[[], float]) -> Iterator[None]:
        """Around the request that makes or edits our comment; only an edit that was answered is certain."""
        item = self.of(number)
        item.writing = True
        known = False
        try:
            yield
            known = edit
        finally:
            item.writing, item.wrote_at = False, now()
            item.edits += known
            item.uncertain |= not known

    def revision(self, snapshot: Snapshot) -> int | None:
        """The revision that the work item has if nobody else wrote since `snapshot`; None where a look must tell."""
        item = self.of(snapshot.key)
        if item.latest is not snapshot:
            return snapshot.rev  # older than what we know, or somebody else's: the service will tell
        if item.uncertain or (item.edits and self._per_edit is None):
            return None
        return snapshot.rev + item.edits * (self._per_edit or 0)

    def edits_since(self, snapshot: Snapshot) -> int:
        """How many edits, and nothing else of ours, came after `snapshot`."""
        item = self.of(snapshot.key)
        return item.edits if item.latest is snapshot and not item.uncertain else 0

    def compare(self, before: Snapshot, edits: int, after: Snapshot) -> None:
        """Learn what an edit does to the revision, from two looks with so many of our own edits in between."""
        grown, author = after.rev - before.rev, self.of(before.key).author
        if grown == 0:
            self._per_edit = 0
        elif grown == edits and author and after.changed_by == author and set(before.tags) == set(after.tags):
            self._per_edit = 1

    def just_said(self, snapshot: Snapshot | None) -> Sticky | None:
        """Our comment, if it was made by the very move that left the ticket like this."""
        if snapshot is None:
            return None
        item = self.of(snapshot.key)
        return item.said if item.latest is snapshot else None

    def nobody_commented(self, snapshot: Snapshot) -> bool:
        """Whether nobody had commented when this was read, as far as anybody can tell."""
        item = self.of(snapshot.key)
        return snapshot.comments == 0 and not item.in_doubt and item.comment is None

    def has_no_comment(self, snapshot: memory.Snapshot | None, now: float) -> bool:
        """Whether the work item certainly has no comment yet, so that ours need not be looked for."""
        return super().has_no_comment(snapshot, now) and snapshot is not None and not self.of(snapshot.key).uncertain
