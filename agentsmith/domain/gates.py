"""The gates between a signal and a claim. Each says what it saw and what to do about it (P10).

Gates are functions of facts that others gathered, so that cheap facts can be looked at before dear ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from agentsmith.domain.lifecycle import LabelSet, Status, resolve
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Access, Labelling


class Gate(StrEnum):
    """Every gate by its name, in the order in which they are looked at."""

    OPEN = "ticket is open"
    TRIGGER = "one trigger matches"
    STATUS = "status is pending"
    ACTOR = "who set the trigger may"
    LEASE = "no live run"
    LOOP = "loop limit"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate's answer."""

    gate: Gate
    passed: bool
    saw: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A person's label that starts a pipeline; `trackers` empty means everywhere."""

    label: str
    pipeline: str
    trackers: frozenset[str] = frozenset()

    def matches(self, ticket: Ticket) -> bool:
        """Whether the ticket carries this label and lives where the trigger counts."""
        here = not self.trackers or ticket.tracker in self.trackers
        return here and self.label.casefold() in {label.casefold() for label in ticket.labels}


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may start work by setting a trigger."""

    access: Access = Access.WRITE
    users: frozenset[str] = frozenset()
    bots: bool = False


def matching(ticket: Ticket, triggers: Iterable[Trigger]) -> tuple[Trigger, ...]:
    """The triggers that the ticket carries, one per pipeline."""
    by_pipeline: dict[str, Trigger] = {}
    for trigger in triggers:
        if trigger.matches(ticket):
            by_pipeline.setdefault(trigger.pipeline, trigger)
    return tuple(by_pipeline.values())


def is_open(ticket: Ticket) -> GateResult:
    """Pass an open ticket that is not a pull request."""
    if ticket.pull_request:
        return GateResult(Gate.OPEN, False, "it is a pull request", "set the trigger on an issue instead")
    if not ticket.open:
        return GateResult(Gate.OPEN, False, "it is closed", "reopen the ticket")
    return GateResult(Gate.OPEN, True, "it is open")


def is_asked_for(by: str) -> GateResult:
    """Pass a ticket that somebody asked for by hand: no trigger is needed then."""
    return GateResult(Gate.TRIGGER, True, f"{by} asked for this run by hand, so no trigger is needed")


def is_triggered(matches: tuple[Trigger, ...], triggers: Iterable[Trigger]) -> GateResult:
    """Pass when exactly one pipeline is asked for."""
    if len(matches) == 1:
        return GateResult(Gate.TRIGGER, True, f"{matches[0].label!r} asks for {matches[0].pipeline!r}")
    if matches:
        found = ", ".join(repr(t.label) for t in matches)
        return GateResult(Gate.TRIGGER, False, f"{found} ask for different pipelines", "leave one of them on")
    known = ", ".join(sorted({repr(t.label) for t in triggers})) or "no trigger is configured"
    return GateResult(Gate.TRIGGER, False, "no trigger label is on the ticket", f"add one of: {known}")


def is_pending(ticket: Ticket, labels: LabelSet) -> GateResult:
    """Pass a ticket with no lifecycle label, or only `pending`."""
    status = resolve(labels.statuses(ticket.labels))
    if status is Status.PENDING:
        return GateResult(Gate.STATUS, True, "it is pending")
    remedy = (
        f"remove the label {labels.label(status)!r}, or say: agentsmith retry {ticket.key}"
        if status in (Status.DONE, Status.FAILED, Status.WAITING)
        else "nothing: it is being worked on"
    )
    return GateResult(Gate.STATUS, False, f"it is {status.value}", remedy)


def is_allowed(labelling: Labelling | None, trigger: Trigger, policy: Policy) -> GateResult:
    """Pass when the person who set the trigger may; an unknown person may not (P7)."""
    if labelling is None:
        return GateResult(Gate.ACTOR, False, f"nobody is known to have set {trigger.label!r}", "set the label again")
    actor, access = labelling.actor, labelling.access
    saw = f"{actor.name!r} set {trigger.label!r} and has {access.name.lower()} access"
    if actor.name.casefold() in {user.casefold() for user in policy.users}:
        return GateResult(Gate.ACTOR, True, f"{saw}; allow.users names them")
    if actor.bot and not policy.bots:
        return GateResult(Gate.ACTOR, False, f"{saw}, but is a bot", "set allow.bots: true, or name it in allow.users")
    if access < policy.access:
        need = policy.access.name.lower()
        return GateResult(
            Gate.ACTOR, False, saw, f"give them {need} access, name them in allow.users, or set it yourself"
        )
    return GateResult(Gate.ACTOR, True, saw)
