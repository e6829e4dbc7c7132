"""Why a run is to stop: a closed set of kinds, each with words for people.

`to_wire` and `from_wire` are the only place that knows the form in which the reason stands in Redis; processes of other
releases read and write it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_WITHDRAWN: Final = "withdrawn: "


class StopKind(StrEnum):
    """What the end of the run means for its ticket."""

    CANCELLED = "cancelled"
    """A person said cancel: the ticket fails."""
    WITHDRAWN = "withdrawn"
    """A person took the trigger off, or closed the ticket: it has no status any more."""
    TAKEN_OVER = "taken over"
    """Somebody else has the ticket by now, and decides."""


@dataclass(frozen=True, slots=True)
class StopReason:
    """One reason to stop; as text it is what log, record and ticket show."""

    kind: StopKind
    text: str

    @classmethod
    def cancelled_by(cls, who: str) -> StopReason:
        """A person said cancel."""
        return cls(StopKind.CANCELLED, f"cancelled by {who}")

    @classmethod
    def withdrawn(cls, *, open_: bool) -> StopReason:
        """The ticket is no longer wanted; `open_` tells whether it is still open."""
        return cls(StopKind.WITHDRAWN, "the trigger was removed" if open_ else "the ticket was closed")

    def __str__(self) -> str:
        return f"{_WITHDRAWN}{self.text}" if self.kind is StopKind.WITHDRAWN else self.text

    def to_wire(self) -> str:
        """The form in which Redis keeps it."""
        return str(self)

    @classmethod
    def from_wire(cls, text: str) -> StopReason:
        """Read what `to_wire` wrote, here or in another release."""
        if text == TAKEN_OVER.text:
            return TAKEN_OVER
        if text.startswith(_WITHDRAWN):
            return cls(StopKind.WITHDRAWN, text.removeprefix(_WITHDRAWN))
        return cls(StopKind.CANCELLED, text)


TAKEN_OVER: Final = StopReason(StopKind.TAKEN_OVER, "somebody took the ticket over")
