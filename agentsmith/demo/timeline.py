"""What happened when: the transitions in the logs of the processes, and what the demo itself did and saw."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

_KEY: Final = re.compile("[#/]")
"""A ticket's key is what follows the last of these in its id."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened. `ticket` is a key, or empty; `source` and `to` stand where a label changed."""

    at: float
    what: str
    ticket: str = ""
    process: str = ""
    run: str = ""
    source: str = ""
    to: str = ""

    def to_dict(self, start: float) -> dict[str, Any]:
        """The moment as data, in milliseconds after `start`."""
        return {
            "ms": self.ms(start),
            "ticket": self.ticket or None,
            "from": self.source or None,
            "to": self.to or None,
            "what": self.what,
            "process": self.process or None,
            "run": self.run or None,
        }

    def ms(self, start: float) -> int:
        """Milliseconds after `start`."""
        return round((self.at - start) * 1000)


@dataclass(slots=True)
class Timeline:
    """Moments, collected as they come."""

    logs: Mapping[str, Path]
    moments: list[Moment] = field(default_factory=list)
    _read: dict[str, int] = field(default_factory=dict)

    def note(self, moment: Moment) -> None:
        """Add something that no log tells."""
        self.moments.append(moment)

    def catch_up(self) -> list[Moment]:
        """Read what the processes logged since the last time; answers the new moments."""
        fresh = [moment for name in self.logs for moment in self._fresh(name)]
        self.moments += fresh
        return fresh

    def in_order(self) -> list[Moment]:
        """Every moment so far, oldest first."""
        return sorted(self.moments, key=lambda moment: moment.at)

    def moves(self, ticket: str) -> list[Moment]:
        """The label changes of one ticket, oldest first."""
        return [moment for moment in self.in_order() if moment.ticket == ticket and moment.to]

    def _fresh(self, name: str) -> Iterator[Moment]:
        try:
            with self.logs[name].open("rb") as log:
                log.seek(self._read.get(name, 0))
                whole, newline, _ = log.read().rpartition(b"\n")
        except FileNotFoundError:
            return
        self._read[name] = self._read.get(name, 0) + len(whole) + len(newline)
        for line in whole.splitlines():
            moment = moment_of(name, line)
            if moment is not None:
                yield moment


def moment_of(process: str, line: bytes) -> Moment | None:
    """The moment that a log line tells of, if it is a transition."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or event.get("event") != "transition":
        return None
    return Moment(
        at=datetime.fromisoformat(event["timestamp"]).timestamp(),
        what=str(event["outcome"]),
        ticket=_KEY.split(str(event["ticket"]))[-1],
        process=process,
        run=str(event["run"]),
        source=str(event["from"]),
        to=str(event["to"]),
    )
