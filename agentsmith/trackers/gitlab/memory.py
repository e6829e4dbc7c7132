"""What this process remembers about single issues, so that it need not ask again. Forgetting is always safe."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from agentsmith.trackers.gitlab.payloads import Snapshot

_MOST: Final = 10_000
BARE_FOR: Final = 60.0
"""Seconds after our label write for which "nobody has commented" is believed."""


@dataclass(slots=True)
class Trace:
    """What is known of one issue."""

    latest: Snapshot | None = None
    """The newest state that this process has read or written."""
    note: int | None = None
    """Our comment, once we have written it or seen that it is ours."""
    in_doubt: bool = False
    """A comment was sent and its answer was lost: look before sending another."""


class Memory:
    """Traces by issue, the oldest dropped first; and one lock per issue, because parallel writes lose labels."""

    def __init__(self, *, trust: float) -> None:
        self._trust = trust
        """Seconds for which a read stands for the look right before a write."""
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, iid: str) -> asyncio.Lock:
        """Held around every write to the issue."""
        return self._locks.setdefault(iid, asyncio.Lock())

    def of(self, iid: str) -> Trace:
        """The trace of an issue, empty at first."""
        trace = self._traces.setdefault(iid, Trace())
        self._traces.move_to_end(iid)
        if len(self._traces) > _MOST:
            self._traces.popitem(last=False)
        return trace

    def saw(self, snapshot: Snapshot) -> None:
        """This is how the issue is now."""
        self.of(snapshot.iid).latest = snapshot

    def doubt(self, iid: str) -> None:
        """Nobody knows how the issue is now."""
        self.of(iid).latest = None

    def stands(self, snapshot: Snapshot | None, now: float) -> bool:
        """Whether a write may start from this without another look.

        So it is for what our own last write left behind, and for a read that is some seconds old at most, if this
        process has seen nothing newer.
        """
        if snapshot is None or self.of(snapshot.iid).latest is not snapshot:
            return False
        return snapshot.verified or now - snapshot.read_at < self._trust

    def bare(self, snapshot: Snapshot | None, now: float) -> bool:
        """Whether the issue certainly has no comment yet, so that ours need not be looked for.

        Only right after our own label write: whoever holds an older read must look.
        """
        if snapshot is None or not snapshot.verified or snapshot.notes != 0:
            return False
        trace = self.of(snapshot.iid)
        fresh = trace.latest is snapshot and now - snapshot.read_at < BARE_FOR
        return fresh and not trace.in_doubt and trace.note is None
