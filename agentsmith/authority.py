"""Who may: the person behind a label or a command, held against `allow` (P7)."""

from __future__ import annotations

from agentsmith.domain import gates
from agentsmith.domain.gates import GateResult, Policy, Trigger
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import KnowsCircles, Labelling, Tracker


async def may_trigger(tracker: Tracker, ticket: Ticket, trigger: Trigger, policy: Policy) -> GateResult:
    """Whether whoever set the trigger may start work; asks about teams and roles only if that decides it."""
    labelling = await tracker.labelled_by(ticket, trigger.label)
    judged = gates.is_allowed(labelling, trigger, policy)
    if judged.passed or labelling is None:
        return judged
    return gates.is_allowed(labelling, trigger, policy, await _circle(tracker, labelling.actor, policy))


async def may_command(tracker: Tracker, author: Actor, command: str, policy: Policy) -> GateResult:
    """The same for somebody who wrote a command."""
    who = Labelling(author, await tracker.access_of(author))
    judged = gates.may(who, f"wrote {command!r}", policy)
    if judged.passed:
        return judged
    return gates.may(who, f"wrote {command!r}", policy, await _circle(tracker, author, policy))


async def _circle(tracker: Tracker, actor: Actor, policy: Policy) -> str:
    if not policy.circles or not isinstance(tracker, KnowsCircles) or (actor.bot and not policy.bots):
        return ""
    return await tracker.belongs_to(actor, teams=policy.teams, roles=policy.roles)
