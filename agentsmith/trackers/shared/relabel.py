"""What a move has to add and to remove, for platforms that take both in one request. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import AlreadySo, LostRace, Move


class Vocabulary(Protocol):
    """Which labels show which status: a LabelSet, or a platform's own spelling of one."""

    def label(self, status: Status) -> str:
        """The label to write for `status`."""

    def statuses(self, labels: Iterable[str], /) -> frozenset[Status]:
        """Every status that the labels show."""

    def lifecycle(self, labels: Iterable[str], /) -> frozenset[str]:
        """Those of the labels that show a status, as spelled."""


@dataclass(frozen=True, slots=True)
class Relabel:
    """What one write has to add and to remove, as spelled on the ticket."""

    add: str | None
    remove: tuple[str, ...]

    @property
    def adding(self) -> tuple[str, ...]:
        """What to add, for writes that take any number of labels."""
        return () if self.add is None else (self.add,)

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to write."""
        return self.add is None and not self.remove


def only(labels: Vocabulary, shown: Iterable[str], status: Status | None) -> Relabel:
    """What to write so that the label of `status` is the only lifecycle label; one in other letters is kept."""
    names = frozenset(shown)
    wanted = None if status is None else labels.label(status)
    folded = None if wanted is None else wanted.casefold()
    there = sorted(name for name in names if name.casefold() == folded)
    surplus = {name for name in labels.lifecycle(names) if name.casefold() != folded} | set(there[1:])
    return Relabel(add=None if there else wanted, remove=tuple(sorted(surplus)))


def plan(labels: Vocabulary, shown: Iterable[str], move: Move) -> Relabel | type[AlreadySo] | type[LostRace]:
    """What `move` has to write on a ticket with these labels, or why it must write nothing (T4, T5)."""
    names = frozenset(shown)
    present = labels.statuses(names)
    status = present or frozenset({Status.PENDING})
    if status == {move.to} or (move.to is None and not present):
        return AlreadySo
    if move.expect not in status or status - {move.expect, move.to}:
        return LostRace
    return only(labels, names, move.to)
