"""How we log in to GitHub: with a token or as a GitHub App, and the clients that do so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from agentsmith.trackers.github.auth import AppKey, Installation, Token
from agentsmith.trackers.github.dialect import GITHUB
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.http.connection import Connection

PUBLIC_SPACING: Final = 1.0
"""Seconds between two writes that github.com asks for; other servers set no such limit."""


@dataclass(frozen=True, slots=True)
class AppLogin:
    """How a GitHub App authenticates: `app` is its client id (or its number)."""

    app: str
    installation: str
    private_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Clients:
    """Who speaks to GitHub, and with which credential."""

    client: ApiClient
    credential: Token | Installation
    as_app: ApiClient | None = None
    """Speaks for the GitHub App itself, where the credential is one of its installations."""


def log_in(site: Site, login: str | AppLogin, connection: Connection, *, write_spacing: float | None = None) -> Clients:
    """The clients; `login` is a token or an App. Nothing is asked of GitHub yet."""
    spacing = (PUBLIC_SPACING if site.public else 0.0) if write_spacing is None else write_spacing
    as_app: ApiClient | None = None
    credential: Token | Installation
    if isinstance(login, AppLogin):
        # Tokens are no content: fetching one need not wait its turn behind the writes.
        key = AppKey(login.app, login.private_key, host=site.api_host)
        as_app = connection.client(site.base_url, GITHUB, key)
        now = connection.pace.now
        credential = Installation(as_app, login.installation, app=login.app, host=site.api_host, now=now)
    else:
        credential = Token(login, host=site.api_host)
    return Clients(connection.client(site.base_url, GITHUB, credential, write_spacing=spacing), credential, as_app)
