"""What people do with the issues of one repository."""

from __future__ import annotations

from collections.abc import Sequence

from agentsmith.simulators.github.simulator import GitHubSimulator
from agentsmith.simulators.tickets import ProjectTickets, Said


class GitHubTickets(ProjectTickets):
    """See ProjectTickets."""

    def __init__(self, simulator: GitHubSimulator, repository: str, writer: str = "mona") -> None:
        super().__init__(writer)
        self._simulator, self._repository = simulator, repository

    def open(self, title: str, labels: Sequence[str] = (), *, body: str = "", actor: str | None = None) -> str:
        """See ProjectTickets."""
        who = actor or self._writer
        return str(self._simulator.open_issue(self._repository, title=title, body=body, labels=labels, actor=who))

    def add_label(self, key: str, label: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.add_label(self._repository, int(key), label, actor or self._writer)

    def remove_label(self, key: str, label: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.remove_label(self._repository, int(key), label, actor or self._writer)

    def comment(self, key: str, body: str, actor: str | None = None) -> str:
        """See ProjectTickets."""
        return str(self._simulator.comment(self._repository, int(key), body, actor or self._writer))

    def withdraw(self, key: str, ref: str) -> None:  # noqa: ARG002
        """See ProjectTickets."""
        self._simulator.delete_comment(self._repository, int(ref))

    def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str | None = None) -> None:
        """See ProjectTickets."""
        who = actor or self._writer
        self._simulator.edit_issue(self._repository, int(key), title=title, body=body, actor=who)

    def close(self, key: str, actor: str | None = None, *, webhook: bool = True) -> None:
        """See ProjectTickets."""
        self._simulator.close_issue(self._repository, int(key), actor=actor or self._writer, webhook=webhook)

    def reopen(self, key: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.reopen_issue(self._repository, int(key), actor or self._writer)

    def delete(self, key: str) -> None:
        """See ProjectTickets."""
        self._simulator.delete_issue(self._repository, int(key), self._writer)

    def block(self, key: str, by: str) -> None:
        """See ProjectTickets."""
        self._simulator.set_blocked_by(self._repository, int(key), [(self._repository, int(by))])

    def labels(self, key: str) -> list[str]:
        """See ProjectTickets."""
        return self._simulator.labels(self._repository, int(key))

    def comments(self, key: str) -> list[Said]:
        """See ProjectTickets."""
        found = self._simulator.comments(self._repository, int(key))
        return [Said(comment["user"], comment["body"], str(comment["id"])) for comment in found]

    def reactions(self, key: str, ref: str) -> list[str]:  # noqa: ARG002
        """See ProjectTickets."""
        found = self._simulator.repository(self._repository).comment(int(ref))
        return [reaction.user for reaction in found[1].reactions] if found else []

    def label_history(self, key: str) -> list[frozenset[str]]:
        """See ProjectTickets; every version of the issue was kept."""
        repository = self._simulator.repository(self._repository)
        versions = repository.versions[int(key)]
        return [frozenset(label.name for label in repository.labels_of(issue)) for issue in versions]
