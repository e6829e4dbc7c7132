"""Coding agents as data: how each is started, handed its prompt, resumed, and how its output is read.

The presets follow the programs' own documentation of their unattended modes. They let an agent edit files and leave
it to the agent's own rules whether it may run commands; `args` of a step or an agent of your own says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from agentsmith.config.names import Names, passed_on
from agentsmith.config.section import Section

PROMPT_FILE: Final = "{prompt_file}"
SESSION: Final = "{session}"
_PLACEHOLDER: Final = re.compile(r"\{[a-z_]+\}")
_PATH: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,9}")
_COUNTED: Final = ("input_tokens", "output_tokens", "cost_usd")


def _argv(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words or not words[0].strip() or any("\0" in word for word in words):
        raise ValueError("must be a list: the program and its arguments")
    for word in words:
        for found in _PLACEHOLDER.findall(word):
            if found not in (PROMPT_FILE, SESSION):
                raise ValueError(f"holds {found}, which is not known; there are {PROMPT_FILE} and {SESSION}")
    return words


def _path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise ValueError("must name a key in the agent's JSON output, with dots between levels: usage.input_tokens")
    return text


def _pattern(text: str) -> str:
    try:
        groups = set(re.compile(text).groupindex)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    if not groups or not groups <= set(_COUNTED):
        raise ValueError(f"must name what it finds: (?P<input_tokens>…); known: {', '.join(_COUNTED)}")
    return text


Argv = Annotated[tuple[str, ...], AfterValidator(_argv)]
KeyPath = Annotated[str, AfterValidator(_path)]


class UsageKeys(Section):
    """Where in a line of JSON the agent tells what it used."""

    input_tokens: KeyPath | None = None
    output_tokens: KeyPath | None = None
    cost_usd: KeyPath | None = None


class Agent(Section):
    """How a coding agent is run. Without `{prompt_file}` in its command, it gets the prompt on standard input."""

    command: Argv
    """The program and its arguments; `{prompt_file}` is filled in."""
    resume: Annotated[Argv | None, Field(min_length=1)] = None
    """The same for going on with an earlier session; `{session}` is filled in."""
    env: Annotated[Names, AfterValidator(passed_on)] = ()
    """Names of the daemon's environment variables that it may see: its credentials, above all."""
    session: KeyPath | None = None
    """Where in a line of JSON the session's id stands."""
    usage: UsageKeys = UsageKeys()
    usage_pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    """A regular expression that finds the usage in an output that is no JSON."""
    usage_adds_up: bool = False
    """Whether each such line tells only its own part; else the last one tells all."""
    answer: KeyPath | None = None
    """Where in a line of JSON the agent's words for people stand; the last one counts."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if SESSION in " ".join(self.command):
            raise ValueError(f"`command` starts a new session; {SESSION} belongs in `resume`")
        if self.resume is not None and SESSION in " ".join(self.resume) and self.session is None:
            raise ValueError(f"`resume` needs {SESSION}, but `session` does not say where to read it")
        return self


PRESETS: Final[Mapping[str, Agent]] = {
    "claude": Agent(
        command=(
            *("claude", "--print", "--output-format", "stream-json", "--verbose"),
            *("--permission-mode", "acceptEdits"),
        ),
        resume=(
            *("claude", "--print", "--output-format", "stream-json", "--verbose"),
            *("--permission-mode", "acceptEdits", "--resume", SESSION),
        ),
        env=(
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
            *("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"),
        ),
        session="session_id",
        usage=UsageKeys(
            input_tokens="usage.input_tokens", output_tokens="usage.output_tokens", cost_usd="total_cost_usd"
        ),
        answer="result",
    ),
    "codex": Agent(
        # The trailing `-` reads the prompt from standard input.
        command=("codex", "exec", "--json", "--sandbox", "workspace-write", "-"),
        resume=("codex", "exec", "--json", "--sandbox", "workspace-write", "resume", SESSION, "-"),
        env=("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"),
        session="thread_id",
        usage=UsageKeys(input_tokens="usage.input_tokens", output_tokens="usage.output_tokens"),
        usage_adds_up=True,
        answer="item.text",
    ),
    "gemini": Agent(
        command=("gemini", "--output-format", "stream-json", "--approval-mode", "auto_edit"),
        resume=("gemini", "--output-format", "stream-json", "--approval-mode", "auto_edit", "--resume", SESSION),
        env=(
            *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
            *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS", "GEMINI_MODEL"),
        ),
        session="session_id",
        usage=UsageKeys(input_tokens="stats.input_tokens", output_tokens="stats.output_tokens"),
    ),
    "aider": Agent(
        # Commits are the pipeline's; the chat history of an earlier attempt is in the private home.
        command=(
            *("aider", "--message-file", PROMPT_FILE, "--yes-always", "--no-auto-commits", "--no-dirty-commits"),
            *("--no-pretty", "--no-stream", "--no-gitignore", "--no-check-update", "--analytics-disable"),
        ),
        env=(
            *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_API_BASE", "GEMINI_API_KEY", "DEEPSEEK_API_KEY"),
            *("OPENROUTER_API_KEY", "AIDER_MODEL"),
        ),
        usage_pattern=(
            r"Tokens: (?P<input_tokens>[0-9.,]+[kKmM]?) sent(?:, [0-9.,]+[kKmM]? cache [a-z]+)*"
            r", (?P<output_tokens>[0-9.,]+[kKmM]?) received(?:\. Cost: \$(?P<cost_usd>[0-9.]+) message)?"
        ),
        usage_adds_up=True,
    ),
    "opencode": Agent(
        command=("opencode", "run", "--format", "json"),
        resume=("opencode", "run", "--format", "json", "--session", SESSION),
        env=(
            *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
            *("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"),
        ),
        session="sessionID",
        usage=UsageKeys(input_tokens="part.tokens.input", output_tokens="part.tokens.output", cost_usd="part.cost"),
        usage_adds_up=True,
        answer="part.text",
    ),
}
