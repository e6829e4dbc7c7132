"""What this process remembers about single issues, so that it need not ask again. Forgetting is always safe."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from agentsmith.bounded import Bounded
from agentsmith.trackers.github.payloads import Snapshot

_MOST: Final = 1000
FRESH: Final = 60.0
"""Seconds for which a read may stand in for another one, where only we wrote since."""


@dataclass(slots=True)
class Note:
    """What is known of one issue."""

    latest: Snapshot | None = None
    """The newest state that this process has seen or written."""
    commented: bool = False
    """Whether we wrote our comment since `latest`: its ETag is stale then, by our own doing."""
    comment: int | None = None
    """Our comment, once we have written it or seen that it is ours."""
    comment_in_doubt: bool = False
    """A comment was sent and its answer was lost: look before sending another."""


class Notes:
    """Notes by issue number, the oldest dropped first; and one lock per issue, because GitHub loses parallel writes."""

    def __init__(self) -> None:
        self._notes: Bounded[str, Note] = Bounded(_MOST)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, number: str) -> asyncio.Lock:
        """Held around every write to the issue."""
        return self._locks.setdefault(number, asyncio.Lock())

    def of(self, number: str) -> Note:
        """The note of an issue, empty at first."""
        note = self._notes.setdefault(number, Note())
        self._notes.move_to_end(number)
        return note

    def saw(self, snapshot: Snapshot) -> None:
        """This is how the issue is now."""
        note = self.of(snapshot.number)
        note.latest, note.commented = snapshot, False

    def doubt(self, number: str) -> None:
        """Nobody knows how the issue is now."""
        self.of(number).latest = None

    def stands(self, snapshot: Snapshot | None, now: float) -> bool:
        """Whether reading again would tell this process nothing that the next write's own answer does not tell.

        So it is for what our own last write left behind, and for a fresh read that only our comment made stale.
        """
        if snapshot is None:
            return False
        note = self.of(snapshot.number)
        if note.latest is not snapshot:
            return False
        return snapshot.verified or (note.commented and now - snapshot.read_at < FRESH)

    def bare(self, snapshot: Snapshot | None, now: float) -> bool:
        """Whether the issue certainly has no comment yet, so that ours need not be looked for.

        Only between our own label write and the comment that follows it: whoever holds an older read must look.
        """
        if snapshot is None or not snapshot.verified or snapshot.comments != 0:
            return False
        note = self.of(snapshot.number)
        fresh = note.latest is snapshot and not note.commented and now - snapshot.read_at < FRESH
        return fresh and not note.comment_in_doubt and note.comment is None
