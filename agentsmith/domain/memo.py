"""The machine-read line of the sticky comment: what survives on the ticket itself when Redis is lost."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from types import UnionType
from typing import Final

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Memo:
    """What recovery needs to know about a ticket after everything in Redis is gone."""

    run: str
    fence: int
    attempt: int = 0
    text: str = ""
    """Hash of the pinned title and body."""
    due: float | None = None
    follow_up: bool = False
    trigger: str = ""
    """The label that had the ticket taken on: tells our tickets from those of another installation."""
    ask: str = ""
    """The event by which somebody asked for the pinned text to be run."""
    by: str = ""
    """Who asked for it by a retry."""
    branch: str = ""
    """Where its work is, once there was a checkout: what the branch would be called today may differ."""

    question: str = ""
    """What was asked of people and not answered to a run's end, in the form of `asking.Question`."""

    def to_line(self) -> str:
        """One line of JSON without `--`, so that it can stand inside an HTML comment."""
        written = {name: value for name, value in asdict(self).items() if value or name not in _LEFT_OUT}
        packed = json.dumps({"v": VERSION, **written}, separators=(",", ":"), sort_keys=True)
        return packed.replace("--", "-\\u002d")

    @classmethod
    def from_line(cls, line: str) -> Memo | None:
        """The memo that the line holds, or None when it is not one of ours in a version we read."""
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(data, dict) or data.pop("v", VERSION) != VERSION:
            return None
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        if not all(_fits(value, _TYPES[name]) for name, value in known.items()):
            return None
        return cls(**known) if {"run", "fence"} <= known.keys() else None


def _fits(value: object, kind: type | UnionType) -> bool:
    if isinstance(value, bool):  # which Python takes for a number
        return kind is bool
    return isinstance(value, kind) and value == value  # NaN is no time


_TYPES: Final[dict[str, type | UnionType]] = {
    "run": str,
    "fence": int,
    "attempt": int,
    "text": str,
    "due": int | float | None,
    "follow_up": bool,
    "trigger": str,
    "ask": str,
    "by": str,
    "branch": str,
    "question": str,
}
_LEFT_OUT: Final = frozenset({"trigger", "ask", "by", "branch", "question"})
"""What is not written while there is nothing to say."""
