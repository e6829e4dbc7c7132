"""Jira set up for playing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from agentsmith.simulators.jira.simulator import JiraSimulator
from agentsmith.simulators.jira.tickets import JiraTickets
from agentsmith.simulators.playground import Playground

_SECRET: Final = "simulated-webhook-secret"  # noqa: S105 - it opens nothing but the simulator


class JiraPlayground(Playground):
    """The Cloud project WEB, in which mona may write and gil may only read."""

    title: ClassVar[str] = "Jira"
    project: ClassVar[str] = "WEB"
    people: ClassVar[Mapping[str, str]] = {"mona": "write", "gil": "read"}
    token: ClassVar[str] = "ATATT-SIMULATED-only-good-for-the-simulator"  # noqa: S105

    def __init__(self) -> None:
        self.simulator: JiraSimulator = JiraSimulator()
        self.tickets = JiraTickets(self.simulator, self.project, self.writer)
        self.simulator.add_project(self.project)
        self._email = self.simulator.add_token(self.token)
        for user, role in {"smith-bot": "admin", **self.people}.items():  # only admins may ask what others may
            self.simulator.set_role(self.project, user, role)

    def tracker(self) -> dict[str, Any]:
        """See Playground."""
        return {
            "platform": "jira",
            "project": self.project,
            "email": self._email,
            "base_url": self.simulator.api_url,
            "token": self.token,
            "webhook_secret": _SECRET,
        }

    def send_webhooks(self, url: str) -> None:
        """See Playground."""
        self.simulator.register_webhook(url, secret=_SECRET)

    def let_look_after_webhooks(self) -> None:
        """See Playground."""
        self.simulator.make_administrator("smith-bot")

    def examples(self, receiver: str) -> dict[str, str]:
        """See Playground."""
        issue = f"{self.simulator.api_url}/rest/api/3/issue/{self.project}-1"
        return {
            "read the first issue as agentsmith sees it": f"curl -s -u {self._email}:{self.token} {issue}",
            "label it as mona, who may write": self.acting(
                "add_label", key=f"{self.project}-1", label="agent-smith", actor="mona"
            ),
            "read its labels": self.acting("labels", key=f"{self.project}-1"),
            "have webhooks sent to agentsmith": self.acting("register_webhook", url=receiver, secret=_SECRET),
        }
