"""The configuration: every setting, its default and the rules between settings.

Defaults stand here and nowhere else. This module reads neither files nor the environment (`loading` does),
and knows no platform: the settings of a tracker are a subclass in that platform's own folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Self, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from agentsmith.config.agents import PRESETS as AGENTS
from agentsmith.config.agents import Agent
from agentsmith.config.described import Described
from agentsmith.config.durations import Duration
from agentsmith.config.lacking import lacks_in
from agentsmith.config.names import (
    Names,
    PipelineName,
    RepositoryName,
    TrackerName,
    absolute,
    choices,
    default_data_dir,
    legal_prefix,
)
from agentsmith.config.pipelines import Pipeline, Trigger
from agentsmith.config.presets import HELLO
from agentsmith.config.presets import PRESETS as PIPELINES
from agentsmith.config.rules import Loc, broken_rules
from agentsmith.config.section import Section
from agentsmith.config.sections import (
    Allow,
    Claim,
    Consumer,
    Housekeeping,
    Lease,
    Log,
    Redis,
    RepositorySettings,
    Run,
    Server,
    TrackerSettings,
    Workspaces,
)
from agentsmith.domain.lifecycle import DEFAULT_PREFIX, LabelSet

ENV_PREFIX: Final = "AGENTSMITH_"
_SHORTEST_HIDDEN: Final = 8
"""Characters; what is shorter stands in too many texts by chance."""
NESTING: Final = "__"
Kind = TypeVar("Kind", bound=Section)


class Config(Described, BaseSettings):
    """The whole configuration. Making one reads neither environment nor files; `load` does that."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=NESTING,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    _variables: dict[str, str] = PrivateAttr(default_factory=dict)
    _shown: frozenset[str] = PrivateAttr(default=frozenset())

    data_dir: Annotated[Path, AfterValidator(absolute)] = Field(default_factory=lambda: default_data_dir(os.environ))
    """Where the built-in tracker, the server of our own and the workspaces live."""
    env_file: Path | None = None
    """Variables that `${NAME}` is filled in from where the environment does not have them; from the folder of the
    configuration file. Without it, `agentsmith.env` there, if there is one."""
    label_prefix: Annotated[str, AfterValidator(legal_prefix)] = DEFAULT_PREFIX
    """The lifecycle labels are this and the status: `agent-smith:done`."""
    former_label_prefixes: Names = ()
    """Labels under these still count as a status, so that a new prefix reruns nothing."""
    redis: Redis = Redis()
    server: Server = Server()
    lease: Lease = Lease()
    consumer: Consumer = Consumer()
    run: Run = Run()
    workspaces: Workspaces = Workspaces()
    claim: Claim = Claim()
    housekeeping: Housekeeping = Housekeeping()
    allow: Allow = Allow()
    log: Log = Log()
    trackers: dict[TrackerName, SerializeAsAny[TrackerSettings]] = Field(default_factory=dict)
    """Where tickets live; with none, `local` is there under the name `local`."""
    repositories: dict[RepositoryName, SerializeAsAny[RepositorySettings]] = Field(default_factory=dict)
    """Where code lives that is not beside its tickets; trackers name one of these as their `code`."""
    agents: dict[PipelineName, Agent] = Field(default_factory=dict)
    """Coding agents; the presets are there besides, unless one of the same name takes their place."""
    pipelines: dict[PipelineName, Pipeline] = Field(default_factory=dict)
    """What runs; with none, `hello` is there. The presets are there in any case."""
    triggers: tuple[Trigger, ...] = ()
    """Which label starts what; with none, the label prefix itself starts the first pipeline."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is the library's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is given counts: `load` merges file and environment, and knows where each value stood."""
        return (init_settings,)

    @property
    def labels(self) -> LabelSet:
        """The closed set of labels that may be written."""
        return LabelSet(self.label_prefix, self.former_label_prefixes)

    def allow_for(self, tracker: str) -> Allow:
        """Who may start work on the tracker of that name."""
        return self.trackers[tracker].allow or self.allow

    def code_of(self, tracker: str) -> tuple[str, RepositorySettings] | None:
        """The repository that the tickets of a tracker are about, with its name (else the tracker's); None: no code."""
        settings = self.trackers[tracker]
        if settings.code is not None:
            return settings.code, self.repositories[settings.code]
        own = settings.own_repository()
        return None if own is None else (tracker, own)

    def triggers_for(self, tracker: str) -> tuple[Trigger, ...]:
        """The triggers that count on the tracker of that name."""
        return tuple(trigger for trigger in self.triggers if trigger.applies_to(tracker))

    def secrets(self) -> Iterator[str]:
        """Every secret value, so that logs can be kept free of them (P8); also passwords inside addresses."""
        hidden = (value for name, value in self._variables.items() if name not in self._shown)
        for secret in (*secrets_in(self), *(value for value in hidden if len(value) >= _SHORTEST_HIDDEN)):
            if lacks_in(secret):
                continue
            yield secret
            try:
                password = urlsplit(secret).password
            except ValueError:
                continue
            if password:
                yield password
                yield unquote(password)

    @property
    def variables(self) -> Mapping[str, str]:
        """What the env_file holds: for steps that are handed some of it, and for nobody else (P8)."""
        return self._variables

    def hold(self, variables: Mapping[str, str], *, shown: Iterable[str]) -> None:
        """Take in what the env_file holds; those `shown` stand where no secret does, the others are hidden."""
        self._variables, self._shown = dict(variables), frozenset(shown)

    def scaled(self, factor: float) -> Self:
        """The same configuration with every duration multiplied, for demos and tests that cannot wait."""
        if not 0 < factor < float("inf"):
            raise ValueError(f"the factor must be above zero, not {factor}")
        scaled = _scaled(self, factor)
        assert isinstance(scaled, type(self))  # noqa: S101 - tells the type checker, cannot fail
        return scaled

    @field_validator("former_label_prefixes")
    @classmethod
    def _legal_prefixes(cls, prefixes: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for prefix in prefixes:
            legal_prefix(prefix)
            if prefix.casefold() == str(info.data.get("label_prefix", "")).casefold():
                raise ValueError(f"lists {prefix}, which is the label_prefix of today; remove it here")
        return prefixes

    @field_validator("agents")
    @classmethod
    def _preset_agents(cls, agents: dict[str, Agent]) -> dict[str, Agent]:
        return {**agents, **{name: agent for name, agent in AGENTS.items() if name not in agents}}

    @field_validator("pipelines")
    @classmethod
    def _preset_pipelines(cls, pipelines: dict[str, Pipeline]) -> dict[str, Pipeline]:
        own = pipelines or {"hello": HELLO}
        return {**own, **{name: pipeline for name, pipeline in PIPELINES.items() if name not in own}}

    @field_validator("triggers")
    @classmethod
    def _some_trigger(cls, triggers: tuple[Trigger, ...], info: ValidationInfo) -> tuple[Trigger, ...]:
        prefix, pipelines = info.data.get("label_prefix"), info.data.get("pipelines")
        if triggers or prefix is None or pipelines is None:
            return triggers
        return (Trigger(label=prefix, pipeline=next(iter(pipelines))),)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if problems := [_detail(*problem) for problem in broken_rules(self)]:
            raise ValidationError.from_exception_data("Config", problems)
        return self


def _detail(loc: Loc, text: str) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError("rule", "{text}", {"text": text}), loc=loc, input=None)


