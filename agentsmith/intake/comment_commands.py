"""Carries out what people ask for in comments, `/agent-smith retry` and the like, each comment once.

A webhook only says that there may be a command. The comment is read again by its id, its author is held against
`allow` like whoever sets a label, and only then does anything happen. Strangers get no answer at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from agentsmith.domain import gates
from agentsmith.domain.conversation import KNOWN_VERBS, Acknowledged, CommentCommand, TakesCommands, Verb, command_in
from agentsmith.domain.errors import Refused, Unauthorized
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.outcomes import Cancelled, LookOutcome, NothingToDo, Rejected, Stopping, WouldClaim
from agentsmith.domain.request import text_hash
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.webhook import Remark
from agentsmith.store import Lease, Seen, Store
from agentsmith.tickets import authority, explain
from agentsmith.tickets.live_rules import LiveRules
from agentsmith.tickets.look import Looks

log = structlog.get_logger()

_SHOWN: Final = 60


class CommentCommands:
    """Carries out commands in comments."""

    def __init__(
        self,
        store: Store,
        trackers: Mapping[str, Tracker],
        looks: Looks,
        rules: LiveRules,
        *,
        shadow: bool = False,
    ) -> None:
        self._store, self._trackers, self._looks = store, trackers, looks
        self._rules, self._shadow = rules, shadow

    async def carry_out(self, signal: Signal) -> LookOutcome:
        """Carry out the command in the comment that the signal names; never raises for a tracker's failure."""
        tracker = self._trackers.get(signal.tracker)
        if tracker is None:
            return NothingToDo(f"no tracker is called {signal.tracker!r}")
        if not isinstance(tracker, TakesCommands):
            return NothingToDo(f"{tracker.platform} takes no commands")
        return await self._looks.tried(signal, tracker, lambda lock: self._read(tracker, tracker, signal, lock))

    async def _read(self, tracker: Tracker, voice: TakesCommands, signal: Signal, lock: Lease) -> LookOutcome:
        ticket = await tracker.get(signal.key)
        remark = await voice.remark(ticket, signal.remark)
        if remark is None:
            return NothingToDo("the comment is gone")
        command = command_in(remark.text, tracker.labels.prefix)
        if command is None:
            return NothingToDo("the comment is no command")
        if remark.author.bot and remark.author.id == (await tracker.me()).id:
            return NothingToDo("the comment is our own")
        shown = f"/{tracker.labels.prefix} {command.word[:_SHOWN]}"
        people = authority.People(tracker, self._store)
        gate = await authority.may_command(people, remark.author, shown, self._rules.in_force.policies[tracker.name])
        if not gate.passed:
            return Rejected((gate,))
        if self._shadow:
            return WouldClaim(f"{shown!r} would be carried out; a shadow writes nothing")
        known = await self._store.seen_commands.begin(tracker.name, remark.id)
        if known is Seen.DONE:
            return NothingToDo(f"{shown!r} was carried out before")
        seen = await self._acknowledge(voice, ticket, remark, lock)
        if known is Seen.NEW and seen is Acknowledged.BEFORE:
            # Redis forgot it, the ticket did not.
            await self._store.seen_commands.done(tracker.name, remark.id)
            return NothingToDo(f"{shown!r} was carried out before")
        done, answer = await self._do(tracker, ticket, command, remark, lock)
        if answer or seen is Acknowledged.NO_WAY:
            await tracker.say(ticket, answer or f"**agentsmith**: {done}.", deadline=lock.trust.until)
        await self._store.seen_commands.done(tracker.name, remark.id)
        log.info("command", ticket=ticket.id, command=command.word[:_SHOWN], by=remark.author.name, outcome=done)
        return NothingToDo(f"{shown!r} of {remark.author.name!r}: {done}")

    async def _acknowledge(
        self, voice: TakesCommands, ticket: Ticket, remark: Remark, lock: Lease
    ) -> Acknowledged | None:
        try:
            return await voice.acknowledge(ticket, remark.id, deadline=lock.trust.until)
        except (Refused, Unauthorized) as error:
            # Whoever may not react may still carry it out.
            log.warning("a comment could not be acknowledged", ticket=ticket.id, error=str(error))
            return None

    async def _do(
        self, tracker: Tracker, ticket: Ticket, command: CommentCommand, remark: Remark, lock: Lease
    ) -> tuple[str, str]:
        """Do it; answers what was done, and what is to be said on the ticket, if anything."""
        match command.verb:
            case Verb.RETRY:
                return await self._retry(tracker, ticket, remark, f"retried by {remark.author.name}")
            case Verb.ANSWER:
                return await self._answer(tracker, ticket, command, remark)
            case Verb.CANCEL:
                reason = StopReason.cancelled_by(remark.author.name)
                match await self._looks.cancel(tracker, ticket, reason, lock):
                    case Cancelled():
                        return "unqueued", ""
                    case Stopping():
                        return "stopping", ""
                return "nothing to cancel", "**agentsmith**: there is nothing to cancel: it is not queued or running."
            case Verb.WHY:
                return "explained", explain.as_comment(await explain.known(self._store, ticket.id, tracker.name))
            case None:
                prefix = tracker.labels.prefix
                return "not understood", f"**agentsmith**: write `/{prefix}` and one of: {KNOWN_VERBS}."

    async def _answer(
        self, tracker: Tracker, ticket: Ticket, command: CommentCommand, remark: Remark
    ) -> tuple[str, str]:
        """The answer itself is read off the ticket when the run begins; here it only has to begin."""
        shown, status = f"`/{tracker.labels.prefix} answer`", resolve(tracker.labels.statuses(ticket.labels))
        if not command.text:
            return "no answer given", f"**agentsmith**: write your answer behind {shown}."
        intent = await self._store.intents.of(ticket.id)
        asked = await self._looks.remembered.question(tracker, ticket)
        # Perhaps what was asked stands in our comment already, and the label is still to come.
        coming = intent is not None and intent.to is Status.WAITING and bool(intent.question)
        if coming or (status is Status.WAITING and asked is not None and not asked.answered):
            return await self._retry(tracker, ticket, remark, f"answered by {remark.author.name}")
        if status in (Status.PENDING, Status.ENQUEUED) and asked is not None:
            return "the run that is about to begin gets it", ""
        elsewhere = " for something else" if status is Status.WAITING else ""
        done = f"it does not wait for an answer: it is {status.value}{elsewhere}"
        retry = f"`/{tracker.labels.prefix} retry`"
        return done, f"**agentsmith**: {done}. To have it run again, write {retry}."

    async def _retry(self, tracker: Tracker, ticket: Ticket, remark: Remark, cause: str) -> tuple[str, str]:
        rules, by = self._rules.in_force, remark.author.name
        for gate in (gates.is_open(ticket), gates.is_triggered(ticket, rules.triggers)):
            if not gate.passed:
                return f"cannot run: {gate.saw}", f"**agentsmith**: it cannot run: {gate.saw}; {gate.remedy}."
        label = gates.chosen(ticket, rules.triggers)[0].label
        people = authority.People(tracker, self._store)
        seen = await authority.seen_by(people, ticket, label, remark, rules.policies[tracker.name])
        if not seen.passed:
            return f"cannot run: {seen.saw}", f"**agentsmith**: it cannot run: {seen.saw}; {seen.remedy}."
        signal = Signal(
            tracker.name,
            ticket.key,
            ticket.id,
            kind=SignalKind.RETRY,
            cause=cause,
            by=by,
            text=text_hash(ticket.title, ticket.body),
        )
        await self._store.signals.send([signal])
        return "it will run again", ""
