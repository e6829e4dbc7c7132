"""Where the tickets of the demo live, as people see it: the built-in tracker, or a platform's simulator."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.local.tickets import LocalTickets

if TYPE_CHECKING:
    from agentsmith.simulators.playground import CodePlayground

LOCAL: Final = "local"
PROJECT: Final = "demo"
_ACTOR: Final = "demo"


@dataclass(frozen=True, slots=True)
class Seen:
    """A ticket as people see it."""

    key: str
    title: str
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class Engine:
    """How the running engine hears of a ticket."""

    receiver: str
    """The address for webhooks."""
    announce: Callable[[str], Awaitable[None]]
    """Has the ticket with this key looked at; this is what `agentsmith ticket` does."""


class Venue(Protocol):
    """People's side of a tracker."""

    @property
    def about(self) -> str:
        """What it is, in a few words."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The tracker's block of the configuration."""

    def connect(self, engine: Engine) -> None:
        """From now on let the engine hear of what people do."""

    async def open(self, title: str, labels: Sequence[str]) -> Seen:
        """Open a ticket as a person."""

    async def label(self, key: str, label: str) -> Seen:
        """Label a ticket as a person."""

    async def tickets(self) -> list[Seen]:
        """Every ticket as it is now."""

    async def comments(self, key: str) -> list[str]:
        """What was said on a ticket."""

    @property
    def code(self) -> CodePlayground | None:
        """The code beside the tickets, where the platform keeps both."""

    def complaints(self) -> list[str] | None:
        """Requests that the platform does not know; None where there is no platform."""


class LocalVenue:
    """The built-in tracker, through what is behind `agentsmith ticket`."""

    about: Final = "the built-in tracker"
    settings: Final[Mapping[str, Any]] = {"platform": LOCAL, "project": PROJECT}
    code: Final = None

    def __init__(self, tickets: LocalTickets) -> None:
        self._tickets = tickets
        self._engine: Engine | None = None

    def connect(self, engine: Engine) -> None:
        """See Venue."""
        self._engine = engine

    async def open(self, title: str, labels: Sequence[str]) -> Seen:
        """See Venue."""
        return _seen(await self._tickets.new(title=title, labels=labels, actor=_ACTOR))

    async def label(self, key: str, label: str) -> Seen:
        """See Venue."""
        ticket = await self._tickets.label(key, label, actor=_ACTOR)
        if self._engine is not None:
            await self._engine.announce(key)
        return _seen(ticket)

    async def tickets(self) -> list[Seen]:
        """See Venue."""
        return [_seen(ticket) for ticket in await self._tickets.tickets()]

    async def comments(self, key: str) -> list[str]:
        """See Venue."""
        return [comment.body for comment in (await self._tickets.show(key)).comments]

    def complaints(self) -> None:
        """See Venue."""


def _seen(ticket: Ticket) -> Seen:
    return Seen(ticket.key, ticket.title, ticket.labels)


@contextlib.asynccontextmanager
async def open_local(file: Path) -> AsyncIterator[Venue]:
    """The built-in tracker with its tickets in `file`."""
    async with LocalTickets(path=file, project=PROJECT, name=LOCAL) as tickets:
        yield LocalVenue(tickets)
