"""What the HTTP layer needs of a credential, and what all tokens have in common; each platform has its own."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

from agentsmith.domain.errors import ConfigError


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


class GivenToken(ABC):
    """A token that somebody gave us, and that cannot be renewed."""

    def __init__(self, token: str, *, host: str, platform: str) -> None:
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError(f"the {platform} token holds characters that no token has; was it copied whole?")
        self.token = token
        self.name = f"{host}:{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    @abstractmethod
    async def headers(self) -> Mapping[str, str]:
        """The headers that authenticate."""

    async def renew(self, refused: Mapping[str, str], *, server_time: float | None) -> bool:  # noqa: ARG002
        """A given token cannot be renewed."""
        return False

    def secrets(self) -> tuple[str, ...]:
        """The token."""
        return (self.token,)
