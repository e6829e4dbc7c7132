"""`agentsmith labels`: the labels that matter, where they exist, and making them where a platform wants that."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from agentsmith.cli import output, session
from agentsmith.config import Config
from agentsmith.daemon.open import open_trackers
from agentsmith.domain.errors import SecretMissing, TrackerError
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

_PATIENCE: Final = 5.0
Missing = Mapping[str, frozenset[str] | None]
"""What each tracker lacks; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Made:
    """What was made on one tracker; `ok` decides the exit code."""

    tracker: str
    ok: bool
    made: tuple[str, ...]
    message: str


def labels(file: Path | None, *, create: bool, as_json: bool) -> bool:
    """Show the labels and where they exist, and make those that are missing if asked to; False when that failed
    somewhere."""
    config = session.begin(file)
    made, missing = asyncio.run(_asked(config, create=create))
    shown: list[dict[str, Any]] = [
        {
            "label": (label := config.labels.label(status)),
            "status": status.value,
            "means": MEANINGS[status],
            "on": _on(missing, label, missing),
        }
        for status in Status
    ]
    triggers: list[dict[str, Any]] = [
        {
            "label": trigger.label,
            "pipeline": trigger.pipeline,
            "on": _on(missing, trigger.label, [name for name in missing if trigger.applies_to(name)]),
        }
        for trigger in config.triggers
    ]
    if as_json:
        output.json_result({"labels": shown, "triggers": triggers, "made": [asdict(one) for one in made]})
        return all(one.ok for one in made)
    output.rows(("Label", "Exists", "Means"), [(one["label"], _in_words(one["on"]), one["means"]) for one in shown])
    output.title("Labels that people set")
    output.rows(
        ("Label", "Exists", "Starts"), [(one["label"], _in_words(one["on"]), one["pipeline"]) for one in triggers]
    )
    for found in made:
        output.say(f"{found.tracker}: {found.message}")
    if not create and any(False in one["on"].values() for one in (*shown, *triggers)):
        output.note("make those that are missing: agentsmith labels --create")
    return all(one.ok for one in made)


def _on(missing: Missing, label: str, trackers: Iterable[str]) -> dict[str, bool | None]:
    """Whether each of the trackers has the label; None where that is not known."""
    return {name: None if (gone := missing[name]) is None else label not in gone for name in trackers}


def _in_words(on: Mapping[str, bool | None]) -> str:
    words = {True: "yes", False: "no", None: "when first used"}
    by_tracker = {name: words[there] for name, there in on.items()}
    if len(set(by_tracker.values())) == 1:
        return next(iter(by_tracker.values()))
    return ", ".join(f"{name}: {word}" for name, word in by_tracker.items())


async def _asked(config: Config, *, create: bool) -> tuple[list[Made], Missing]:
    """What was made, and what each tracker lacks now."""
    async with open_trackers(config) as trackers:
        made = [await _create_on(tracker, config) for tracker in trackers.values()] if create else []
        lacks = await asyncio.gather(*(_missing_on(tracker, config) for tracker in trackers.values()))
        return made, dict(zip(trackers, lacks, strict=True))


def _triggers(config: Config, tracker: Tracker) -> list[str]:
    return [trigger.label for trigger in config.triggers_for(tracker.name)]


async def _missing_on(tracker: Tracker, config: Config) -> frozenset[str] | None:
    """None where a label needs no making, and where nobody answers: the labels themselves are known without."""
    if not isinstance(tracker, DefinesLabels):
        return None
    lifecycle = [config.labels.label(status) for status in Status]
    with contextlib.suppress(TrackerError, SecretMissing, TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            return frozenset(await tracker.missing_labels(*lifecycle, *_triggers(config, tracker)))
    return None


async def _create_on(tracker: Tracker, config: Config) -> Made:
    if not isinstance(tracker, DefinesLabels):
        return Made(tracker.name, True, (), f"{tracker.platform} makes labels when they are first used")
    try:
        made = await tracker.ensure_labels(*_triggers(config, tracker))
    except TrackerError as error:
        return Made(tracker.name, False, (), str(error))
    return Made(tracker.name, True, made, f"made {', '.join(made)}" if made else "all of them are there")
