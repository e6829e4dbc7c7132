"""The built-in steps, and the one table of what each kind does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from agentsmith.config.steps import offered
from agentsmith.domain.errors import ConfigError
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.outcome import StepEnd
from agentsmith.pipelines.steps.agent import agent
from agentsmith.pipelines.steps.code import checkout, commit, push
from agentsmith.pipelines.steps.command import run, verify
from agentsmith.pipelines.steps.pull_request import pull_request
from agentsmith.pipelines.steps.ticket import comment, label

RunStep = Callable[[StepContext, Any], Awaitable[StepEnd]]

BUILT_IN: Final[Mapping[str, RunStep]] = {
    "checkout": checkout,
    "run": run,
    "agent": agent,
    "verify": verify,
    "commit": commit,
    "push": push,
    "pull_request": pull_request,
    "comment": comment,
    "label": label,
}


def doing(kind: str) -> RunStep:
    """What a step of this kind does."""
    if kind in BUILT_IN:
        return BUILT_IN[kind]
    found = offered().get(kind)
    if found is None:
        raise ConfigError(f"no package here offers the step `{kind}`; install it on every consumer")
    return found.run
