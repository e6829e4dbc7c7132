"""Hearing: what people who may command said on a ticket since its worker asked, for the run that goes on with it.

Only where a question stands are comments read at all; what others said, and what we wrote ourselves, is left out.
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
    """Why the run begins: with what people answered, if it asked; raises what may pass (TrackerError)."""
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
    """What was asked, as our comment knows it: Redis forgot it since the ticket was claimed."""
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
            gate = await authority.may_command(tracker, remark.author, "a comment", policy)
            may[remark.author] = gate.passed
        if may[remark.author]:
            notes.append(Note(remark.author.name, text, at))
    return notes


def _said(remark: Remark, me: Actor, prefix: str) -> str:
    """What a comment tells the worker; of a command only what stands besides."""
    command = command_in(remark.text, prefix)
    # On an account that we share with a person a command is the person's: we never write any.
    if remark.author.id == me.id and (command is None or remark.author.bot):
        return ""
    if command is None:
        return remark.text.strip()
    return command.text if command.verb is not None else ""
