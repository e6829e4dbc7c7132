"""What our own comment on a ticket remembers, for a Redis that forgot it: run, vetted text, times, questions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentsmith.domain.asking import Question
from agentsmith.domain.gates import matching
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.vetting import Pin
from agentsmith.store import Store
from agentsmith.tickets.live_rules import LiveRules
from agentsmith.tickets.lock import holding


@dataclass(frozen=True, slots=True)
class Remembered:
    """Reads the memo in our comment, and has Redis learn again what it says."""

    store: Store
    rules: LiveRules

    async def memo(self, tracker: Tracker, ticket: Ticket) -> Memo | None:
        """The memo on the ticket, if there is one; its branch and its question are known to Redis again."""
        sticky = await tracker.read_sticky(ticket)
        memo = sticky.memo if sticky is not None else None
        if memo is not None and memo.branch and not await self.store.remembered_branch(ticket.id):
            await self.store.remember_branch(ticket.id, memo.branch)
        if memo is not None and memo.question:
            await self.store.questions.relearn(ticket.id, memo.question)
        return memo

    async def pin(self, ticket: Ticket, memo: Memo) -> Pin:
        """The text that was vetted, as the memo tells it; Redis learns of it again."""
        pin = Pin(memo.text, memo.ask, memo.by)
        if await self.store.pins.of(ticket.id) is None:
            await self.store.pins.keep(ticket.id, pin)
        return pin

    async def pinned(self, tracker: Tracker, ticket: Ticket) -> Pin | None:
        """The text that was vetted, as our comment on the ticket remembers it."""
        memo = await self.memo(tracker, ticket)
        return await self.pin(ticket, memo) if memo is not None else None

    async def before_it_is_rewritten(self, tracker: Tracker, ticket: Ticket) -> None:
        """Read off a ticket that waited what Redis forgot of it: our comment is written anew without it."""
        if not await self.store.runs.remembers(ticket.id):
            await self.memo(tracker, ticket)

    async def question(self, tracker: Tracker, ticket: Ticket) -> Question | None:
        """What was asked on the ticket; our comment is asked where Redis knows of nothing."""
        if await self.store.questions.of(ticket.id) is None:
            await self.memo(tracker, ticket)
        return await self.store.questions.of(ticket.id)

    def routes(self, ticket: Ticket) -> bool:
        """Whether one of our triggers is on the ticket."""
        return bool(matching(ticket, self.rules.triggers))

    def took_on(self, ticket: Ticket, memo: Memo) -> bool:
        """Whether the ticket was taken on by one of our triggers, which may be gone from it by now."""
        return self.routes(replace(ticket, labels=frozenset({memo.trigger})))

    async def restore_due(self, tracker: Tracker, ticket: Ticket) -> bool:
        """Read the time that a waiting ticket waits for off the ticket, if Redis forgot it; True when there is one."""
        async with holding(self.store, tracker.platform, ticket.id):
            seen = await tracker.get(ticket.key)
            waits = tracker.labels.statuses(seen.labels) == {Status.WAITING}
            if not waits or await self.store.intents.knows_wait(ticket.id):
                return False
            memo = await self.memo(tracker, seen)
            if memo is None or not self.took_on(seen, memo):
                return False
            await self.pin(seen, memo)
            restored = await self.store.intents.restore_waiting(
                ticket.id, tracker.name, ticket.key, fence=memo.fence, due=memo.due
            )
            return restored and memo.due is not None
