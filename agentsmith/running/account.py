"""What the comment on a ticket tells about its run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentsmith import redaction
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.report import TEXT_CHANGED, StepLine, account
from agentsmith.domain.request import PipelineRequest, text_hash
from agentsmith.domain.ticket import Ticket
from agentsmith.pipelines.outcome import Outcome
from agentsmith.running.context import RunContext

_ANSWER: Final = (
    "To answer, write a comment that begins with `/{prefix} answer` and goes on with your answer: it then runs again "
    "and is told. Or write any comments, and then say `agentsmith retry {key}` or remove the waiting label: that is "
    "heard without a webhook too."
)


def text_changed(ticket: Ticket, request: PipelineRequest) -> bool:
    """Whether the ticket's text is no longer the one that the run works on."""
    return text_hash(ticket.title, ticket.body) != request.pinned.sha256


def account_of(
    context: RunContext,
    request: PipelineRequest,
    outcome: Outcome,
    steps: Sequence[StepLine],
    *,
    text_changed: bool,
    results: Sequence[str] = (),
) -> str:
    """The account of a run with no secret in it (P8); `results` says where what it made can be found."""
    links = list(results)
    if context.settings.link is not None:
        links.append(f"[Everything about this run]({context.settings.link.replace('{run}', request.run)})")
    elif outcome.to in (Status.FAILED, Status.WAITING):
        links.append(f"All of its output: `agentsmith logs {request.run}`")
    hints = []
    if outcome.question:
        hints.append(_ANSWER.format(prefix=context.trackers[request.tracker].labels.prefix, key=request.key))
    if text_changed:
        hints.append(TEXT_CHANGED)
    return redaction.redact(account(note=outcome.note, steps=steps, output=outcome.output, links=links, hints=hints))
