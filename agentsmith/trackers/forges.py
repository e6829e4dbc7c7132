"""Which code hosts there are. Adding one is a folder and a line here, or a package with an entry point.

A package offers a code host by an entry point in the group `agentsmith.forges` whose name is the platform and whose
object is a `CodeHost`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from agentsmith.config import Config, RepositorySettings
from agentsmith.domain.forge import Forge
from agentsmith.trackers.shared.plugins import Offers, SettingsOf

if TYPE_CHECKING:
    from agentsmith.trackers.git.settings import GitRepository
    from agentsmith.trackers.http import Pace, Shared
    from agentsmith.trackers.http.connection import Connection

ENTRY_POINTS: Final = "agentsmith.forges"


@dataclass(frozen=True, slots=True)
class CodeHost:
    """A kind of code host: how a repository on it is configured, and how its forge is made."""

    settings: type[RepositorySettings]
    build: Callable[[str, Any, Shared], Forge]
    """Takes the repository's name, its settings (an instance of `settings`) and what replicas share about an API."""


class HostedCode(Protocol):
    """The settings of a repository that know how to make what they describe."""

    pace: ClassVar[Pace]
    """How patient its API wants us to be."""

    def open(self, name: str, connection: Connection) -> Forge:
        """The forge; nothing is asked of it yet."""


def _open(name: str, settings: HostedCode, shared: Shared) -> Forge:
    from agentsmith.trackers.http.connection import connect

    return settings.open(name, connect(shared, settings.pace))


def _open_git(name: str, settings: GitRepository, _: Shared) -> Forge:
    return settings.open(name)


@cache
def _azure_repos() -> CodeHost:
    from agentsmith.trackers.azuredevops.settings import AzureRepository

    return CodeHost(AzureRepository, _open)


@cache
def _git() -> CodeHost:
    from agentsmith.trackers.git.settings import GitRepository

    return CodeHost(GitRepository, _open_git)


@cache
def _github() -> CodeHost:
    from agentsmith.trackers.github.settings import GitHubRepository

    return CodeHost(GitHubRepository, _open)


@cache
def _gitlab() -> CodeHost:
    from agentsmith.trackers.gitlab.settings import GitLabRepository

    return CodeHost(GitLabRepository, _open)


BUILT_IN: Final[Mapping[str, Callable[[], CodeHost]]] = {
    "azure-devops": _azure_repos,
    "git": _git,
    "github": _github,
    "gitlab": _gitlab,
}
_CODE_HOSTS: Final = Offers(CodeHost, ENTRY_POINTS, "code host", BUILT_IN)
_SETTINGS: Final = SettingsOf(_CODE_HOSTS)


def code_hosts() -> Mapping[str, CodeHost]:
    """Every code host by name, those of installed packages included; a built-in name cannot be taken."""
    return _CODE_HOSTS


def settings_models() -> Mapping[str, type[RepositorySettings]]:
    """How each kind of repository is configured: what reading a configuration needs."""
    return _SETTINGS


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
