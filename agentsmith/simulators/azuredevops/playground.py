"""Azure DevOps set up for playing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from agentsmith.simulators.azuredevops.simulator import AzureDevOpsSimulator
from agentsmith.simulators.azuredevops.tickets import AzureDevOpsTickets
from agentsmith.simulators.git.bare import BareRepository
from agentsmith.simulators.playground import CodePlayground, Proposal

_SECRET: Final = "simulated-webhook-secret"  # noqa: S105 - it opens nothing but the simulator
_EVENTS: Final = ("workitem.created", "workitem.updated", "workitem.commented")


class AzureDevOpsPlayground(CodePlayground):
    """The project Web of the organization acme: mona is in its team, gil is not."""

    title: ClassVar[str] = "Azure DevOps"
    project: ClassVar[str] = "Web"
    people: ClassVar[Mapping[str, str]] = {"mona@example.com": "member", "gil@example.com": "stranger"}
    token: ClassVar[str] = "simulated0only0good0for0the0simulator000000000000000"  # noqa: S105

    def __init__(self) -> None:
        self.simulator: AzureDevOpsSimulator = AzureDevOpsSimulator()
        self.tickets = AzureDevOpsTickets(self.simulator, self.project, self.writer)
        self.simulator.add_project(self.project, files=dict(self.files))
        self.simulator.add_token(self.token)
        for user, role in self.people.items():
            if role == "member":
                self.simulator.add_member(self.project, user)

    def tracker(self) -> dict[str, Any]:
        """See Playground."""
        return {
            "platform": "azure-devops",
            "organization": self.simulator.organization,
            "project": self.project,
            "base_url": self.simulator.api_url,
            "token": self.token,
            "webhook_secret": _SECRET,
        }

    def send_webhooks(self, url: str) -> None:
        """See Playground."""
        for event in _EVENTS:
            self.simulator.subscribe(self.project, url, event=event, username="agentsmith", password=_SECRET)

    @property
    def clone_url(self) -> str:
        """See CodePlayground."""
        return f"{self.simulator.api_url}/{self.simulator.organization}/{self.project}/_git/{self.project}"

    @property
    def code(self) -> BareRepository:
        """See CodePlayground."""
        return self.simulator.hub.code.of(self.simulator.repository(self.project))

    def proposals(self) -> list[Proposal]:
        """See CodePlayground."""
        return [
            Proposal(
                number=pull["number"],
                url=f"{self.clone_url}/pullrequest/{pull['number']}",
                title=pull["title"],
                body=pull["body"],
                head=pull["head"],
                base=pull["base"],
                open=pull["state"] == "active",
                draft=pull["draft"],
            )
            for pull in self.simulator.pull_requests(self.project)
        ]

    def let_look_after_webhooks(self) -> None:
        """See Playground: here it may anyway."""

    def examples(self, receiver: str) -> dict[str, str]:
        """See Playground."""
        item = f"{self.simulator.api_url}/{self.simulator.organization}/{self.project}/_apis/wit/workitems/1"
        return {
            "read work item 1 as agentsmith sees it": f"curl -s -u :{self.token} '{item}?api-version=7.1'",
            "tag it as mona, who may write": self.acting(
                "add_tag", number=1, tag="agent-smith", actor="mona@example.com"
            ),
            "read its tags": self.acting("tags", number=1),
            "have webhooks sent to agentsmith": self.acting(
                "subscribe", project=self.project, url=receiver, username="agentsmith", password=_SECRET
            ),
        }
