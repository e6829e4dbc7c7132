"""Publishing an edge on GitHub: check, add `to`, verify, remove `expect`, verify.

GitHub has no conditional writes on issues (it answers 400), so the check is made where it is free: a conditional GET
right before the write costs no quota while nothing changed. The claim edge is always checked so. A later edge that
starts from the state which our own last write left behind is not read again: the answer to the POST shows every label
that is there at that moment, so whatever somebody did meanwhile shows up before anything is removed.

Requests per edge that count: pending → enqueued 1 (the label to remove is usually not there), enqueued → in-progress
1 by GraphQL or else 2, every other edge 2. GraphQL may remove although its add failed. Where the work has not begun,
a ticket without a label says just that (pending), so those edges may use it; a finished run must never look as if it
had not begun, so the others add first, look, and then remove.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import structlog

from agentsmith.domain.errors import (
    BadAnswer,
    RateLimited,
    Refused,
    TicketNotFound,
    TrackerError,
    TrackerUnavailable,
    Unauthorized,
)
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import (
    AlreadySo,
    Applied,
    Forbidden,
    Gone,
    Limited,
    LostRace,
    Move,
    MoveOutcome,
    Unknown,
)
from agentsmith.trackers.github.claims import ClaimRefs
from agentsmith.trackers.github.issues import Issues, snapshot_of
from agentsmith.trackers.github.labels import Labels, LabelWriter
from agentsmith.trackers.github.notes import Notes
from agentsmith.trackers.github.payloads import Snapshot

log = structlog.get_logger()

CLAIM: Final = (Status.PENDING, Status.ENQUEUED)
_NOT_BEGUN: Final = frozenset({CLAIM, (Status.ENQUEUED, Status.IN_PROGRESS)})
"""Edges on which a ticket that lost its label altogether would rightly be taken for pending."""


@dataclass(frozen=True, slots=True)
class Relabel:
    """What has to be written: add first, then remove (T8)."""

    add: str | None
    remove: tuple[str, ...]


class Overtaken(Exception):
    """Somebody else's status turned up in an answer; carries what the issue shows."""

    def __init__(self, labels: Labels) -> None:
        super().__init__()
        self.labels = labels


class Dropped(Exception):
    """GitHub answered 200 and did not do it: the token may not write labels."""


def plan(labels: LabelSet, shown: frozenset[str], move: Move) -> Relabel | type[AlreadySo] | type[LostRace]:
    """What `move` has to write on an issue with the labels `shown`, or why it must write nothing."""
    present = labels.statuses(shown)
    status = present or frozenset({Status.PENDING})
    if status == {move.to} or (move.to is None and not present):
        return AlreadySo
    if move.expect not in status or status - {move.expect, move.to}:
        return LostRace
    return only(labels, shown, move.to)


def only(labels: LabelSet, shown: frozenset[str], status: Status | None) -> Relabel:
    """The writes after which the label of `status` is the only lifecycle label; case does not matter to GitHub."""
    wanted = None if status is None else labels.label(status)
    folded = None if wanted is None else wanted.casefold()
    there = any(name.casefold() == folded for name in shown)
    surplus = sorted(name for name in labels.lifecycle(shown) if name.casefold() != folded)
    return Relabel(add=None if there else wanted, remove=tuple(surplus))


class Moves:
    """Moves tickets of one repository along their edges, one write at a time per issue."""

    def __init__(
        self,
        *,
        issues: Issues,
        writer: LabelWriter,
        labels: LabelSet,
        notes: Notes,
        claims: ClaimRefs | None,
        now: Callable[[], float],
    ) -> None:
        self._issues = issues
        self._writer = writer
        self._labels = labels
        self._notes = notes
        self._claims = claims
        self._now = now
