"""The edges of a ticket's life in short, for tests that move one on a tracker."""

from __future__ import annotations

from typing import Final

from agentsmith.boottime import boottime
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.tracker import Applied, Move, MoveOutcome, Words

LABELS: Final = LabelSet()
TRIGGER: Final = "agent-smith:fix-bug"
MEMO: Final = Memo(run="run-1", fence=7)

CLAIM: Final = (Status.PENDING, Status.ENQUEUED)
START: Final = (Status.ENQUEUED, Status.IN_PROGRESS)
FINISH: Final = (Status.IN_PROGRESS, Status.DONE)
FAIL: Final = (Status.IN_PROGRESS, Status.FAILED)


def edge(
    expect: Status,
    to: Status | None,
    *,
    run: str = "run-1",
    fence: int = 7,
    within: float = 30.0,
    say: str | None = None,
) -> Move:
    """A move with time enough."""
    words = None if say is None else Words(say, MEMO)
    return Move(expect, to, run=run, fence=fence, deadline=boottime() + within, say=words)


def applied(outcome: MoveOutcome) -> Applied:
    """The outcome, which must be Applied."""
    assert isinstance(outcome, Applied), outcome
    return outcome
