"""How a coding agent is called."""

from __future__ import annotations

from pathlib import Path

from agentsmith.config import Agent
from agentsmith.config.agents import PROMPT_FILE, SESSION
from agentsmith.pipelines.reports import Format


def argv_for(agent: Agent, *, prompt_file: Path, session: str, args: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The command; it goes on with the session where there is one and the agent knows how."""
    template = agent.resume if session and agent.resume is not None else agent.command
    filled = [word.replace(PROMPT_FILE, str(prompt_file)).replace(SESSION, session) for word in template]
    # Before a trailing `-`, which stands for standard input.
    at = len(filled) - 1 if filled[-1] == "-" else len(filled)
    return (*filled[:at], *args, *filled[at:])


def format_of(agent: Agent) -> Format:
    """Where its output has its session, answer and usage."""
    keys = {name: path for name, path in agent.usage.model_dump().items() if path}
    return Format(agent.session, agent.answer, keys, agent.usage_pattern, agent.usage_adds_up)


def reads_stdin(agent: Agent) -> bool:
    """Whether the agent gets its prompt on standard input rather than as a file."""
    return not any(PROMPT_FILE in word for word in agent.command)
