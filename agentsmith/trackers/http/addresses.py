"""Addresses of APIs: what can be one, and how their hosts are named. No I/O."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_root(url: str) -> bool:
    """Whether a URL can be the root of an API: paths are appended to it, so it has no query and no fragment."""
    root = urlsplit(url)
    return root.scheme in ("http", "https") and bool(root.hostname) and not root.query and not root.fragment


def host_of(url: str) -> str:
    """The host in lower case, with its port where that is unusual; tells installations apart."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}[parts.scheme]
    host = (parts.hostname or "").lower()
    return host if parts.port in (None, usual) else f"{host}:{parts.port}"
