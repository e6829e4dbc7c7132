"""What the HTTP layer needs of a credential; each platform has its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Credential(Protocol):
    """Gives the headers that authenticate a request, and can get new ones where the platform allows it."""

    @property
    def name(self) -> str:
        """Tells credentials apart in counters, caches and logs; holds no secret and outlives a renewal."""

    async def headers(self) -> Mapping[str, str]:
        """The headers for the next request; may ask the platform for a token first."""

    async def renew(self, refused: Mapping[str, str], *, server_time: float | None) -> bool:
        """The platform answered 401 to `refused`: whether `headers` will now give something better."""

    def secrets(self) -> tuple[str, ...]:
        """Every text that must never be shown."""
