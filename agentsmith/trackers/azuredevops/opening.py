"""Puts an Azure DevOps tracker or forge together: credential, client, and what they serve. Nobody else knows all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import httpx

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.trackers.azuredevops.auth import Token
from agentsmith.trackers.azuredevops.dialect import AZURE_DEVOPS
from agentsmith.trackers.azuredevops.forge import AzureForge
from agentsmith.trackers.azuredevops.form import Format
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.azuredevops.sticky import COMMENTS_VERSION
from agentsmith.trackers.azuredevops.tracker import AzureDevOpsTracker
from agentsmith.trackers.http import ApiClient, Pace, Shared, open_http

Auth = Literal["pat", "bearer"]

PATIENCE: Final = 60.0
"""Seconds that one request may take: under load answers come up to half a minute late before any is refused."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A way to Azure DevOps: connections, the credential, and who speaks with it."""

    pool: httpx.AsyncClient
    pace: Pace
    credential: Token
    client: ApiClient


def _open_line(
    site: Site, token: str, shared: Shared, *, auth: Auth, pace: Pace | None, http: httpx.AsyncClient | None
) -> _Line:
    pool = http or open_http()
    pool.timeout = httpx.Timeout(PATIENCE, connect=10.0)
    pace = replace(Pace(), attempt=PATIENCE, call=PATIENCE) if pace is None else pace
    credential = Token(token, host=site.host, bearer=auth == "bearer")
    client = ApiClient(
        pool, base_url=site.base_url, dialect=AZURE_DEVOPS, credential=credential, shared=shared, pace=pace
    )
    return _Line(pool, pace, credential, client)


def open_tracker(
    *,
    name: str,
    site: Site,
    labels: LabelSet,
    token: str,
    shared: Shared,
    auth: Auth = "pat",
    teams: frozenset[str] = frozenset(),
    comment_format: Format = "markdown",
    comments_version: str = COMMENTS_VERSION,
    pace: Pace | None = None,
    http: httpx.AsyncClient | None = None,
    page_size: int | None = None,
) -> AzureDevOpsTracker:
    """A tracker that owns its connections. Nothing is asked of Azure DevOps yet."""
    line = _open_line(site, token, shared, auth=auth, pace=pace, http=http)
    return AzureDevOpsTracker(
        name=name,
        site=site,
        labels=labels,
        client=line.client,
        pace=line.pace,
        http=line.pool,
        teams=teams,
        comment_format=comment_format,
        comments_version=comments_version,
        page_size=page_size,
    )


def open_forge(
    *,
    name: str,
    site: Site,
    repository: str,
    token: str,
    shared: Shared,
    auth: Auth = "pat",
    pace: Pace | None = None,
    http: httpx.AsyncClient | None = None,
) -> AzureForge:
    """A forge that owns its connections. Nothing is asked of Azure DevOps yet."""
    line = _open_line(site, token, shared, auth=auth, pace=pace, http=http)
    return AzureForge(
        name=name,
        site=site,
        repository=repository,
        client=line.client,
        token=line.credential.token,
        pace=line.pace,
        http=line.pool,
    )
