"""What the configuration says about an Azure DevOps tracker, and about a repository in Azure Repos."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from agentsmith.config import RepositorySettings, TrackerSettings
from agentsmith.config.names import Secret
from agentsmith.config.section import Section
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.trackers.azuredevops.auth import Token
from agentsmith.trackers.azuredevops.comment_format import Format
from agentsmith.trackers.azuredevops.dialect import AZURE_DEVOPS
from agentsmith.trackers.azuredevops.forge import AzureForge
from agentsmith.trackers.azuredevops.site import AZURE, Site
from agentsmith.trackers.azuredevops.sticky import COMMENTS_VERSION
from agentsmith.trackers.azuredevops.tracker import AzureDevOpsTracker, Options
from agentsmith.trackers.azuredevops.webhook import AzureDevOpsWebhooks
from agentsmith.trackers.http import Pace
from agentsmith.trackers.http.connection import Connection

_ILLEGAL: Final = re.compile(r"[\x00-\x1f\\/:*?\"<>|;#$&{},+=\[\]%~^]")


def _a_repository(name: str) -> str:
    if not name.strip() or len(name) > 64 or _ILLEGAL.search(name) or name.startswith((".", "_", "-")):
        raise ValueError("must be the name of a git repository in the project, like web")
    return name


class _OnAzure(Section):
    """Where a project is, and the token that reaches it."""

    pace: ClassVar[Pace] = Pace(attempt=60.0, call=60.0)
    """Under load answers come up to half a minute late before any is refused."""

    organization: str
    """`acme` in https://dev.azure.com/acme; on a Server the name of the collection."""
    project: str
    token: Secret
    """A personal access token with "Work Items (Read & Write)", for code also with "Code (Read & Write)"; or a bearer
    token of Microsoft Entra."""
    auth: Literal["pat", "bearer"] = "pat"
    """How the token is sent: `pat` for a personal access token, `bearer` for one of Microsoft Entra."""
    base_url: str = AZURE
    """The address before the organization; `https://HOST/tfs` for a Server. Nothing is appended but paths."""
    repository: Annotated[str, AfterValidator(_a_repository)] | None = None
    """The git repository in the project; None means the one that is called like the project."""

    @field_validator("organization")
    @classmethod
    def _an_organization(cls, name: str) -> str:
        return Site(name, "a").organization

    @field_validator("project")
    @classmethod
    def _a_project(cls, name: str) -> str:
        return Site("a", name).project

    @field_validator("base_url")
    @classmethod
    def _a_root(cls, url: str) -> str:
        return Site("a", "b", url).base_url.rstrip("/")

    @model_validator(mode="after")
    def _not_twice(self) -> Self:
        if self.base_url.lower().endswith(f"/{self.organization.lower()}"):
            raise ValueError("base_url ends with the organization; leave it out there, it is added")
        return self

    @cached_property
    def site(self) -> Site:
        """Where the project is; one object for all, so that the webhooks' reader knows what the tracker learns."""
        return Site(self.organization, self.project, self.base_url)

    def login(self) -> Token:
        """The credential."""
        return Token(self.token.get_secret_value(), host=self.site.host, bearer=self.auth == "bearer")


class AzureRepository(_OnAzure, RepositorySettings):
    """A git repository in Azure Repos, and its pull requests."""

    platform: Literal["azure-devops"]

    def open(self, name: str, connection: Connection) -> AzureForge:
        """The forge that these settings describe; nothing is asked of it yet."""
        return AzureForge(name, self.site, self.repository or self.project, self.login(), connection)


class AzureDevOpsSettings(_OnAzure, TrackerSettings):
    """A project on Azure DevOps Services or on a Server, reached with a personal access token or an Entra token."""

    platform: Literal["azure-devops"]
    teams: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Whose members may write, by name; none named means every team of the project."""
    comment_format: Format = "markdown"
    """`html` for a Server, which knows no Markdown in comments."""
    comments_api: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+-preview(\.[0-9]+)?$")] = COMMENTS_VERSION
    """The version of the comments API; Server 2022 needs `7.0-preview.3`."""

    def own_repository(self) -> AzureRepository:
        """A project has its work items and its repositories; one token serves both."""
        return AzureRepository(
            platform="azure-devops",
            organization=self.organization,
            project=self.project,
            token=self.token,
            auth=self.auth,
            base_url=self.base_url,
            repository=self.repository,
        )

    def project_identity(self) -> str:
        """`dev.azure.com/acme/web`: the same as the tracker's `project`, and the first part of every ticket id."""
        return self.site.canonical

    def webhooks(self) -> AzureDevOpsWebhooks | None:
        """Who reads the project's service hooks; None where nothing could be verified (it fails closed)."""
        secrets = self.webhook_secrets()
        return AzureDevOpsWebhooks(self.site, secrets) if secrets or self.insecure else None

    def open(self, name: str, labels: LabelSet, connection: Connection) -> AzureDevOpsTracker:
        """The tracker that these settings describe; nothing is asked of it yet."""
        client = connection.client(self.site.base_url, AZURE_DEVOPS, self.login())
        options = Options(frozenset(self.teams), self.comment_format, self.comments_api)
        return AzureDevOpsTracker(name, labels, self.site, client, connection, options)
