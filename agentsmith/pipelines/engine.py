"""Running a pipeline: its steps in order, each if its condition holds, and the one outcome that comes of them.

Knows nothing of Redis and nothing of trackers. The first step that fails decides the outcome; what runs after it, by
its own condition, no longer changes that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from agentsmith.boottime import boottime
from agentsmith.config import Step
from agentsmith.config.conditions import Condition, State
from agentsmith.config.pipelines import identity
from agentsmith.domain.errors import AgentSmithError, LeaseLost, MachineTrouble
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.report import duration_text
from agentsmith.pipelines.context import Limits, StepContext
from agentsmith.pipelines.disk import check_room
from agentsmith.pipelines.outcome import Outcome, OutcomeKind, StepEnd, Verdict
from agentsmith.pipelines.steps import doing

log = structlog.get_logger()

_SLACK: Final = 30.0
"""How far beyond its time limit a step may go before it is cancelled: a command is ended by its guard first."""
_NO_TIME: Final = "The run took longer than its time limit (`run.timeout`)."
_NO_CHANGES: Final = "Every step succeeded, but nothing was changed. Say what is missing on the ticket, and retry."


@dataclass(frozen=True, slots=True)
class _Situation:
    """What conditions are evaluated against, at one moment."""

    failed: bool
    changes: bool
    repository: bool
    states: Mapping[str, State]

    def holds(self, word: str) -> bool:
        """See conditions.Situation."""
        return {
            "success": not self.failed,
            "failure": self.failed,
            "always": True,
            "changes": self.changes,
            "repository": self.repository,
        }[word]

    def state_of(self, step: str) -> State | None:
        """See conditions.Situation."""
        return self.states.get(step)


async def carry_out(context: StepContext) -> Outcome:
    """Run the pipeline; LeaseLost, GuardDied, cancellation and whatever is our own trouble pass through."""
    pipeline, states = context.pipeline, dict[str, State]()
    ends = boottime() + (pipeline.timeout or context.limits.run_timeout)
    decided: Outcome | None = None
    for index, step in enumerate(pipeline.steps):
        if decided is None and boottime() >= ends:
            decided = Outcome(Status.FAILED, OutcomeKind.TIMED_OUT, _NO_TIME, step=step.name)
        context.step, context.index = step, index
        if boottime() >= ends or not await _is_due(context, step.when(), states, failed=decided is not None):
            states[identity(step, pipeline.steps)] = State.SKIPPED
            context.recorder.skip(index)
            continue
        end = await _run(context, step, ends)
        states[identity(step, pipeline.steps)] = end.verdict.state
        if end.verdict.goes_on or decided is not None:
            continue
        decided = outcome_of(step, end, context.limits, attempt=context.request.attempt - context.wake.before)
        if end.verdict.parks or end.verdict is Verdict.STOPPED:
            break
    if decided is None and pipeline.needs_changes and context.checkout is not None and not await context.changed():
        decided = Outcome(Status.FAILED, OutcomeKind.NOTHING_CHANGED, _NO_CHANGES)
    return decided or Outcome(Status.DONE, OutcomeKind.SUCCEEDED, " ".join(_summaries(context)))


def _summaries(context: StepContext) -> list[str]:
    if context.pull_request is None:
        return []
    made = context.pull_request
    if made.draft and context.red:
        return [f"A check is red, so the pull request is a draft: {made.url}"]
    return [f"The pull request: {made.url}"]


async def _is_due(context: StepContext, condition: Condition, states: Mapping[str, State], *, failed: bool) -> bool:
    changes = "changes" in condition.words and await context.changed()
    return condition.holds(_Situation(failed, changes, context.code is not None, states))


async def _run(context: StepContext, step: Step, ends: float) -> StepEnd:
    """One step, as often as it may be tried."""
    red, left = list(context.red), step.retries
    while True:
        context.deadline = min(ends, boottime() + (step.timeout or context.limits.step_timeout))
        context.recorder.begin(context.index)
        end = await _try(context, step)
        if end.verdict.may_be_ours:
            check_room(context.place.run)
        if not left or not end.verdict.worth_retrying or boottime() >= ends:
            context.recorder.end(context.index, end)
            return end
        log.info("trying the step again", run=context.request.run, step=step.name, verdict=end.verdict.value)
        context.red, left = list(red), left - 1


async def _try(context: StepContext, step: Step) -> StepEnd:
    limit = asyncio.timeout(context.left + _SLACK)
    try:
        async with limit:
            return await doing(step.kind)(context, step.settings)
    except TimeoutError:
        if not limit.expired():  # a file system that does not answer raises it too
            raise
        return StepEnd(Verdict.TIMED_OUT, f"Step `{step.name}` ran into its time limit.")
    except (LeaseLost, MachineTrouble):
        raise
    except AgentSmithError as error:
        later = bool(getattr(error, "retryable", False))
        return StepEnd(Verdict.TRY_LATER if later else Verdict.FAILED, f"Step `{step.name}` failed: {error}")


def outcome_of(step: Step, end: StepEnd, limits: Limits, *, attempt: int) -> Outcome:
    """Where the ticket goes when this step decides."""

    def failed(kind: OutcomeKind, note: str = end.note) -> Outcome:
        return Outcome(Status.FAILED, kind, note, output=end.output, step=step.name)

    match end.verdict:
        case Verdict.TRY_LATER if attempt < limits.max_attempts:
            wait = limits.retry_backoff * 2.0 ** (attempt - 1)
            note = (
                f"{end.note} It is tried again in {duration_text(wait)} (attempt {attempt} of {limits.max_attempts})."
            )
            return Outcome(Status.WAITING, OutcomeKind.TRY_LATER, note, wait, output=end.output, step=step.name)
        case Verdict.TRY_LATER:
            return failed(OutcomeKind.ATTEMPTS_USED_UP, f"{end.note} But {attempt} attempts are all it gets.")
        case Verdict.QUESTION:
            kind, note = OutcomeKind.QUESTION, end.note
            return Outcome(Status.WAITING, kind, note, output=end.output, step=step.name, question=note)
        case Verdict.STOPPED | Verdict.TIMED_OUT | Verdict.NOT_PERMITTED | Verdict.BAD_CONFIGURATION:
            return failed(OutcomeKind(end.verdict.value))
    return failed(OutcomeKind.STEP_FAILED)
