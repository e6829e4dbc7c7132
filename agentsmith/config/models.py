"""The configuration: every setting, its default and the rules between settings.

Defaults stand here and nowhere else. This module reads neither files nor the environment (`loading` does),
and knows no platform: the settings of a tracker are a subclass in that platform's own folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
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

from agentsmith.config.durations import Duration
from agentsmith.config.names import (
    Names,
    PipelineName,
    TrackerName,
    absolute,
    choices,
    default_data_dir,
    legal_prefix,
)
from agentsmith.config.pipelines import HELLO, Pipeline, Trigger
from agentsmith.config.rules import Loc, broken_rules
from agentsmith.config.sections import (
    Allow,
    Claim,
    Consumer,
    Housekeeping,
    Lease,
    Log,
    Redis,
    Run,
    Server,
    TrackerSettings,
    Workspaces,
)
from agentsmith.domain.lifecycle import DEFAULT_PREFIX, LabelSet

ENV_PREFIX: Final = "AGENTSMITH_"
NESTING: Final = "__"


class Config(BaseSettings):
    """The whole configuration. Making one reads neither environment nor files; `load` does that."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=NESTING,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    data_dir: Annotated[Path, AfterValidator(absolute)] = Field(default_factory=lambda: default_data_dir(os.environ))
    """Where the built-in tracker, the server of our own and the workspaces live."""
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
    pipelines: dict[PipelineName, Pipeline] = Field(default_factory=dict)
    """What runs; with none, `hello` is there."""
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

    def triggers_for(self, tracker: str) -> tuple[Trigger, ...]:
        """The triggers that count on the tracker of that name."""
        return tuple(trigger for trigger in self.triggers if trigger.applies_to(tracker))

    def secrets(self) -> Iterator[str]:
        """Every secret value, so that logs can be kept free of them (P8); also passwords inside addresses."""
        for secret in _secrets_in(self):
            yield secret
            try:
                password = urlsplit(secret).password
            except ValueError:
                continue
            if password:
                yield password
                yield unquote(password)

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

    @field_validator("pipelines")
    @classmethod
    def _some_pipeline(cls, pipelines: dict[str, Pipeline]) -> dict[str, Pipeline]:
        return pipelines or {"hello": HELLO}

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


def _secrets_in(value: object) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case BaseModel():
            for name in type(value).model_fields:
                yield from _secrets_in(getattr(value, name))
        case dict():
            for item in value.values():
                yield from _secrets_in(item)
        case tuple() | list():
            for item in value:
                yield from _secrets_in(item)


def for_platforms(platforms: Mapping[str, type[TrackerSettings]]) -> type[Config]:
    """Config whose trackers are read by the settings class of their own platform."""
    return _for_platforms(tuple(sorted(platforms.items(), key=lambda item: item[0])))


@cache
def _for_platforms(known: tuple[tuple[str, type[TrackerSettings]], ...]) -> type[Config]:
    platforms = dict(known)

    def read(value: object) -> object:
        if isinstance(value, TrackerSettings) or not isinstance(value, Mapping):
            return value
        platform = value.get("platform")
        if isinstance(platform, str) and platform in platforms:
            return platforms[platform].model_validate(value)
        if platform is None:
            text = f"is missing; name one of {', '.join(platforms)}"
        else:
            text = f"is not a platform{choices(str(platform), platforms)}"
        raise ValidationError.from_exception_data("TrackerSettings", [_detail(("platform",), text)])

    entry: Any = Annotated[SerializeAsAny[TrackerSettings], BeforeValidator(read)]
    return create_model("Config", __base__=Config, trackers=(dict[TrackerName, entry], Field(default_factory=dict)))
