"""What runs, and what starts it: steps, pipelines and triggers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
)
from pydantic_core import CoreSchema

from agentsmith.config.durations import Duration
from agentsmith.config.names import Names, choices, legal_label, legal_query, passed_on

STEP_KINDS: Final = ("run",)
"""Every kind of step that this release knows; nothing else lists them."""

_BESIDE: Final = ("name", "timeout")
"""The keys that may stand beside the kind in the long form of a step."""

FILTERS: Final = ("state", "type", "assignee", "author", "component", "query")
"""What a trigger may ask of a ticket beside its label."""

_LONGEST_NAME: Final = 60


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


class Step(Section):
    """One step: `kind` says which, `argument` is what stands behind the kind in the file."""

    kind: str
    argument: str | tuple[str, ...] | dict[str, Any] | None = None
    name: str = Field(min_length=1, max_length=200)
    timeout: Duration | None = None
    """For this step; `run.step_timeout` when it is not given."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        command = {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "integer"]}}],
            "description": "a text is run by sh -c; a list is run as it is",
        }
        beside = {"name": {"type": "string"}, "timeout": Duration.__get_pydantic_json_schema__(schema, handler)}
        return {
            "type": "object",
            "properties": {**dict.fromkeys(STEP_KINDS, command), **beside},
            "oneOf": [{"required": [kind]} for kind in STEP_KINDS],
            "additionalProperties": False,
        }


def read_step(value: object) -> object:
    """Bring the forms that the file allows (`checkout`, `run: …`, the long one) into that of `Step`."""
    if isinstance(value, str):
        value = {value: None}
    if not isinstance(value, Mapping):
        return value
    kinds = [key for key in value if key not in _BESIDE]
    known = [key for key in kinds if key in STEP_KINDS]
    if len(known) == 1 and len(kinds) > 1:
        other = next(key for key in kinds if key not in known)
        raise ValueError(f"unknown key `{other}` beside `{known[0]}`{choices(other, _BESIDE)}")
    if len(kinds) != 1:
        raise ValueError("a step is one thing to do; write `- run: make test`")
    kind = kinds[0]
    if kind not in STEP_KINDS:
        raise ValueError(f"unknown step `{kind}`{choices(kind, STEP_KINDS)}")
    argument = _command(value[kind])
    name = value.get("name")
    if isinstance(name, str) and not (name.strip() and name.isprintable()):
        raise ValueError("`name` must be one line of text")
    return {
        "kind": kind,
        "argument": argument,
        "name": _name_of(kind, argument) if name is None else name,
        "timeout": value.get("timeout"),
    }


def _command(value: object) -> str | tuple[str, ...]:
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return value
    if isinstance(value, list | tuple) and value:
        words = [str(word) if type(word) is int else word for word in value]
        texts = [word for word in words if isinstance(word, str) and "\0" not in word]
        if len(texts) == len(words) and texts[0]:
            return tuple(texts)
    raise ValueError(
        "`run` needs a command: a text (`run: make test`, run by sh -c) or a list of texts "
        '(`run: [make, test]`; quote what is not a text: "1.5")'
    )


def _name_of(kind: str, argument: str | tuple[str, ...]) -> str:
    text = shlex.join(argument) if isinstance(argument, tuple) else argument
    first = next((line for line in text.splitlines() if line.strip()), kind)
    shown = "".join(char if char.isprintable() else " " for char in first).strip() or kind
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


class Pipeline(Section):
    """Steps that are run one after the other, in the ticket's own workspace."""

    steps: tuple[Annotated[Step, BeforeValidator(read_step)], ...] = Field(min_length=1)
    timeout: Duration | None = None
    """For the whole run; `run.timeout` when it is not given."""
    env: Annotated[Names, AfterValidator(passed_on)] = ()
    """Names of the daemon's environment variables that the steps may see."""
    capacity: Annotated[int, Field(ge=1)] | None = None
    """How many tickets of this pipeline may be queued and running together; no limit when it is not given."""


Filter = Annotated[Names, Field(min_length=1)]


class Trigger(Section):
    """Which label starts which pipeline."""

    label: Annotated[str, AfterValidator(legal_label)]
    pipeline: str
    tracker: Annotated[Names, Field(min_length=1)] | None = None
    """Only on these trackers; on all when it is not given."""
    state: Filter | None = None
    """Only tickets in one of these states, in the platform's own words."""
    type: Filter | None = None
    """Only tickets of one of these types: `Bug`, `Task`."""
    assignee: Filter | None = None
    """Only tickets of one of these people; `none` is nobody, `*` is anybody."""
    author: Filter | None = None
    """Only tickets that one of these people opened."""
    component: Filter | None = None
    """Only tickets of one of these components (Jira), or below one of these area paths (Azure DevOps)."""
    query: Annotated[str, AfterValidator(legal_query)] | None = None
    """Only tickets whose title or text holds these words; `"two words"` is a phrase, `-word` must not be there."""

    def applies_to(self, tracker: str) -> bool:
        """Whether this label counts on the tracker of that name."""
        return self.tracker is None or tracker in self.tracker

    @property
    def filtered(self) -> tuple[str, ...]:
        """The filters that are set."""
        return tuple(name for name in FILTERS if getattr(self, name) is not None)


HELLO: Final = Pipeline(
    steps=(
        Step(
            kind="run",
            argument="printf 'Hello! I was asked to work on: %s\\n' \"$AGENTSMITH_TICKET_TITLE\"",
            name="say hello",
        ),
    )
)
"""What runs when no pipeline is configured, so that the first minute needs no file."""
