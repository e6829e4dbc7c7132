"""`agentsmith config …`: whether the configuration is right, and its schema for editors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentsmith.cli import output, reach, session
from agentsmith.config import Config, Duration, find_file, json_schema
from agentsmith.daemon.open import open_trackers
from agentsmith.trackers import forges, registry


def check(file: Path | None, *, without_secrets: bool, as_json: bool) -> None:
    """Load everything and say what was found."""
    config = session.begin(file, secrets="as needed" if without_secrets else "all")
    found = asyncio.run(_found(config, find_file(file)))
    if as_json:
        output.json_result({"ok": True, **found})
        return
    output.say(f"{found['file'] or 'The defaults (there is no file)'}: fine")
    output.say(f"data_dir  {found['data_dir']}")
    output.say(f"redis     {found['redis'] or 'our own server, in data_dir'}")
    output.title("Trackers")
    output.rows(
        ("Name", "Platform", "Project", "Looked at every"),
        [(t["name"], t["platform"], t["project"], t["poll_interval"]) for t in found["trackers"]],
    )
    output.title("Labels that start something")
    output.rows(
        ("Label", "Pipeline", "On"),
        [(t["label"], t["pipeline"], ", ".join(t["trackers"])) for t in found["triggers"]],
    )
    output.title("Pipelines")
    output.rows(("Name", "Steps"), [(p["name"], " → ".join(p["steps"])) for p in found["pipelines"]])


async def _found(config: Config, file: Path | None) -> dict[str, Any]:
    async with open_trackers(config) as trackers:
        return {
            "file": str(file) if file else None,
            "data_dir": str(config.data_dir),
            "redis": reach.shown_address(config),
            "trackers": [
                {
                    "name": name,
                    "platform": tracker.platform,
                    "project": tracker.project,
                    "poll_interval": Duration(config.trackers[name].poll_interval).text,
                }
                for name, tracker in trackers.items()
            ],
            "triggers": [
                {
                    "label": trigger.label,
                    "pipeline": trigger.pipeline,
                    "trackers": [name for name in trackers if trigger.applies_to(name)],
                }
                for trigger in config.triggers
            ],
            "pipelines": [
                {"name": name, "steps": [step.name for step in pipeline.steps]}
                for name, pipeline in config.pipelines.items()
            ],
        }


def schema() -> None:
    """The JSON schema of the file."""
    output.json_result(json_schema(registry.settings_models(), forges.settings_models()))
