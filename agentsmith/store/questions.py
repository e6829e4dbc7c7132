"""Questions: what a ticket's worker asked of people, until a run came to an end with what they said."""

from __future__ import annotations

from agentsmith.domain.asking import Question
from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import QUESTION_MS, Keys
from agentsmith.store.redis_commands import Commands


class Questions:
    """One question per ticket, in its wire form. It comes and goes in the step that notes what was published of it
    (`Intents.published`); should Redis forget it, our comment on the ticket tells."""

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
