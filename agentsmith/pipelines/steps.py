"""Running a pipeline: its steps in order, each a process under the run's guard, in the ticket's own folder.

Knows nothing of Redis and nothing of trackers. Ticket text reaches a step through its environment and through
files; it is never part of a command line.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentsmith.boottime import boottime
from agentsmith.config import Pipeline, Step
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.report import fenced
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import Ticket, slug
from agentsmith.pipelines.guarded import CommandNotStarted, Exit, Guard
from agentsmith.pipelines.outcome import ExitCode, Outcome

_ALWAYS_PASSED: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SHELL", "TERM")
_LONGEST_VARIABLE: Final = 100_000
"""Linux refuses a single variable over 128 KiB; the whole text is in the ticket file."""
_TAIL_ON_TICKET: Final = 4_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a run, in seconds and bytes."""

    run_timeout: float
    step_timeout: float
    log_limit: int
    retry_backoff: float
    max_attempts: int


@dataclass(frozen=True, slots=True)
class Workplace:
    """The folders of one run: the ticket's workspace, which the next attempt finds again, and the run's own."""

    workspace: Path
    run: Path

    @classmethod
    def make(cls, data_dir: Path, request: PipelineRequest) -> Workplace:
        """Make the folders; their names hold nothing that a ticket could choose."""
        name = slug(request.key, request.tracker)
        place = cls(data_dir / "workspaces" / name, data_dir / "runs" / request.run)
        for folder in (place.workspace, place.run, place.run / "tmp"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return place

    @property
    def log(self) -> Path:
        """Where the output of every step goes."""
        return self.run / "output.log"

    def clear_temporary(self) -> None:
        """Remove what only the steps needed."""
        shutil.rmtree(self.run / "tmp", ignore_errors=True)


def environment(request: PipelineRequest, ticket: Ticket, platform: str, place: Workplace) -> dict[str, str]:
    """What a step learns about its ticket; also writes the ticket and prompt files."""
    text = {
        "id": request.ticket,
        "key": request.key,
        "title": request.pinned.title,
        "body": request.pinned.body,
        "url": ticket.url,
        "platform": platform,
        "labels": sorted(ticket.labels),
        "author": ticket.author,
        "run": request.run,
        "attempt": request.attempt,
    }
    ticket_file, prompt_file = place.run / "ticket.json", place.run / "prompt.md"
    _write(ticket_file, json.dumps(text, indent=2))
    _write(prompt_file, f"{request.pinned.title}\n\n{request.pinned.body}\n")
    return {
        "AGENTSMITH_TICKET_ID": request.ticket,
        "AGENTSMITH_TICKET_KEY": request.key,
        "AGENTSMITH_TICKET_TITLE": _variable(request.pinned.title),
        "AGENTSMITH_TICKET_URL": _variable(ticket.url),
        "AGENTSMITH_TICKET_PLATFORM": platform,
        "AGENTSMITH_TICKET_FILE": str(ticket_file),
        "AGENTSMITH_PROMPT_FILE": str(prompt_file),
        "AGENTSMITH_RUN_ID": request.run,
        "AGENTSMITH_ATTEMPT": str(request.attempt),
        "AGENTSMITH_WAKE_REASON": _variable(request.wake_reason or ""),
        "AGENTSMITH_STATUS_FILE": str(place.run / "status"),
        **({"TRACEPARENT": request.trace} if request.trace else {}),
        "HOME": str(place.workspace),
        "TMPDIR": str(place.run / "tmp"),
    }


def passed_on(pipeline: Pipeline, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The few variables of ours that a step may see: never a credential unless the pipeline names it (P8)."""
    return {name: environ[name] for name in (*_ALWAYS_PASSED, *pipeline.env) if name in environ}


async def run_steps(
    pipeline: Pipeline,
    guard: Guard,
    place: Workplace,
    env: Mapping[str, str],
    limits: Limits,
    *,
    attempt: int,
    on_step: Callable[[Step], None],
) -> Outcome:
    """Run the steps one after the other; the first that does not succeed decides the outcome."""
    ends = boottime() + (pipeline.timeout or limits.run_timeout)
    for step in pipeline.steps:
        left = ends - boottime()
        if left <= 0:
            return Outcome(Status.FAILED, "timed out", "The run took longer than its time limit.")
        on_step(step)
        try:
            ended = await guard.run(
                _argv(step),
                env=env,
                cwd=place.workspace,
                log=place.log,
                log_limit=limits.log_limit,
                timeout=min(left, step.timeout or limits.step_timeout),
            )
        except CommandNotStarted as error:
            return Outcome(Status.FAILED, "not started", f"Step `{_quoted(step.name)}` could not start: {error}")
        if ended.code != ExitCode.DONE:
            return _unsuccessful(step, ended, limits, attempt)
    return Outcome(Status.DONE, "succeeded")


def _argv(step: Step) -> tuple[str, ...]:
    match step.argument:
        case str() as script:
            return ("/bin/sh", "-c", script)
        case tuple() as argv:
            return argv
        case _:
            raise TypeError(f"a run step has a command, not {step.argument!r}")


def _unsuccessful(step: Step, ended: Exit, limits: Limits, attempt: int) -> Outcome:
    name = _quoted(step.name)
    tail = ended.tail[-_TAIL_ON_TICKET:].strip()
    shown = f"\n\nIts last output:\n\n{fenced(tail)}" if tail else ""
    if ended.stopped:
        return Outcome(Status.FAILED, "stopped", f"Step `{name}` was stopped: {ended.stopped}{shown}")
    if ended.timed_out:
        return Outcome(Status.FAILED, "timed out", f"Step `{name}` ran into its time limit.{shown}")
    match ended.code:
        case ExitCode.TRY_LATER if attempt < limits.max_attempts:
            wait = limits.retry_backoff * 2.0 ** (attempt - 1)
            note = f"Step `{name}` asked to be tried again later (attempt {attempt} of {limits.max_attempts})."
            return Outcome(Status.WAITING, "try later", note, due=time.time() + wait)
        case ExitCode.TRY_LATER:
            note = f"Step `{name}` asked to be tried later once more, but {attempt} attempts are all it gets.{shown}"
            return Outcome(Status.FAILED, "attempts used up", note)
        case ExitCode.QUESTION:
            note = f"Step `{name}` has a question for a person.{shown}\n\nSay `agentsmith retry` to go on."
            return Outcome(Status.WAITING, "question", note)
        case ExitCode.NOT_PERMITTED:
            return Outcome(Status.FAILED, "not permitted", f"Step `{name}` says that it may not do this.{shown}")
        case ExitCode.BAD_CONFIGURATION:
            return Outcome(Status.FAILED, "bad configuration", f"Step `{name}` is not set up right.{shown}")
    how = f"signal {ended.signal}" if ended.code is None else f"exit code {ended.code}"
    return Outcome(Status.FAILED, "step failed", f"Step `{name}` failed with {how}.{shown}")


def _quoted(name: str) -> str:
    return name.replace("`", "'")


def _variable(text: str) -> str:
    """Text that may stand in an environment: no NUL, no lone surrogate, not too long."""
    clean = text.replace("\0", "").encode("utf-8", "replace")[:_LONGEST_VARIABLE]
    return clean.decode("utf-8", "ignore")


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_bytes(text.encode("utf-8", "replace"))
