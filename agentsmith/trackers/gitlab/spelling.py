"""How lifecycle labels are spelled on GitLab: `agent-smith:done`, or scoped as `agent-smith::done`. Pure.

The core knows the first form only. Both forms count as the status, whichever is configured, so that changing
`label_style` reruns nothing; the other form is removed when the ticket moves on, and never added, like a former prefix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.tracker import AlreadySo, LostRace, Move

_SCOPE: Final = "::"


class LabelStyle(StrEnum):
    """Which form is written."""

    PLAIN = "plain"
    SCOPED = "scoped"


@dataclass(frozen=True, slots=True)
class Relabel:
    """What one write has to add and to remove, as spelled on GitLab."""

    add: str | None
    remove: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to write."""
        return self.add is None and not self.remove


@dataclass(frozen=True, slots=True)
class Spelling:
    """Translates between the core's labels and GitLab's."""

    labels: LabelSet
    style: LabelStyle = LabelStyle.PLAIN

    def label(self, status: Status) -> str:
        """The label to write for `status`."""
        return self.written(self.labels.label(status))

    def written(self, label: str) -> str:
        """One of the core's labels as it stands on GitLab; foreign ones stay as they are."""
        if self.style is LabelStyle.PLAIN or self.labels.status_of(label) is None:
            return label
        prefix, _, status = label.rpartition(":")
        return f"{prefix}{_SCOPE}{status}"

    def canonical(self, shown: str) -> str:
        """A label on GitLab as the core knows it; foreign ones stay as they are."""
        prefix, scope, status = shown.rpartition(_SCOPE)
        if scope and self.labels.status_of(f"{prefix}:{status}") is not None:
            return f"{prefix}:{status}"
        return shown

    def seen(self, shown: Iterable[str]) -> frozenset[str]:
        """The labels on a ticket as the core knows them."""
        return frozenset(self.canonical(name) for name in shown)

    def statuses(self, shown: Iterable[str]) -> frozenset[Status]:
        """Every status that the labels on GitLab show."""
        return self.labels.statuses(self.seen(shown))

    def lifecycle(self, shown: Iterable[str]) -> frozenset[str]:
        """Those of the labels, as spelled there, that show a status."""
        return frozenset(name for name in shown if self.labels.status_of(self.canonical(name)) is not None)

    def only(self, shown: Iterable[str], status: Status | None) -> Relabel:
        """What to write so that the label of `status` is the only lifecycle label; letters in other case are kept."""
        names = frozenset(shown)
        wanted = None if status is None else self.label(status)
        folded = None if wanted is None else wanted.casefold()
        there = any(name.casefold() == folded for name in names)
        surplus = sorted(name for name in self.lifecycle(names) if name.casefold() != folded)
        return Relabel(add=None if there else wanted, remove=tuple(surplus))

    def plan(self, shown: Iterable[str], move: Move) -> Relabel | type[AlreadySo] | type[LostRace]:
        """What `move` has to write on an issue with these labels, or why it must write nothing (T4, T5)."""
        names = frozenset(shown)
        present = self.statuses(names)
        status = present or frozenset({Status.PENDING})
        if status == {move.to} or (move.to is None and not present):
            return AlreadySo
        if move.expect not in status or status - {move.expect, move.to}:
            return LostRace
        return self.only(names, move.to)
