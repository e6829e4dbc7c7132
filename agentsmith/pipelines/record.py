"""The record of a run: `runs/<run>/run.json` in the data directory, beside its log. Rewritten whole at every change.

The folder belongs to the machine that the run was on. Records are for people and programs to read; nothing that the
engine decides depends on one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from agentsmith import __version__
from agentsmith.config import Pipeline
from agentsmith.config.pipelines import identity
from agentsmith.domain.report import StepLine
from agentsmith.domain.request import PipelineRequest
from agentsmith.pipelines.outcome import StepEnd, Verdict
from agentsmith.pipelines.worker import Usage

VERSION: Final = 1
FOLDER: Final = "runs"
FILE: Final = "run.json"
LOG: Final = "output.log"
_LARGEST: Final = 4 * 1024 * 1024
_SECOND: Final = len("20261231-235959")


@dataclass(slots=True)
class StepRecord:
    """One step of a run: `waiting`, then `running`, then how it ended."""

    id: str
    name: str
    kind: str
    state: str = "waiting"
    """`waiting`, `running`, `skipped`, or a verdict."""
    started: float | None = None
    duration: float | None = None
    tries: int = 0
    code: int | None = None
    signal: int | None = None
    note: str = ""
    progress: str = ""
    truncated: bool = False
    usage: dict[str, float] = field(default_factory=dict)

    def line(self) -> StepLine:
        """The step as the ticket's comment shows it."""
        return StepLine(self.name, self.state, self.duration, self.progress if self.state == "running" else "")


