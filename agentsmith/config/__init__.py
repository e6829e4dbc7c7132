"""Configuration: one YAML file, the environment for secrets, and every default of the product.

This package knows no platform, no store and no command line; platforms hand in their own settings classes.
"""

from __future__ import annotations

from agentsmith.config.durations import Duration, Grace, Size
from agentsmith.config.loading import find_file, load
from agentsmith.config.models import Config
from agentsmith.config.pipelines import HELLO, STEP_KINDS, Pipeline, Section, Step, Trigger
from agentsmith.config.schema import json_schema
from agentsmith.config.sections import (
    Allow,
    Claim,
    Consumer,
    Housekeeping,
    Lease,
    Log,
    LoopLimit,
    Redis,
    Run,
    Server,
    TrackerSettings,
    Workspaces,
)

__all__ = [
    "HELLO",
    "STEP_KINDS",
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
    "Run",
    "Section",
    "Server",
    "Size",
    "Step",
    "TrackerSettings",
    "Trigger",
    "Workspaces",
    "find_file",
    "json_schema",
    "load",
]
