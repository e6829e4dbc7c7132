"""Which platforms there are. Adding one is a folder and a line here, or a package with an entry point.

A package offers a platform by an entry point in the group `agentsmith.trackers` whose name is the platform and whose
object is a `Platform`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from agentsmith.config import Config, TrackerSettings
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.webhook import WebhookReader
from agentsmith.trackers.local.settings import LocalSettings
from agentsmith.trackers.shared.plugins import Offers, SettingsOf

if TYPE_CHECKING:
    from agentsmith.trackers.http import Pace, Shared
    from agentsmith.trackers.http.connection import Connection

ENTRY_POINTS: Final = "agentsmith.trackers"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a tracker may need to know beside its own settings."""

    data_dir: Path
    labels: LabelSet
    shared: Shared
    """What all replicas share about an API: rate governor, ETag cache, ledger, label lock."""


def _polled_only(_: TrackerSettings) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Platform:
    """A kind of tracker: how it is configured and how it is made."""

    settings: type[TrackerSettings]
    build: Callable[[str, Any, Surroundings], Tracker]
    """Takes the tracker's name, its settings (an instance of `settings`) and the surroundings."""
    webhooks: Callable[[Any], WebhookReader | None] = _polled_only
    """Who verifies and reads the tracker's webhooks; None when no secret is configured (it fails closed)."""

    @property
    def takes_webhooks(self) -> bool:
        """Whether the platform can tell us of changes, given a secret."""
        return self.webhooks is not _polled_only


class Hosted(Protocol):
    """The settings of a platform that is reached over HTTP: they know how to make what they describe."""

    pace: ClassVar[Pace]
    """How patient its API wants us to be."""

    def open(self, name: str, labels: LabelSet, connection: Connection) -> Tracker:
        """The tracker; nothing is asked of it yet."""

    def webhooks(self) -> WebhookReader | None:
        """Who reads its webhooks; None where nothing could be verified."""


def _local(name: str, settings: LocalSettings, around: Surroundings) -> Tracker:
    from agentsmith.trackers.local.tracker import LocalTracker

    path = settings.file(around.data_dir)
    return LocalTracker(name=name, path=path, project=settings.project, labels=around.labels)


def _open(name: str, settings: Hosted, around: Surroundings) -> Tracker:
    from agentsmith.trackers.http.connection import connect

    return settings.open(name, around.labels, connect(around.shared, settings.pace))


def _webhooks(settings: Hosted) -> WebhookReader | None:
    return settings.webhooks()


@cache
def _github() -> Platform:
    from agentsmith.trackers.github.settings import GitHubSettings

    return Platform(GitHubSettings, _open, _webhooks)


@cache
def _gitlab() -> Platform:
    from agentsmith.trackers.gitlab.settings import GitLabSettings

    return Platform(GitLabSettings, _open, _webhooks)


@cache
def _azure_devops() -> Platform:
    from agentsmith.trackers.azuredevops.settings import AzureDevOpsSettings

    return Platform(AzureDevOpsSettings, _open, _webhooks)


@cache
def _jira() -> Platform:
    from agentsmith.trackers.jira.settings import JiraSettings

    return Platform(JiraSettings, _open, _webhooks)


@cache
def _in_a_file() -> Platform:
    return Platform(LocalSettings, _local)


BUILT_IN: Final[Mapping[str, Callable[[], Platform]]] = {
    "github": _github,
    "gitlab": _gitlab,
    "azure-devops": _azure_devops,
    "jira": _jira,
    "local": _in_a_file,
}
_PLATFORMS: Final = Offers(Platform, ENTRY_POINTS, "tracker platform", BUILT_IN)
_SETTINGS: Final = SettingsOf(_PLATFORMS)


def platforms() -> Mapping[str, Platform]:
    """Every platform by name, those of installed packages included; a built-in name cannot be taken."""
    return _PLATFORMS


def settings_models() -> Mapping[str, type[TrackerSettings]]:
    """How each platform is configured: what reading a configuration needs."""
    return _SETTINGS


def webhook_readers(config: Config) -> dict[str, WebhookReader | None]:
    """Who reads each tracker's webhooks; None where they are refused."""
    known = platforms()
    return {name: known[s.platform].webhooks(s) for name, s in config.trackers.items()}


def build(config: Config, shared: Shared) -> dict[str, Tracker]:
    """Every configured tracker, by name."""
    known, around = platforms(), Surroundings(config.data_dir, config.labels, shared)
    return {name: known[s.platform].build(name, s, around) for name, s in config.trackers.items()}
