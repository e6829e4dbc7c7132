"""Two small platforms for tests of the configuration, which itself knows none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from agentsmith.config import Config, Duration, TrackerSettings, load


class Local(TrackerSettings):
    """As small as a platform can be."""

    platform: str = "local"
    project: str = "tickets"
    path: Path | None = None
    poll_interval: Duration = Duration(2)

    def project_identity(self) -> str:
        """The project alone."""
        return f"local/{self.project}"


class Hosted(TrackerSettings):
    """With a credential, like all that are reached over the network."""

    repository: str
    token: SecretStr
    base_url: str = "https://api.example"
    email: str | None = None
    project: str | None = None

    def project_identity(self) -> str:
        """Spelled in small letters, as hosts do."""
        return f"example/{self.repository.lower()}"


PLATFORMS: Final[Mapping[str, type[TrackerSettings]]] = {"local": Local, "github": Hosted}
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
    return load(file, platforms=PLATFORMS, environ={**HOME, **(environ or {})}, flags=flags)
