"""Pull requests on any platform: the contract of `domain.forge`, but for what each platform calls things.

Every platform itself sees to it that there is one open pull request per branch and base: a second one is refused. So
making one may be repeated after a lost answer, and a refusal is answered by looking for the one that is there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from agentsmith.domain.errors import TrackerError, TrackerUnavailable
from agentsmith.domain.forge import PullRequest, RepositoryNotFound, WantedPullRequest
from agentsmith.trackers.http import Answer, ApiClient, spending_for
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.shared.proposals import ATTEMPTS, PURPOSE

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class AlreadyThere:
    """The platform says that there is such a pull request already."""

    refusal: str


@dataclass(frozen=True, slots=True)
class StillMissing:
    """Something is missing that may turn up: what was pushed a moment ago may not be known everywhere yet."""

    error: TrackerError


@dataclass(frozen=True, slots=True)
class OtherFields:
    """The same may be sent at once with other fields."""


class HostedForge(ABC, Generic[P]):
    """One repository on a code host that knows pull requests; `P` is one as the platform tells it."""

    display_name: ClassVar[str]
    """What messages call the platform: `GitHub`."""
    refusals: ClassVar[frozenset[int]]
    """The statuses by which a pull request is refused that cannot be made."""

    def __init__(self, name: str, client: ApiClient, connection: Connection) -> None:
        """The connections are closed with the forge."""
        self.name = name
        self._client = client
        self._connection = connection

    @property
    @abstractmethod
    def pulls(self) -> str:
        """The API path of the pull requests; a new one is made by a POST to it."""

    @abstractmethod
    async def open_from(self, branch: str, deadline: float | None) -> list[P]:
        """The open pull requests from a branch of this repository, never from a fork, oldest first."""

    @abstractmethod
    def base_of(self, pull: P) -> str:
        """The branch that it goes to."""

    @abstractmethod
    def fields(self, wanted: WantedPullRequest) -> Mapping[str, Any]:
        """What is sent to make the pull request."""

    @abstractmethod
    def made(self, answer: Answer, wanted: WantedPullRequest) -> P:
        """The pull request that was made."""

    @abstractmethod
    def refused(
        self, answer: Answer, wanted: WantedPullRequest, fields: Mapping[str, Any]
    ) -> AlreadyThere | StillMissing | OtherFields:
        """Why it was not made; raises a TrackerError where trying again cannot help."""

    @abstractmethod
    async def brought_up_to_date(self, there: P, wanted: WantedPullRequest, deadline: float) -> P:
        """The pull request as it should be; what is so already is not written (F4)."""

    @abstractmethod
    def shown(self, pull: P) -> PullRequest:
        """The pull request as the core sees it."""

    async def whole(self, pull: P, deadline: float | None) -> P:  # noqa: ARG002
        """One from a list with all that belongs to it, where lists leave something out."""
        return pull

    async def find(self, branch: str, *, deadline: float | None = None) -> PullRequest | None:
        """The open pull request from the branch; the oldest where it has several bases (F3)."""
        with spending_for(PURPOSE):
            found = await self.open_from(branch, deadline)
            return self.shown(await self.whole(found[0], deadline)) if found else None

    async def ensure(self, wanted: WantedPullRequest, *, deadline: float) -> PullRequest:
        """Make the pull request, or bring the open one up to date (F4)."""
        with spending_for(PURPOSE):
            there = await self._chosen(wanted, deadline)
            if there is None:
                there = await self._make(wanted, deadline)
            return self.shown(await self.brought_up_to_date(there, wanted, deadline))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.http.aclose()

    async def _chosen(self, wanted: WantedPullRequest, deadline: float) -> P | None:
        """The one to bring up to date: that to the wanted base, else whichever there is."""
        found = await self.open_from(wanted.branch, deadline)
        if not found:
            return None
        chosen = next((pull for pull in found if self.base_of(pull) == wanted.base), found[0])
        return await self.whole(chosen, deadline)

    async def _make(self, wanted: WantedPullRequest, deadline: float) -> P:
        """A new pull request, or the one that somebody else has just made."""
        for look in range(1, ATTEMPTS + 1):
            fields = self.fields(wanted)
            # Repeatable: a second one for the same branches is refused, and the first is found then.
            answer = await self._client.write(
                "POST",
                self.pulls,
                fields,
                deadline=deadline,
                repeatable=True,
                allow=self.refusals,
                missing=RepositoryNotFound,
            )
            if answer.status not in self.refusals:
                return self.made(answer, wanted)
            why = self.refused(answer, wanted, fields)
            if isinstance(why, OtherFields):
                continue
            if isinstance(why, StillMissing):
                problem = why.error
            else:
                there = await self._chosen(wanted, deadline)
                if there is not None:
                    return there
                problem = TrackerUnavailable(f"{self.display_name}: {why.refusal.rstrip('.')}, but it is not shown")
            delay = self._connection.pace.delay(look)
            if look >= ATTEMPTS or self._connection.pace.now() + delay >= deadline:
                raise problem
            await self._connection.pace.sleep(delay)
        raise TrackerUnavailable(f"{self.display_name}: it was not made: what was refused was not refused any more")
