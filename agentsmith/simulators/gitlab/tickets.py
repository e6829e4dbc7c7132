"""What people do with the issues of one project."""

from __future__ import annotations

from collections.abc import Sequence

from agentsmith.simulators.gitlab.simulator import GitLabSimulator
from agentsmith.simulators.tickets import ProjectTickets, Said


class GitLabTickets(ProjectTickets):
    """See ProjectTickets."""

    def __init__(self, simulator: GitLabSimulator, project: str, writer: str = "mona") -> None:
        super().__init__(writer)
        self._simulator, self._project = simulator, project

    def open(self, title: str, labels: Sequence[str] = (), *, body: str = "", actor: str | None = None) -> str:
        """See ProjectTickets."""
        who = actor or self._writer
        return str(self._simulator.open_issue(self._project, title=title, body=body, labels=labels, actor=who))

    def add_label(self, key: str, label: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.add_label(self._project, int(key), label, actor or self._writer)

    def remove_label(self, key: str, label: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.remove_label(self._project, int(key), label, actor or self._writer)

    def comment(self, key: str, body: str, actor: str | None = None) -> str:
        """See ProjectTickets."""
        return str(self._simulator.comment(self._project, int(key), body, actor or self._writer))

    def withdraw(self, key: str, ref: str) -> None:  # noqa: ARG002
        """See ProjectTickets."""
        self._simulator.delete_comment(self._project, int(ref))

    def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str | None = None) -> None:
        """See ProjectTickets."""
        who = actor or self._writer
        self._simulator.edit_issue(self._project, int(key), title=title, body=body, actor=who)

    def close(self, key: str, actor: str | None = None, *, webhook: bool = True) -> None:
        """See ProjectTickets."""
        self._simulator.close_issue(self._project, int(key), actor=actor or self._writer, webhook=webhook)

    def reopen(self, key: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.reopen_issue(self._project, int(key), actor or self._writer)

    def delete(self, key: str) -> None:
        """See ProjectTickets."""
        self._simulator.delete_issue(self._project, int(key))

    def block(self, key: str, by: str) -> None:
        """See ProjectTickets."""
        self._simulator.set_blocked_by(self._project, int(key), [(self._project, int(by))])

    def labels(self, key: str) -> list[str]:
        """See ProjectTickets."""
        return self._simulator.labels(self._project, int(key))

    def comments(self, key: str) -> list[Said]:
        """See ProjectTickets."""
        found = self._simulator.comments(self._project, int(key))
        return [Said(comment["user"], comment["body"], str(comment["id"])) for comment in found]

    def reactions(self, key: str, ref: str) -> list[str]:  # noqa: ARG002
        """See ProjectTickets."""
        return [user for _, _, user in self._simulator.hub.world.awards.get(int(ref), [])]

    def label_history(self, key: str) -> list[frozenset[str]]:
        """See ProjectTickets; every version of the issue was kept."""
        project = self._simulator.project(self._project)
        versions = project.versions[int(key)]
        return [frozenset(label.name for label in project.labels_of(issue)) for issue in versions]
