"""The forge contract: where the code of a ticket lives and pull requests are made. Conformance tests quote the numbers.

F1  `clone_url` never holds a credential; `credential` hands one out for a single git command, fresh each time it is
    asked for, because tokens expire; None where the repository needs none.
F2  `default_branch` asks the platform; a repository without a commit raises EmptyRepository.
F3  `find` answers the open pull request from `branch`, or None; any error raises: an outage is not "none" (P9).
F4  `ensure` twice leaves one pull request: found again, its title, text and draft state brought up to date, and never
    closed, reopened or merged. One that is unchanged is not written again. A race with another maker ends in F3.
F5  `mention` is the text that makes this platform link the pull request to the ticket, for the body; `ensure` links in
    the platform's own way too where it has one (Azure DevOps: work item references).
F6  Failures are the typed errors of `errors.py`; no secret in any message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agentsmith.domain.errors import TrackerError
from agentsmith.domain.ticket import Ticket


class EmptyRepository(TrackerError):
    """The repository has no commit yet, so there is nothing to start from."""


@dataclass(frozen=True, slots=True)
class GitCredential:
    """What git answers when the server asks who it is."""

    username: str
    password: str


@dataclass(frozen=True, slots=True)
class WantedPullRequest:
    """The pull request as it should be."""

    branch: str
    base: str
    title: str
    body: str
    draft: bool = False
    ticket: Ticket | None = None
    """The ticket that it is for, where it lives on the same platform."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request as the platform shows it; `number` is what people call it by."""

    number: str
    url: str
    branch: str
    base: str
    title: str
    body: str
    draft: bool


class Forge(Protocol):
    """One repository on a code host. Implementations share nothing with each other but the HTTP layer."""

    @property
    def name(self) -> str:
        """The name that the configuration gives to this repository."""

    @property
    def platform(self) -> str:
        """`github`, `gitlab`, `azure-devops`, or `git` for a plain server without pull requests."""

    @property
    def clone_url(self) -> str:
        """Where git finds the repository (F1)."""

    async def credential(self) -> GitCredential | None:
        """What git needs to read and push, for one command (F1)."""

    async def default_branch(self) -> str:
        """The branch that pull requests go to unless told otherwise (F2)."""

    def mention(self, ticket: Ticket) -> str:
        """The words that link a pull request's text to the ticket (F5)."""

    async def find(self, branch: str) -> PullRequest | None:
        """The open pull request from `branch` (F3)."""

    async def ensure(self, wanted: WantedPullRequest) -> PullRequest:
        """Make the pull request, or bring the open one up to date (F4, F5)."""

    async def aclose(self) -> None:
        """Let go of connections."""
