"""GitHub set up for playing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from agentsmith.simulators.git.bare import BareRepository
from agentsmith.simulators.github.simulator import GitHubSimulator
from agentsmith.simulators.stage import CodeStage, Proposal

_SECRET: Final = "simulated-webhook-secret"  # noqa: S105 - it opens nothing but the simulator


class GitHubStage(CodeStage):
    """The repository acme/web, in which mona may write and gil may only read."""

    title: ClassVar[str] = "GitHub"
    project: ClassVar[str] = "acme/web"
    people: ClassVar[Mapping[str, str]] = {"mona": "write", "gil": "read"}
    token: ClassVar[str] = "github_pat_11SIMULATED0000000000_only_good_for_the_simulator"  # noqa: S105

    def __init__(self) -> None:
        self.simulator: GitHubSimulator = GitHubSimulator()
        self.simulator.add_repository(self.project, files=dict(self.files))
        self.simulator.add_token(self.token, login="smith-bot", permission="write")
        for login, permission in self.people.items():
            self.simulator.set_permission(self.project, login, permission)

    def tracker(self) -> dict[str, Any]:
        """See Stage."""
        return {
            "platform": "github",
            "repository": self.project,
            "base_url": self.simulator.api_url,
            "token": self.token,
            "webhook_secret": _SECRET,
        }

    def open_ticket(self, title: str, labels: Sequence[str] = ()) -> str:
        """See Stage."""
        return str(self.simulator.open_issue(self.project, title=title, labels=labels))

    def add_label(self, key: str, label: str, actor: str | None = None) -> None:
        """See Stage."""
        self.simulator.add_label(self.project, int(key), label, actor or self.writer)

    def labels(self, key: str) -> list[str]:
        """See Stage."""
        return self.simulator.labels(self.project, int(key))

    def comments(self, key: str) -> list[str]:
        """See Stage."""
        return [str(comment["body"]) for comment in self.simulator.comments(self.project, int(key))]

    def send_webhooks(self, url: str) -> None:
        """See Stage."""
        self.simulator.register_webhook(self.project, url, secret=_SECRET)

    @property
    def clone_url(self) -> str:
        """See CodeStage."""
        return f"{self.simulator.url}/{self.project}.git"

    @property
    def code(self) -> BareRepository:
        """See CodeStage."""
        return self.simulator.hub.code.of(self.simulator.repository(self.project))

    def proposals(self) -> list[Proposal]:
        """See CodeStage."""
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
        """See Stage."""
        self.simulator.set_permission(self.project, "smith-bot", "admin")

    def examples(self, receiver: str) -> dict[str, str]:
        """See Stage."""
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
