"""`agentsmith labels`: the lifecycle labels, what each means, and making them where a platform wants that."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from agentsmith.cli import output, session
from agentsmith.config import Config
from agentsmith.daemon.build import open_trackers
from agentsmith.domain.errors import TrackerError
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import DefinesLabels, Tracker

MEANINGS: Final = {
    Status.PENDING: "eligible, if a trigger is set",
    Status.ENQUEUED: "claimed, waits for a free slot",
    Status.IN_PROGRESS: "is being worked on",
    Status.WAITING: "parked on a person, a time or another ticket",
    Status.DONE: "finished",
    Status.FAILED: "failed; the comment says why",
}


@dataclass(frozen=True, slots=True)
class Made:
    """What was made on one tracker; `ok` decides the exit code."""

    tracker: str
    ok: bool
    made: tuple[str, ...]
    message: str


def labels(file: Path | None, *, create: bool, as_json: bool) -> bool:
    """Show the labels, and make those that are missing if asked to; False when that failed somewhere."""
    config = session.begin(file)
    shown = [
        {"label": config.labels.label(status), "status": status.value, "means": MEANINGS[status]} for status in Status
    ]
    made = asyncio.run(_create(config)) if create else []
    if as_json:
        triggers = [{"label": trigger.label, "pipeline": trigger.pipeline} for trigger in config.triggers]
        output.json_result({"labels": shown, "triggers": triggers, "made": [asdict(one) for one in made]})
    else:
        output.rows(("Label", "Means"), [(one["label"], one["means"]) for one in shown])
        output.title("Labels that people set")
        output.rows(("Label", "Starts"), [(trigger.label, trigger.pipeline) for trigger in config.triggers])
        for one in made:
            output.say(f"{one.tracker}: {one.message}")
    return all(one.ok for one in made)


async def _create(config: Config) -> list[Made]:
    async with open_trackers(config) as trackers:
        return [await _create_on(tracker) for tracker in trackers.values()]


async def _create_on(tracker: Tracker) -> Made:
    if not isinstance(tracker, DefinesLabels):
        return Made(tracker.name, True, (), f"{tracker.platform} makes labels when they are first used")
    try:
        made = await tracker.ensure_labels()
    except TrackerError as error:
        return Made(tracker.name, False, (), str(error))
    return Made(tracker.name, True, made, f"made {', '.join(made)}" if made else "all of them are there")
