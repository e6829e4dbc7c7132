"""Azure DevOps under the conformance suite."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

import httpx

from agentsmith.domain.errors import RateLimited, TrackerUnavailable, Unauthorized
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.azuredevops import AzureDevOpsSimulator
from agentsmith.trackers.azuredevops.form import COMMENT_LIMIT
from agentsmith.trackers.azuredevops.settings import AzureDevOpsSettings
from agentsmith.trackers.http import Pace, Shared
from agentsmith.trackers.http.connection import Connection
from tests.conformance.harness import Capabilities, Fault, RawComment
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

    def garble(self, key: str) -> None:
        """See SimulatedPlatform."""
        item = self.simulator.item(int(key))
        item.revisions[-1] = replace(item.now, fields={**item.now.fields, "System.Title": 5})

    async def block(self, key: str, by: str) -> None:
        """In the simulator's state."""
        self.simulator.set_predecessors(int(key), [int(by)])

    async def open_ticket(
        self, title: str = "a ticket", body: str = "", labels: tuple[str, ...] = (), author: str = "alice"
    ) -> str:
        """In the simulator's state."""
        return str(self.simulator.open_item(PROJECT, title=title, body=body, tags=labels, actor=author))

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.add_tag(int(key), label, actor)

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.remove_tag(int(key), label, actor)

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> str:
        """In the simulator's state."""
        self.simulator.comment(int(key), body, actor)
        return f"rev-{self.simulator.item(int(key)).now.rev}"

    async def person_withdraws(self, key: str, ref: str) -> None:
        """In the simulator's state."""
        self.simulator.delete_comment(int(key), self._comment(key, ref))

    async def reactions(self, key: str, ref: str) -> list[str]:
        """From the simulator's state."""
        given = self.simulator.hub.world.reactions.get(self._comment(key, ref), {})
        return [user for users in given.values() for user in users]

    def _comment(self, key: str, ref: str) -> int:
        revisions = self.simulator.item(int(key)).revisions
        return next(r.comment or 0 for r in revisions if f"rev-{r.rev}" == ref)

    async def put_into_team(self, team: str, *actors: str) -> None:
        """A team of the project."""
        for actor in actors:
            self.simulator.add_member(PROJECT, actor, team=team)

    async def give_role(self, role: str, actor: str) -> None:
        """There is one only."""
        assert role == "team administrator"
        self.simulator.add_member(PROJECT, actor, admin=True)

    async def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.edit_item(int(key), title=title, body=body, actor=actor)

    async def close(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.close_item(int(key), "alice")

    async def reopen(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.reopen_item(int(key), "alice")

    async def delete(self, key: str) -> None:
        """In the simulator's state: into the recycle bin."""
        self.simulator.delete_item(int(key), "alice")

    async def labels(self, key: str) -> set[str]:
        """From the simulator's state."""
        return set(self.simulator.tags(int(key)))

    async def comments(self, key: str) -> list[RawComment]:
        """From the simulator's state."""
        return [RawComment(c["user"], c["text"], str(c["id"])) for c in self.simulator.comments(int(key))]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """Every revision of the work item."""
        revisions = self.simulator.item(int(key)).revisions
        tags = [str(revision.fields.get("System.Tags", "")) for revision in revisions]
        return [frozenset(filter(None, (tag.strip() for tag in text.split(";")))) for text in tags]
