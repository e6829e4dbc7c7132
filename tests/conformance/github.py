"""GitHub under the conformance suite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

import httpx

from agentsmith.domain.errors import RateLimited, TrackerError
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.github import GitHubSimulator
from agentsmith.simulators.github.tickets import GitHubTickets
from agentsmith.trackers.github.settings import GitHubSettings
from agentsmith.trackers.github.sticky import COMMENT_LIMIT
from agentsmith.trackers.http import Pace, Shared
from agentsmith.trackers.http.connection import Connection
from tests.conformance.harness import Capabilities, Fault
from tests.conformance.simulated import PEOPLE, SimulatedPlatform
from tests.support.contracts import ContractJudge

REPOSITORY: Final = "acme/web"
TOKEN: Final = "github_pat_11CONFORMANCE0_secretsecretsecret"


class GitHubPlatform(SimulatedPlatform[GitHubSimulator]):
    """github.com with one repository per test."""

    capabilities = Capabilities(
        compare_and_set=False,
        comment_limit=COMMENT_LIMIT,
        faults=frozenset(Fault),
        pull_requests=True,
        simulated=True,
        defines_labels=True,
    )
    secrets = (TOKEN, "secretsecret")
    says = "GitHub"
    denial: ClassVar = {"message": f"Resource not accessible by personal access token {TOKEN}"}
    refusal = "Resource not accessible"
    limited: ClassVar = {"kind": "secondary_limit"}
    own_faults: ClassVar = {
        "a limit by 429": ({"kind": "secondary_limit", "status": 429}, RateLimited),
        "the hour's quota": ({"kind": "primary_limit", "seconds": 600}, RateLimited),
        "a version that is gone": ({"kind": "status", "status": 410, "body": {"message": "Gone"}}, TrackerError),
    }
    wrong: ClassVar = (
        (("number",), 2),
        (("number",), "1"),
        (("labels",), None),
        (("labels",), [1]),
        (("state",), 3),
        (("title",), None),
        (("updated_at",), "yesterday"),
        (("updated_at",), "2026-01-01T00:00:00"),
        (("html_url",), None),
        (("user",), "mona"),
        (("comments",), "many"),
    )
    undescribed: ClassVar = frozenset({"graphql", "permission", "blocked_by"})

    @classmethod
    def judge(cls) -> ContractJudge | None:
        """See SimulatedPlatform."""
        return ContractJudge("github")

    @classmethod
    def furnished(cls) -> GitHubSimulator:
        """See SimulatedPlatform."""
        simulator = GitHubSimulator(rate_limit=1_000_000)
        simulator.add_repository(REPOSITORY)
        simulator.add_token(TOKEN, login="agentsmith", permission="write")
        for login in PEOPLE:
            simulator.set_permission(REPOSITORY, login, "write")
        return simulator

    def open(self, labels: LabelSet, shared: Shared, pace: Pace, http: httpx.AsyncClient, page_size: int) -> Tracker:
        """See SimulatedPlatform."""
        settings = GitHubSettings.model_validate(
            {"platform": "github", "repository": REPOSITORY, "base_url": self.simulator.api_url, "token": TOKEN}
        )
        return settings.open("web", labels, Connection(shared, pace, http, page_size))

    def people(self) -> GitHubTickets:
        """See SimulatedPlatform."""
        return GitHubTickets(self.simulator, REPOSITORY, PEOPLE[0])

    def garble(self, key: str) -> None:
        """See SimulatedPlatform."""
        broken: Any = replace(self.simulator.issue(REPOSITORY, int(key)), title=None)  # type: ignore[arg-type]
        self.simulator.repository(REPOSITORY).save(broken)

    async def put_into_team(self, team: str, *actors: str) -> None:
        """A team of the organization."""
        self.simulator.add_team("acme", team, actors)

    async def give_role(self, role: str, actor: str) -> None:
        """A role in the repository."""
        self.simulator.set_permission(REPOSITORY, actor, role)

    async def open_pull_request(self, labels: tuple[str, ...]) -> str:
        """In the simulator's state."""
        return str(self.simulator.open_pull_request(REPOSITORY, labels=labels, actor="alice"))
