"""What a worker asked, and what people answered: how it is kept until a run came to its end with the answer.

The question stands in Redis and in our comment's memo, so that a later run knows what it asked, when, and in which
attempt. The answers stay where people wrote them, on the ticket, and are read when the next run begins.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

LONGEST_QUESTION: Final = 2_000
"""Characters that are kept of a question: it has to fit into our comment a second time."""
LONGEST_NOTE: Final = 8_000
LONGEST_NOTES: Final = 32_000
_CUT: Final = "… (cut)"


class WakeReason(StrEnum):
    """Why a run begins, where that is more than where its signal came from."""

    UNBLOCKED = "unblocked"
    """It asked a person, and goes on."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a worker asked. `at` is in seconds since the epoch, `attempt` the one that asked."""

    text: str
    at: float
    attempt: int = 0
    heard: float = 0.0
    """When the newest note was written that the worker had before it asked: that one is no answer."""
    answered: bool = False
    """Whether a run began with what people said to it; it is not asked any more, but may be told once more."""

    def to_json(self) -> str:
        """The wire form; `from_json` of it gives an equal question."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Question | None:
        """The question, or None for any text that is none."""
        try:
            payload = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(payload, dict):
            return None
        known: dict[str, Any] = {field.name: payload[field.name] for field in fields(cls) if field.name in payload}
        if not {"text", "at"} <= known.keys() or not all(_fits(name, value) for name, value in known.items()):
            return None
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody who may command wrote on the ticket; `at` is in seconds since the epoch."""

    author: str
    text: str
    at: float

    @property
    def when(self) -> str:
        """The time as people and programs read it."""
        return datetime.fromtimestamp(self.at, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Wake:
    """Why a run begins, and what came in for it meanwhile."""

    reason: str = ""
    question: Question | None = None
    notes: tuple[Note, ...] = ()

    @property
    def before(self) -> int:
        """Attempts up to the question: they go on being counted, and use up nothing."""
        return self.question.attempt if self.question is not None else 0

    def carried_on(self, asked: str, *, at: float, attempt: int) -> str:
        """What a later run has to know, in its wire form: what this one asks, or what it was told already."""
        if asked:
            heard = max((note.at for note in self.notes), default=0.0)
            return Question(shortened(asked, LONGEST_QUESTION), at, attempt, heard).to_json()
        return replace(self.question, answered=True).to_json() if self.question is not None else ""


def bounded(notes: Sequence[Note]) -> tuple[Note, ...]:
    """The notes in their order, each cut to its size; of too many the newest."""
    kept: list[Note] = []
    room = LONGEST_NOTES
    for note in sorted(notes, key=lambda note: note.at, reverse=True):
        short = replace(note, author=shortened(note.author, 200), text=shortened(note.text, LONGEST_NOTE))
        room -= len(short.text) + len(short.author)
        if room < 0:
            break
        kept.append(short)
    return tuple(reversed(kept))


def shortened(text: str, most: int) -> str:
    """The text as a file can hold it, at most this long."""
    clean = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= most else clean[: most - len(_CUT)] + _CUT


def _fits(name: str, value: object) -> bool:
    if isinstance(value, bool) or name == "answered":  # which Python takes for a number
        return name == "answered" and isinstance(value, bool)
    if name == "text":
        return isinstance(value, str)
    return isinstance(value, int if name == "attempt" else int | float) and abs(float(str(value))) < 1e12
