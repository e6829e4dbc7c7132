"""What runs, and what starts it: steps, pipelines and triggers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializeAsAny,
    model_validator,
)
from pydantic_core import CoreSchema

from agentsmith.config import conditions
from agentsmith.config.conditions import Condition
from agentsmith.config.durations import Duration
from agentsmith.config.names import Names, choices, legal_label, legal_query, passed_on
from agentsmith.config.section import Section
from agentsmith.config.steps import BUILT_IN, CommandSettings, ScriptSettings, StepSettings, known_kinds

_COMMON: Final = ("id", "name", "if", "timeout", "retries", "with")
_SHORTCUTS: Final = tuple(sorted({*CommandSettings.model_fields, *ScriptSettings.model_fields}))
BESIDE: Final = (*_COMMON, *_SHORTCUTS)
"""The keys that may stand beside the kind in the long form of a step; the latter are settings that `with` takes too."""

FILTERS: Final = ("state", "type", "assignee", "author", "component", "query")
"""What a trigger may ask of a ticket beside its label."""

_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")


class Step(Section):
    """One step: `kind` says which, `settings` what it was told."""

    kind: str
    settings: SerializeAsAny[StepSettings]
    id: str = ""
    """What conditions call it; the kind where it is the only one of its kind, else only if given."""
    name: str = Field(min_length=1, max_length=200)
    condition: str = "success"
    """When it runs: `if` in the file."""
    timeout: Duration | None = None
    """For this step; `run.step_timeout` when it is not given."""
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    """How often it is tried again at once when it failed."""

    @classmethod
    def read(cls, value: object) -> Self:
        """The step that the file would write so."""
        return cls.model_validate(read_step(value))

    def when(self) -> Condition:
        """The condition, ready to be asked."""
        return conditions.parse(self.condition)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return step_schema(Duration.__get_pydantic_json_schema__(schema, handler))


def step_schema(duration: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of a step as it stands in the file."""
    kinds = known_kinds()
    properties: dict[str, Any] = {
        "id": {"type": "string", "pattern": f"^{_ID.pattern}$"},
        "name": {"type": "string"},
        "if": {"type": "string", "description": f"{', '.join(conditions.WORDS)}, or `STEP failed` and the like"},
        "timeout": dict(duration),
        "retries": {"type": "integer", "minimum": 0, "maximum": 10},
        "with": {"type": "object"},
    }
    for name in _SHORTCUTS:
        properties[name] = _plain_schema(ScriptSettings)[name]
    for kind, settings in kinds.items():
        whole = {"type": "object", "properties": _plain_schema(settings), "additionalProperties": False}
        short = _plain_schema(settings)[settings.short] if settings.short else {"type": "null"}
        properties[kind] = {"anyOf": [short, whole, {"type": "null"}]}
    long = {
        "type": "object",
        "properties": properties,
        "oneOf": [{"required": [kind]} for kind in kinds],
        "additionalProperties": False,
    }
    return {"anyOf": [{"type": "string", "enum": list(kinds)}, long]}


def _plain_schema(settings: type[StepSettings]) -> dict[str, Any]:
    """The properties of the settings; their titles only repeat the key."""
    found: dict[str, Any] = settings.model_json_schema()["properties"]
    return {name: {k: v for k, v in one.items() if k != "title"} for name, one in found.items()}


def kind_of(value: object) -> type[StepSettings] | None:
    """What the step that the file writes so may be told, if its kind is known."""
    if not isinstance(value, Mapping):
        return None
    kinds = [key for key in value if key not in BESIDE]
    return known_kinds().get(kinds[0]) if len(kinds) == 1 and isinstance(kinds[0], str) else None


def read_step(value: object) -> object:
    """Bring the forms that the file allows (`checkout`, `run: …`, the long one) into that of `Step`."""
    if isinstance(value, str):
        value = {value: None}
    if not isinstance(value, Mapping):
        return value
    kind, settings = _kind(value)
    read = settings.model_validate(_given(kind, settings, value))
    name = value.get("name")
    if isinstance(name, str) and not (name.strip() and name.isprintable()):
        raise ValueError("`name` must be one line of text")
    identity = value.get("id")
    if identity is not None and not (isinstance(identity, str) and _ID.fullmatch(identity)):
        raise ValueError("`id` must be one word of letters, digits, '.', '-' and '_'")
    condition = value.get("if")
    if isinstance(condition, str):
        try:
            conditions.parse(condition)
        except ValueError as error:
            raise ValueError(f"`if` {error}") from None
    elif condition is not None:
        raise ValueError("`if` must be a text; put it in quotation marks")
    return {
        "kind": kind,
        "settings": read,
        "id": identity or "",
        "name": (read.called() or kind) if name is None else name,
        "condition": condition or "success",
        "timeout": value.get("timeout"),
        "retries": value.get("retries", 0),
    }


