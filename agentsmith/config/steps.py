"""The kinds of steps and what each may be told. What they do is in `agentsmith.pipelines.steps`.

A package offers a further kind by an entry point in the group `agentsmith.steps` whose name is the kind and whose
object is a `StepKind`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from agentsmith.config.names import Names, legal_label, passed_on
from agentsmith.config.section import Section
from agentsmith.domain.errors import ConfigError

ENTRY_POINTS: Final = "agentsmith.steps"
_LONGEST_NAME: Final = 60
_BRANCH: Final = re.compile(r"(?!-)[A-Za-z0-9._/+@-]{1,200}")

Argument = str | tuple[str, ...]

NEEDS_CODE: Final = frozenset({"checkout", "commit", "push", "pull_request"})
"""The kinds of steps that work on the ticket's repository."""


class StepSettings(Section):
    """What a step may be told; a kind adds its own settings in a subclass."""

    short: ClassVar[str | None] = None
    """The setting that `kind: value` gives; None when the kind takes none in that form."""
    needs_checkout: ClassVar[bool] = False
    """Whether there must be a `checkout` before it."""

    def called(self) -> str:
        """What the step is called where no name is given; the kind's own name when this is empty."""
        return ""


@dataclass(frozen=True, slots=True)
class StepKind:
    """A kind of step: what it may be told, and what it does with it.

    `run` takes an `agentsmith.pipelines.StepContext` and an instance of `settings`, and answers a `StepEnd`.
    """

    settings: type[StepSettings]
    run: Callable[[Any, Any], Awaitable[Any]]


def _command(value: object) -> Argument:
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return value
    if isinstance(value, list | tuple) and value:
        words = [str(word) if type(word) is int else word for word in value]
        texts = [word for word in words if isinstance(word, str) and "\0" not in word]
        if len(texts) == len(words) and texts[0]:
            return tuple(texts)
    raise ValueError(
        "needs a command: a text (`run: make test`, run by sh -c) or a list of texts "
        '(`run: [make, test]`; quote what is not a text: "1.5")'
    )


Command = Annotated[
    Argument,
    BeforeValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "integer"]}}],
            "description": "a text is run by sh -c; a list is run as it is",
        }
    ),
]


def _inside(path: str) -> str:
    pure = PurePosixPath(path)
    if not path.strip() or "\0" in path or pure.is_absolute() or ".." in pure.parts:
        raise ValueError("must be a folder inside the workspace: a relative path without `..`")
    return path


def _branch(name: str) -> str:
    if (
        not _BRANCH.fullmatch(name)
        or ".." in name
        or "//" in name
        or "@{" in name
        or name.endswith(("/", ".", ".lock"))
    ):
        raise ValueError("is not the name of a branch")
    return name


