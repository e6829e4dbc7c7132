"""Who we are on a platform, and who set a label: what is asked in the same way everywhere."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access, Labelling
from agentsmith.domain.vetting import History
from agentsmith.trackers.http import spending_for
from agentsmith.trackers.http.ledger import ACTOR


class Accounts(ABC):
    """The accounts of a platform, as one project sees them."""

    def __init__(self) -> None:
        self._me: Actor | None = None
        self._my_id: str = ""
        self._asking = asyncio.Lock()

    @abstractmethod
    async def ask_who_we_are(self, deadline: float | None) -> Actor:
        """The account that the credential belongs to, from the platform."""

    @abstractmethod
    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the ticket since the label was put on (T21)."""

    @abstractmethod
    async def access_of(self, actor: Actor) -> Access:
        """What an account may do in the project."""

    @abstractmethod
    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """The team or the role, of those named, that lets an account in; empty where none does."""

    async def me(self, *, deadline: float | None = None) -> Actor:
        """Who the credential belongs to; asked once."""
        async with self._asking:
            if self._me is None:
                with spending_for(ACTOR):
                    self._me = await self.ask_who_we_are(deadline)
        return self._me

    async def my_id(self, *, deadline: float | None = None) -> str:
        """Our account's id; known without asking once something that we wrote has come back."""
        return self._my_id or (await self.me(deadline=deadline)).id

    def wrote_it(self, actor: Actor) -> None:
        """What we have just written was written by this account: that is us."""
        self._my_id = actor.id or self._my_id

    async def labelled_by(self, ticket: Ticket, label: str) -> Labelling | None:
        """Who last put the label on the ticket; None when the history does not say."""
        with spending_for(ACTOR):
            deeds = (await self.history(ticket, label)).deeds
            actor = deeds[0].actor if deeds else None
            return None if actor is None else Labelling(actor, await self.access_of_setter(actor), deeds[0].event)

    async def access_of_setter(self, actor: Actor) -> Access:
        """What the account that set a label may do."""
        return await self.access_of(actor)
