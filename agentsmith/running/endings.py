"""How a run ends where its steps do not say it: stopped, interrupted, or broken by a fault of ours."""

from __future__ import annotations

from typing import Final

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.stop import StopKind, StopReason
from agentsmith.pipelines.outcome import Outcome, OutcomeKind

STARTED: Final = Outcome(Status.IN_PROGRESS, OutcomeKind.STARTED)
"""What is published of a run that goes on."""


def stopped(reason: StopReason, step: str = "") -> Outcome:
    """A person cancelled the run, or took the ticket back."""
    note = f"Stopped: {reason}."
    if reason.kind is StopKind.WITHDRAWN:
        return Outcome(None, OutcomeKind.WITHDRAWN, note, step=step, stop=reason)
    return Outcome(Status.FAILED, OutcomeKind.CANCELLED, note, step=step, stop=reason)


def interrupted(step: str) -> Outcome:
    """The process ended before the run did."""
    note = "The daemon that ran it was stopped. It begins again as soon as there is a free slot."
    return Outcome(Status.ENQUEUED, OutcomeKind.GIVEN_BACK, note, give_back=True, step=step)


def broken(request: PipelineRequest, why: str, *, consumer: str, step: str, most: int) -> Outcome:
    """Something of ours broke, which says nothing about the ticket: it is given back and costs no attempt (P2).

    A machine in trouble takes no work before it has passed a check. So a ticket to which this happens `most` times met
    machines that were well, and waits for a person to look. It does not fail.
    """
    troubles = request.troubles
    if troubles < most and request.asked_by is None:
        note = f"Given back by `{consumer}`, which is in trouble: {why}"
        return Outcome(Status.ENQUEUED, OutcomeKind.GIVEN_BACK, note, give_back=True, step=step, ours=True)
    note = (
        f"It was begun {f'{troubles} times' if troubles > 1 else 'once'}, and something broke on our side, on a "
        f"machine that had been well before: {why}. The log of `{consumer}` tells more, where it says "
        f"`the run broke` and `{request.run}`. Then say `agentsmith retry`, or remove the label."
    )
    return Outcome(Status.WAITING, OutcomeKind.OUR_TROUBLE, note, step=step, ours=True)
