"""Puts a GitLab tracker or forge together: credential, client, and what they serve. The only place that knows all."""

from __future__ import annotations

import httpx

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.trackers.gitlab.auth import Token, TokenHeader
from agentsmith.trackers.gitlab.dialect import DIALECT
from agentsmith.trackers.gitlab.forge import GitLabForge
from agentsmith.trackers.gitlab.listing import PAGE_SIZE
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.spelling import LabelStyle
from agentsmith.trackers.gitlab.tracker import TRUST_READS, GitLabTracker
from agentsmith.trackers.http import ApiClient, Pace, Shared, open_http


def _client(site: Site, credential: Token, shared: Shared, pace: Pace, http: httpx.AsyncClient) -> ApiClient:
    return ApiClient(
        http,
        base_url=site.base_url,
        dialect=DIALECT,
        credential=credential,
        shared=shared,
        pace=pace,
    )


def open_tracker(
    *,
    name: str,
    site: Site,
    labels: LabelSet,
    token: str,
    shared: Shared,
    header: TokenHeader = TokenHeader.PRIVATE,
    style: LabelStyle = LabelStyle.PLAIN,
    trust_reads: float = TRUST_READS,
    pace: Pace | None = None,
    http: httpx.AsyncClient | None = None,
    page_size: int = PAGE_SIZE,
) -> GitLabTracker:
    """A tracker that owns its connections. Nothing is asked of GitLab yet."""
    pool = http or open_http()
    pace = pace or Pace()
    return GitLabTracker(
        name=name,
        site=site,
        labels=labels,
        client=_client(site, Token(token, host=site.host, header=header), shared, pace, pool),
        style=style,
        http=pool,
        trust_reads=trust_reads,
        page_size=page_size,
        now=pace.now,
    )


def open_forge(
    *,
    name: str,
    site: Site,
    token: str,
    shared: Shared,
    header: TokenHeader = TokenHeader.PRIVATE,
    pace: Pace | None = None,
    http: httpx.AsyncClient | None = None,
) -> GitLabForge:
    """A forge that owns its connections. Nothing is asked of GitLab yet."""
    pool = http or open_http()
    pace = pace or Pace()
    credential = Token(token, host=site.host, header=header)
    client = _client(site, credential, shared, pace, pool)
    return GitLabForge(name=name, site=site, client=client, token=credential.token, pace=pace, http=pool)
