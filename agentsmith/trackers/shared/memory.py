"""What a process remembers about single tickets, so that it need not ask again. Forgetting is always safe."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakValueDictionary

from agentsmith.bounded import Bounded

_MOST: Final = 1000
BARE_FOR: Final = 60.0
"""Seconds after our label write for which "nobody has commented" is believed."""


class Look(Protocol):
    """What one look at a ticket showed; travels in `Ticket.native`."""

    @property
    def key(self) -> str:
        """The ticket's key."""

    @property
    def comments(self) -> int | None:
        """How many comments there were; None when that is not known."""

    @property
    def read_at(self) -> float:
        """When, on the boot-time clock."""

    @property
    def verified(self) -> bool:
        """Whether this is what the platform answered to our own write."""


@dataclass(slots=True)
class Trace:
    """What is known of one ticket."""

    latest: Look | None = None
    """The newest state that this process has read or written."""
    comment: str | None = None
    """Our comment, once we have written it or seen that it is ours."""
    in_doubt: bool = False
    """A comment was sent and its answer was lost: look before sending another."""


class Memory:
    """Traces by key, the oldest dropped first; and one lock per ticket, because parallel writes lose labels."""

    def __init__(self, *, trust: float) -> None:
        self._trust = trust
        """Seconds for which a read stands for the look right before a write."""
        self._traces: Bounded[str, Trace] = Bounded(_MOST)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: str) -> asyncio.Lock:
        """Held around every write to the ticket."""
        return self._locks.setdefault(key, asyncio.Lock())

    def of(self, key: str) -> Trace:
        """The trace of a ticket, empty at first."""
        trace = self._traces.setdefault(key, Trace())
        self._traces.move_to_end(key)
        return trace

    def saw(self, look: Look) -> None:
        """This is how the ticket is now."""
        self.of(look.key).latest = look

    def doubt(self, key: str) -> None:
        """Nobody knows how the ticket is now."""
        self.of(key).latest = None

    def stands(self, look: Look | None, now: float) -> bool:
        """Whether a write may start from this without another look.

        So it is for what our own last write left behind, and for a read that is some seconds old at most, if this
        process has seen nothing newer.
        """
        if look is None or self.of(look.key).latest is not look:
            return False
        return look.verified or now - look.read_at < self._trust

    def bare(self, look: Look | None, now: float) -> bool:
        """Whether the ticket certainly has no comment yet, so that ours need not be looked for.

        Only right after our own label write: whoever holds an older read must look.
        """
        if look is None or not look.verified or look.comments != 0:
            return False
        trace = self.of(look.key)
        fresh = trace.latest is look and now - look.read_at < BARE_FOR
        return fresh and not trace.in_doubt and trace.comment is None
