"""Jira's credentials: email and API token on Cloud, a personal access token on Data Center."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from agentsmith.domain.errors import ConfigError


class Login:
    """A token that is given and cannot be renewed; with an email it travels as Basic, without as Bearer."""

    def __init__(self, token: str, *, host: str, email: str | None = None) -> None:
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError("the Jira token holds characters that no token has; was it copied whole?")
        if email is not None and (":" in email or not email.isprintable() or not email.strip()):
            raise ConfigError("the email of a Jira account holds no colon and no control characters")
        self._token = token
        self._packed = "" if email is None else base64.b64encode(f"{email}:{token}".encode()).decode()
        self.name = f"{host}:{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    async def headers(self) -> Mapping[str, str]:
        """The header that authenticates."""
        return {"Authorization": f"Basic {self._packed}" if self._packed else f"Bearer {self._token}"}

    async def renew(self, refused: Mapping[str, str], *, server_time: float | None) -> bool:  # noqa: ARG002
        """A given token cannot be renewed."""
        return False

    def secrets(self) -> tuple[str, ...]:
        """The token, plain and as it travels."""
        return (self._token, self._packed) if self._packed else (self._token,)
