"""The contract of `domain.tracker`, put together from a platform's parts: which of them does what is the same for all.

A platform makes its parts, hands them to `HostedTracker`, and adds what it alone can do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.foreign import Foreign, foreign
from agentsmith.domain.hooks import Hook
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor, Ticket, TicketId
from agentsmith.domain.tracker import Access, Blocker, Labelling, Move, MoveOutcome, Sticky
from agentsmith.domain.vetting import History
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.shared.people import Accounts
from agentsmith.trackers.shared.remarks import Remarks
from agentsmith.trackers.shared.sticky import StickyComments


class ProjectSite(Protocol):
    """Where a project is, and how its tickets are named."""

    id: str | None
    """The project's number, which no rename changes: None until it is asked for, empty where it is not told."""

    @property
    def canonical(self) -> str:
        """The canonical project: `github.com/acme/web`."""

    def ticket_id(self, key: str, /) -> TicketId:
        """The canonical id of a ticket."""

    def identify(self, text: str) -> str | None:
        """The key behind a key, a canonical id or a URL (T15); None where it is no ticket of this project."""


class Tickets(Protocol):
    """Reads single tickets."""

    def key(self, text: str) -> str:
        """The text as a ticket's key; raises TicketNotFound for what cannot be one."""

    async def read(self, text: str, /) -> Ticket:
        """The ticket as it is now (T1, T3)."""

    async def learn_project(self) -> object:
        """Learn the project's number, by which its webhooks are known whatever it is called."""


class Listing(Protocol):
    """Lists tickets by label."""

    def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open ticket that carries one of `labels` (T2)."""


class Moves(Protocol):
    """Writes labels."""

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        """Publish one edge (T4 to T11)."""

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        """Leave one lifecycle label (T12)."""

    async def relabel(self, ticket: Ticket, wanted: Foreign, *, deadline: float) -> Ticket:
        """Add and remove labels that are not ours (T17)."""


class Hooks(Protocol):
    """Looks after webhooks."""

    async def listed(self) -> tuple[Hook, ...]:
        """Every webhook of the project (H1)."""

    async def install(self, url: str, secret: str) -> Hook:
        """A new one (H2)."""

    async def repair(self, hook: Hook, secret: str) -> Hook:
        """One made right (H3)."""

    async def remove(self, hook: Hook) -> None:
        """One less (H4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerParts:
    """What a tracker is made of."""

    site: ProjectSite
    tickets: Tickets
    listing: Listing
    moves: Moves
    stickies: StickyComments[Any]
    people: Accounts
    remarks: Remarks[Any]
    hooks: Hooks


class HostedTracker(ABC):
    """A tracker that is reached over HTTP; see `domain.tracker` for what each method owes."""

    def __init__(self, name: str, labels: LabelSet, parts: TrackerParts, http: httpx.AsyncClient) -> None:
        """`http` is closed with the tracker."""
        self.name = name
        self.labels = labels
        self._parts = parts
        self._http = http

    @property
    def project(self) -> str:
        """The canonical project."""
        return self._parts.site.canonical

    def ticket_id(self, key: str) -> TicketId:
        """The canonical id of a ticket."""
        return self._parts.site.ticket_id(key)

    def identify(self, text: str) -> str | None:
        """The key behind a key, a canonical id or a URL (T15)."""
        return self._parts.site.identify(text)

    @abstractmethod
    def filter_hint(self, status: Status) -> str:
        """A search that people can use on the platform's own pages."""

    async def get(self, key: str) -> Ticket:
        """The ticket as it is now (T1, T3)."""
        return await self._parts.tickets.read(key)

    def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open ticket that carries one of `labels` (T2)."""
        return self._parts.listing.find(*labels)

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        """Publish one edge (T4 to T11, T18)."""
        return await self._parts.moves.move(ticket, move)

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        """Leave one lifecycle label (T12)."""
        return await self._parts.moves.tidy(ticket, keep=keep, deadline=deadline)

    async def read_sticky(self, ticket: Ticket) -> Sticky | None:
        """Our comment on the ticket (T13)."""
        return await self._parts.stickies.read(ticket)

    async def write_sticky(
        self, ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float
    ) -> Sticky:
        """Make our comment or edit it in place (T13)."""
        return await self._parts.stickies.write(ticket, text, memo, known=known, deadline=deadline)

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:
        """Post a comment beside our one (T16)."""
        await self._parts.stickies.say(ticket, text, deadline=deadline)

    async def relabel(
        self, ticket: Ticket, *, add: Collection[str] = (), remove: Collection[str] = (), deadline: float
    ) -> Ticket:
        """Change labels that are not ours (T17)."""
        return await self._parts.moves.relabel(ticket, self.foreign(add, remove), deadline=deadline)

    def foreign(self, add: Collection[str], remove: Collection[str]) -> Foreign:
        """Labels that may be changed; raises ConfigError for ours, and for what the platform takes no label."""
        return foreign(self.labels.lifecycle, add, remove)

    async def me(self) -> Actor:
        """The account of the credential. The project's number is learned with it: webhooks are known by that."""
        me = await self._parts.people.me()
        if self._parts.site.id is None:
            await self._parts.tickets.learn_project()
        return me

    async def labelled_by(self, ticket: Ticket, label: str) -> Labelling | None:
        """Who last put `label` on the ticket, from its history."""
        self._parts.tickets.key(ticket.key)
        return await self._parts.people.labelled_by(ticket, label)

    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the ticket since `label` was put on (T21)."""
        self._parts.tickets.key(ticket.key)
        return await self._parts.people.history(ticket, label)

    async def access_of(self, actor: Actor) -> Access:
        """What the account may do in the project."""
        return await self._parts.people.access_of(actor)

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """The team or the role, of those named, that lets an account in."""
        return await self._parts.people.belongs_to(actor, teams=teams, roles=roles)

    async def remark(self, ticket: Ticket, ref: str) -> Remark | None:
        """A comment on the ticket (T19)."""
        return await self._parts.remarks.remark(self._parts.tickets.key(ticket.key), ref)

    async def remarks(self, ticket: Ticket, *, since: float) -> tuple[Remark, ...]:
        """What was said since then (T22)."""
        records = self._parts.stickies.records(self._parts.tickets.key(ticket.key))
        return await self._parts.remarks.since(records, since)

    async def acknowledge(self, ticket: Ticket, ref: str, *, deadline: float) -> Acknowledged:
        """A reaction, where there is such a thing (T20)."""
        return await self._parts.remarks.acknowledge(self._parts.tickets.key(ticket.key), ref, deadline=deadline)

    async def hooks(self) -> tuple[Hook, ...]:
        """The project's webhooks (H1)."""
        return await self._parts.hooks.listed()

    async def install_hook(self, url: str, secret: str) -> Hook:
        """A new one (H2)."""
        return await self._parts.hooks.install(url, secret)

    async def repair_hook(self, hook: Hook, secret: str) -> Hook:
        """One made right (H3)."""
        return await self._parts.hooks.repair(hook, secret)

    async def remove_hook(self, hook: Hook) -> None:
        """One less (H4)."""
        await self._parts.hooks.remove(hook)

    @abstractmethod
    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """The tickets that this one waits for."""

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
