"""The connections: one pool per tracker, kept open between requests."""

from __future__ import annotations

import os
import ssl
from functools import cache

import httpx


def open_http(*, patience: float = 30.0, connections: int = 10) -> httpx.AsyncClient:
    """A pool that follows no redirects by itself and waits `patience` seconds for an answer; the caller closes it."""
    return httpx.AsyncClient(
        verify=_trusting(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
        follow_redirects=False,
        timeout=httpx.Timeout(patience, connect=10.0),
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
    )


@cache
def _trusting(*_where: str | None) -> ssl.SSLContext:
    """Whom we trust, read once for all pools of a process: to read it took longer than the rest of a start.

    Where the certificates are, `httpx` sees for itself; it is named here so that another place is another answer.
    """
    return httpx.create_ssl_context()
