"""Azure DevOps' credentials: a personal access token, or a bearer token of Microsoft Entra."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from agentsmith.trackers.http.credentials import GivenToken


class Token(GivenToken):
    """Sent as the password of nobody (a personal access token), or as a bearer (Entra)."""

    def __init__(self, token: str, *, host: str, bearer: bool = False) -> None:
        super().__init__(token, host=host, platform="Azure DevOps")
        self._packed = base64.b64encode(f":{token}".encode()).decode()
        self._bearer = bearer

    async def headers(self) -> Mapping[str, str]:
        """The token as it travels."""
        return {"Authorization": f"Bearer {self.token}" if self._bearer else f"Basic {self._packed}"}

    def secrets(self) -> tuple[str, ...]:
        """The token, bare and as it is sent."""
        return (self.token, self._packed)
