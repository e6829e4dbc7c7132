"""Puts a GitHub tracker or forge together: credential, clients, and what they serve. The only place that knows all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import httpx

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.trackers.github.auth import AppKey, Installation, Token
from agentsmith.trackers.github.dialect import GITHUB
from agentsmith.trackers.github.forge import GitHubForge
from agentsmith.trackers.github.issues import PAGE_SIZE
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.github.tracker import GitHubTracker
from agentsmith.trackers.http import ApiClient, Credential, Pace, Shared, open_http

PUBLIC_SPACING: Final = 1.0
"""Seconds between two writes that github.com asks for; other servers set no such limit."""


@dataclass(frozen=True, slots=True)
class AppLogin:
    """How a GitHub App authenticates: `app` is its client id (or its number)."""

    app: str
    installation: str
    private_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Line:
    """A way to GitHub: connections, the credential, and who speaks with it."""

    pool: httpx.AsyncClient
    pace: Pace
    credential: Token | Installation
    client: ApiClient
    as_app: ApiClient | None


def _open_line(
    site: Site,
    login: str | AppLogin,
    shared: Shared,
    *,
    write_spacing: float | None,
    pace: Pace | None,
    http: httpx.AsyncClient | None,
) -> _Line:
    pool = http or open_http()
    pace = pace or Pace()
    spacing = (PUBLIC_SPACING if site.public else 0.0) if write_spacing is None else write_spacing

    def client(credential: Credential, spacing: float) -> ApiClient:
        return ApiClient(
            pool,
            base_url=site.base_url,
            dialect=GITHUB,
            credential=credential,
            shared=shared,
            write_spacing=spacing,
            pace=pace,
        )

    as_app: ApiClient | None = None
    credential: Token | Installation
    if isinstance(login, AppLogin):
        # Tokens are no content: fetching one need not wait its turn behind the writes.
        as_app = client(AppKey(login.app, login.private_key, host=site.api_host), 0.0)
        credential = Installation(as_app, login.installation, app=login.app, host=site.api_host, now=pace.now)
    else:
        credential = Token(login, host=site.api_host)
    return _Line(pool, pace, credential, client(credential, spacing), as_app)


def open_tracker(
    *,
    name: str,
    site: Site,
    labels: LabelSet,
    login: str | AppLogin,
    shared: Shared,
    strict: bool = False,
    write_spacing: float | None = None,
    pace: Pace | None = None,
    http: httpx.AsyncClient | None = None,
    page_size: int = PAGE_SIZE,
) -> GitHubTracker:
    """A tracker that owns its connections; `login` is a token or an App. Nothing is asked of GitHub yet."""
    line = _open_line(site, login, shared, write_spacing=write_spacing, pace=pace, http=http)
    return GitHubTracker(
        name=name,
        site=site,
        labels=labels,
        client=line.client,
        as_app=line.as_app,
        http=line.pool,
        strict=strict,
        page_size=page_size,
        now=line.pace.now,
    )


def open_forge(
    *,
    name: str,
    site: Site,
    login: str | AppLogin,
    shared: Shared,
    write_spacing: float | None = None,
    pace: Pace | None = None,
    http: httpx.AsyncClient | None = None,
) -> GitHubForge:
    """A forge that owns its connections. Nothing is asked of GitHub yet."""
    line = _open_line(site, login, shared, write_spacing=write_spacing, pace=pace, http=http)
    return GitHubForge(name=name, site=site, client=line.client, login=line.credential, pace=line.pace, http=line.pool)
