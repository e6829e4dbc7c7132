"""The forge contract: where the code of a ticket lives and pull requests are made. Conformance tests quote the numbers.

F1  `clone_url` never holds a credential; `credential` hands one out for a single git command, fresh each time it is
    asked for, because tokens expire; None where the repository needs none.
F2  `default_branch` asks the platform; a repository without a commit raises EmptyRepository. A plain git server cannot
    be asked: there the configuration says.
F3  `find` answers the open pull request from `branch` of this repository (never one from a fork), or None; any error
    raises: an outage is not "none" (P9).
F4  `ensure` twice leaves one pull request: found again, its title, text and draft state brought up to date, and never
    closed, reopened or merged; where a person pointed it at another base, it stays there. One that is unchanged is not
    written again. A race with another maker, and an answer that was lost, end in F3.
F5  `mention` is the text that makes this platform link the pull request to the ticket, for the body; for a ticket that
    lives elsewhere it is a plain link. `ensure` links in the platform's own way too where it has one (Azure DevOps:
    work item references).
F6  Failures are the typed errors of `errors.py` and of this module; no secret in any message.
F7  Any text can be title and body: cut to the platform's limits, a title on one line and never empty, and nothing in
    them is carried out instead of shown (GitLab's commands) or changes the draft state (GitLab's `Draft:`).
F8  No request begins after its deadline, and none outlives it; what did not begin in time raises TrackerUnavailable.
F9  A branch that is not there, or that holds nothing which its base lacks, raises NothingToPropose. Only GitHub looks
    at the second by itself, so whoever needs to know compares the commits first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agentsmith.domain.errors import TrackerError
from agentsmith.domain.ticket import Ticket


class RepositoryNotFound(TrackerError):
    """There is no such repository, or the credential may not see it."""


class EmptyRepository(TrackerError):
    """The repository has no commit yet, so there is nothing to start from."""


class NothingToPropose(TrackerError):
    """The branch is not there, or holds no commit that its base lacks."""


class NoPullRequests(TrackerError):
    """The code host is a plain git server, which knows no pull requests."""


@dataclass(frozen=True, slots=True)
class GitCredential:
    """What git answers when the server asks who it is. Its text shows no password."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"GitCredential(username={self.username!r}, password='***')"


@dataclass(frozen=True, slots=True)
class WantedPullRequest:
    """The pull request as it should be."""

    branch: str
    base: str
    title: str
    body: str
    draft: bool = False
    ticket: Ticket | None = None
    """The ticket that it is for, wherever that lives: the forge links it if it can."""


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
    """One repository on a code host."""

    @property
    def name(self) -> str:
        """The name that the configuration gives to this repository, or to the tracker that it belongs to."""

    @property
    def platform(self) -> str:
        """`github`, `gitlab`, `azure-devops`, or `git` for a plain server without pull requests."""

    @property
    def clone_url(self) -> str:
        """Where git finds the repository (F1)."""

    async def credential(self) -> GitCredential | None:
        """What git needs to read and push, for one command (F1)."""

    async def default_branch(self, *, deadline: float | None = None) -> str:
        """The branch that pull requests go to unless told otherwise (F2)."""

    def mention(self, ticket: Ticket) -> str:
        """The words that link a pull request's text to the ticket (F5)."""

    async def find(self, branch: str, *, deadline: float | None = None) -> PullRequest | None:
        """The open pull request from `branch` (F3)."""

    async def ensure(self, wanted: WantedPullRequest, *, deadline: float) -> PullRequest:
        """Make the pull request, or bring the open one up to date (F4, F5, F7); boot-time clock for the deadline."""

    async def aclose(self) -> None:
        """Let go of connections."""
