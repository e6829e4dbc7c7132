"""Signals: hints that a ticket deserves a look. They carry no truth; the ticket is read again by key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Final

from agentsmith.domain.ticket import TicketId

_TYPES: Final[Mapping[str, type]] = {"tries": int, "labelled": bool}
"""Of everything that is no text."""


class MalformedSignal(ValueError):
    """The text is not a signal."""


class SignalKind(StrEnum):
    """What the sender wants."""

    LOOK = "look"
    """Something may have changed: claim it, stop it, or leave it."""
    RETRY = "retry"
    """A person wants it run again."""
    COMMAND = "command"
    """A person wrote a comment that may be a command."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One hint. Signals for the same ticket and kind are merged while they wait."""

    tracker: str
    key: str
    ticket: TicketId
    kind: SignalKind = SignalKind.LOOK
    cause: str = ""
    """Where it came from: `poll`, `webhook`, `recovered`, `retry`, …"""
    by: str = ""
    remark: str = ""
    """The platform's name for the comment, where it is about one."""
    tries: int = 0
    labelled: bool = False
    """Whether a label of people's was just put on: perhaps a trigger, perhaps not for the first time."""
    text: str = ""
    """The hash of the text that whoever asks for a retry has seen; no other text was vetted by that."""
    entry: str = field(default="", compare=False)
    """The name of the entry that it was read from: the store gives each one, and it is no part of the hint."""

    @property
    def topic(self) -> str:
        """What merging compares."""
        return f"{self.kind.value}:{self.ticket}" + (f":{self.remark}" if self.remark else "")

    def again(self) -> Signal:
        """The same hint after a failed try."""
        return replace(self, tries=self.tries + 1)

    def to_json(self) -> str:
        """The wire form."""
        hint = asdict(self)
        del hint["entry"]
        return json.dumps(hint, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Signal:
        """Read a signal; raises MalformedSignal, and nothing else, for any input."""
        try:
            payload = json.loads(text)
            data = {name: payload[name] for name in cls.__dataclass_fields__ if name in payload}
            # A kind that a newer release made up asks for a look at least.
            data["kind"] = SignalKind(data["kind"]) if data.get("kind") in list(SignalKind) else SignalKind.LOOK
            signal = cls(**data)
            if wrong := [name for name, value in data.items() if not isinstance(value, _TYPES.get(name, str))]:
                raise ValueError(f"{wrong[0]} has the wrong type")
            (signal.tracker + signal.key + signal.ticket).encode()  # half a character cannot be written to Redis
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise MalformedSignal(f"not a signal: {error}") from None
        return signal


@dataclass(frozen=True, slots=True)
class Taken:
    """A signal as it stands in the list of whoever took it."""

    taker: str
    payload: str
