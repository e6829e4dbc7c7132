"""What people do with tickets, in the same words on every platform, and what they see of them.

All goes straight to a simulator's state, past its HTTP: nothing of it shows in the request log. The demo, the benches
and the tests all act as people through this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Said:
    """A comment as the platform stores it, machine-read lines included where they are part of the text."""

    author: str
    body: str
    ref: str = ""
    """What a webhook would call it, where that is known."""


class ProjectTickets(ABC):
    """The tickets of one project. Whoever is not named as the actor is somebody who may write."""

    def __init__(self, writer: str) -> None:
        self._writer = writer

    @abstractmethod
    def open(self, title: str, labels: Sequence[str] = (), *, body: str = "", actor: str | None = None) -> str:
        """A new open ticket; answers its key."""

    @abstractmethod
    def add_label(self, key: str, label: str, actor: str | None = None) -> None:
        """Put one label on, and change nothing else."""

    @abstractmethod
    def remove_label(self, key: str, label: str, actor: str | None = None) -> None:
        """Take one label off, and change nothing else."""

    @abstractmethod
    def comment(self, key: str, body: str, actor: str | None = None) -> str:
        """Write a comment; answers what a webhook would call it."""

    @abstractmethod
    def withdraw(self, key: str, ref: str) -> None:
        """Delete the comment that a webhook would call `ref`."""

    @abstractmethod
    def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str | None = None) -> None:
        """Change the text."""

    @abstractmethod
    def close(self, key: str, actor: str | None = None, *, webhook: bool = True) -> None:
        """Close the ticket; without `webhook` nobody is told."""

    @abstractmethod
    def reopen(self, key: str, actor: str | None = None) -> None:
        """Open it again."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove the ticket for good, or out of our sight."""

    @abstractmethod
    def block(self, key: str, by: str) -> None:
        """Link the ticket as blocked by another one."""

    @abstractmethod
    def labels(self, key: str) -> list[str]:
        """What stands on the ticket."""

    @abstractmethod
    def comments(self, key: str) -> list[Said]:
        """What was said on the ticket, oldest first."""

    @abstractmethod
    def reactions(self, key: str, ref: str) -> list[str]:
        """Who reacted to the comment that a webhook would call `ref`, once for each reaction."""

    @abstractmethod
    def label_history(self, key: str) -> list[frozenset[str]]:
        """Every label set that somebody could have seen on the ticket, oldest first, the present one last."""

    def texts(self, key: str) -> list[str]:
        """The comments without their authors."""
        return [said.body for said in self.comments(key)]
