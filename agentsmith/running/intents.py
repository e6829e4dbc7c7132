"""The one place in which a run's end, or how it stands, becomes an `Intent`: what is to be published on its ticket."""

from __future__ import annotations

import time
from dataclasses import replace

from agentsmith import redaction
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Owner, Status, edge, resolve
from agentsmith.domain.request import PipelineRequest
from agentsmith.pipelines.outcome import Outcome
from agentsmith.running.stages import LeasedRun, Progress


def publishing(request: PipelineRequest, outcome: Outcome, *, source: Status, owner: Owner, fence: int = 0) -> Intent:
    """Publish this outcome of a request whose label says `source`; without a fence, that of the next decision."""
    return Intent(
        ticket=request.ticket,
        tracker=request.tracker,
        key=request.key,
        fence=fence,
        edge=edge(source, outcome.to, owner),
        run=request.run,
        outcome=outcome.word,
        note=outcome.note,
    )


def intent_of(run: LeasedRun, at: Progress, outcome: Outcome, note: str) -> Intent:
    """Publish this outcome of a run, with all that the ticket's memo is to know of it; `note` is for people."""
    source = Status.IN_PROGRESS
    if outcome.to is Status.IN_PROGRESS:
        source = Status.ENQUEUED  # an earlier taker may have shown it as started, and got no further
    elif not at.shown and at.ticket is not None and run.tracker is not None:
        # What we have shown we move on from, whatever a person made of it in the same moment.
        source = resolve(run.tracker.labels.statuses(at.ticket.labels))
    request = at.request
    return replace(
        publishing(request, outcome, source=source, owner=Owner.RUN, fence=run.lease.fence),
        note=note,
        due=run.acquired.clock() + outcome.wait if outcome.wait is not None else None,
        request=request.to_json() if outcome.give_back else "",
        attempt=at.attempt,
        text=request.pinned.sha256,
        trigger=request.wanted.trigger,
        question=at.wake.carried_on(redaction.redact(outcome.question), at=time.time(), attempt=request.attempt),
        before=at.wake.before,
    )
