"""GitHub's credentials: a token that is given, or a GitHub App that gets its tokens itself and renews them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from agentsmith.config.lacking import lacks_in
from agentsmith.domain.errors import ConfigError, Refused
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.payloads import InstallationToken
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.http.credentials import GivenToken
from agentsmith.trackers.http.dialect import http_date

RENEW_BEFORE: Final = 300.0
"""Seconds before its end that a token is replaced, so that no request carries one that dies on the way."""
_JWT_LIFE: Final = 540
_CLOCK_DRIFT: Final = 60


class Token(GivenToken):
    """A personal access token, classic or fine-grained."""

    def __init__(self, token: str, *, host: str) -> None:
        super().__init__(token, host=host, platform="GitHub")

    async def fresh(self) -> str:
        """The token as it is."""
        return self.token

    async def headers(self) -> Mapping[str, str]:
        """The token as requests carry it."""
        return {"Authorization": f"Bearer {self.token}"}


class AppKey:
    """A GitHub App speaking for itself: signs a short-lived JWT for each request."""

    def __init__(self, app: str, private_key: str, *, host: str, clock: Callable[[], float] = time.time) -> None:
        self._app = app
        self._key = private_key
        self._clock = clock
        self._drift = 0.0
        self._last = ""
        self.name = f"{host}:app-{app}"
        if not lacks_in(private_key):
            self._sign()  # a key that is none should be heard of at start-up

    async def headers(self) -> Mapping[str, str]:
        """A fresh JWT."""
        self._last = self._sign()
        return {"Authorization": f"Bearer {self._last}"}

    async def renew(self, refused: Mapping[str, str], *, server_time: float | None) -> bool:  # noqa: ARG002
        """A JWT is refused when our clock is wrong: take GitHub's time, once, and sign again."""
        if server_time is None or abs(server_time - self._clock() - self._drift) < _CLOCK_DRIFT / 2:
            return False
        self._drift = server_time - self._clock()
        return True

    def secrets(self) -> tuple[str, ...]:
        """The key and the last JWT."""
        return (self._key, self._last)

    def _sign(self) -> str:
        import jwt  # slow to import, and most log in with a token

        now = int(self._clock() + self._drift)
        claims = {"iat": now - _CLOCK_DRIFT, "exp": now + _JWT_LIFE, "iss": self._app}
        try:
            return jwt.encode(claims, self._key, algorithm="RS256")
        except (ValueError, TypeError, AttributeError, jwt.PyJWTError):
            raise ConfigError(
                "the GitHub App's private key cannot be used; it must be an RSA key in PEM form"
            ) from None


class Installation:
    """One installation of a GitHub App: its tokens last an hour, and a new one is fetched before that."""

    def __init__(self, as_app: ApiClient, installation: str, *, app: str, host: str, now: Callable[[], float]) -> None:
        self._as_app = as_app
        self._installation = installation
        self._now = now
        self._token = ""
        self._former = ""
        self._until = 0.0
        self._fetching = asyncio.Lock()
        self.name = f"{host}:app-{app}-installation-{installation}"

    async def fresh(self) -> str:
        """The installation's token; whoever comes while a new one is fetched waits for that one."""
        async with self._fetching:
            if not self._token or self._now() >= self._until:
                await self._fetch()
            return self._token

    async def headers(self) -> Mapping[str, str]:
        """The token as requests carry it."""
        return {"Authorization": f"Bearer {await self.fresh()}"}

    async def renew(self, refused: Mapping[str, str], *, server_time: float | None) -> bool:  # noqa: ARG002
        """Drop the token that was refused; another request may have replaced it already."""
        async with self._fetching:
            if refused.get("Authorization") == f"Bearer {self._token}":
                self._former, self._token = self._token, ""
        return True

    def secrets(self) -> tuple[str, ...]:
        """The token in use and the one before it."""
        return (self._token, self._former)

    async def _fetch(self) -> None:
        path = f"/app/installations/{self._installation}/access_tokens"
        # An installation may have any number of tokens: asking twice does no harm.
        answer = await self._as_app.write("POST", path, {}, repeatable=True, missing=Refused)
        got: InstallationToken = payloads.read(InstallationToken, answer.data, "an access token")
        # GitHub's clock on both sides, so that ours may be wrong.
        server = http_date(answer.headers)
        life = got.expires_at.timestamp() - (time.time() if server is None else server)
        self._former, self._token = self._token, got.token
        self._until = self._now() + max(life - RENEW_BEFORE, life / 2)
