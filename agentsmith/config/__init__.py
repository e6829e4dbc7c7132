"""Configuration: one YAML file, the environment for secrets, and every default of the product.

This package knows no platform, no store and no command line; platforms hand in their own settings classes.
"""

from __future__ import annotations

from agentsmith.config.agents import Agent
from agentsmith.config.durations import Duration, Grace, Size
from agentsmith.config.loading import find_file, load
from agentsmith.config.models import Config
from agentsmith.config.pipelines import Pipeline, Step, Trigger
from agentsmith.config.presets import HELLO, PRESETS
from agentsmith.config.schema import json_schema
from agentsmith.config.section import Section
from agentsmith.config.sections import (
    Allow,
    Claim,
    Consumer,
    Housekeeping,
    Lease,
    Log,
    LoopLimit,
    Redis,
    RepositorySettings,
    Run,
    RunLimits,
    Server,
    TrackerSettings,
    Workspaces,
)
from agentsmith.config.steps import StepKind, StepSettings

__all__ = [
    "HELLO",
    "PRESETS",
    "Agent",
    "Allow",
    "Claim",
    "Config",
    "Consumer",
    "Duration",
    "Grace",
    "Housekeeping",
    "Lease",
    "Log",
    "LoopLimit",
    "Pipeline",
    "Redis",
    "RepositorySettings",
    "Run",
    "RunLimits",
    "Section",
    "Server",
    "Size",
    "Step",
    "StepKind",
    "StepSettings",
    "TrackerSettings",
    "Trigger",
    "Workspaces",
    "find_file",
    "json_schema",
    "load",
]