@dataclass(slots=True)
class RunRecord:
    """Everything about one run that is worth keeping."""

    run: str
    ticket: str
    key: str
    tracker: str
    platform: str
    title: str
    pipeline: str
    attempt: int
    fence: int
    started: float
    wake_reason: str = ""
    ended: float | None = None
    status: str | None = None
    """Where the ticket went from here."""
    outcome: str = ""
    note: str = ""
    steps: list[StepRecord] = field(default_factory=list)
    usage: dict[str, float] = field(default_factory=dict)
    artifacts: list[str] = field(default_factory=list)
    not_kept: list[str] = field(default_factory=list)
    """Artifacts that were not kept, and why."""
    warnings: list[str] = field(default_factory=list)
    """What whoever wrote the pipeline should mend; each once."""
    branch: str = ""
    pull_request: str = ""
    question: str = ""
    summary: str = ""

    def to_json(self) -> str:
        """The form in which it is kept."""
        return json.dumps({"version": VERSION, "agentsmith": __version__, **asdict(self)}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> RunRecord | None:
        """Read back what `to_json` wrote; None for anything else."""
        try:
            data = json.loads(text)
            if not isinstance(data, dict) or data.pop("version") != VERSION:
                return None
            data.pop("agentsmith", None)
            steps = [StepRecord(**step) for step in data.pop("steps")]
            return cls(**data, steps=steps)
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


class Recorder:
    """Keeps the record of a live run; `on_change` is called for every change that people may want to see."""

    def __init__(
        self,
        folder: Path,
        request: PipelineRequest,
        pipeline: Pipeline,
        *,
        fence: int,
        platform: str,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.record = RunRecord(
            run=request.run,
            ticket=request.ticket,
            key=request.key,
            tracker=request.tracker,
            platform=platform,
            title=request.pinned.title[:500].replace("\0", ""),
            pipeline=request.pipeline,
            attempt=request.attempt,
            fence=fence,
            started=time.time(),
            wake_reason=request.wake_reason or "",
            steps=[StepRecord(identity(step, pipeline.steps), step.name, step.kind) for step in pipeline.steps],
        )
        self._file = folder / FILE
        self._on_change = on_change
        self._usage = Usage()

    def lines(self) -> tuple[StepLine, ...]:
        """The steps as the ticket's comment shows them."""
        return tuple(step.line() for step in self.record.steps)

    def begin(self, index: int) -> None:
        """The step starts, or is tried once more."""
        step = self.record.steps[index]
        step.state, step.tries = "running", step.tries + 1
        step.started = step.started or time.time()
        self.save()

    def progress(self, index: int, text: str) -> None:
        """What the step says about itself; not written to disk each time."""
        self.record.steps[index].progress = text
        self._on_change()

    def skip(self, index: int) -> None:
        """The step's condition does not hold."""
        self.record.steps[index].state = "skipped"
        self.save()

    def end(self, index: int, end: StepEnd) -> None:
        """The step is over."""
        step = self.record.steps[index]
        step.state, step.note, step.code, step.signal = end.verdict.value, end.note, end.code, end.signal
        step.truncated = end.truncated
        step.duration = round(time.time() - (step.started or time.time()), 3)
        self.save()

    def cut_short(self) -> None:
        """Whatever was running was stopped from outside."""
        for step in self.record.steps:
            if step.state == "running":
                step.state = Verdict.STOPPED.value
                step.duration = round(time.time() - (step.started or time.time()), 3)

    def spent(self, index: int, usage: Usage) -> None:
        """What the step used."""
        if usage:
            self._usage += usage
            self.record.steps[index].usage = asdict(usage)
            self.record.usage = asdict(self._usage)

    def conclude(self, status: str | None, outcome: str, note: str) -> None:
        """The run is over."""
        self.cut_short()
        self.record.ended, self.record.status = time.time(), status
        self.record.outcome, self.record.note = outcome, note
        self.save()

    def save(self) -> None:
        """Write it, whole or not at all; that it cannot be written must not end the run."""
        self._on_change()
        part = self._file.with_suffix(".part")
        with contextlib.suppress(OSError):
            part.write_text(self.record.to_json(), errors="replace")
            os.replace(part, self._file)


def records(data_dir: Path) -> Iterator[RunRecord]:
    """The records on this machine, newest first; what cannot be read is left out."""
    try:
        names = sorted((entry.name for entry in os.scandir(data_dir / FOLDER) if entry.is_dir()), reverse=True)
    except OSError:
        return
    # A name begins with the second in which the run was asked for; within it, the record knows more.
    for _, same in itertools.groupby(names, key=lambda name: name[:_SECOND]):
        found = filter(None, (read(data_dir, name) for name in same))
        yield from sorted(found, key=lambda record: record.started, reverse=True)


def read(data_dir: Path, run: str) -> RunRecord | None:
    """The record of one run on this machine."""
    try:
        with (data_dir / FOLDER / run / FILE).open(errors="replace") as stream:
            return RunRecord.from_json(stream.read(_LARGEST))
    except OSError:
        return None


def prune(data_dir: Path, *, keep_for: float, keep_size: int, alive: frozenset[str], now: float) -> int:
    """Remove the records and logs that are too old, and the oldest while they are too much; answers how many.

    What counts is the bytes that were written: on disk each of these small files takes a whole block, which would end
    most records long before `keep_for`. Runs that are `alive` are left alone, however old.
    """
    found: list[tuple[float, int, Path]] = []
    try:
        folders = [Path(entry.path) for entry in os.scandir(data_dir / FOLDER) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return 0
    for folder in folders:
        if folder.name not in alive:
            found.append((*_age_and_size(folder), folder))
    found.sort(reverse=True)
    room, gone = keep_size, 0
    for changed, size, folder in found:
        room -= size
        if room < 0 or now - changed > keep_for:
            shutil.rmtree(folder, ignore_errors=True)
            gone += 1
    return gone


def _age_and_size(folder: Path) -> tuple[float, int]:
    changed, size = 0.0, 0
    for top, _, names in os.walk(folder):
        for name in (*names, "."):
            try:
                details = os.lstat(os.path.join(top, name))
            except OSError:
                continue
            changed = max(changed, details.st_mtime)
            size += details.st_size if name != "." else 0
    return changed, size