def _label(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(legal_label(name) for name in names)


def _shell(value: object) -> object:
    try:
        return shlex.split(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("is not a program with its options: a quotation mark is not closed") from None


Shell = Annotated[
    tuple[str, ...],
    BeforeValidator(_shell),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Text = Annotated[str, Field(min_length=1, max_length=65536)]
Branch = Annotated[str, AfterValidator(_branch)]
Labels = Annotated[Names, AfterValidator(_label)]


def shown(command: Argument) -> str:
    """A command as one short line, for people."""
    text = shlex.join(command) if isinstance(command, tuple) else command
    first = next((line for line in text.splitlines() if line.strip()), "")
    line = "".join(char if char.isprintable() else " " for char in first).strip()
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"


class CommandSettings(StepSettings):
    """What every step that runs a command may be told."""

    env: Annotated[Names, AfterValidator(passed_on)] = ()
    """Names of further environment variables of the daemon that this step may see."""
    working_directory: Annotated[str, AfterValidator(_inside)] | None = None
    """Where it runs, from the workspace."""


class ScriptSettings(CommandSettings):
    """What every step that may be given to a shell may be told."""

    shell: Shell | None = None
    """What runs a text: a program and its options, to which `-c` and the text are added; `sh` when not given."""


class RunSettings(ScriptSettings):
    """A command."""

    short: ClassVar[str | None] = "command"
    command: Command

    def called(self) -> str:
        """The command."""
        return shown(self.command)


class VerifySettings(ScriptSettings):
    """A command that has to succeed: the gate before a pull request."""

    short: ClassVar[str | None] = "command"
    command: Command | None = None
    """The repository's own `.agentsmith/verify`, if it has one on its default branch, when it is not given."""
    red: Literal["draft", "fail"] = "draft"
    """What a failure leads to: a pull request that is a draft, or a failed run."""

    def called(self) -> str:
        """The command."""
        return f"verify: {shown(self.command)}" if self.command else "verify"


class AgentSettings(CommandSettings):
    """A coding agent."""

    short: ClassVar[str | None] = "agent"
    agent: Annotated[str, Field(min_length=1)] | None = None
    """One of `agents`, or a preset; `run.agent` when it is not given."""
    prompt: Text | None = None
    """The template of the prompt; else `.agentsmith/prompt.md` of the default branch, else the one for `task`."""
    task: Literal["do", "fix-bug", "add-feature"] = "do"
    """Which of the built-in prompts is used."""
    args: tuple[str, ...] = ()
    """Further arguments for the agent, e.g. its model."""
    resume: bool = True
    """Whether a later attempt goes on with the agent's session, where it can."""

    def called(self) -> str:
        """Who works."""
        return f"agent: {self.agent}" if self.agent else "agent"


class CheckoutSettings(StepSettings):
    """The repository, on the ticket's own branch."""

    short: ClassVar[str | None] = "base"
    base: Branch | None = None
    """What the branch starts from and the pull request goes to; the repository's default branch when not given."""
    submodules: bool = False
    lfs: bool = False


class CommitSettings(StepSettings):
    """Whatever has changed, as one commit."""

    short: ClassVar[str | None] = "message"
    needs_checkout: ClassVar[bool] = True
    message: Text = "{{ ticket.title }}\n\n{{ mention }}"
    """A template."""


class PushSettings(StepSettings):
    """The branch, to the repository; never forced."""

    needs_checkout: ClassVar[bool] = True


class PullRequestSettings(StepSettings):
    """A pull request, made once and kept up to date."""

    short: ClassVar[str | None] = "title"
    needs_checkout: ClassVar[bool] = True
    title: Text = "{{ ticket.title }}"
    """A template."""
    body: Text | None = None
    """A template; the built-in one tells what was done, and links the ticket."""
    draft: bool = False
    """Also when everything is green."""


class CommentSettings(StepSettings):
    """A comment of its own on the ticket."""

    short: ClassVar[str | None] = "text"
    text: Text
    """A template."""


class LabelSettings(StepSettings):
    """Labels of yours on the ticket; the lifecycle labels and triggers are not touched."""

    short: ClassVar[str | None] = "add"
    add: Labels = ()
    remove: Labels = ()

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.add and not self.remove:
            raise ValueError("needs labels to `add` or to `remove`")
        return self


BUILT_IN: Final[Mapping[str, type[StepSettings]]] = {
    "checkout": CheckoutSettings,
    "run": RunSettings,
    "agent": AgentSettings,
    "verify": VerifySettings,
    "commit": CommitSettings,
    "push": PushSettings,
    "pull_request": PullRequestSettings,
    "comment": CommentSettings,
    "label": LabelSettings,
}


@cache
def offered() -> Mapping[str, StepKind]:
    """The kinds that installed packages offer; a built-in name cannot be taken."""
    found: dict[str, StepKind] = {}
    for point in entry_points(group=ENTRY_POINTS):
        kind = point.load()
        if not isinstance(kind, StepKind):
            raise ConfigError(
                f"the package that offers the step {point.name!r} ({point.value}) must name an "
                "agentsmith.config.StepKind; correct or uninstall it"
            )
        if point.name not in BUILT_IN:
            found.setdefault(point.name, kind)
    return found


def known_kinds() -> dict[str, type[StepSettings]]:
    """Every kind of step with what it may be told, those of installed packages included."""
    return {**BUILT_IN, **{name: kind.settings for name, kind in offered().items()}}
