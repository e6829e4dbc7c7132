"""GitLab under the conformance suite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

import httpx

from agentsmith.domain.errors import RateLimited, Refused
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.gitlab import GitLabSimulator
from agentsmith.simulators.gitlab.tickets import GitLabTickets
from agentsmith.trackers.gitlab.settings import GitLabSettings
from agentsmith.trackers.gitlab.sticky import COMMENT_LIMIT
from agentsmith.trackers.http import Pace, Shared
from agentsmith.trackers.http.connection import Connection
from tests.conformance.harness import Capabilities, Fault
from tests.conformance.simulated import PEOPLE, SimulatedPlatform

PROJECT: Final = "acme/apps/web"
TOKEN: Final = "glpat-CONFORMANCEsecretsecret"


class GitLabPlatform(SimulatedPlatform[GitLabSimulator]):
    """A paid tier with one project in nested groups per test."""

    capabilities = Capabilities(
        compare_and_set=False,
        comment_limit=COMMENT_LIMIT,
        faults=frozenset(Fault),
        simulated=True,
        defines_labels=True,
        signing_tokens=True,
    )
    secrets = (TOKEN, "secretsecret")
    says = "GitLab"
    denial: ClassVar = {"message": f"403 Forbidden, {TOKEN}"}
    refusal = "403 Forbidden"
    limited: ClassVar = {"kind": "rate_limited"}
    own_faults: ClassVar = {
        "a limit in plain text, no time": ({"kind": "rate_limited"}, RateLimited),
        "a narrow scope": ({"kind": "status", "status": 403, "body": {"error": "insufficient_scope"}}, Refused),
        "invalid": ({"kind": "status", "status": 400, "body": {"message": {"title": ["can't be blank"]}}}, Refused),
    }
    wrong: ClassVar = (
        (("iid",), 2),
        (("iid",), "1"),
        (("labels",), None),
        (("labels",), [1]),
        (("state",), 3),
        (("title",), None),
        (("updated_at",), "yesterday"),
        (("updated_at",), "2026-01-01T00:00:00"),
        (("web_url",), None),
        (("author",), "mona"),
        (("user_notes_count",), "many"),
    )

    @classmethod
    def furnished(cls) -> GitLabSimulator:
        """See SimulatedPlatform."""
        simulator = GitLabSimulator(premium=True)
        simulator.add_project(PROJECT)
        simulator.add_token(TOKEN, username="agentsmith")
        for username in ("agentsmith", *PEOPLE):
            simulator.set_access(PROJECT, username, "developer")
        return simulator

    def open(self, labels: LabelSet, shared: Shared, pace: Pace, http: httpx.AsyncClient, page_size: int) -> Tracker:
        """See SimulatedPlatform."""
        settings = GitLabSettings.model_validate(
            {
                "platform": "gitlab",
                "project": PROJECT,
                "base_url": self.simulator.api_url,
                "token": TOKEN,
                "trust_reads": 0,
            }
        )
        return settings.open("web", labels, Connection(shared, pace, http, page_size))

    def people(self) -> GitLabTickets:
        """See SimulatedPlatform."""
        return GitLabTickets(self.simulator, PROJECT, PEOPLE[0])

    def garble(self, key: str) -> None:
        """See SimulatedPlatform."""
        broken: Any = replace(self.simulator.issue(PROJECT, int(key)), title=None)  # type: ignore[arg-type]
        self.simulator.project(PROJECT).save(broken)

    async def put_into_team(self, team: str, *actors: str) -> None:
        """A group."""
        self.simulator.add_group(team, dict.fromkeys(actors, "guest"))

    async def give_role(self, role: str, actor: str) -> None:
        """A level of access."""
        self.simulator.set_access(PROJECT, actor, role)
