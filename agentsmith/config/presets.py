"""Pipelines that are there without being configured; one of the same name in the file takes their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentsmith.config.pipelines import Pipeline

SCRIPT: Final = ".agentsmith/run"
"""What `run-script` runs, in the repository."""
VERIFY: Final = ".agentsmith/verify"
"""What `verify` runs where it is told nothing, in the repository."""
PROMPT: Final = ".agentsmith/prompt.md"
"""The repository's own template of the prompt."""


def _coding(about: str, task: str) -> Pipeline:
    return Pipeline.model_validate(
        {
            "about": about,
            "steps": [
                "checkout",
                {"agent": None, "with": {"task": task}},
                "verify",
                "commit",
                "push",
                "pull_request",
            ],
        }
    )


HELLO: Final = Pipeline.model_validate(
    {
        "about": "says hello in its log and on the ticket, so that the first minute needs no file",
        "steps": [
            {
                "run": "printf 'Hello! I was asked to work on: %s\\n' \"$AGENTSMITH_TICKET_TITLE\"",
                "name": "say hello",
            },
            {"comment": "Hello! This is what a run of the pipeline `hello` leaves behind."},
        ],
    }
)
"""What runs when no pipeline is configured."""

PRESETS: Final[Mapping[str, Pipeline]] = {
    "fix-bug": _coding("a coding agent repairs what the ticket describes, up to a pull request", "fix-bug"),
    "add-feature": _coding("a coding agent builds what the ticket asks for, up to a pull request", "add-feature"),
    "run-script": Pipeline.model_validate(
        {
            "about": f"runs the repository's {SCRIPT}; what it changes becomes a pull request",
            "steps": [
                {"checkout": None, "if": "repository"},
                {"run": [SCRIPT]},
                {"commit": None, "if": "changes"},
                {"push": None, "if": "changes"},
                {"pull_request": None, "if": "changes"},
            ],
        }
    ),
}
