"""What the configuration says about a Jira tracker."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from agentsmith.config import TrackerSettings
from agentsmith.config.durations import Grace
from agentsmith.config.names import Networks, Secret
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.trackers.http import Pace
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.jira.auth import Login
from agentsmith.trackers.jira.dialect import DIALECT
from agentsmith.trackers.jira.site import Deployment, Site
from agentsmith.trackers.jira.tracker import BLOCKS, TRUST_READS, JiraTracker, Options
from agentsmith.trackers.jira.webhook import JiraWebhooks

_API_ROOT: Final = re.compile(r"/rest/api/(?:2|3|latest)/?$")
Word = Annotated[str, Field(min_length=1, max_length=255)]


class JiraSettings(TrackerSettings):
    """A project on Jira Cloud, reached with email and API token, or on Data Center, with a personal access token."""

    case_counts: ClassVar[bool] = True
    pace: ClassVar[Pace] = Pace()

    platform: Literal["jira"]
    project: str
    """The project's key: `WEB`."""
    base_url: str
    """The site, `https://acme.atlassian.net` or `https://jira.example.com`; its API root, `…/rest/api/3`, is as good.
    A scoped API token goes through `https://api.atlassian.com/ex/jira/CLOUD-ID`: then set `web_url` as well."""
    web_url: str = ""
    """Where people see the site, if not at `base_url`; it names the tickets."""
    deployment: Deployment = Deployment.CLOUD
    """`cloud` or `data-center`."""
    email: str | None = None
    """The account of the API token; on Cloud only."""
    token: Secret
    """An API token (Cloud) or a personal access token (Data Center)."""
    mode: Literal["label", "status"] = "label"
    """`status` moves tickets through the project's workflow as well; the label stays beside it."""
    statuses: dict[Status, Word] = Field(default_factory=dict)
    """For `mode: status`: which status of the workflow (its name) or which transition (its id) shows ours."""
    blocking_link: Word = BLOCKS
    """What the site calls the type of link by which one ticket blocks another."""
    quiet: bool = True
    """Send no mail for our label changes and edited comments, where the account may ask for that."""
    webhook_addresses: Networks = ()
    """Where webhooks may come from that carry the secret in their address, for a Data Center that cannot sign; without
    any, only signed ones are taken."""
    trust_reads: Grace = Grace(TRUST_READS)
    """How old a read may be for a label write to start from it; 0s looks again before every claim and start."""

    @field_validator("project")
    @classmethod
    def _a_project(cls, project: str) -> str:
        return Site(project, "https://example.atlassian.net").project

    @field_validator("base_url", "web_url")
    @classmethod
    def _a_site(cls, url: str) -> str:
        return Site("A", _API_ROOT.sub("", url)).base_url.rstrip("/") if url else url

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.deployment is Deployment.CLOUD and not self.email:
            raise ValueError("needs the email of the account that the API token belongs to")
        if self.deployment is Deployment.DATA_CENTER and self.email:
            raise ValueError("takes no email: a personal access token of Data Center travels alone")
        if self.deployment is Deployment.CLOUD and self.webhook_addresses:
            raise ValueError("takes no webhook_addresses: Jira Cloud signs its webhooks")
        if (self.mode == "status") != bool(self.statuses):
            raise ValueError("mode: status and statuses belong together")
        return self

    @cached_property
    def site(self) -> Site:
        """Where the project is; one object for all, so that the webhooks' reader knows what the tracker learns."""
        return Site(self.project, self.base_url, self.deployment, self.web_url)

    def project_identity(self) -> str:
        """`acme.atlassian.net/WEB`: the same as the tracker's `project`."""
        return self.site.canonical

    def webhooks(self) -> JiraWebhooks | None:
        """Who reads the site's webhooks; None where nothing could be verified (it fails closed)."""
        secrets = self.webhook_secrets()
        return JiraWebhooks(self.site, secrets, self.webhook_addresses) if secrets or self.insecure else None

    def open(self, name: str, labels: LabelSet, connection: Connection) -> JiraTracker:
        """The tracker that these settings describe; nothing is asked of it yet."""
        login = Login(self.token.get_secret_value(), host=self.site.host, email=self.email)
        client = connection.client(self.site.base_url, DIALECT, login)
        options = Options(
            statuses=self.statuses,
            link_type=self.blocking_link,
            quiet=self.quiet,
            trust_reads=self.trust_reads,
            secret_in_path=bool(self.webhook_addresses),
        )
        return JiraTracker(name, labels, self.site, client, connection, options)
