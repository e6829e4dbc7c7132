"""What people do with the issues of one project."""

from __future__ import annotations

from collections.abc import Sequence

from agentsmith.simulators.jira.simulator import JiraSimulator
from agentsmith.simulators.tickets import ProjectTickets, Said


class JiraTickets(ProjectTickets):
    """See ProjectTickets. There are no reactions."""

    def __init__(self, simulator: JiraSimulator, project: str, writer: str = "mona") -> None:
        super().__init__(writer)
        self._simulator, self._project = simulator, project

    def open(self, title: str, labels: Sequence[str] = (), *, body: str = "", actor: str | None = None) -> str:
        """See ProjectTickets."""
        who = actor or self._writer
        return self._simulator.open_issue(self._project, summary=title, description=body, labels=labels, actor=who)

    def add_label(self, key: str, label: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.add_label(key, label, actor or self._writer)

    def remove_label(self, key: str, label: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.remove_label(key, label, actor or self._writer)

    def comment(self, key: str, body: str, actor: str | None = None) -> str:
        """See ProjectTickets."""
        return self._simulator.comment(key, body, actor or self._writer)

    def withdraw(self, key: str, ref: str) -> None:
        """See ProjectTickets."""
        self._simulator.delete_comment(key, ref)

    def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.edit_issue(key, summary=title, description=body, actor=actor or self._writer)

    def close(self, key: str, actor: str | None = None, *, webhook: bool = True) -> None:
        """See ProjectTickets."""
        self._simulator.transition(key, "Done", actor or self._writer, webhook=webhook)

    def reopen(self, key: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.transition(key, "To Do", actor or self._writer)

    def delete(self, key: str) -> None:
        """See ProjectTickets."""
        self._simulator.delete_issue(key, self._writer)

    def block(self, key: str, by: str) -> None:
        """See ProjectTickets."""
        self._simulator.block(by, key)

    def labels(self, key: str) -> list[str]:
        """See ProjectTickets."""
        return self._simulator.labels(key)

    def comments(self, key: str) -> list[Said]:
        """See ProjectTickets."""
        return [Said(c["author"], c["body"], str(c["id"])) for c in self._simulator.comments(key)]

    def reactions(self, key: str, ref: str) -> list[str]:  # noqa: ARG002
        """See ProjectTickets."""
        return []

    def label_history(self, key: str) -> list[frozenset[str]]:
        """See ProjectTickets; every version of the issue was kept."""
        return self._simulator.label_history(key)
