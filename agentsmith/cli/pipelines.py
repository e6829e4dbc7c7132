"""`agentsmith pipelines`: what can run, and what starts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentsmith.cli import output, session
from agentsmith.config import PRESETS, Config, Pipeline


def pipelines(file: Path | None, *, as_json: bool) -> None:
    """Show every pipeline."""
    config = session.begin(file)
    found = [described(name, pipeline, config) for name, pipeline in config.pipelines.items()]
    if as_json:
        output.json_result(found)
        return
    output.rows(
        ("Name", "Started by", "Steps", "What for"),
        [
            (one["name"], ", ".join(one["labels"]) or "-", " → ".join(s["name"] for s in one["steps"]), one["about"])
            for one in found
        ],
    )
    output.note(f"\nAgents: {', '.join(config.agents)}; `agent` without a name is {config.run.agent}.")


def described(name: str, pipeline: Pipeline, config: Config) -> dict[str, Any]:
    """A pipeline as programs want to know it."""
    return {
        "name": name,
        "about": pipeline.about,
        "preset": pipeline is PRESETS.get(name),
        "labels": [trigger.label for trigger in config.triggers if trigger.pipeline == name],
        "needs_changes": pipeline.needs_changes,
        "env": list(pipeline.env),
        "steps": [
            {
                "name": step.name,
                "kind": step.kind,
                "if": step.condition,
                "retries": step.retries,
                "with": step.settings.model_dump(mode="json", exclude_defaults=True),
            }
            for step in pipeline.steps
        ],
    }
