"""The gates that reading alone decides, and above all who may: whoever set a label or wrote a command (P7)."""

from __future__ import annotations

from dataclasses import dataclass

from agentsmith.domain import gates
from agentsmith.domain.claiming import Asked
from agentsmith.domain.gates import GateResult, Policy
from agentsmith.domain.rules import ClaimRules
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import KnowsCircles, Labelling, Tracker


@dataclass(frozen=True, slots=True)
class Judged:
    """What the gates said; `labelled` names the event by which the trigger was set, where it is known."""

    gates: tuple[GateResult, ...]
    labelled: str = ""

    @property
    def passed(self) -> bool:
        """Whether all of them are open."""
        return all(result.passed for result in self.gates)


async def judge(tracker: Tracker, ticket: Ticket, rules: ClaimRules, asked: Asked | None = None) -> Judged:
    """Hold the ticket against the gates that only need reading; who set the trigger comes last: it costs most."""
    results = (
        gates.is_open(ticket),
        gates.is_asked_for(asked.by) if asked is not None else gates.is_triggered(ticket, rules.triggers),
        gates.is_pending(ticket, tracker.labels),
    )
    if asked is not None or not all(result.passed for result in results):
        return Judged(results)
    label = gates.chosen(ticket, rules.triggers)[0].label
    may, labelling = await _may_trigger(tracker, ticket, label, rules.policies[tracker.name])
    return Judged((*results, may), _event(labelling, label))


async def set_again(tracker: Tracker, ticket: Ticket, labelled: str, rules: ClaimRules) -> Actor | None:
    """Who set the trigger once more since it was set by the event `labelled`, if they may; else None."""
    _, _, label = labelled.partition(" ")
    if not label:
        return None
    may, labelling = await _may_trigger(tracker, ticket, label, rules.policies[tracker.name])
    event = _event(labelling, label)
    return labelling.actor if labelling is not None and may.passed and event and event != labelled else None


async def may_command(tracker: Tracker, author: Actor, command: str, policy: Policy) -> GateResult:
    """Whether somebody who wrote a command may start work."""
    who = Labelling(author, await tracker.access_of(author))
    judged = gates.may(who, f"wrote {command!r}", policy)
    if judged.passed:
        return judged
    return gates.may(who, f"wrote {command!r}", policy, await _circle(tracker, author, policy))


async def _may_trigger(
    tracker: Tracker, ticket: Ticket, label: str, policy: Policy
) -> tuple[GateResult, Labelling | None]:
    """Whether whoever set the trigger may; teams and roles are asked about only if they decide it."""
    labelling = await tracker.labelled_by(ticket, label)
    judged = gates.is_allowed(labelling, label, policy)
    if judged.passed or labelling is None:
        return judged, labelling
    circle = await _circle(tracker, labelling.actor, policy)
    return gates.is_allowed(labelling, label, policy, circle), labelling


def _event(labelling: Labelling | None, label: str) -> str:
    return f"{labelling.event} {label}" if labelling is not None and labelling.event else ""


async def _circle(tracker: Tracker, actor: Actor, policy: Policy) -> str:
    if not policy.circles or not isinstance(tracker, KnowsCircles) or (actor.bot and not policy.bots):
        return ""
    return await tracker.belongs_to(actor, teams=policy.teams, roles=policy.roles)
