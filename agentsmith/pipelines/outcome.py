"""How a step can end, and how a run can, in the words that the lifecycle understands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from agentsmith.config.conditions import State
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.stop import StopReason


class ExitCode(IntEnum):
    """What a worker's exit code means; anything else is a failure."""

    DONE = 0
    TRY_LATER = 75
    NOT_PERMITTED = 77
    BAD_CONFIGURATION = 78
    QUESTION = 79


class Verdict(StrEnum):
    """What a step's end means for the run."""

    DONE = "done"
    SKIPPED = "skipped"
    """There was nothing for it to do."""
    RED = "red"
    """It failed, and the run goes on: its pull request is a draft."""
    FAILED = "failed"
    TIMED_OUT = "timed out"
    STOPPED = "stopped"
    TRY_LATER = "try later"
    QUESTION = "question"
    NOT_PERMITTED = "not permitted"
    BAD_CONFIGURATION = "bad configuration"

    @property
    def state(self) -> State:
        """What conditions see."""
        return {Verdict.DONE: State.SUCCEEDED, Verdict.SKIPPED: State.SKIPPED}.get(self, State.FAILED)

    @property
    def goes_on(self) -> bool:
        """Whether the steps after it run as if nothing had happened."""
        return self in (Verdict.DONE, Verdict.SKIPPED, Verdict.RED)

    @property
    def parks(self) -> bool:
        """Whether the run ends here without having failed."""
        return self in (Verdict.TRY_LATER, Verdict.QUESTION)

    @property
    def may_be_ours(self) -> bool:
        """Whether a machine in trouble could have brought it about."""
        return self not in (Verdict.DONE, Verdict.SKIPPED, Verdict.QUESTION, Verdict.STOPPED)

    @property
    def worth_retrying(self) -> bool:
        """Whether the same again, at once, may end better."""
        return self in (Verdict.FAILED, Verdict.RED, Verdict.TIMED_OUT)


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended. `note` is for people, a sentence or two; `output` the last that it printed."""

    verdict: Verdict
    note: str = ""
    output: str = ""
    code: int | None = None
    signal: int | None = None
    truncated: bool = False


def done(note: str = "") -> StepEnd:
    """The step did what it should."""
    return StepEnd(Verdict.DONE, note)


def failed(note: str, *, output: str = "") -> StepEnd:
    """The step did not, and the run fails with it."""
    return StepEnd(Verdict.FAILED, note, output)


class OutcomeKind(StrEnum):
    """Every way in which a run can end, in the words of log and record; a step's verdict may be one of them."""

    STARTED = "started"
    """It has not ended: the comment tells how it stands."""
    SUCCEEDED = "succeeded"
    NOTHING_CHANGED = "nothing changed"
    STEP_FAILED = "step failed"
    TIMED_OUT = Verdict.TIMED_OUT.value
    STEP_STOPPED = Verdict.STOPPED.value
    NOT_PERMITTED = Verdict.NOT_PERMITTED.value
    BAD_CONFIGURATION = Verdict.BAD_CONFIGURATION.value
    TRY_LATER = Verdict.TRY_LATER.value
    QUESTION = Verdict.QUESTION.value
    ATTEMPTS_USED_UP = "attempts used up"
    DELIVERIES_USED_UP = "deliveries used up"
    GIVEN_BACK = "given back"
    OUR_TROUBLE = "our own trouble"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the ticket goes from here. `note` and `output` stand on the ticket."""

    to: Status | None
    kind: OutcomeKind
    note: str = ""
    wait: float | None = None
    """In how many seconds it is tried again, where it is."""
    give_back: bool = False
    """The run did nothing wrong: it goes back to the head of the queue and is not counted."""
    output: str = ""
    step: str = ""
    """The step that decided it, if one did."""
    ours: bool = False
    """Whether it came of trouble of our own."""
    question: str = ""
    """What a person is asked."""
    stop: StopReason | None = None
    """Why it was stopped, if it was."""

    @property
    def word(self) -> str:
        """What log and record show: its kind, or in whose name it was stopped."""
        return str(self.stop or self.kind)
