"""The form in which a stop reason stands in Redis, which other releases read and write."""

from __future__ import annotations

import pytest

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.stop import TAKEN_OVER, StopKind, StopReason
from agentsmith.running.endings import stopped

REASONS = {
    "cancelled by mona": StopReason.cancelled_by("mona"),
    "withdrawn: the trigger was removed": StopReason.withdrawn(open_=True),
    "withdrawn: the ticket was closed": StopReason.withdrawn(open_=False),
    "somebody took the ticket over": TAKEN_OVER,
    "cancelled by withdrawn: mona": StopReason.cancelled_by("withdrawn: mona"),
}


@pytest.mark.parametrize("text", REASONS)
def test_a_stop_reason_is_written_as_it_always_was_and_read_back(text: str) -> None:
    assert REASONS[text].to_wire() == text
    assert StopReason.from_wire(text) == REASONS[text]


def test_a_reason_that_this_release_does_not_know_is_a_persons() -> None:
    assert StopReason.from_wire("over budget") == StopReason(StopKind.CANCELLED, "over budget")


def test_who_withdrew_a_ticket_ends_it_without_a_status_and_who_cancelled_it_as_failed() -> None:
    withdrawn, cancelled = stopped(StopReason.withdrawn(open_=True)), stopped(StopReason.cancelled_by("mona"))
    assert (withdrawn.to, withdrawn.word) == (None, "withdrawn: the trigger was removed")
    assert (cancelled.to, cancelled.word) == (Status.FAILED, "cancelled by mona")
