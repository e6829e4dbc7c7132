"""Which code hosts there are. Adding one is a folder and a line here, or a package with an entry point.

A package offers a code host by an entry point in the group `agentsmith.forges` whose name is the platform and whose
object is a `CodeHost`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from agentsmith.config import Config, RepositorySettings
from agentsmith.domain.forge import Forge
from agentsmith.trackers.azuredevops.settings import AzureRepository
from agentsmith.trackers.git.settings import GitRepository
from agentsmith.trackers.github.settings import GitHubRepository
from agentsmith.trackers.gitlab.settings import GitLabRepository
from agentsmith.trackers.http import Pace, Shared
from agentsmith.trackers.http.connection import Connection, connect
from agentsmith.trackers.shared.plugins import with_installed

ENTRY_POINTS: Final = "agentsmith.forges"


@dataclass(frozen=True, slots=True)
class CodeHost:
    """A kind of code host: how a repository on it is configured, and how its forge is made."""

    settings: type[RepositorySettings]
    build: Callable[[str, Any, Shared], Forge]
    """Takes the repository's name, its settings (an instance of `settings`) and what replicas share about an API."""


class Described(Protocol):
    """The settings of a repository that know how to make what they describe."""

    pace: ClassVar[Pace]
    """How patient its API wants us to be."""

    def open(self, name: str, connection: Connection) -> Forge:
        """The forge; nothing is asked of it yet."""


def _open(name: str, settings: Described, shared: Shared) -> Forge:
    return settings.open(name, connect(shared, settings.pace))


def _open_git(name: str, settings: GitRepository, _: Shared) -> Forge:
    return settings.open(name)


BUILT_IN: Final[Mapping[str, CodeHost]] = {
    "azure-devops": CodeHost(AzureRepository, _open),
    "git": CodeHost(GitRepository, _open_git),
    "github": CodeHost(GitHubRepository, _open),
    "gitlab": CodeHost(GitLabRepository, _open),
}


def code_hosts() -> dict[str, CodeHost]:
    """Every code host by name, those of installed packages included; a built-in name cannot be taken."""
    return with_installed(BUILT_IN, CodeHost, group=ENTRY_POINTS, what="code host")


def settings_models() -> dict[str, type[RepositorySettings]]:
    """How each kind of repository is configured: what reading a configuration needs."""
    return {name: host.settings for name, host in code_hosts().items()}


def build(config: Config, shared: Shared) -> dict[str, Forge]:
    """The forge of every tracker that has one, by the tracker's name; trackers on one repository share its forge."""
    known, made = code_hosts(), dict[str, Forge]()
    found: dict[str, Forge] = {}
    for tracker in config.trackers:
        code = config.code_of(tracker)
        if code is not None:
            name, settings = code
            if name not in made:
                made[name] = known[settings.platform].build(name, settings, shared)
            found[tracker] = made[name]
    return found
