"""The gates between a signal and a claim. Each says what it saw and what to do about it (P10).

Gates are functions of facts that others gathered, so that cheap facts can be looked at before dear ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from agentsmith.domain.filters import Filters
from agentsmith.domain.lifecycle import LabelSet, Status, resolve
from agentsmith.domain.request import Wanted
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Access, Labelling
from agentsmith.domain.vetting import Deed


class Gate(StrEnum):
    """Every gate by its name, in the order in which they are looked at."""

    OPEN = "ticket is open"
    TRIGGER = "one trigger matches"
    STATUS = "status is pending"
    ACTOR = "who set the trigger may"
    TEXT = "the text was vetted"
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
    filters: Filters = field(default_factory=Filters)
    exact_on: frozenset[str] = frozenset()
    """The trackers on which `Fix` and `fix` are two labels."""

    def matches(self, ticket: Ticket) -> bool:
        """Whether the ticket carries this label and lives where the trigger counts."""
        if self.trackers and ticket.tracker not in self.trackers:
            return False
        if ticket.tracker in self.exact_on:
            return self.label in ticket.labels
        return self.label.casefold() in {label.casefold() for label in ticket.labels}

    def name_on(self, tracker: str) -> str:
        """What the label is compared by on this tracker."""
        return self.label if tracker in self.exact_on else self.label.casefold()


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may start work by setting a trigger."""

    access: Access = Access.WRITE
    users: frozenset[str] = frozenset()
    bots: bool = False
    teams: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    any_edits: bool = False
    """Whether text may run that somebody changed, after the trigger was set, who may not set it."""

    @property
    def circles(self) -> bool:
        """Whether belonging somewhere can let a person in."""
        return bool(self.teams or self.roles)


def matching(ticket: Ticket, triggers: Iterable[Trigger]) -> tuple[Trigger, ...]:
    """The triggers whose label the ticket carries, one per pipeline: what tells whether work is still wanted.

    Filters have no say here: they decide what is started, and a run changes the very things that they look at.
    """
    by_pipeline: dict[str, Trigger] = {}
    for trigger in triggers:
        if trigger.matches(ticket):
            by_pipeline.setdefault(trigger.pipeline, trigger)
    return tuple(by_pipeline.values())


def still_wanted(ticket: Ticket, wanted: Wanted, triggers: Iterable[Trigger]) -> bool:
    """Whether what was begun is to go on. `triggers` are the looker's, and count only where nobody wrote down which.

    Processes of different configurations look at the same tickets: what one of them is no longer told to start is not
    for it to stop.
    """
    if wanted.by_hand:
        return True
    if wanted.trigger:
        return wanted.trigger.casefold() in {label.casefold() for label in ticket.labels}
    return bool(matching(ticket, triggers))


def chosen(ticket: Ticket, triggers: Iterable[Trigger]) -> tuple[Trigger, ...]:
    """The triggers that ask for work to begin, one per pipeline: of each label's, the first whose filters fit."""
    by_label: dict[str, Trigger] = {}
    for trigger in triggers:
        if trigger.matches(ticket) and not trigger.filters.misfit(ticket):
            by_label.setdefault(trigger.name_on(ticket.tracker), trigger)
    by_pipeline: dict[str, Trigger] = {}
    for trigger in by_label.values():
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


def is_triggered(ticket: Ticket, triggers: Iterable[Trigger]) -> GateResult:
    """Pass when exactly one pipeline is asked for."""
    known = tuple(triggers)
    wanted = chosen(ticket, known)
    if len(wanted) == 1:
        return GateResult(Gate.TRIGGER, True, f"{wanted[0].label!r} asks for {wanted[0].pipeline!r}")
    if wanted:
        found = ", ".join(repr(t.label) for t in wanted)
        return GateResult(Gate.TRIGGER, False, f"{found} ask for different pipelines", "leave one of them on")
    if near := [trigger for trigger in known if trigger.matches(ticket)]:
        saw = "; ".join(dict.fromkeys(f"{t.label!r} is set, but {t.filters.misfit(ticket)}" for t in near))
        return GateResult(Gate.TRIGGER, False, saw, "change the ticket, or the trigger's filters in the configuration")
    names = ", ".join(sorted({repr(t.label) for t in known})) or "no trigger is configured"
    return GateResult(Gate.TRIGGER, False, "no trigger label is on the ticket", f"add one of: {names}")


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


