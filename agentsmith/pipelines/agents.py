"""Reading what a coding agent printed: its session, what it used, and what it has to say to people."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agentsmith.config import Agent
from agentsmith.config.agents import PROMPT_FILE, SESSION
from agentsmith.domain.errors import pass_over
from agentsmith.pipelines.worker import Usage, number, one_line

_LONGEST_LINE: Final = 4 * 1024 * 1024
_LONGEST_ANSWER: Final = 16_000
_SAFE_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What the output of an agent tells."""

    session: str = ""
    usage: Usage = field(default_factory=Usage)
    answer: str = ""


def argv_for(agent: Agent, *, prompt_file: Path, session: str, args: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The command; it goes on with the session where there is one and the agent knows how."""
    template = agent.resume if session and agent.resume is not None else agent.command
    filled = [word.replace(PROMPT_FILE, str(prompt_file)).replace(SESSION, session) for word in template]
    # Before a trailing `-`, which stands for standard input.
    at = len(filled) - 1 if filled[-1] == "-" else len(filled)
    return (*filled[:at], *args, *filled[at:])


def reads_stdin(agent: Agent) -> bool:
    """Whether the agent gets its prompt on standard input rather than as a file."""
    return not any(PROMPT_FILE in word for word in agent.command)


def read_output(agent: Agent, output: Path, *, start: int) -> AgentReport:
    """What the agent told in its output, which begins at `start`; never fails, whatever it printed."""
    reading = _Reading(agent)
    try:
        with output.open("rb") as stream:
            stream.seek(start)
            while line := stream.readline(_LONGEST_LINE):
                reading.take(line)
    except OSError as error:
        pass_over(error)
        return AgentReport()
    return AgentReport(reading.session, reading.usage, reading.answer)


class _Reading:
    """One pass over the lines."""

    def __init__(self, agent: Agent) -> None:
        self.session, self.answer, self.usage = "", "", Usage()
        self._agent = agent
        self._pattern = re.compile(agent.usage_pattern) if agent.usage_pattern else None
        self._keys = {name: path for name, path in agent.usage.model_dump().items() if path}

    def take(self, line: bytes) -> None:
        if self._pattern is not None and (found := self._pattern.search(line.decode("utf-8", "replace"))):
            self._count(Usage.of({name: number(value) for name, value in found.groupdict().items() if value}))
        if not line.lstrip().startswith(b"{"):
            return
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            return
        if (
            self._agent.session
            and isinstance(told := at(data, self._agent.session), str)
            and _SAFE_SESSION.fullmatch(told)
        ):
            self.session = told
        if self._agent.answer and isinstance(said := at(data, self._agent.answer), str) and said.strip():
            self.answer = said.replace("\0", "")[:_LONGEST_ANSWER]
        values = {name: at(data, path) for name, path in self._keys.items()}
        if any(value is not None for value in values.values()):
            self._count(Usage.of(values))

    def _count(self, usage: Usage) -> None:
        self.usage = self.usage + usage if self._agent.usage_adds_up else usage


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