def _kind(value: Mapping[str, Any]) -> tuple[str, type[StepSettings]]:
    kinds = [key for key in value if key not in BESIDE]
    if len(kinds) == 1 and kinds[0] in BUILT_IN:
        return kinds[0], BUILT_IN[kinds[0]]  # without a look at every package that is installed
    known = known_kinds()
    right = [key for key in kinds if key in known]
    if len(right) == 1 and len(kinds) > 1:
        other = next(key for key in kinds if key not in right)
        raise ValueError(f"unknown key `{other}` beside `{right[0]}`{choices(str(other), BESIDE)}")
    if len(kinds) != 1:
        raise ValueError("a step is one thing to do; write `- run: make test`")
    if not right:
        raise ValueError(f"unknown step `{kinds[0]}`{choices(str(kinds[0]), known)}")
    return right[0], known[right[0]]


def _given(kind: str, settings: type[StepSettings], value: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the step, from wherever they may stand; none may stand twice."""
    argument, beside = value[kind], value.get("with")
    places: list[dict[str, Any]] = [{key: value[key] for key in _SHORTCUTS if value.get(key) is not None}]
    if isinstance(beside, Mapping):
        places.append(dict(beside))
    elif beside is not None:
        raise ValueError(f"`with` must be a mapping: what `{kind}` is told, one `key: value` per line")
    if isinstance(argument, Mapping):
        places.append(dict(argument))
    elif argument is not None and settings.short is not None:
        places.append({settings.short: argument})
    elif argument is not None:
        raise ValueError(f"`{kind}` takes no value; write `- {kind}`")
    given: dict[str, Any] = {}
    for place in places:
        if twice := sorted(given.keys() & place.keys()):
            raise ValueError(f"`{twice[0]}` is given twice; keep one")
        given |= {key: item for key, item in place.items() if item is not None}
    if (
        settings.short is not None
        and settings.short not in given
        and settings.model_fields[settings.short].is_required()
    ):
        raise ValueError(f"`{kind}` needs a {settings.short}; write `- {kind}: …`")
    return given


class Pipeline(Section):
    """Steps that are run one after the other, in the ticket's own workspace."""

    about: Annotated[str, Field(max_length=200)] = ""
    """What it is for, in a few words; `agentsmith pipelines` shows it."""
    steps: tuple[Annotated[Step, BeforeValidator(read_step)], ...] = Field(min_length=1, max_length=100)
    timeout: Duration | None = None
    """For the whole run; `run.timeout` when it is not given."""
    env: Annotated[Names, AfterValidator(passed_on)] = ()
    """Names of the daemon's environment variables that the steps may see."""
    changes: Literal["needed", "optional"] | None = None
    """Whether a run that changed nothing is a failure; needed when there is an unconditional `pull_request`."""
    capacity: Annotated[int, Field(ge=1)] | None = None
    """How many tickets of this pipeline may be queued and running together; no limit when it is not given."""

    @property
    def needs_changes(self) -> bool:
        """Whether a run is only done when the branch differs from its base."""
        if self.changes is not None:
            return self.changes == "needed"
        return any(step.kind == "pull_request" and step.condition == "success" for step in self.steps)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for problem in _contradictions(self.steps):
            raise ValueError(problem)
        return self


def _contradictions(steps: Sequence[Step]) -> Iterator[str]:
    """What each step is fine with, but not in this order."""
    earlier: set[str] = set()
    checked_out = False
    for number, step in enumerate(steps, 1):
        which = f"step {number} (`{step.name}`)"
        if step.settings.needs_checkout and not checked_out:
            yield f"{which} needs a `checkout` before it"
        for name in step.when().steps:
            if name not in earlier:
                known = choices(name, sorted(earlier)) if earlier else "; nothing runs before it"
                yield f"{which}: its `if` asks about `{name}`, which is no step before it{known}"
        named = identity(step, steps)
        if named in earlier and step.id:
            yield f"{which}: the id `{named}` stands twice; ids must differ"
        if named:
            earlier.add(named)
        checked_out |= step.kind == "checkout"


def identity(step: Step, steps: Sequence[Step]) -> str:
    """What conditions call the step: its id, or its kind when no other step has that; else nothing."""
    if step.id:
        return step.id
    taken = sum(other.id == step.kind or (not other.id and other.kind == step.kind) for other in steps)
    return step.kind if taken == 1 else ""


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
