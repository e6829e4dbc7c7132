"""Looking without touching: a tracker as `agentsmith up --shadow` has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Final

from agentsmith.domain.conversation import Acknowledged, TakesCommands
from agentsmith.domain.errors import Refused
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor, Ticket, TicketId
from agentsmith.domain.tracker import (
    Access,
    Blocker,
    Forbidden,
    KnowsCircles,
    Labelling,
    Move,
    MoveOutcome,
    Sticky,
    Tracker,
)
from agentsmith.domain.vetting import History
from agentsmith.domain.webhook import Remark

_NOTHING: Final = "a shadow writes nothing"


class ReadOnly:
    """A tracker that is only read. Nobody should try to write in a shadow; whoever does is refused here."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    @property
    def name(self) -> str:
        """As it is."""
        return self._tracker.name

    @property
    def platform(self) -> str:
        """As it is."""
        return self._tracker.platform

    @property
    def project(self) -> str:
        """As it is."""
        return self._tracker.project

    @property
    def labels(self) -> LabelSet:
        """As they are."""
        return self._tracker.labels

    def ticket_id(self, key: str) -> TicketId:
        """As it is."""
        return self._tracker.ticket_id(key)

    def identify(self, text: str) -> str | None:
        """As it is."""
        return self._tracker.identify(text)

    def filter_hint(self, status: Status) -> str:
        """As it is."""
        return self._tracker.filter_hint(status)

    async def get(self, key: str) -> Ticket:
        """Read."""
        return await self._tracker.get(key)

    def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Read."""
        return self._tracker.find(*labels)

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:  # noqa: ARG002
        """Refused."""
        return Forbidden(_NOTHING)

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:  # noqa: ARG002
        """Refused."""
        raise Refused(_NOTHING)

    async def read_sticky(self, ticket: Ticket) -> Sticky | None:
        """Read."""
        return await self._tracker.read_sticky(ticket)

    async def write_sticky(
        self,
        ticket: Ticket,  # noqa: ARG002
        text: str,  # noqa: ARG002
        memo: Memo,  # noqa: ARG002
        *,
        known: Sticky | None,  # noqa: ARG002
        deadline: float,  # noqa: ARG002
    ) -> Sticky:
        """Refused."""
        raise Refused(_NOTHING)

    async def relabel(
        self,
        ticket: Ticket,  # noqa: ARG002
        *,
        add: Collection[str] = (),  # noqa: ARG002
        remove: Collection[str] = (),  # noqa: ARG002
        deadline: float,  # noqa: ARG002
    ) -> Ticket:
        """Refused."""
        raise Refused(_NOTHING)

    async def me(self) -> Actor:
        """Read."""
        return await self._tracker.me()

    async def labelled_by(self, ticket: Ticket, label: str) -> Labelling | None:
        """Read."""
        return await self._tracker.labelled_by(ticket, label)

    async def history(self, ticket: Ticket, label: str) -> History:
        """Read."""
        return await self._tracker.history(ticket, label)

    async def access_of(self, actor: Actor) -> Access:
        """Read."""
        return await self._tracker.access_of(actor)

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """Read, where the tracker can tell."""
        if not isinstance(self._tracker, KnowsCircles):
            return ""
        return await self._tracker.belongs_to(actor, teams=teams, roles=roles)

    async def remark(self, ticket: Ticket, ref: str) -> Remark | None:
        """Read, where the tracker takes commands."""
        return await self._tracker.remark(ticket, ref) if isinstance(self._tracker, TakesCommands) else None

    async def acknowledge(self, ticket: Ticket, ref: str, *, deadline: float) -> Acknowledged:  # noqa: ARG002
        """Refused."""
        raise Refused(_NOTHING)

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:  # noqa: ARG002
        """Refused."""
        raise Refused(_NOTHING)

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """Read."""
        return await self._tracker.blockers(ticket)

    async def aclose(self) -> None:
        """Let go."""
        await self._tracker.aclose()
