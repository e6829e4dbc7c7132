"""How a tracker or a forge reaches its API: what replicas share, how patient we are, and the pool of connections."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from agentsmith.trackers.http.calls import Pace
from agentsmith.trackers.http.client import ApiClient
from agentsmith.trackers.http.credentials import Credential
from agentsmith.trackers.http.dialect import Dialect
from agentsmith.trackers.http.shared import Shared
from agentsmith.trackers.http.transport import open_http


@dataclass(frozen=True, slots=True)
class Connection:
    """The way to one API. Whoever is opened with it closes its pool."""

    shared: Shared
    pace: Pace
    http: httpx.AsyncClient
    page_size: int | None = None
    """Makes all pages small, for tests; None: as large as the platform allows."""

    def client(
        self, base_url: str, dialect: Dialect, credential: Credential, *, write_spacing: float = 0.0
    ) -> ApiClient:
        """A client with one credential; several may share the pool."""
        return ApiClient(
            self.http,
            base_url=base_url,
            dialect=dialect,
            credential=credential,
            shared=self.shared,
            write_spacing=write_spacing,
            pace=self.pace,
        )


def connect(shared: Shared, pace: Pace | None = None) -> Connection:
    """A way with a pool of its own. Nothing is asked yet."""
    pace = pace or Pace()
    return Connection(shared, pace, open_http(patience=pace.attempt))
