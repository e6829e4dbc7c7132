"""What the configuration says about a GitLab tracker, and about the repository of a GitLab project."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, SecretStr, WithJsonSchema, field_validator

from agentsmith.config import RepositorySettings, TrackerSettings
from agentsmith.config.durations import Grace
from agentsmith.config.names import Secret
from agentsmith.config.section import Section
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.trackers.gitlab.auth import Token, TokenHeader
from agentsmith.trackers.gitlab.dialect import DIALECT
from agentsmith.trackers.gitlab.forge import GitLabForge
from agentsmith.trackers.gitlab.site import GITLAB, Site
from agentsmith.trackers.gitlab.spelling import LabelStyle, Spelling
from agentsmith.trackers.gitlab.tracker import TRUST_READS, GitLabTracker
from agentsmith.trackers.gitlab.webhook import SIGNING, GitLabWebhooks, signing_key
from agentsmith.trackers.http import Pace
from agentsmith.trackers.http.connection import Connection


def _as_text(value: object) -> object:
    """An id may be written as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Project = Annotated[
    str,
    BeforeValidator(_as_text),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]}),
]


class _OnGitLab(Section):
    """Where a project is, and the access token that reaches it."""

    pace: ClassVar[Pace] = Pace()

    project: Project
    """The path with all its groups, `acme/apps/web`, or the id."""
    token: Secret
    """A personal, project or group access token with the scope `api`: for tickets at least Planner or Reporter, for
    code Developer."""
    token_header: TokenHeader = TokenHeader.PRIVATE
    """`bearer` for an OAuth token; access tokens work either way."""
    base_url: str = GITLAB
    """The API root; `https://HOST/api/v4` for a GitLab of your own. Nothing is appended but paths."""

    @field_validator("project")
    @classmethod
    def _a_project(cls, project: str) -> str:
        return Site(project.strip("/")).project

    @field_validator("base_url")
    @classmethod
    def _an_api_root(cls, url: str) -> str:
        return Site("1", url).base_url.rstrip("/")

    @cached_property
    def site(self) -> Site:
        """Where the project is; one object for all, so that the webhooks' reader knows what the tracker learns."""
        return Site(self.project, self.base_url)

    def login(self) -> Token:
        """The credential."""
        return Token(self.token.get_secret_value(), host=self.site.host, header=self.token_header)


class GitLabRepository(_OnGitLab, RepositorySettings):
    """The repository of a project on gitlab.com or on a GitLab of your own, and its merge requests."""

    platform: Literal["gitlab"]

    @field_validator("project")
    @classmethod
    def _a_path(cls, project: str) -> str:
        if not Site(project).named:
            raise ValueError("must be the path with all its groups, like acme/apps/web: git finds no project by its id")
        return project

    def open(self, name: str, connection: Connection) -> GitLabForge:
        """The forge that these settings describe; nothing is asked of it yet."""
        return GitLabForge(name, self.site, self.login(), connection)


class GitLabSettings(_OnGitLab, TrackerSettings):
    """A project on gitlab.com or on a GitLab of your own, reached with an access token."""

    case_counts: ClassVar[bool] = True
    unsupported_filters: ClassVar[frozenset[str]] = frozenset({"component"})

    platform: Literal["gitlab"]
    label_style: LabelStyle = LabelStyle.PLAIN
    """`scoped` writes `agent-smith::done`, which excludes its siblings on paid tiers."""
    trust_reads: Grace = Grace(TRUST_READS)
    """How old a read may be for a label write to start from it; 0s looks again before every claim and start."""

    @field_validator("webhook_secret")
    @classmethod
    def _whole_signing_tokens(cls, secrets: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for secret in secrets:
            if secret.get_secret_value().startswith(SIGNING):
                signing_key(secret.get_secret_value())
        return secrets

    def own_repository(self) -> GitLabRepository | None:
        """The issues and the code are in one project; of one that is known by its id only, git finds no code."""
        if not self.site.named:
            return None
        return GitLabRepository(
            platform="gitlab",
            project=self.project,
            token=self.token,
            token_header=self.token_header,
            base_url=self.base_url,
        )

    def project_identity(self) -> str:
        """`gitlab.com/acme/web`: the same as the tracker's `project`, and the first part of every ticket id."""
        return self.site.canonical

    def webhooks(self) -> GitLabWebhooks | None:
        """Who reads the project's webhooks; None where nothing could be verified (it fails closed)."""
        secrets = self.webhook_secrets()
        return GitLabWebhooks(self.site, secrets) if secrets or self.insecure else None

    def open(self, name: str, labels: LabelSet, connection: Connection) -> GitLabTracker:
        """The tracker that these settings describe; nothing is asked of it yet."""
        client = connection.client(self.site.base_url, DIALECT, self.login())
        spelling = Spelling(labels, self.label_style)
        return GitLabTracker(name, spelling, self.site, client, connection, trust_reads=self.trust_reads)
