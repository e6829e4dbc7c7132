"""Jira's credentials: email and API token on Cloud, a personal access token on Data Center."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from agentsmith.domain.errors import ConfigError
from agentsmith.trackers.http.credentials import GivenToken


class Login(GivenToken):
    """With an email the token travels as Basic, without as Bearer."""

    def __init__(self, token: str, *, host: str, email: str | None = None) -> None:
        super().__init__(token, host=host, platform="Jira")
        if email is not None and (":" in email or not email.isprintable() or not email.strip()):
            raise ConfigError("the email of a Jira account holds no colon and no control characters")
        self._packed = "" if email is None else base64.b64encode(f"{email}:{token}".encode()).decode()

    async def headers(self) -> Mapping[str, str]:
        """The header that authenticates."""
        return {"Authorization": f"Basic {self._packed}" if self._packed else f"Bearer {self.token}"}

    def secrets(self) -> tuple[str, ...]:
        """The token, plain and as it travels."""
        return (self.token, self._packed) if self._packed else (self.token,)
