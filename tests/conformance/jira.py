"""Jira under the conformance suite, in three ways: Cloud with labels only, Cloud with the workflow, Data Center."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

import httpx

from agentsmith.domain.errors import RateLimited, Refused, Unauthorized
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.jira import JiraSimulator
from agentsmith.simulators.jira.tickets import JiraTickets
from agentsmith.trackers.http import Pace, Shared
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.jira.comment_format import COMMENT_LIMIT
from tests.conformance.harness import Capabilities, Fault
from tests.conformance.simulated import PEOPLE, SimulatedPlatform
from tests.support.contracts import ContractJudge
from tests.support.jira_judge import JiraJudge
from tests.support.simulated_jira import jira_settings

PROJECT: Final = "WEB"
TOKEN: Final = "ATATT3xCONFORMANCEsecretsecret"
WORKFLOW: Final = (
    ("To Do", "new"),
    ("Queued", "new"),
    ("In Progress", "indeterminate"),
    ("Waiting", "indeterminate"),
    ("Done", "done"),
    ("Failed", "indeterminate"),
)


class JiraPlatform(SimulatedPlatform[JiraSimulator]):
    """Jira Cloud with one project per test."""

    capabilities = Capabilities(
        compare_and_set=False, comment_limit=COMMENT_LIMIT, faults=frozenset(Fault), simulated=True, reactions=False
    )
    secrets = (TOKEN, "secretsecret")
    says = "Jira"
    questions = ("/search", "/search/jql", "/issue/bulkfetch")
    written = r"/issue/[A-Z]+-\d+"
    denial: ClassVar = {"errorMessages": [f"You do not have permission to edit issues, {TOKEN}."], "errors": {}}
    refusal = "permission to edit issues"
    limited: ClassVar = {"kind": "burst_limit"}
    own_faults: ClassVar = {
        "taken for a stranger": ({"kind": "anonymous"}, Unauthorized),
        "the hour's quota": ({"kind": "quota_limit", "retry_after": 900}, RateLimited),
        "a field error": (
            {"kind": "status", "status": 400, "body": {"errorMessages": [], "errors": {"labels": "not on the screen"}}},
            Refused,
        ),
    }
    wrong: ClassVar = (
        (("id",), 1),
        (("key",), None),
        (("key",), "WEB-2"),
        (("fields",), None),
        (("fields", "labels"), None),
        (("fields", "labels"), [1]),
        (("fields", "status"), None),
        (("fields", "status", "statusCategory"), "done"),
        (("fields", "summary"), None),
        (("fields", "updated"), "yesterday"),
        (("fields", "updated"), "2026-01-01T00:00:00.000"),
        (("fields", "comment"), 3),
        (("properties",), []),
    )
    undescribed: ClassVar = frozenset({"search"})
    cloud: ClassVar[bool] = True
    statuses: ClassVar[Mapping[Status, str] | None] = None
    email: ClassVar = "agentsmith@example.com"

    @classmethod
    def judge(cls) -> ContractJudge | None:
        """See SimulatedPlatform."""
        return JiraJudge() if cls.cloud else None

    @classmethod
    def furnished(cls) -> JiraSimulator:
        """See SimulatedPlatform."""
        simulator = JiraSimulator(cloud=cls.cloud)
        simulator.add_project(PROJECT, statuses=WORKFLOW)
        assert simulator.add_token(TOKEN, user="agentsmith") == cls.email
        simulator.set_role(PROJECT, "agentsmith", "admin")
        for name in PEOPLE:
            simulator.set_role(PROJECT, name, "write")
            simulator.add_user(name, account_id=name)
        return simulator

    def open(self, labels: LabelSet, shared: Shared, pace: Pace, http: httpx.AsyncClient, page_size: int) -> Tracker:
        """See SimulatedPlatform."""
        settings = jira_settings(
            project=PROJECT,
            base_url=self.simulator.api_url,
            email=self.email if self.cloud else None,
            token=TOKEN,
            statuses=self.statuses,
            trust_reads=0,
        )
        return settings.open("web", labels, Connection(shared, pace, http, page_size))

    def people(self) -> JiraTickets:
        """See SimulatedPlatform."""
        return JiraTickets(self.simulator, PROJECT, PEOPLE[0])

    def garble(self, key: str) -> None:
        """See SimulatedPlatform."""
        broken: Any = replace(self.simulator.issue(key), summary=None)  # type: ignore[arg-type]
        self.simulator.hub.world.save(broken, self.simulator.clock.now())

    async def put_into_team(self, team: str, *actors: str) -> None:
        """A group."""
        self.simulator.add_group(team, actors)

    async def give_role(self, role: str, actor: str) -> None:
        """A role of the project, by way of a group."""
        self.simulator.add_group(f"{role}-people", [actor])
        self.simulator.set_project_role(PROJECT, role, groups=[f"{role}-people"])


class JiraStatusPlatform(JiraPlatform):
    """Jira Cloud in status mode: the workflow moves with the label."""

    statuses: ClassVar[Mapping[Status, str] | None] = {
        status: name for status, (name, _) in zip(Status, WORKFLOW, strict=True)
    }


class JiraDataCenterPlatform(JiraPlatform):
    """Jira Data Center."""

    cloud = False
