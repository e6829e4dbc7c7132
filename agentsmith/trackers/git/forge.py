"""A repository that git can reach, and nothing more: no API is there to ask, and no pull request can be made."""

from __future__ import annotations

from typing import Final, NoReturn

from agentsmith.domain.forge import GitCredential, NoPullRequests, PullRequest, WantedPullRequest
from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.shared.proposals import plain_mention


class GitForge:
    """One repository, known by its address; see `domain.forge` for what each method owes."""

    platform: Final = "git"

    def __init__(self, *, name: str, url: str, branch: str, credential: GitCredential | None) -> None:
        self.name = name
        self.clone_url = url
        self._branch = branch
        self._credential = credential

    async def credential(self) -> GitCredential | None:
        """What the configuration gives, if it gives any (F1)."""
        return self._credential

    async def default_branch(self, *, deadline: float | None = None) -> str:  # noqa: ARG002 - nobody is asked
        """What the configuration says (F2)."""
        return self._branch

    def mention(self, ticket: Ticket) -> str:
        """A plain link: the server reads no texts (F5)."""
        return plain_mention(ticket)

    async def find(self, branch: str, *, deadline: float | None = None) -> PullRequest | None:  # noqa: ARG002
        """Raises NoPullRequests: "none is open" would be a guess (F3)."""
        self._refuse()

    async def ensure(self, wanted: WantedPullRequest, *, deadline: float) -> PullRequest:  # noqa: ARG002
        """Raises NoPullRequests (F6)."""
        self._refuse()

    async def aclose(self) -> None:
        """Nothing is open."""

    def _refuse(self) -> NoReturn:
        raise NoPullRequests(
            f"the repository {self.name} is on a plain git server, which has no pull requests: leave the step "
            "`pull_request` out, or describe the repository with the platform github, gitlab or azure-devops"
        )
