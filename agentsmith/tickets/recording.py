"""Recording a decision in Redis, and then publishing it: the one way in which a ticket's label comes to change."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentsmith.domain.intent import NO_RUN, Intent
from agentsmith.domain.lifecycle import Edge
from agentsmith.domain.signal import Taken
from agentsmith.domain.ticket import TicketId
from agentsmith.store import DeadLetter, DecideAnswer, DecideWord, Lease, Store
from agentsmith.tickets.facts import Case
from agentsmith.tickets.publish import LOOK_AGAIN, Publisher


@dataclass(frozen=True, slots=True)
class Recording:
    """Records intents under the ticket's lock, and publishes them."""

    store: Store
    publisher: Publisher

    def intent(self, case: Case, along: Edge, outcome: str, *, run: str = NO_RUN, note: str = "") -> Intent:
        """What is to become of the ticket; the fence is filled in when it is recorded."""
        return Intent(case.ticket.id, case.tracker.name, case.ticket.key, 0, along, run, outcome, note)

    async def record_and_publish(
        self,
        intent: Intent,
        case: Case,
        *,
        after_settling: bool = False,
        unqueue: bool = False,
        taken: Taken | None = None,
    ) -> DecideWord:
        """Take the ticket over, record the decision and publish it; answers the store's word."""
        begun = await self.record(intent, case, after_settling=after_settling, unqueue=unqueue, taken=taken)
        if begun.word == "decided":
            await self.publisher.publish(replace(intent, fence=begun.fence), lock=case.lock, ticket=case.ticket)
        return begun.word

    async def record(
        self,
        intent: Intent | None,
        case: Case,
        *,
        after_settling: bool = False,
        unqueue: bool = False,
        letter: DeadLetter | None = None,
        taken: Taken | None = None,
    ) -> DecideAnswer:
        """Take the ticket over, and record the decision if there is one; see `store.intents.decide`."""
        return await self.store.intents.decide(
            case.ticket.id,
            intent,
            lock=case.lock,
            look_in=LOOK_AGAIN,
            after_settling=after_settling,
            unqueue=unqueue,
            letter=letter,
            taken=taken,
        )

    async def adopt(self, ticket: TicketId, lock: Lease) -> Intent | None:
        """Take over what somebody recorded and did not get published."""
        return await self.store.intents.adopt(ticket, lock=lock, look_in=self.store.times.lock)
