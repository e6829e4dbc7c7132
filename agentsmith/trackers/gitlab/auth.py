"""GitLab's credentials: an access token (personal, project or group), or an OAuth token."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from agentsmith.trackers.http.credentials import GivenToken


class TokenHeader(StrEnum):
    """How the token travels: access tokens in either header, OAuth tokens as a bearer only."""

    PRIVATE = "private-token"
    BEARER = "bearer"


class Token(GivenToken):
    """An access token."""

    def __init__(self, token: str, *, host: str, header: TokenHeader = TokenHeader.PRIVATE) -> None:
        super().__init__(token, host=host, platform="GitLab")
        self._header = header

    async def headers(self) -> Mapping[str, str]:
        """The token in its header."""
        if self._header is TokenHeader.BEARER:
            return {"Authorization": f"Bearer {self.token}"}
        return {"PRIVATE-TOKEN": self.token}
