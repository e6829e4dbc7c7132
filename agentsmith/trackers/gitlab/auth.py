"""GitLab's credentials: an access token (personal, project or group), or an OAuth token."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum

from agentsmith.domain.errors import ConfigError


class TokenHeader(StrEnum):
    """How the token travels: access tokens in either header, OAuth tokens as a bearer only."""

    PRIVATE = "private-token"
    BEARER = "bearer"


class Token:
    """A token that is given and cannot be renewed."""

    def __init__(self, token: str, *, host: str, header: TokenHeader = TokenHeader.PRIVATE) -> None:
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError("the GitLab token holds characters that no token has; was it copied whole?")
        self._token = token
        self._header = header
        self.name = f"{host}:{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    @property
    def token(self) -> str:
        """The token as it is."""
        return self._token

    async def headers(self) -> Mapping[str, str]:
        """The token in its header."""
        if self._header is TokenHeader.BEARER:
            return {"Authorization": f"Bearer {self._token}"}
        return {"PRIVATE-TOKEN": self._token}

    async def renew(self, refused: Mapping[str, str], *, server_time: float | None) -> bool:  # noqa: ARG002
        """A given token cannot be renewed."""
        return False

    def secrets(self) -> tuple[str, ...]:
        """The token."""
        return (self._token,)
