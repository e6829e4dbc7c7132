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
from agentsmith.trackers.http import Pace, Shared
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.jira.texts import COMMENT_LIMIT
from tests.conformance.harness import Capabilities, Fault, RawComment
from tests.conformance.simulated import PEOPLE, SimulatedPlatform
from tests.support.contracts import ContractJudge
from tests.support.jira_bench import jira_settings
from tests.support.jira_judge import JiraJudge

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

    def garble(self, key: str) -> None:
        """See SimulatedPlatform."""
        broken: Any = replace(self.simulator.issue(key), summary=None)  # type: ignore[arg-type]
        self.simulator.hub.world.save(broken, self.simulator.clock.now())

    async def block(self, key: str, by: str) -> None:
        """In the simulator's state."""
        self.simulator.block(by, key)

    async def open_ticket(
        self, title: str = "a ticket", body: str = "", labels: tuple[str, ...] = (), author: str = "alice"
    ) -> str:
        """In the simulator's state."""
        return self.simulator.open_issue(PROJECT, summary=title, description=body, labels=labels, actor=author)

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.add_label(key, label, actor)

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.remove_label(key, label, actor)

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> str:
        """In the simulator's state."""
        return self.simulator.comment(key, body, actor)

    async def person_withdraws(self, key: str, ref: str) -> None:
        """In the simulator's state."""
        self.simulator.delete_comment(key, ref)

    async def reactions(self, key: str, ref: str) -> list[str]:  # noqa: ARG002
        """There are none."""
        return []

    async def put_into_team(self, team: str, *actors: str) -> None:
        """A group."""
        self.simulator.add_group(team, actors)

    async def give_role(self, role: str, actor: str) -> None:
        """A role of the project, by way of a group."""
        self.simulator.add_group(f"{role}-people", [actor])
        self.simulator.set_project_role(PROJECT, role, groups=[f"{role}-people"])

    async def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.edit_issue(key, summary=title, description=body, actor=actor)

    async def close(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.transition(key, "Done", "alice")

    async def reopen(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.transition(key, "To Do", "alice")

    async def delete(self, key: str) -> None:
        """In the simulator's state: 404 from now on."""
        self.simulator.delete_issue(key, "alice")

    async def labels(self, key: str) -> set[str]:
        """From the simulator's state."""
        return set(self.simulator.labels(key))

    async def comments(self, key: str) -> list[RawComment]:
        """From the simulator's state."""
        return [RawComment(c["author"], c["body"], str(c["id"])) for c in self.simulator.comments(key)]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """Every version of the issue that the simulator kept."""
        return self.simulator.label_history(key)


class JiraStatusPlatform(JiraPlatform):
    """Jira Cloud in status mode: the workflow moves with the label."""

    statuses: ClassVar[Mapping[Status, str] | None] = {
        status: name for status, (name, _) in zip(Status, WORKFLOW, strict=True)
    }


class JiraDataCenterPlatform(JiraPlatform):
    """Jira Data Center."""

    cloud = False
