"""The gates that reading alone decides, and above all who may: set a label, take one off, write a command (P7).

Who asked for a run last decides, and whether the text is still what they saw: see `domain.vetting`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

import structlog

from agentsmith.domain import gates
from agentsmith.domain.errors import Refused
from agentsmith.domain.facts import RunNow
from agentsmith.domain.gates import GateResult, Policy
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import event_and_label, label_in, text_hash
from agentsmith.domain.rules import ClaimRules
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access, KnowsCircles, Labelling, Tracker
from agentsmith.domain.vetting import Deed, DeedKind, History, Pin, changes_since, ends_rest, last_ask
from agentsmith.domain.webhook import Remark

log = structlog.get_logger()

Remembered = Callable[[], Awaitable[Pin | None]]
_BEFORE: Final = "it is the text that was vetted before"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gates said; `labelled` names the event by which the trigger was set, where it is known."""

    gates: tuple[GateResult, ...]
    labelled: str = ""
    pin: Pin | None = None
    """The text as it was vetted, once all of them are open."""
    changed: bool = False
    """Whether the text was changed by somebody who may not: then a person has to look at it."""
    waited: bool = False
    """Whether the ticket waited for a person, and somebody took that off."""

    @property
    def passed(self) -> bool:
        """Whether all of them are open."""
        return all(result.passed for result in self.gates)


async def judge(
    tracker: Tracker,
    ticket: Ticket,
    rules: ClaimRules,
    asked: RunNow | None = None,
    *,
    pin: Pin | None = None,
    remembered: Remembered | None = None,
) -> Judgement:
    """Hold the ticket against the gates that only need reading; who asked for it comes last: it costs most.

    `pin` is the text that was vetted, as Redis knows it; `remembered` reads it off the ticket, should Redis have
    forgotten, and is asked only if it decides.
    """
    results = (
        gates.is_open(ticket),
        gates.is_asked_for(asked.by) if asked is not None else gates.is_triggered(ticket, rules.triggers),
        gates.is_pending(ticket, tracker.labels),
    )
    text = text_hash(ticket.title, ticket.body)
    if asked is not None or not all(result.passed for result in results):
        return Judgement(results, pin=Pin(text, by=asked.by) if asked is not None else None)
    label, policy = gates.chosen(ticket, rules.triggers)[0].label, rules.policies[tracker.name]
    history = await tracker.history(ticket, label)
    ask = await _last_ask(tracker, history)
    if ask is None:
        return Judgement((*results, gates.is_allowed(None, f"set {label!r}", policy)))
    labelled = event_and_label(history.deeds[0].event, label)
    held = pin if pin is not None and pin.holds(ask, text) else None
    who = gates.is_retried(held.by) if held is not None and held.by else await _may(tracker, ask, policy)
    if not who.passed:
        return Judgement((*results, who), labelled)
    vetted = gates.is_vetted(_BEFORE) if held is not None else await _vetted(tracker, ticket, history, ask, policy)
    if not vetted.passed and remembered is not None:
        pin = await remembered()
        if pin is not None and pin.holds(ask, text):
            held, vetted = pin, gates.is_vetted(_BEFORE)
    if not vetted.passed:
        return Judgement((*results, who, vetted), labelled, changed=history.tells_edits)
    waited = any(ends_rest(deed, tracker.labels, Status.WAITING) for deed in history.deeds)
    kept = Pin(text, ask.event, held.by if held is not None else "")
    return Judgement((*results, who, vetted), labelled, kept, waited=waited)


async def set_again(tracker: Tracker, ticket: Ticket, labelled: str, rules: ClaimRules) -> Actor | None:
    """Who set the trigger once more since it was set by the event `labelled`, if they may; else None."""
    label = label_in(labelled)
    if not label:
        return None
    deeds = (await tracker.history(ticket, label)).deeds
    if not deeds or event_and_label(deeds[0].event, label) in ("", labelled):
        return None
    may = await _may(tracker, deeds[0], rules.policies[tracker.name])
    return deeds[0].actor if may.passed else None


