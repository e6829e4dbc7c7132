"""GitLab set up for playing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import quote

from agentsmith.simulators.git.bare import BareRepository
from agentsmith.simulators.gitlab.simulator import GitLabSimulator
from agentsmith.simulators.gitlab.tickets import GitLabTickets
from agentsmith.simulators.playground import CodePlayground, Proposal

_SECRET: Final = "simulated-webhook-secret"  # noqa: S105 - it opens nothing but the simulator


class GitLabPlayground(CodePlayground):
    """The project acme/web, of which mona is a developer and gil a guest."""

    title: ClassVar[str] = "GitLab"
    project: ClassVar[str] = "acme/web"
    people: ClassVar[Mapping[str, str]] = {"mona": "developer", "gil": "guest"}
    token: ClassVar[str] = "glpat-SIMULATED-only-good-for-the-simulator"  # noqa: S105

    def __init__(self) -> None:
        self.simulator: GitLabSimulator = GitLabSimulator()
        self.tickets = GitLabTickets(self.simulator, self.project, self.writer)
        self.simulator.add_project(self.project, files=dict(self.files))
        self.simulator.add_token(self.token, username="smith-bot")
        for username, level in {"smith-bot": "developer", **self.people}.items():
            self.simulator.set_access(self.project, username, level)

    def tracker(self) -> dict[str, Any]:
        """See Playground."""
        return {
            "platform": "gitlab",
            "project": self.project,
            "base_url": self.simulator.api_url,
            "token": self.token,
            "webhook_secret": _SECRET,
        }

    def send_webhooks(self, url: str) -> None:
        """See Playground."""
        self.simulator.register_webhook(self.project, url, token=_SECRET)

    @property
    def clone_url(self) -> str:
        """See CodePlayground."""
        return f"{self.simulator.url}/{self.project}.git"

    @property
    def code(self) -> BareRepository:
        """See CodePlayground."""
        return self.simulator.hub.code.of(self.simulator.project(self.project))

    def proposals(self) -> list[Proposal]:
        """See CodePlayground."""
        return [
            Proposal(
                number=pull["number"],
                url=f"{self.simulator.url}/{self.project}/-/merge_requests/{pull['number']}",
                title=pull["title"],
                body=pull["body"],
                head=pull["head"],
                base=pull["base"],
                open=pull["state"] == "opened",
                draft=pull["draft"],
            )
            for pull in self.simulator.merge_requests(self.project)
        ]

    def let_look_after_webhooks(self) -> None:
        """See Playground."""
        self.simulator.set_access(self.project, "smith-bot", "maintainer")

    def examples(self, receiver: str) -> dict[str, str]:
        """See Playground."""
        issues = f"{self.simulator.api_url}/projects/{quote(self.project, safe='')}/issues"
        return {
            "list the issues as agentsmith sees them": f"curl -s -H 'PRIVATE-TOKEN: {self.token}' {issues}",
            "label issue 1 as mona, who may write": self.acting(
                "add_label", project=self.project, iid=1, label="agent-smith", actor="mona"
            ),
            "read its labels": self.acting("labels", project=self.project, iid=1),
            "have webhooks sent to agentsmith": self.acting(
                "register_webhook", project=self.project, url=receiver, token=_SECRET
            ),
        }
