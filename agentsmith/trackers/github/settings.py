"""What the configuration says about a GitHub tracker, and about a repository on GitHub."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from agentsmith.config import Duration, RepositorySettings, TrackerSettings
from agentsmith.config.names import Secret
from agentsmith.config.section import Section
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.trackers.github.forge import GitHubForge
from agentsmith.trackers.github.login import AppLogin, Clients, log_in
from agentsmith.trackers.github.site import GITHUB, Site
from agentsmith.trackers.github.tracker import GitHubTracker
from agentsmith.trackers.github.webhook import GitHubWebhooks
from agentsmith.trackers.http import Pace
from agentsmith.trackers.http.connection import Connection

Number = Annotated[int, Field(ge=1)]


class App(Section):
    """A GitHub App: its id, where it is installed, and its key, which is given or lies in a file."""

    id: Number | None = None
    client_id: Annotated[str, Field(min_length=1)] | None = None
    installation_id: Number
    private_key: Secret | None = None
    private_key_path: Path | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.id is None) == (self.client_id is None):
            raise ValueError("needs either client_id or id; GitHub shows both on the App's page")
        if (self.private_key is None) == (self.private_key_path is None):
            raise ValueError("needs either private_key or private_key_path")
        return self

    def login(self) -> AppLogin:
        """The same with the key read; raises ConfigError when the file cannot be."""
        return AppLogin(self.client_id or str(self.id), str(self.installation_id), self._key())

    def _key(self) -> str:
        if self.private_key is not None:
            # A key in the environment often has its line ends written as \n.
            return self.private_key.get_secret_value().replace("\\n", "\n")
        path = (self.private_key_path or Path()).expanduser()
        try:
            return path.read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise ConfigError(f"the GitHub App's private key {path} cannot be read: {reason}") from None


class _OnGitHub(Section):
    """Where a repository is, and how it is reached: with a token or as a GitHub App."""

    pace: ClassVar[Pace] = Pace()

    repository: str
    """`owner/name`."""
    token: Secret | None = None
    """A personal access token that may write issues, for code also contents and pull requests."""
    app: App | None = None
    base_url: str = GITHUB
    """The API root; `https://HOST/api/v3` for an Enterprise Server. Nothing is appended but paths."""
    write_spacing: Duration | None = None
    """The least time between two writes; None means 1s on github.com and none elsewhere."""

    @field_validator("repository")
    @classmethod
    def _a_repository(cls, repository: str) -> str:
        return Site(repository).repository

    @field_validator("base_url")
    @classmethod
    def _an_api_root(cls, url: str) -> str:
        return Site("a/b", url).base_url.rstrip("/")

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        if (self.token is None) == (self.app is None):
            raise ValueError("needs either a token or an app")
        return self

    @cached_property
    def site(self) -> Site:
        """Where the repository is; one object for all, so that the webhooks' reader knows what the tracker learns."""
        return Site(self.repository, self.base_url)

    def clients(self, connection: Connection) -> Clients:
        """Who speaks to GitHub; raises ConfigError when an App's key cannot be read."""
        token = self.token.get_secret_value() if self.token else ""
        login = token if self.app is None else self.app.login()
        return log_in(self.site, login, connection, write_spacing=self.write_spacing)


class GitHubRepository(_OnGitHub, RepositorySettings):
    """A repository on github.com or on an Enterprise Server: its code and its pull requests."""

    platform: Literal["github"]

    def open(self, name: str, connection: Connection) -> GitHubForge:
        """The forge that these settings describe; nothing is asked of it yet."""
        return GitHubForge(name, self.site, self.clients(connection), connection)


class GitHubSettings(_OnGitHub, TrackerSettings):
    """A repository on github.com or on an Enterprise Server, reached with a token or as a GitHub App."""

    unsupported_filters: ClassVar[frozenset[str]] = frozenset({"component"})
    idle_stretch: ClassVar[float] = 1.0
    """An unchanged list is answered with 304, which costs no quota."""

    platform: Literal["github"]
    strict: bool = False
    """Guard claims by a git ref as well; for installations that share a repository but no Redis."""

    def own_repository(self) -> GitHubRepository:
        """The issues and the code are in one repository, and one credential serves both."""
        return GitHubRepository(
            platform="github",
            repository=self.repository,
            token=self.token,
            app=self.app,
            base_url=self.base_url,
            write_spacing=self.write_spacing,
        )

    def project_identity(self) -> str:
        """`github.com/acme/web`: the same as the tracker's `project`, and the first part of every ticket id."""
        return self.site.canonical

    def webhooks(self) -> GitHubWebhooks | None:
        """Who reads the repository's webhooks; None where nothing could be verified (it fails closed)."""
        secrets = self.webhook_secrets()
        return GitHubWebhooks(self.site, secrets) if secrets or self.insecure else None

    def open(self, name: str, labels: LabelSet, connection: Connection) -> GitHubTracker:
        """The tracker that these settings describe; nothing is asked of it yet."""
        return GitHubTracker(name, labels, self.site, self.clients(connection), connection, strict=self.strict)