def _scaled(value: object, factor: float) -> object:
    match value:
        case Duration():
            return type(value)(value * factor)
        case BaseModel():
            fields = {name: getattr(value, name) for name in type(value).model_fields}
            changed = {name: new for name, old in fields.items() if (new := _scaled(old, factor)) is not old}
            return value.model_copy(update=changed) if changed else value
        case tuple():
            items = tuple(_scaled(item, factor) for item in value)
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        case dict():
            return {key: _scaled(item, factor) for key, item in value.items()}
        case _:
            return value


def secrets_in(value: object) -> Iterator[str]:
    """Every secret in a part of the configuration, and what stands in for those that are missing."""
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case BaseModel():
            for name in type(value).model_fields:
                yield from secrets_in(getattr(value, name))
        case dict():
            for item in value.values():
                yield from secrets_in(item)
        case tuple() | list():
            for item in value:
                yield from secrets_in(item)


NO_HOSTS: Final[Mapping[str, type[RepositorySettings]]] = MappingProxyType({})


def for_platforms(
    platforms: Mapping[str, type[TrackerSettings]], hosts: Mapping[str, type[RepositorySettings]] = NO_HOSTS
) -> type[Config]:
    """Config whose trackers and repositories are read by the settings class of their own platform."""
    return _for_platforms(_hashable(platforms), _hashable(hosts))


def _hashable(known: Mapping[str, type[Section]]) -> Hashable:
    """A dictionary as a tuple; what imports a class only when it is asked for stays as it is."""
    return (
        tuple(sorted(known.items(), key=lambda item: item[0])) if isinstance(known, dict | MappingProxyType) else known
    )


@cache
def _for_platforms(platforms: Any, hosts: Any) -> type[Config]:
    known, code = (it if isinstance(it, Mapping) else dict(it) for it in (platforms, hosts))
    tracker: Any = Annotated[SerializeAsAny[TrackerSettings], BeforeValidator(_by_platform(known))]
    repository: Any = Annotated[SerializeAsAny[RepositorySettings], BeforeValidator(_by_platform(code))]
    return create_model(
        "Config",
        __base__=Config,
        trackers=(dict[TrackerName, tracker], Field(default_factory=dict)),
        repositories=(dict[RepositoryName, repository], Field(default_factory=dict)),
    )


def _by_platform(known: Mapping[str, type[Section]]) -> Callable[[object], object]:
    """Reads a section by the class that its `platform` names."""

    def read(value: object) -> object:
        if isinstance(value, Section) or not isinstance(value, Mapping):
            return value
        platform = value.get("platform")
        if isinstance(platform, str) and platform in known:
            return known[platform].model_validate(value)
        if platform is None:
            text = f"is missing; name one of {', '.join(sorted(known))}"
        else:
            text = f"is not a platform{choices(str(platform), sorted(known))}"
        raise ValidationError.from_exception_data("Config", [_detail(("platform",), text)])

    return read
