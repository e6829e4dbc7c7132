"""The connections: one pool per tracker, kept open between requests."""

from __future__ import annotations

import httpx


def open_http(*, connections: int = 10) -> httpx.AsyncClient:
    """A pool that follows no redirects by itself and times out on its own; the caller closes it."""
    return httpx.AsyncClient(
        follow_redirects=False,
        timeout=httpx.Timeout(30.0, connect=10.0),
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
    )
