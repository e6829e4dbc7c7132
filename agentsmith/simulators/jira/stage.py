"""Jira set up for playing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from agentsmith.simulators.jira.simulator import JiraSimulator
from agentsmith.simulators.stage import Stage

_SECRET: Final = "simulated-webhook-secret"  # noqa: S105 - it opens nothing but the simulator


class JiraStage(Stage):
    """The Cloud project WEB, in which mona may write and gil may only read."""

    title: ClassVar[str] = "Jira"
    project: ClassVar[str] = "WEB"
    people: ClassVar[Mapping[str, str]] = {"mona": "write", "gil": "read"}
    token: ClassVar[str] = "ATATT-SIMULATED-only-good-for-the-simulator"  # noqa: S105

    def __init__(self) -> None:
        self.simulator: JiraSimulator = JiraSimulator()
        self.simulator.add_project(self.project)
        self._email = self.simulator.add_token(self.token)
        for user, role in {"smith-bot": "admin", **self.people}.items():  # only admins may ask what others may
            self.simulator.set_role(self.project, user, role)

    def tracker(self) -> dict[str, Any]:
        """See Stage."""
        return {
            "platform": "jira",
            "project": self.project,
            "email": self._email,
            "base_url": self.simulator.api_url,
            "token": self.token,
            "webhook_secret": _SECRET,
        }

    def open_ticket(self, title: str, labels: Sequence[str] = ()) -> str:
        """See Stage."""
        return self.simulator.open_issue(self.project, summary=title, labels=labels)

    def add_label(self, key: str, label: str, actor: str | None = None) -> None:
        """See Stage."""
        self.simulator.add_label(key, label, actor or self.writer)

    def labels(self, key: str) -> list[str]:
        """See Stage."""
        return self.simulator.labels(key)

    def comments(self, key: str) -> list[str]:
        """See Stage."""
        return [str(comment["body"]) for comment in self.simulator.comments(key)]

    def send_webhooks(self, url: str) -> None:
        """See Stage."""
        self.simulator.register_webhook(url, secret=_SECRET)

    def let_look_after_webhooks(self) -> None:
        """See Stage."""
        self.simulator.make_administrator("smith-bot")

    def examples(self, receiver: str) -> dict[str, str]:
        """See Stage."""
        issue = f"{self.simulator.api_url}/rest/api/3/issue/{self.project}-1"
        return {
            "read the first issue as agentsmith sees it": f"curl -s -u {self._email}:{self.token} {issue}",
            "label it as mona, who may write": self.acting(
                "add_label", key=f"{self.project}-1", label="agent-smith", actor="mona"
            ),
            "read its labels": self.acting("labels", key=f"{self.project}-1"),
            "have webhooks sent to agentsmith": self.acting("register_webhook", url=receiver, secret=_SECRET),
        }
