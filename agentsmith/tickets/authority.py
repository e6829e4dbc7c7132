"""The gates that reading alone decides, and above all who may: set a label, take one off, write a command (P7).

Who asked for a run last decides, and whether the text is still what they saw: see `domain.vetting`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from agentsmith.domain import gates
from agentsmith.domain.errors import NotPermitted, Refused
from agentsmith.domain.facts import RunNow
from agentsmith.domain.gates import GateResult, Policy
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import event_and_label, label_in, text_hash
from agentsmith.domain.rules import ClaimRules
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access, KnowsCircles, Labelling, Tracker
from agentsmith.domain.vetting import Deed, DeedKind, History, Pin, changes_since, ends_rest, last_ask
from agentsmith.domain.webhook import Remark
from agentsmith.store import Store
from agentsmith.tickets.refusals import Doing, refused, remedy, works

Remembered = Callable[[], Awaitable[Pin | None]]
_BEFORE: Final = "it is the text that was vetted before"


@dataclass(frozen=True, slots=True)
class AccessCheck:
    """Asks a tracker what people may. With a `store`, it is told once where the tracker does not say."""

    tracker: Tracker
    store: Store | None = None

    async def may(self, actor: Actor, deed: str, policy: Policy) -> GateResult:
        """Whether they may start work. Teams and roles are asked about only if they decide it."""
        try:
            who = Labelling(actor, await self.tracker.access_of(actor))
        except Refused as error:
            return await self._withheld(gates.may(Labelling(actor, Access.NONE), deed, policy), Doing.ASKING, error)
        await self._shown(Doing.ASKING)
        judged = gates.may(who, deed, policy)
        if judged.passed or not policy.circles or (actor.bot and not policy.bots):
            return judged
        try:
            circle = await self._circle(actor, policy)
        except Refused as error:
            return await self._withheld(judged, Doing.ASKING_CIRCLES, error)
        await self._shown(Doing.ASKING_CIRCLES)
        return gates.may(who, deed, policy, circle)

    async def _circle(self, actor: Actor, policy: Policy) -> str:
        tracker = self.tracker
        if not isinstance(tracker, KnowsCircles):
            return ""
        return await tracker.belongs_to(actor, teams=policy.teams, roles=policy.roles)

    async def _shown(self, doing: Doing) -> None:
        if self.store is not None:
            await works(self.store, self.tracker, doing)

    async def _withheld(self, judged: GateResult, doing: Doing, error: Refused) -> GateResult:
        """Fails closed; who is named in `allow.users` still may."""
        if not judged.passed and self.store is not None and isinstance(error, NotPermitted):
            await refused(self.store, self.tracker, doing, error)
        withheld = "what they may" if doing is Doing.ASKING else "what they belong to"
        todo = "" if judged.passed else remedy(self.tracker, doing)
        return replace(judged, saw=f"{judged.saw}; {withheld} is not told to us: {error}", remedy=todo)


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
    access: AccessCheck,
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
    tracker = access.tracker
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
    who = gates.is_retried(held.by) if held is not None and held.by else await _may(access, ask, policy)
    if not who.passed:
        return Judgement((*results, who), labelled)
    vetted = gates.is_vetted(_BEFORE) if held is not None else await _vetted(access, ticket, history, ask, policy)
    if not vetted.passed and remembered is not None:
        pin = await remembered()
        if pin is not None and pin.holds(ask, text):
            held, vetted = pin, gates.is_vetted(_BEFORE)
    if not vetted.passed:
        return Judgement((*results, who, vetted), labelled, changed=history.tells_edits)
    waited = any(ends_rest(deed, tracker.labels, Status.WAITING) for deed in history.deeds)
    kept = Pin(text, ask.event, held.by if held is not None else "")
    return Judgement((*results, who, vetted), labelled, kept, waited=waited)


async def set_again(access: AccessCheck, ticket: Ticket, labelled: str, rules: ClaimRules) -> Actor | None:
    """Who set the trigger once more since it was set by the event `labelled`, if they may; else None."""
    label = label_in(labelled)
    if not label:
        return None
    deeds = (await access.tracker.history(ticket, label)).deeds
    if not deeds or event_and_label(deeds[0].event, label) in ("", labelled):
        return None
    may = await _may(access, deeds[0], rules.policies[access.tracker.name])
    return deeds[0].actor if may.passed else None


async def wanted_again(access: AccessCheck, ticket: Ticket, rules: ClaimRules) -> Actor | None:
    """Who set the trigger of a waiting ticket after it was parked, if they may; else None."""
    tracker, wanted = access.tracker, {trigger.label.casefold() for trigger in gates.chosen(ticket, rules.triggers)}
    parked = next((label for label in ticket.labels if tracker.labels.status_of(label) is Status.WAITING), None)
    if len(wanted) != 1 or parked is None or not ticket.open:
        return None
    deeds = (await tracker.history(ticket, parked)).deeds
    for deed in reversed(deeds):
        # In the same moment: the ticket was opened with both labels.
        if deed.kind is DeedKind.LABELLED and deed.label.casefold() in wanted and deed.at > deeds[0].at:
            return deed.actor if (await _may(access, deed, rules.policies[tracker.name])).passed else None
    return None


async def may_command(access: AccessCheck, author: Actor, command: str, policy: Policy) -> GateResult:
    """Whether somebody who wrote a command may start work."""
    return await access.may(author, f"wrote {command!r}", policy)


async def seen_by(access: AccessCheck, ticket: Ticket, label: str, remark: Remark, policy: Policy) -> GateResult:
    """Whether the text is what the author of a comment saw when they asked for a run by it."""
    history = await access.tracker.history(ticket, label)
    if not history or remark.at is None:
        return gates.is_vetted("") if policy.any_edits else gates.is_edited_by_nobody_known(ticket.key)
    if history.deeds[0].at > remark.at and not policy.any_edits:
        # What was changed between the two is not told; whoever set the label has seen it.
        who = await _may(access, history.deeds[0], policy)
        return await _vetted(access, ticket, history, history.deeds[0], policy) if who.passed else who
    ask = Deed(DeedKind.RETRIED, remark.author, remark.at)
    later = tuple(deed for deed in history.deeds if deed.kind.edit and deed.at >= remark.at)
    return await _vetted(access, ticket, History((ask, *later), history.tells_edits), ask, policy)


async def _last_ask(tracker: Tracker, history: History) -> Deed | None:
    removed = any(ends_rest(deed, tracker.labels) for deed in history.deeds)
    return last_ask(history, tracker.labels, await tracker.me() if removed else None)


async def _vetted(access: AccessCheck, ticket: Ticket, history: History, ask: Deed, policy: Policy) -> GateResult:
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
            editor = await access.may(change.actor, str(change), policy)
        if editor is None or not editor.passed:
            return gates.is_changed(change, ask, editor, ticket.key)
        seen = editor.saw
    return gates.is_vetted(seen)


async def _may(access: AccessCheck, deed: Deed, policy: Policy) -> GateResult:
    """Whether whoever did this may start work."""
    if deed.actor is None:
        return gates.is_allowed(None, str(deed), policy, deed.doubt)
    return await access.may(deed.actor, str(deed), policy)
