"""What people do with the work items of one project."""

from __future__ import annotations

from collections.abc import Sequence

from agentsmith.simulators.azuredevops.simulator import AzureDevOpsSimulator
from agentsmith.simulators.tickets import ProjectTickets, Said


class AzureDevOpsTickets(ProjectTickets):
    """See ProjectTickets."""

    def __init__(self, simulator: AzureDevOpsSimulator, project: str, writer: str = "mona@example.com") -> None:
        super().__init__(writer)
        self._simulator, self._project = simulator, project

    def open(self, title: str, labels: Sequence[str] = (), *, body: str = "", actor: str | None = None) -> str:
        """See ProjectTickets."""
        who = actor or self._writer
        return str(self._simulator.open_item(self._project, title=title, body=body, tags=labels, actor=who))

    def add_label(self, key: str, label: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.add_tag(int(key), label, actor or self._writer)

    def remove_label(self, key: str, label: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.remove_tag(int(key), label, actor or self._writer)

    def comment(self, key: str, body: str, actor: str | None = None) -> str:
        """See ProjectTickets; most events name the revision that the comment came with."""
        self._simulator.comment(int(key), body, actor or self._writer)
        return f"rev-{self._simulator.item(int(key)).now.rev}"

    def withdraw(self, key: str, ref: str) -> None:
        """See ProjectTickets."""
        self._simulator.delete_comment(int(key), self._number(key, ref))

    def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.edit_item(int(key), title=title, body=body, actor=actor or self._writer)

    def close(self, key: str, actor: str | None = None, *, webhook: bool = True) -> None:
        """See ProjectTickets."""
        self._simulator.close_item(int(key), actor or self._writer, webhook=webhook)

    def reopen(self, key: str, actor: str | None = None) -> None:
        """See ProjectTickets."""
        self._simulator.reopen_item(int(key), actor or self._writer)

    def delete(self, key: str) -> None:
        """See ProjectTickets; it goes into the recycle bin."""
        self._simulator.delete_item(int(key), self._writer)

    def block(self, key: str, by: str) -> None:
        """See ProjectTickets."""
        self._simulator.set_predecessors(int(key), [int(by)])

    def labels(self, key: str) -> list[str]:
        """See ProjectTickets."""
        return self._simulator.tags(int(key))

    def comments(self, key: str) -> list[Said]:
        """See ProjectTickets."""
        found = self._simulator.comments(int(key))
        return [Said(comment["user"], comment["text"], str(comment["id"])) for comment in found]

    def reactions(self, key: str, ref: str) -> list[str]:
        """See ProjectTickets."""
        given = self._simulator.hub.world.reactions.get(self._number(key, ref), {})
        return [user for users in given.values() for user in users]

    def label_history(self, key: str) -> list[frozenset[str]]:
        """See ProjectTickets; every revision was kept."""
        revisions = self._simulator.item(int(key)).revisions
        tags = [str(revision.fields.get("System.Tags", "")) for revision in revisions]
        return [frozenset(filter(None, (tag.strip() for tag in text.split(";")))) for text in tags]

    def _number(self, key: str, ref: str) -> int:
        """The number of the comment that came with a revision."""
        revisions = self._simulator.item(int(key)).revisions
        return next(r.comment or 0 for r in revisions if f"rev-{r.rev}" == ref)
