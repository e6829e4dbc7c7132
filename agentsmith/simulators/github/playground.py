"""GitHub set up for playing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from agentsmith.simulators.git.bare import BareRepository
from agentsmith.simulators.github.simulator import GitHubSimulator
from agentsmith.simulators.github.tickets import GitHubTickets
from agentsmith.simulators.playground import CodePlayground, Proposal

_SECRET: Final = "simulated-webhook-secret"  # noqa: S105 - it opens nothing but the simulator


class GitHubPlayground(CodePlayground):
    """The repository acme/web, in which mona may write and gil may only read."""

    title: ClassVar[str] = "GitHub"
    project: ClassVar[str] = "acme/web"
    people: ClassVar[Mapping[str, str]] = {"mona": "write", "gil": "read"}
    token: ClassVar[str] = "github_pat_11SIMULATED0000000000_only_good_for_the_simulator"  # noqa: S105

    def __init__(self) -> None:
        self.simulator: GitHubSimulator = GitHubSimulator()
        self.tickets = GitHubTickets(self.simulator, self.project, self.writer)
        self.simulator.add_repository(self.project, files=dict(self.files))
        self.simulator.add_token(self.token, login="smith-bot", permission="write")
        for login, permission in self.people.items():
            self.simulator.set_permission(self.project, login, permission)

    def tracker(self) -> dict[str, Any]:
        """See Playground."""
        return {
            "platform": "github",
            "repository": self.project,
            "base_url": self.simulator.api_url,
            "token": self.token,
            "webhook_secret": _SECRET,
        }

    def send_webhooks(self, url: str) -> None:
        """See Playground."""
        self.simulator.register_webhook(self.project, url, secret=_SECRET)

    @property
    def clone_url(self) -> str:
        """See CodePlayground."""
        return f"{self.simulator.url}/{self.project}.git"

    @property
    def code(self) -> BareRepository:
        """See CodePlayground."""
        return self.simulator.hub.code.of(self.simulator.repository(self.project))

    def proposals(self) -> list[Proposal]:
        """See CodePlayground."""
        return [
            Proposal(
                number=pull["number"],
                url=f"{self.simulator.url}/{self.project}/pull/{pull['number']}",
                title=pull["title"],
                body=pull["body"],
                head=pull["head"],
                base=pull["base"],
                open=pull["state"] == "open",
                draft=pull["draft"],
            )
            for pull in self.simulator.pull_requests(self.project)
        ]

    def let_look_after_webhooks(self) -> None:
        """See Playground."""
        self.simulator.set_permission(self.project, "smith-bot", "admin")

    def examples(self, receiver: str) -> dict[str, str]:
        """See Playground."""
        issues = f"{self.simulator.api_url}/repos/{self.project}/issues"
        return {
            "list the issues as agentsmith sees them": f"curl -s -H 'Authorization: Bearer {self.token}' {issues}",
            "label issue 1 as mona, who may write": self.acting(
                "add_label", repo=self.project, number=1, label="agent-smith", actor="mona"
            ),
            "read its labels": self.acting("labels", repo=self.project, number=1),
            "have webhooks sent to agentsmith": self.acting(
                "register_webhook", repo=self.project, url=receiver, secret=_SECRET
            ),
            "clone the code as agentsmith does": self.cloning("x-access-token"),
            "see the pull requests": self.acting("pull_requests", repo=self.project),
        }
