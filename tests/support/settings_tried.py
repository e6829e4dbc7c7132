"""Every setting that there is, and values of every kind to try in its place."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from agentsmith.config import Agent, Config, Pipeline, Trigger
from agentsmith.tickets.live_rules import RELOADED, RELOADED_OF_A_TRACKER

SettingPath = tuple[str | int, ...]

VALUES: Final[tuple[object, ...]] = (
    *(3, 77, 0.25, True, False, None, "", [], {}, "7s", "70m", "2 GB", "another", "json", "warning", "write"),
    *("/elsewhere", ["another"], "127.0.0.9", "redis://127.0.0.9", "http://127.0.0.9", "always", {"memory": "1 GB"}),
    *("codex", "21s", "none", "admin", "some.env", "anyone", "https://e.org/{run}", ["sudo", "{command}"], "lib"),
    *("optional", "web", "desk", "(?P<cost_usd>1)", ["another", "{session}"], [{"run": "true"}]),
    *({"users": ["ann"]}, {"another": {"command": ["echo"]}}, {"hello": {"steps": [{"run": "true"}]}}),
    {"hello": {"steps": [{"agent": "another"}]}, "fresh": {"steps": [{"run": "true"}]}},
    [{"label": "another", "pipeline": "hello"}],
    [{"label": "one", "pipeline": "hello", "author": "ann"}],
    {"another": {"platform": "git", "url": "https://e.org/a.git"}},
    {"another": {"platform": "github", "repository": "acme/another", "token": "t0k3n"}},
    {"another": {"platform": "local", "project": "another"}},
)


def settings_of(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every setting that a section has, and those of the sections inside it, as a path of keys."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from settings_of(inner, (*above, name))
        else:
            yield (*above, name)


def changed(base: dict[str, Any], path: SettingPath, value: object) -> dict[str, Any]:
    """The document with another value for this setting."""
    document = copy.deepcopy(base)
    at: Any = document
    for part in path[:-1]:
        at = at[part] if isinstance(part, int) else at.setdefault(part, {})
    at[path[-1]] = value
    return document


def is_said(path: SettingPath, waiting: list[str]) -> bool:
    """Whether one of these settings, which need a restart, is this one or what it is a part of."""
    top = ".".join(map(str, path[: 2 if path[0] == "trackers" else 1]))
    return any(name == top or name.startswith(f"{top}.") for name in waiting)


def is_reloaded(path: SettingPath) -> bool:
    """Whether it is one of those that are put in force while the daemon runs."""
    return path[0] in RELOADED or (path[0] == "trackers" and path[-1] in RELOADED_OF_A_TRACKER)


SETTINGS: Final = tuple(settings_of(Config))
_ENTRIES: Final[tuple[tuple[SettingPath, type[BaseModel]], ...]] = (
    (("triggers", 0), Trigger),
    (("pipelines", "hello"), Pipeline),
    (("agents", "mine"), Agent),
)
_OF_EVERY_STEP: Final = ("id", "name", "if", "timeout", "retries", "env", "working_directory", "shell", "run")
ENTRIES: Final[tuple[SettingPath, ...]] = (
    *((*at, *path) for at, model in _ENTRIES for path in settings_of(model)),
    *(("pipelines", "hello", "steps", 0, name) for name in _OF_EVERY_STEP),
)
"""The settings of what stands in lists and under names of its own: a trigger, a pipeline, its first step, an agent."""
