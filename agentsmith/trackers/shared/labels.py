"""How our labels look where a label has a colour and a meaning of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from agentsmith.domain.lifecycle import LabelSet, Status

_LOOKS: Final = {
    Status.PENDING: ("fbca04", "waits for its turn"),
    Status.ENQUEUED: ("c5def5", "is in the queue"),
    Status.IN_PROGRESS: ("1d76db", "is being worked on"),
    Status.WAITING: ("d4c5f9", "waits for a person, a time or another ticket"),
    Status.DONE: ("0e8a16", "finished"),
    Status.FAILED: ("b60205", "failed; the comment says why"),
}
_TRIGGER_LOOKS: Final = ("5319e7", "agentsmith: starts work")


def looks_of(labels: LabelSet, triggers: Iterable[str]) -> Mapping[str, tuple[str, str]]:
    """Colour and description of each trigger and lifecycle label, by name."""
    return dict.fromkeys(triggers, _TRIGGER_LOOKS) | {
        labels.label(status): (color, f"agentsmith: {meaning}") for status, (color, meaning) in _LOOKS.items()
    }


def lacking(names: Iterable[str], there: Iterable[str]) -> tuple[str, ...]:
    """Those of the labels that are not there yet, whatever their case."""
    known = {name.casefold() for name in there}
    return tuple(name for name in names if name.casefold() not in known)
