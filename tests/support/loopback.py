"""Ways to a simulator on loopback."""

from __future__ import annotations

from typing import Final

import httpx

from agentsmith.trackers.http import Pace, Shared
from agentsmith.trackers.http.connection import Connection

FAST: Final = Pace(first_delay=0.001, longest_delay=0.002)


def to_loopback(shared: Shared | None = None, pace: Pace = FAST, page_size: int | None = None) -> Connection:
    """A connection of its own; there is no TLS on loopback, and loading certificates is slow."""
    http = httpx.AsyncClient(verify=False)  # noqa: S501
    return Connection(shared or Shared(), pace, http, page_size)
