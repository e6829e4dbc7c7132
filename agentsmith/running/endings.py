"""How a run ends where its steps do not say it: not run at all, stopped, interrupted, or broken by a fault of ours."""

from __future__ import annotations

from typing import Final

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import PipelineRequest
from agentsmith.pipelines.outcome import Outcome

WITHDRAWN: Final = "withdrawn: "
"""How a stop request begins when the person took the ticket back, rather than cancelled it."""


class Dropped(Exception):
    """The request is not to be run; nothing is written. `look` asks for a signal after so many seconds."""

    def __init__(self, why: str, *, look: float | None = None, uncount: bool = False) -> None:
        super().__init__(why)
        self.look, self.uncount = look, uncount


def stopped(reason: str, step: str) -> Outcome:
    """A person cancelled the run, or took the ticket back."""
    withdrawn = reason.startswith(WITHDRAWN)
    return Outcome(None if withdrawn else Status.FAILED, reason, f"Stopped: {reason}.", step=step)


def interrupted(step: str) -> Outcome:
    """The process ended before the run did."""
    note = "The daemon that ran it was stopped. It begins again as soon as there is a free slot."
    return Outcome(Status.ENQUEUED, "given back", note, give_back=True, step=step)


def broken(request: PipelineRequest, why: str, *, consumer: str, step: str, most: int) -> Outcome:
    """Something of ours broke, which says nothing about the ticket: it is given back and costs no attempt (P2).

    A machine takes nothing before it has passed a check. So a ticket with which this happens again and again, `most`
    times, met machines that were well, and a person has to look; what it is not, is failed.
    """
    troubles = request.troubles
    if troubles < most and request.asked_by is None:
        note = f"Given back by `{consumer}`, which is in trouble: {why}"
        return Outcome(Status.ENQUEUED, "given back", note, give_back=True, step=step, ours=True)
    note = (
        f"It was begun {f'{troubles} times' if troubles > 1 else 'once'}, and something broke on our side, on a "
        f"machine that had been well before: {why}. The log of `{consumer}` tells more, where it says "
        f"`the run broke` and `{request.run}`. Then say `agentsmith retry`, or remove the label."
    )
    return Outcome(Status.WAITING, "our own trouble", note, step=step, ours=True)
