"""What this process remembers about single work items, so that it need not ask again. Forgetting is always safe."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.azuredevops.payloads import Snapshot

FRESH: Final = 60.0
"""Seconds for which "there is no comment yet" is believed after our own write showed it."""
_MOST: Final = 10_000


@dataclass(slots=True)
class Trace:
    """What is known of one work item."""

    latest: Snapshot | None = None
    """What Azure DevOps answered to our own last write."""
    comment: int | None = None
    """Our comment, once we have written it or seen that it is ours."""
    said: Sticky | None = None
    """What our comment says, where it was made together with a move."""
    in_doubt: bool = False
    """A comment was sent and its answer was lost: look before sending another."""


class Memory:
    """Traces by id, the oldest dropped first; and one lock per work item, so that our own writes do not collide."""

    def __init__(self) -> None:
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, number: str) -> asyncio.Lock:
        """Held around every write to the work item."""
        return self._locks.setdefault(number, asyncio.Lock())

    def of(self, number: str) -> Trace:
        """The trace of a work item, empty at first."""
        trace = self._traces.setdefault(number, Trace())
        self._traces.move_to_end(number)
        if len(self._traces) > _MOST:
            self._traces.popitem(last=False)
        return trace

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
        fresh = trace.latest is snapshot and now - snapshot.read_at < FRESH
        return fresh and not trace.in_doubt and trace.comment is None
