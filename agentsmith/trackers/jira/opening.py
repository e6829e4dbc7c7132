"""Puts a Jira tracker together: credential, client, tracker. The only place that knows all of them."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.trackers.http import ApiClient, Pace, Shared, open_http
from agentsmith.trackers.jira.auth import Login
from agentsmith.trackers.jira.dialect import DIALECT
from agentsmith.trackers.jira.listing import PAGE_SIZE
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.jira.tracker import BLOCKS, TRUST_READS, JiraTracker


def open_tracker(
    *,
    name: str,
    site: Site,
    labels: LabelSet,
    token: str,
    email: str | None,
    shared: Shared,
    statuses: Mapping[Status, str] | None = None,
    link_type: str = BLOCKS,
    quiet: bool = True,
    trust_reads: float = TRUST_READS,
    pace: Pace | None = None,
    http: httpx.AsyncClient | None = None,
    page_size: int = PAGE_SIZE,
    secret_in_path: bool = False,
) -> JiraTracker:
    """A tracker that owns its connections; without an email the token travels as a bearer. Nothing is asked yet."""
    pool = http or open_http()
    pace = pace or Pace()
    client = ApiClient(
        pool,
        base_url=site.base_url,
        dialect=DIALECT,
        credential=Login(token, host=site.host, email=email),
        shared=shared,
        pace=pace,
    )
    return JiraTracker(
        name=name,
        site=site,
        labels=labels,
        client=client,
        lock=shared.label_lock,
        statuses=statuses,
        link_type=link_type,
        quiet=quiet,
        http=pool,
        trust_reads=trust_reads,
        page_size=page_size,
        secret_in_path=secret_in_path,
        now=pace.now,
    )