async def wanted_again(tracker: Tracker, ticket: Ticket, rules: ClaimRules) -> Actor | None:
    """Who set the trigger of a waiting ticket after it was parked, if they may; else None."""
    wanted = {trigger.label.casefold() for trigger in gates.chosen(ticket, rules.triggers)}
    parked = next((label for label in ticket.labels if tracker.labels.status_of(label) is Status.WAITING), None)
    if len(wanted) != 1 or parked is None or not ticket.open:
        return None
    deeds = (await tracker.history(ticket, parked)).deeds
    for deed in reversed(deeds):
        # In the same moment: the ticket was opened with both labels.
        if deed.kind is DeedKind.LABELLED and deed.label.casefold() in wanted and deed.at > deeds[0].at:
            return deed.actor if (await _may(tracker, deed, rules.policies[tracker.name])).passed else None
    return None


async def may_command(tracker: Tracker, author: Actor, command: str, policy: Policy) -> GateResult:
    """Whether somebody who wrote a command may start work."""
    return await _may_do(tracker, author, f"wrote {command!r}", policy)


async def seen_by(tracker: Tracker, ticket: Ticket, label: str, remark: Remark, policy: Policy) -> GateResult:
    """Whether the text is what the author of a comment saw when they asked for a run by it."""
    history = await tracker.history(ticket, label)
    if not history or remark.at is None:
        return gates.is_vetted("") if policy.any_edits else gates.is_edited_by_nobody_known(ticket.key)
    ask = Deed(DeedKind.RETRIED, remark.author, remark.at)
    later = tuple(deed for deed in history.deeds if deed.kind.edit and deed.at >= remark.at)
    return await _vetted(tracker, ticket, History((ask, *later), history.tells_edits), ask, policy)


async def _last_ask(tracker: Tracker, history: History) -> Deed | None:
    removed = any(ends_rest(deed, tracker.labels) for deed in history.deeds)
    return last_ask(history, tracker.labels, await tracker.me() if removed else None)


async def _vetted(tracker: Tracker, ticket: Ticket, history: History, ask: Deed, policy: Policy) -> GateResult:
    """Whether the last to change title and body, since it was asked for, were people who may."""
    if policy.any_edits:
        return gates.is_vetted("anyone may change it: allow.edits")
    if not history.tells_edits:
        return gates.is_edited_by_nobody_known(ticket.key)
    asker = repr(ask.actor.name) if ask.actor is not None else "somebody"
    seen = f"nobody changed it since {asker} {ask}"
    for change in changes_since(history, ask):
        editor = None
        if change.actor is not None:
            editor = await _may_do(tracker, change.actor, str(change), policy)
        if editor is None or not editor.passed:
            return gates.is_changed(change, ask, editor, ticket.key)
        seen = editor.saw
    return gates.is_vetted(seen)


async def _may(tracker: Tracker, deed: Deed, policy: Policy) -> GateResult:
    """Whether whoever did this may start work."""
    if deed.actor is None:
        return gates.is_allowed(None, str(deed), policy, deed.doubt)
    return await _may_do(tracker, deed.actor, str(deed), policy)


async def _may_do(tracker: Tracker, actor: Actor, deed: str, policy: Policy) -> GateResult:
    """Teams and roles are asked about only if they decide it."""
    doubt = ""
    try:
        who = Labelling(actor, await tracker.access_of(actor))
    except Refused as error:
        # Fails closed; who is named in `allow.users` still may.
        log.error("the tracker does not tell what people may", tracker=tracker.name, error=str(error))
        who, doubt = Labelling(actor, Access.NONE), f"; what they may is not told to us: {error}"
    judged = gates.may(who, deed, policy)
    if judged.passed or doubt:
        return replace(judged, saw=judged.saw + doubt)
    return gates.may(who, deed, policy, await _circle(tracker, actor, policy))


async def _circle(tracker: Tracker, actor: Actor, policy: Policy) -> str:
    if not policy.circles or not isinstance(tracker, KnowsCircles) or (actor.bot and not policy.bots):
        return ""
    return await tracker.belongs_to(actor, teams=policy.teams, roles=policy.roles)
