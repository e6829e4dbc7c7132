"""GitHub under the conformance suite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

import httpx

from agentsmith.domain.errors import RateLimited, TrackerError
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.github import GitHubSimulator
from agentsmith.trackers.github.settings import GitHubSettings
from agentsmith.trackers.github.sticky import COMMENT_LIMIT
from agentsmith.trackers.http import Pace, Shared
from agentsmith.trackers.http.connection import Connection
from tests.conformance.harness import Capabilities, Fault, RawComment
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

    def garble(self, key: str) -> None:
        """See SimulatedPlatform."""
        broken: Any = replace(self.simulator.issue(REPOSITORY, int(key)), title=None)  # type: ignore[arg-type]
        self.simulator.repository(REPOSITORY).save(broken)

    async def block(self, key: str, by: str) -> None:
        """In the simulator's state."""
        self.simulator.set_blocked_by(REPOSITORY, int(key), [(REPOSITORY, int(by))])

    async def open_ticket(
        self, title: str = "a ticket", body: str = "", labels: tuple[str, ...] = (), author: str = "alice"
    ) -> str:
        """In the simulator's state."""
        return str(self.simulator.open_issue(REPOSITORY, title=title, body=body, labels=labels, actor=author))

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.add_label(REPOSITORY, int(key), label, actor)

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.remove_label(REPOSITORY, int(key), label, actor)

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> str:
        """In the simulator's state."""
        return str(self.simulator.comment(REPOSITORY, int(key), body, actor))

    async def person_withdraws(self, key: str, ref: str) -> None:  # noqa: ARG002
        """In the simulator's state."""
        self.simulator.delete_comment(REPOSITORY, int(ref))

    async def reactions(self, key: str, ref: str) -> list[str]:  # noqa: ARG002
        """From the simulator's state."""
        found = self.simulator.repository(REPOSITORY).comment(int(ref))
        return [reaction.user for reaction in found[1].reactions] if found else []

    async def put_into_team(self, team: str, *actors: str) -> None:
        """A team of the organization."""
        self.simulator.add_team("acme", team, actors)

    async def give_role(self, role: str, actor: str) -> None:
        """A role in the repository."""
        self.simulator.set_permission(REPOSITORY, actor, role)

    async def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.edit_issue(REPOSITORY, int(key), title=title, body=body, actor=actor)

    async def close(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.close_issue(REPOSITORY, int(key), "alice")

    async def reopen(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.reopen_issue(REPOSITORY, int(key), "alice")

    async def delete(self, key: str) -> None:
        """In the simulator's state: 410 from now on."""
        self.simulator.delete_issue(REPOSITORY, int(key), "alice")

    async def open_pull_request(self, labels: tuple[str, ...]) -> str:
        """In the simulator's state."""
        return str(self.simulator.open_pull_request(REPOSITORY, labels=labels, actor="alice"))

    async def labels(self, key: str) -> set[str]:
        """From the simulator's state."""
        return set(self.simulator.labels(REPOSITORY, int(key)))

    async def comments(self, key: str) -> list[RawComment]:
        """From the simulator's state."""
        return [RawComment(c["user"], c["body"], str(c["id"])) for c in self.simulator.comments(REPOSITORY, int(key))]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """Every version of the issue that the simulator kept."""
        repository = self.simulator.repository(REPOSITORY)
        versions = repository.versions[int(key)]
        return [frozenset(label.name for label in repository.labels_of(issue)) for issue in versions]
