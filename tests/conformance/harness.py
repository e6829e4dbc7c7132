"""What the conformance suite needs of a platform beside its tracker: a hand on the other side of the wire.

A new platform is one subclass of `Platform` and one entry in `conftest.PLATFORMS`. The suite talks to the tracker
under test only through `domain.tracker.Tracker`; everything that a person or the network does goes through here
and must not use the tracker, its client or its caches.

All tickets live in one empty project, made by `start`. Whoever is named as an author or an actor exists there and
may write (set labels, close tickets); `agentsmith`, the credential under test, is none of them. Page sizes should
be small (about 3), so that paging is tested with few tickets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

import pytest

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.tickets import Said


class Fault(StrEnum):
    """What can go wrong on the way; each lasts until `heal`, but for LOST_ANSWER, which happens once."""

    UNAVAILABLE = "unavailable"
    """Every request is answered with a server error."""
    UNREACHABLE = "unreachable"
    """Every connection breaks before an answer."""
    RATE_LIMITED = "rate limited"
    """Every request is refused, with a time at which to come back (60 s or more from now)."""
    UNAUTHORIZED = "unauthorized"
    """The credential is refused."""
    FORBIDDEN = "forbidden"
    """Reads work; every write is refused for lack of permission."""
    LOST_ANSWER = "lost answer"
    """The next write is carried out, but its answer is lost; later requests work."""
    MALFORMED = "malformed"
    """The record of one ticket (`key`) lacks or garbles what the platform documents; others are well."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """How platforms may differ. Tests ask for these by `@needs(...)`; as few as possible."""

    compare_and_set: bool
    """The platform itself refuses a write on a stale revision; elsewhere the core's claim lock stands guard."""
    comment_limit: int
    """The longest comment, in characters, as the platform counts them."""
    faults: frozenset[Fault] = frozenset()
    """What `inject` can do."""
    pull_requests: bool = False
    """Lists of tickets may also hold pull requests, made by `open_pull_request`."""
    reactions: bool = True
    """Comments can be reacted to."""
    hooks: bool = True
    """Webhooks can be managed by a program."""
    signing_tokens: bool = False
    """A secret may be a signing token, of the Standard Webhooks kind."""
    circles: bool = True
    """There are teams and roles, and `belongs_to` tells who is in them."""
    tells_who_labelled: bool = True
    """`labelled_by` can answer."""
    simulated: bool = False
    """It is a `SimulatedPlatform`: what goes over the wire can be seen and spoilt."""
    named_people: bool = True
    """Whoever is named as an author or an actor is that person; else all of them are one, who is not our account."""
    verbatim: bool = True
    """Any text that people write is stored as it is."""
    deletes: bool = True
    """Tickets can be deleted."""
    links: bool = True
    """Tickets can be linked as blocked."""
    defines_labels: bool = False
    """Labels must be made before they can have a colour, and the tracker makes ours."""
    cheap: bool = True
    """Hundreds of writes take seconds and do no harm."""

    def include(self, marks: Iterable[pytest.Mark]) -> bool:
        """Whether all that the marks `needs(...)` ask for is there."""
        return all(self._has(what) for mark in marks for what in mark.args)

    def _has(self, what: Fault | str) -> bool:
        return what in self.faults if isinstance(what, Fault) else bool(getattr(self, what))


class Platform(ABC):
    """One empty project, the tracker under test, and everybody else who works there."""

    capabilities: ClassVar[Capabilities]
    tracker: Tracker
    """The tracker under test."""
    secrets: tuple[str, ...] = ()
    """Texts that no error message may hold: the token, for one."""

    @classmethod
    @abstractmethod
    def start(cls, folder: Path, labels: LabelSet) -> AbstractAsyncContextManager[Platform]:
        """A platform with an empty project and a tracker that writes `labels`; `folder` is for its files.

        May be entered in many event loops one after the other. A simulator may be kept running between calls.
        """

    # --- what people do ---------------------------------------------------------------------------------------

    @abstractmethod
    async def open_ticket(
        self,
        title: str = "a ticket",
        body: str = "",
        labels: tuple[str, ...] = (),
        author: str = "alice",
    ) -> str:
        """A new open ticket; answers its key."""

    @abstractmethod
    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:
        """A person puts one label on, and changes nothing else."""

    @abstractmethod
    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:
        """A person takes one label off, and changes nothing else."""

    @abstractmethod
    async def person_comments(self, key: str, body: str, actor: str = "alice") -> str:
        """A person writes a comment; answers what a webhook would call it."""

    @abstractmethod
    async def person_withdraws(self, key: str, ref: str) -> None:
        """A person deletes that comment."""

    @abstractmethod
    async def reactions(self, key: str, ref: str) -> list[str]:
        """Who reacted to that comment, once for each reaction; always empty without `capabilities.reactions`."""

    async def put_into_team(self, team: str, *actors: str) -> None:
        """Make a team, or what the platform has instead, of these people; with `capabilities.circles` only."""
        raise NotImplementedError

    async def give_role(self, role: str, actor: str) -> None:
        """Give somebody a role by its name; with `capabilities.circles` only."""
        raise NotImplementedError

    @abstractmethod
    async def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str = "alice") -> None:
        """A person changes the text."""

    async def time_passes(self) -> None:
        """A few seconds go by, where the platform counts in seconds and its clock can be moved."""
        return

    @abstractmethod
    async def close(self, key: str) -> None:
        """A person closes the ticket."""

    @abstractmethod
    async def reopen(self, key: str) -> None:
        """A person opens it again."""

    @abstractmethod
    async def delete(self, key: str) -> None:
        """The ticket is gone for good (or out of our sight)."""

    @abstractmethod
    async def block(self, key: str, by: str) -> None:
        """A person links the ticket as blocked by another one."""

    async def open_pull_request(self, labels: tuple[str, ...]) -> str:
        """A pull request that the platform lists among its tickets; with `capabilities.pull_requests` only."""
        raise NotImplementedError

    # --- what is really there, read past the tracker --------------------------------------------------------------

    @abstractmethod
    async def labels(self, key: str) -> set[str]:
        """The labels, as spelled on the ticket."""

    @abstractmethod
    async def comments(self, key: str) -> list[Said]:
        """All comments, oldest first."""

    @abstractmethod
    async def label_history(self, key: str) -> list[frozenset[str]]:
        """Every label set that somebody could have seen on the ticket, oldest first, the present one last.

        One entry per change that the platform makes at once: a tracker that removes before it adds shows here.
        """

    @abstractmethod
    async def writes(self) -> int:
        """How many writes the platform has carried out so far, whoever sent them; reads never count."""

    # --- what goes wrong ------------------------------------------------------------------------------------------

    @abstractmethod
    def between_read_and_write(self, callback: Callable[[], Awaitable[object]]) -> None:
        """Await `callback` once, after the tracker's last read and right before its next write takes effect."""

    @abstractmethod
    async def second_tracker(self) -> Tracker:
        """Another client of the same project with the same credential; closed with the platform."""

    def paged_by(self, size: int) -> Tracker:
        """A tracker with memories of its own, whose lists have pages of this size; with `capabilities.cheap` only."""
        raise NotImplementedError

    @abstractmethod
    async def inject(self, fault: Fault, key: str | None = None) -> None:
        """Let `fault` happen from now on; only those in `capabilities.faults` are asked for."""

    @abstractmethod
    async def heal(self) -> None:
        """End every fault."""