def is_allowed(who: Labelling | None, deed: str, policy: Policy, doubt: str = "") -> GateResult:
    """Pass when the person who set the trigger, or removed a status, may; an unknown person may not (P7)."""
    if who is None:
        saw = f"nobody is known to have {deed}" + (f": {doubt}" if doubt else "")
        return GateResult(Gate.ACTOR, False, saw, "set the trigger again")
    return may(who, deed, policy)


def is_retried(by: str) -> GateResult:
    """Pass a ticket that somebody who may asked for again: who set the trigger once does not matter then."""
    return GateResult(Gate.ACTOR, True, f"{by!r} asked for another run")


def is_vetted(why: str) -> GateResult:
    """Pass text that somebody who may start work has seen as it is."""
    return GateResult(Gate.TEXT, True, why)


def is_edited_by_nobody_known(key: str) -> GateResult:
    """Hold back text of which nobody can tell who changed it after the trigger was set."""
    saw = "the platform does not tell who changed the text after the trigger was set"
    return GateResult(Gate.TEXT, False, saw, f"read it and say: agentsmith retry {key}; or set allow.edits: anyone")


def is_changed(change: Deed, ask: Deed, editor: GateResult | None, key: str) -> GateResult:
    """Hold back text that somebody who may not start work changed after it was asked for; `editor` says why not."""
    name = repr(change.actor.name) if change.actor is not None else "somebody unknown"
    asker = repr(ask.actor.name) if ask.actor is not None else "somebody"
    saw = f"{name} {change} at {change.moment}, after {asker} {ask} at {ask.moment}"
    why = f", and may not start work: {editor.saw}" if editor is not None else ""
    remedy = f"read the text; then set the trigger again, or say: agentsmith retry {key}"
    return GateResult(Gate.TEXT, False, saw + why, remedy)


def may(who: Labelling, deed: str, policy: Policy, circle: str = "") -> GateResult:
    """Pass whoever did this, if they may start work; `circle` names what they belong to that `policy` names."""
    actor, access = who.actor, who.access
    saw = f"{actor.name!r} {deed} and has {access.name.lower()} access"
    if actor.name.casefold() in {user.casefold() for user in policy.users}:
        return GateResult(Gate.ACTOR, True, f"{saw}; allow.users names them")
    if actor.bot and not policy.bots:
        return GateResult(Gate.ACTOR, False, f"{saw}, but is a bot", "set allow.bots: true, or name it in allow.users")
    if circle:
        return GateResult(Gate.ACTOR, True, f"{saw}; they belong to {circle}")
    if access < policy.access:
        outside = f", and is in none of {_named(policy)}" if policy.circles else ""
        need = policy.access.name.lower()
        remedy = f"give them {need} access, name them in allow.users, or do it yourself"
        return GateResult(Gate.ACTOR, False, f"{saw}{outside}", remedy)
    return GateResult(Gate.ACTOR, True, saw)


def runs_nowhere() -> GateResult:
    """Pass a ticket that nobody has in hand."""
    return GateResult(Gate.LEASE, True, "it is neither queued nor running")


def within_loop_limit(claims: int, limit: int, window: float, *, first: float | None = None) -> GateResult:
    """Pass a ticket that was claimed so often within `window`; if that is too often, `first` is when it began."""
    times = {0: "not claimed", 1: "claimed once"}.get(claims, f"claimed {claims} times")
    saw = f"{times} within {_span(window)}, claim.loop_limit is {limit}"
    if first is None:
        return GateResult(Gate.LOOP, True, saw)
    then = datetime.fromtimestamp(first + window, UTC).isoformat(timespec="seconds")
    remedy = f"find out what sets the trigger again; then raise claim.loop_limit, or retry after {then}"
    return GateResult(Gate.LOOP, False, saw, remedy)


def has_room(limits: Mapping[str, int | None]) -> GateResult:
    """Pass a ticket for which there is room within these limits, by their settings."""
    saw = ", ".join(f"{setting} is {limit}" for setting, limit in limits.items() if limit is not None)
    return GateResult(Gate.CAPACITY, True, f"there is room: {saw}" if saw else "no limit is set")


def is_full(count: int, setting: str, limit: int | None) -> GateResult:
    """Hold back a ticket for which there is no room."""
    saw = f"{count} queued and running, {setting} is {limit}"
    return GateResult(Gate.CAPACITY, False, saw, f"wait until there is room, or raise {setting}")


def _span(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:g} s"


def _named(policy: Policy) -> str:
    return ", ".join(repr(name) for name in (*sorted(policy.teams), *sorted(policy.roles)))
