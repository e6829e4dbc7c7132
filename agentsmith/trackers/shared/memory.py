"""What a process remembers about single tickets, so that it need not ask again. Forgetting is always safe."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from agentsmith.bounded import Bounded

_MOST: Final = 1000
BELIEVED_FOR: Final = 60.0
"""Seconds after our own write for which "nobody has commented" is believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a read, or the answer to our own write, showed beside the ticket itself; travels in `Ticket.native`."""

    key: str
    comments: int | None = None
    """How many comments there were; None when that is not known."""
    read_at: float = 0.0
    """On the boot-time clock."""
    verified: bool = False
    """Whether this is what the platform answered to our own last write."""


@dataclass(slots=True)
class RememberedTicket:
    """What is remembered of one ticket."""

    latest: Snapshot | None = None
    """The newest state that this process has read or written."""
    comment: str | None = None
    """The id of our comment, once we have written it or seen that it is ours."""
    in_doubt: bool = False
    """A comment was sent and its answer was lost: look before sending another."""


R = TypeVar("R", bound=RememberedTicket)


class TicketMemory(Generic[R]):
    """What is remembered by key, the oldest dropped first; and one lock per ticket, so that our writes never overlap.

    Platforms that need to know more bring a `RememberedTicket` of their own.
    """

    def __init__(self, kind: type[R], *, trust_reads: float = 0.0) -> None:
        """`trust_reads`: seconds for which a read stands for the look right before a write."""
        self._kind = kind
        self._trust_reads = trust_reads
        self._tickets: Bounded[str, R] = Bounded(_MOST)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: str) -> asyncio.Lock:
        """Held around every write to the ticket."""
        return self._locks.setdefault(key, asyncio.Lock())

    def of(self, key: str) -> R:
        """What is remembered of a ticket, nothing at first."""
        ticket = self._tickets.setdefault(key, self._kind())
        self._tickets.move_to_end(key)
        return ticket

    def remember(self, snapshot: Snapshot) -> None:
        """This is how the ticket is now."""
        self.of(snapshot.key).latest = snapshot

    def forget_state(self, key: str) -> None:
        """Nobody knows how the ticket is now."""
        self.of(key).latest = None

    def commented(self, key: str, comment: str) -> None:
        """Our comment was written: it is the one with this id."""
        ticket = self.of(key)
        ticket.comment, ticket.in_doubt = comment, False

    def comment_gone(self, key: str) -> None:
        """The comment that we took for ours is not there any more."""
        self.of(key).comment = None

    def is_current(self, snapshot: Snapshot | None, now: float) -> bool:
        """Whether a write may start from this without another look.

        So it is for what our own last write left behind, and for a read that is some seconds old at most, if this
        process has seen nothing newer.
        """
        if snapshot is None or self.of(snapshot.key).latest is not snapshot:
            return False
        return snapshot.verified or now - snapshot.read_at < self._trust_reads

    def has_no_comment(self, snapshot: Snapshot | None, now: float) -> bool:
        """Whether the ticket certainly has no comment yet, so that ours need not be looked for.

        Only right after our own label write: whoever holds an older read must look.
        """
        if snapshot is None or not snapshot.verified or snapshot.comments != 0:
            return False
        ticket = self.of(snapshot.key)
        fresh = ticket.latest is snapshot and now - snapshot.read_at < BELIEVED_FOR
        return fresh and not ticket.in_doubt and ticket.comment is None
