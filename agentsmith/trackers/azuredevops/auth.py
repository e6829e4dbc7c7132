"""Azure DevOps' credentials: a personal access token, or a bearer token of Microsoft Entra."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from agentsmith.domain.errors import ConfigError


class Token:
    """A token that is given: sent as the password of nobody (PAT), or as a bearer (Entra)."""

    def __init__(self, token: str, *, host: str, bearer: bool = False) -> None:
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            raise ConfigError("the Azure DevOps token holds characters that no token has; was it copied whole?")
        self._token = token
        self._packed = base64.b64encode(f":{token}".encode()).decode()
        self._bearer = bearer
        self.name = f"{host}:{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    @property
    def token(self) -> str:
        """The token itself."""
        return self._token

    async def headers(self) -> Mapping[str, str]:
        """The token as it is."""
        return {"Authorization": f"Bearer {self._token}" if self._bearer else f"Basic {self._packed}"}

    async def renew(self, refused: Mapping[str, str], *, server_time: float | None) -> bool:  # noqa: ARG002
        """A given token cannot be renewed."""
        return False

    def secrets(self) -> tuple[str, ...]:
        """The token, bare and as it is sent."""
        return (self._token, self._packed)
