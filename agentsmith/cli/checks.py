"""What `agentsmith doctor` says of one thing that it looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How serious it is."""

    OK = "ok"
    NOTE = "note"
    """Work flows, but somebody may want to know."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    check: str
    state: State
    saw: str
    remedy: str = ""
