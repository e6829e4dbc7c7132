"""Why a run begins, with the answers that people wrote on its ticket since its worker asked a question.

Comments are read only where a question is open. Comments of people who may not command, and our own, are left out.
"""

from __future__ import annotations

import structlog

from agentsmith.domain.asking import Note, Question, Wake, WakeReason, bounded
from agentsmith.domain.conversation import KeepsRemarks, command_in
from agentsmith.domain.errors import TrackerError
from agentsmith.domain.gates import Policy
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.webhook import Remark
from agentsmith.store import Store
from agentsmith.tickets import authority

log = structlog.get_logger()


async def waking(store: Store, tracker: Tracker, ticket: Ticket, policy: Policy, reason: str) -> Wake:
    """Why the run begins, with the answers if it asked; a TrackerError that may pass is raised."""
    question = await store.questions.of(ticket.id)
    if question is None and reason == WakeReason.UNBLOCKED:
        question = await _recalled(tracker, ticket)
    if question is None:
        return Wake(reason)
    try:
        notes = await _notes(tracker, ticket, question, policy)
    except TrackerError as error:
        if error.retryable:
            raise
        log.warning("the answers on a ticket cannot be read", ticket=ticket.id, error=str(error))
        notes = []
    return Wake(WakeReason.UNBLOCKED.value, question, bounded(notes))


async def _recalled(tracker: Tracker, ticket: Ticket) -> Question | None:
    """The question from our comment on the ticket: Redis lost it since the ticket was claimed."""
    sticky = await tracker.read_sticky(ticket)
    return Question.from_json(sticky.memo.question) if sticky is not None and sticky.memo is not None else None


async def _notes(tracker: Tracker, ticket: Ticket, question: Question, policy: Policy) -> list[Note]:
    if not isinstance(tracker, KeepsRemarks):
        return []
    me, notes, may = await tracker.me(), list[Note](), dict[Actor, bool]()
    for remark in await tracker.remarks(ticket, since=question.heard or question.at):
        text, at = _said(remark, me, tracker.labels.prefix), remark.at.timestamp() if remark.at is not None else 0.0
        if not text or at <= question.heard:
            continue
        if remark.author not in may:
            gate = await authority.may_command(authority.People(tracker), remark.author, "a comment", policy)
            may[remark.author] = gate.passed
        if may[remark.author]:
            notes.append(Note(remark.author.name, text, at))
    return notes


def _said(remark: Remark, me: Actor, prefix: str) -> str:
    """The text of a comment that is for the worker; of a command only what follows it."""
    command = command_in(remark.text, prefix)
    # On an account that we share with a person a command is the person's: we never write any.
    if remark.author.id == me.id and (command is None or remark.author.bot):
        return ""
    if command is None:
        return remark.text.strip()
    return command.text if command.verb is not None else ""
