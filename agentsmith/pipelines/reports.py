"""What is read from the output of a coding agent: its session, its usage, and its answer to people.

Read apart (`apart.py`): the lines are as long as a worker likes, and the pattern may take its time with them. So
nothing is imported here that takes long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agentsmith.domain.errors import pass_over
from agentsmith.pipelines.worker import Usage, as_json, encodable, number, one_line

_LONGEST_LINE: Final = 4 * 1024 * 1024
_LONGEST_ANSWER: Final = 16_000
_SAFE_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")


@dataclass(frozen=True, slots=True)
class Format:
    """Where an agent's output has what; see `agents` in the configuration."""

    session: str | None = None
    answer: str | None = None
    usage: dict[str, str] = field(default_factory=dict)
    usage_pattern: str | None = None
    usage_adds_up: bool = False


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What an agent reported in its output."""

    session: str = ""
    usage: Usage = field(default_factory=Usage)
    answer: str = ""

    @classmethod
    def of(cls, data: dict[str, Any]) -> AgentReport:
        """Read back what `asdict` made of one."""
        return cls(data["session"], Usage.of(data["usage"]), data["answer"])


def read_output(form: Format, parts: Iterable[Path]) -> AgentReport:
    """Read the report from the output, which is in these files; never fails, whatever the agent printed."""
    reading = _Reading(form)
    try:
        for line in _lines(parts):
            reading.take(line)
    except OSError as error:
        pass_over(error)
    return AgentReport(reading.session, reading.usage, reading.answer)


def _lines(parts: Iterable[Path]) -> Iterator[bytes]:
    """The lines of all parts together: one may begin in one part and end in the next. Very long ones come in pieces."""
    begun = b""
    for part in parts:
        with part.open("rb") as stream:
            while line := stream.readline(_LONGEST_LINE):
                line, begun = begun + line, b""
                if line.endswith(b"\n") or len(line) >= _LONGEST_LINE:
                    yield line
                else:
                    begun = line
    if begun:
        yield begun


class _Reading:
    """One pass over the lines."""

    def __init__(self, form: Format) -> None:
        self.session, self.answer, self.usage = "", "", Usage()
        self._format = form
        self._pattern = re.compile(form.usage_pattern) if form.usage_pattern else None

    def take(self, line: bytes) -> None:
        if self._pattern is not None and (found := self._pattern.search(line.decode("utf-8", "replace"))):
            self._count(Usage.of({name: number(value) for name, value in found.groupdict().items() if value}))
        if not line.lstrip().startswith(b"{"):
            return
        data = as_json(line)
        if (
            self._format.session
            and isinstance(session := at(data, self._format.session), str)
            and _SAFE_SESSION.fullmatch(session)
        ):
            self.session = session
        if self._format.answer and isinstance(said := at(data, self._format.answer), str) and said.strip():
            self.answer = encodable(said).replace("\0", "")[:_LONGEST_ANSWER]
        values = {name: at(data, path) for name, path in self._format.usage.items()}
        if any(value is not None for value in values.values()):
            self._count(Usage.of(values))

    def _count(self, usage: Usage) -> None:
        self.usage = self.usage + usage if self._format.usage_adds_up else usage


def at(data: Any, path: str) -> Any:
    """What stands at `a.b.c`; None where there is nothing."""
    for key in path.split("."):
        if not isinstance(data, dict):
            return None
        data = data.get(key)
    return data


def safe_session(text: str) -> str:
    """The session's id, if it can stand in a command line as one; else nothing."""
    line = one_line(text)
    return line if _SAFE_SESSION.fullmatch(line) else ""
