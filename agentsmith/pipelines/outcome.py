"""How a run can end, in the words that the lifecycle understands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from agentsmith.domain.lifecycle import Status


class ExitCode(IntEnum):
    """What a worker's exit code means; anything else is a failure."""

    DONE = 0
    TRY_LATER = 75
    NOT_PERMITTED = 77
    BAD_CONFIGURATION = 78
    QUESTION = 79


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the ticket goes from here. `word` stands in the log, `note` on the ticket."""

    to: Status | None
    word: str
    note: str = ""
    due: float | None = None
    give_back: bool = False
    """The run did nothing wrong: it goes back to the head of the queue and is not counted."""
