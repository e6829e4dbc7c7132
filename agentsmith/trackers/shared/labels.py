"""How our labels look where a label has a colour and a meaning of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from agentsmith.domain.lifecycle import Status
from agentsmith.trackers.shared.relabel import Vocabulary

_LOOKS: Final = {
    Status.PENDING: ("fbca04", "waits for its turn"),
    Status.ENQUEUED: ("c5def5", "is in the queue"),
    Status.IN_PROGRESS: ("1d76db", "is being worked on"),
    Status.WAITING: ("d4c5f9", "waits for a person, a time or another ticket"),
    Status.DONE: ("0e8a16", "finished"),
    Status.FAILED: ("b60205", "failed; the comment says why"),
}


def missing(labels: Vocabulary, there: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Name, colour and description of each lifecycle label that is not there yet, whatever its case."""
    known = {name.casefold() for name in there}
    for status, (color, meaning) in _LOOKS.items():
        label = labels.label(status)
        if label.casefold() not in known:
            yield label, color, f"agentsmith: {meaning}"
