"""Two small platforms and two code hosts for tests of the configuration, which itself knows none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from agentsmith.config import Config, Duration, RepositorySettings, TrackerSettings, load


class Local(TrackerSettings):
    """As small as a platform can be."""

    platform: str = "local"
    project: str = "tickets"
    path: Path | None = None
    poll_interval: Duration = Duration(2)

    def project_identity(self) -> str:
        """The project alone."""
        return f"local/{self.project}"


class Plain(RepositorySettings):
    """A repository that needs no more than an address."""

    url: str
    username: str = "git"
    token: SecretStr | None = None
    default_branch: str = "main"


class Project(RepositorySettings):
    """A repository behind an API."""

    project: str
    token: SecretStr


class Hosted(TrackerSettings):
    """With a credential, like all that are reached over the network."""

    repository: str
    token: SecretStr
    base_url: str = "https://api.example"
    email: str | None = None
    project: str | None = None

    def own_repository(self) -> RepositorySettings:
        """Tickets and code in one place."""
        return Project(platform="github", project=self.repository, token=self.token)

    def project_identity(self) -> str:
        """Spelled in small letters, as hosts do."""
        return f"example/{self.repository.lower()}"


PLATFORMS: Final[Mapping[str, type[TrackerSettings]]] = {"local": Local, "github": Hosted}
HOSTS: Final[Mapping[str, type[RepositorySettings]]] = {"git": Plain, "gitlab": Project}
HOME: Final = {"HOME": "/home/tester"}


def load_text(
    folder: Path,
    text: str | bytes,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration that a file with this text gives; the file is called agentsmith.yaml."""
    file = folder / "agentsmith.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(file, platforms=PLATFORMS, hosts=HOSTS, environ={**HOME, **(environ or {})}, flags=flags)
