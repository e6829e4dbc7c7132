"""Questions: what a ticket's worker asked of people, until a run came to an end with what they said."""

from __future__ import annotations

from agentsmith.domain.asking import Question
from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import QUESTION_MS, Keys
from agentsmith.store.redis_commands import Commands


class Questions:
    """Who waits for a person, and one question per ticket, in its wire form. Both come and go in the step that notes
    what was published of the ticket (`Intents.published`); should Redis forget them, our comment on it tells."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def kept(self, ticket: TicketId) -> str:
        """The question as it was written, for the ticket's memo; empty when there is none."""
        return await self._redis.get(self._keys.question(ticket)) or ""

    async def of(self, ticket: TicketId) -> Question | None:
        """What was asked, if anything was."""
        return Question.from_json(await self.kept(ticket))

    async def relearn(self, ticket: TicketId, question: str) -> None:
        """Remember what the ticket's memo tells of, if Redis knows of none."""
        if not await self.kept(ticket):
            await self._redis.set(self._keys.question(ticket), question, px=QUESTION_MS)

    async def parked(self) -> list[tuple[TicketId, float]]:
        """Tickets that wait for a person, longest first, each with since when in seconds since the epoch."""
        found = await self._redis.zrange(self._keys.parked, 0, -1, withscores=True)
        return [(TicketId(ticket), score / 1000) for ticket, score in found]
