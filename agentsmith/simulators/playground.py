"""A simulator set up for playing: one project, an account for agentsmith, people, and what they do in every tracker."""

from __future__ import annotations

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlsplit, urlunsplit

from agentsmith.simulators.frame import Simulator
from agentsmith.simulators.git.bare import BareRepository
from agentsmith.simulators.tickets import ProjectTickets

_TITLES: Final = ("Say hello", "Update the changelog", "Sort the imports")


class Playground(ABC):
    """One platform, ready to play. Addresses are right only while the simulator is served."""

    title: ClassVar[str]
    """What people call the platform."""
    project: ClassVar[str]
    """Where the tickets are."""
    people: ClassVar[Mapping[str, str]]
    """Who may do what there; the first may write."""
    token: ClassVar[str]
    """The credential of agentsmith's own account."""
    simulator: Simulator
    tickets: ProjectTickets
    """What people do with the tickets, and see of them."""

    @abstractmethod
    def tracker(self) -> dict[str, Any]:
        """The block of a configuration that describes the project: address, token and webhook secret included."""

    @abstractmethod
    def send_webhooks(self, url: str) -> None:
        """Tell `url` of everything that happens, authenticated by the secret in `tracker()`."""

    @abstractmethod
    def let_look_after_webhooks(self) -> None:
        """Let the account of agentsmith make webhooks, where that takes more than work on tickets does."""

    @abstractmethod
    def examples(self, receiver: str) -> dict[str, str]:
        """Commands to try, by what they do: read as agentsmith, label as a person, send webhooks to `receiver`."""

    def furnish(self) -> list[str]:
        """Open a few tickets to play with; answers their keys."""
        return [self.tickets.open(title) for title in _TITLES]

    @property
    def writer(self) -> str:
        """A person who may write."""
        return next(iter(self.people))

    @property
    def control_url(self) -> str:
        """Where the control plane is."""
        return f"{self.simulator.url}/_control"

    def acting(self, operation: str, **arguments: Any) -> str:
        """The command that does as a person does, over the control plane."""
        return f"curl -s {self.control_url}/act/{operation} -d {shlex.quote(json.dumps(arguments))}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pull request as people see it."""

    number: int
    url: str
    title: str
    body: str
    head: str
    base: str
    open: bool
    draft: bool


class CodePlayground(Playground):
    """A platform that has the code beside the tickets."""

    files: ClassVar[Mapping[str, str]] = {"README.md": "# Web\n\nA small project to play with.\n"}
    """What the repository begins with."""

    @property
    @abstractmethod
    def clone_url(self) -> str:
        """Where git finds the repository."""

    @property
    @abstractmethod
    def code(self) -> BareRepository:
        """The repository itself."""

    @abstractmethod
    def proposals(self) -> list[Proposal]:
        """All pull requests, oldest first."""

    def cloning(self, username: str) -> str:
        """The command that clones the repository as agentsmith does, for trying it out."""
        parts = urlsplit(self.clone_url)
        netloc = f"{username}:{quote(self.token, safe='')}@{parts.netloc}"
        return f"git clone {urlunsplit(parts._replace(netloc=netloc))} web"
