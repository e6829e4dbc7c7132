"""Azure DevOps under the conformance suite."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

import httpx

from agentsmith.domain.errors import RateLimited, TrackerUnavailable, Unauthorized
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.azuredevops import AzureDevOpsSimulator
from agentsmith.simulators.azuredevops.tickets import AzureDevOpsTickets
from agentsmith.trackers.azuredevops.comment_format import COMMENT_LIMIT
from agentsmith.trackers.azuredevops.settings import AzureDevOpsSettings
from agentsmith.trackers.http import Pace, Shared
from agentsmith.trackers.http.connection import Connection
from tests.conformance.harness import Capabilities, Fault
from tests.conformance.simulated import PEOPLE, SimulatedPlatform
from tests.support.azuredevops_judge import AzureDevOpsJudge
from tests.support.contracts import ContractJudge

PROJECT: Final = "Web"
TOKEN: Final = "pat7conformanceconformanceconformanceconformance7z"


class AzureDevOpsPlatform(SimulatedPlatform[AzureDevOpsSimulator]):
    """Azure DevOps Services with one project per test."""

    capabilities = Capabilities(
        compare_and_set=True, comment_limit=COMMENT_LIMIT, faults=frozenset(Fault), simulated=True
    )
    secrets = (TOKEN, "conformanceconformance")
    says = "Azure DevOps"
    questions = ("/wiql", "/workitemsbatch")
    written = r"/workitems/\d+$|/comments"
    denial: ClassVar = {"message": f"TF401027: No, {TOKEN}", "typeKey": "AccessDeniedException"}
    refusal = "TF401027"
    limited: ClassVar = {"kind": "rate_limit"}
    own_faults: ClassVar = {
        "signed out, 302": ({"kind": "bad_credentials", "status": 302}, Unauthorized),
        "signed out, 200": ({"kind": "bad_credentials", "status": 200}, Unauthorized),
        "signed out, 401": ({"kind": "bad_credentials", "status": 401}, Unauthorized),
        "a query that took too long": (
            {"kind": "status", "status": 408, "body": {"message": "VS402335: too slow"}},
            TrackerUnavailable,
        ),
        "a limit, no time": ({"kind": "rate_limit"}, RateLimited),
    }
    wrong: ClassVar = (
        (("id",), 2),
        (("id",), "1"),
        (("rev",), None),
        (("rev",), "3"),
        (("fields",), None),
        (("fields", "System.Tags"), 5),
        (("fields", "System.State"), 3),
        (("fields", "System.State"), "No Such State"),
        (("fields", "System.Title"), None),
        (("fields", "System.ChangedDate"), "yesterday"),
        (("fields", "System.TeamProject"), None),
        (("fields", "System.CreatedBy"), 7),
    )
    undescribed: ClassVar = frozenset(
        {"connectionData", "teams", "members", "workitemtypes", "comments", "workitemsbatch"}
    )

    @classmethod
    def judge(cls) -> ContractJudge | None:
        """See SimulatedPlatform."""
        return AzureDevOpsJudge()

    @classmethod
    def furnished(cls) -> AzureDevOpsSimulator:
        """See SimulatedPlatform."""
        simulator = AzureDevOpsSimulator()
        simulator.add_project(PROJECT)
        simulator.add_token(TOKEN, user="agentsmith")
        for name in PEOPLE:
            simulator.add_member(PROJECT, name)
        return simulator

    def open(self, labels: LabelSet, shared: Shared, pace: Pace, http: httpx.AsyncClient, page_size: int) -> Tracker:
        """See SimulatedPlatform."""
        settings = AzureDevOpsSettings.model_validate(
            {
                "platform": "azure-devops",
                "organization": self.simulator.organization,
                "project": PROJECT,
                "base_url": self.simulator.api_url,
                "token": TOKEN,
            }
        )
        return settings.open("web", labels, Connection(shared, pace, http, page_size))

    def people(self) -> AzureDevOpsTickets:
        """See SimulatedPlatform."""
        return AzureDevOpsTickets(self.simulator, PROJECT, PEOPLE[0])

    def garble(self, key: str) -> None:
        """See SimulatedPlatform."""
        item = self.simulator.item(int(key))
        item.revisions[-1] = replace(item.now, fields={**item.now.fields, "System.Title": 5})

    async def put_into_team(self, team: str, *actors: str) -> None:
        """A team of the project."""
        for actor in actors:
            self.simulator.add_member(PROJECT, actor, team=team)

    async def give_role(self, role: str, actor: str) -> None:
        """There is one only."""
        assert role == "team administrator"
        self.simulator.add_member(PROJECT, actor, admin=True)
