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

_SCOPE: Final = "::"
_STATUSES: Final = frozenset(status.value for status in Status)


class LabelStyle(StrEnum):
    """Which form is written."""

    PLAIN = "plain"
    SCOPED = "scoped"


@dataclass(frozen=True, slots=True)
class Spelling:
    """Translates between the core's labels and GitLab's; a `Vocabulary` of labels as spelled there."""

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
        plain = unscoped(shown)
        return shown if self.labels.status_of(plain) is None else plain

    def seen(self, shown: Iterable[str]) -> frozenset[str]:
        """The labels on a ticket as the core knows them."""
        return frozenset(self.canonical(name) for name in shown)

    def statuses(self, shown: Iterable[str]) -> frozenset[Status]:
        """Every status that the labels on GitLab show."""
        return self.labels.statuses(self.seen(shown))

    def reserved(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the labels that nobody else may write: lifecycle labels, and what shares a scope with them.

        On paid tiers a label `agent-smith::anything` would push our own out.
        """
        scopes = {prefix.casefold() for prefix in (self.labels.prefix, *self.labels.former_prefixes)}
        names = frozenset(names)
        siblings = {name for name in names if _SCOPE in name and name.rpartition(_SCOPE)[0].casefold() in scopes}
        return self.lifecycle(names) | siblings

    def lifecycle(self, shown: Iterable[str]) -> frozenset[str]:
        """Those of the labels, as spelled there, that show a status."""
        return frozenset(name for name in shown if self.labels.status_of(self.canonical(name)) is not None)


def unscoped(shown: str) -> str:
    """`agent-smith::done` as `agent-smith:done`, for any scope and every status; other labels stay as they are."""
    scope, sign, value = shown.rpartition(_SCOPE)
    return f"{scope}:{value}" if sign and value.strip().casefold() in _STATUSES else shown
