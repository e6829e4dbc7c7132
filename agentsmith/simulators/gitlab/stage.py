"""GitLab set up for playing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import quote

from agentsmith.simulators.git.bare import BareRepository
from agentsmith.simulators.gitlab.simulator import GitLabSimulator
from agentsmith.simulators.stage import CodeStage, Proposal

_SECRET: Final = "simulated-webhook-secret"  # noqa: S105 - it opens nothing but the simulator


class GitLabStage(CodeStage):
    """The project acme/web, of which mona is a developer and gil a guest."""

    title: ClassVar[str] = "GitLab"
    project: ClassVar[str] = "acme/web"
    people: ClassVar[Mapping[str, str]] = {"mona": "developer", "gil": "guest"}
    token: ClassVar[str] = "glpat-SIMULATED-only-good-for-the-simulator"  # noqa: S105

    def __init__(self) -> None:
        self.simulator: GitLabSimulator = GitLabSimulator()
        self.simulator.add_project(self.project, files=dict(self.files))
        self.simulator.add_token(self.token, username="smith-bot")
        for username, level in {"smith-bot": "developer", **self.people}.items():
            self.simulator.set_access(self.project, username, level)

    def tracker(self) -> dict[str, Any]:
        """See Stage."""
        return {
            "platform": "gitlab",
            "project": self.project,
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
        self.simulator.register_webhook(self.project, url, token=_SECRET)

    @property
    def clone_url(self) -> str:
        """See CodeStage."""
        return f"{self.simulator.url}/{self.project}.git"

    @property
    def code(self) -> BareRepository:
        """See CodeStage."""
        return self.simulator.hub.code.of(self.simulator.project(self.project))

    def proposals(self) -> list[Proposal]:
        """See CodeStage."""
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
        """See Stage."""
        self.simulator.set_access(self.project, "smith-bot", "maintainer")

    def examples(self, receiver: str) -> dict[str, str]:
        """See Stage."""
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
