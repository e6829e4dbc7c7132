"""Short names for what nearly every conformance test does."""

from __future__ import annotations

from typing import Final

from agentsmith.boottime import boottime
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Move, Tracker

LABELS: Final = LabelSet("agent-smith", former_prefixes=("old-smith",))
PENDING: Final = "agent-smith:pending"
ENQUEUED: Final = "agent-smith:enqueued"
IN_PROGRESS: Final = "agent-smith:in-progress"
WAITING: Final = "agent-smith:waiting"
DONE: Final = "agent-smith:done"
FAILED: Final = "agent-smith:failed"
TRIGGER: Final = "agent-smith:fix-bug"
"""A person's label: it has our prefix, and is no lifecycle label."""
MEMO: Final = Memo(run="run-1", fence=7, attempt=2, text="ab" * 32, due=1234.5, follow_up=True)


START: Final = (Status.ENQUEUED, Status.IN_PROGRESS)
FINISH: Final = (Status.IN_PROGRESS, Status.DONE)
FAIL: Final = (Status.IN_PROGRESS, Status.FAILED)


def soon() -> float:
    """A deadline that no test reaches."""
    return boottime() + 60


def edge(expect: Status, to: Status | None, *, deadline: float | None = None) -> Move:
    """A move with time enough."""
    return Move(expect, to, run="run-1", fence=7, deadline=soon() if deadline is None else deadline)


async def found(tracker: Tracker, *labels: str) -> list[Ticket]:
    """All that `find` yields."""
    return [ticket async for ticket in tracker.find(*labels)]
