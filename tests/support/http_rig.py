"""An ApiClient on a clock that only sleeping moves, for tests that look at waits instead of waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from agentsmith.trackers.github.dialect import GITHUB
from agentsmith.trackers.http import ApiClient, Dialect, LocalEtags, LocalGovernor, LocalLedger, Pace, Shared

BASE: Final = "https://api.example/v1"
SECRET: Final = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
EPOCH: Final = 1_800_000_000.0


@dataclass
class Clock:
    """Starts at 0; `sleep` moves it on and takes no time."""

    at: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        """The boot-time clock."""
        return self.at

    def wall(self) -> float:
        """Seconds since the epoch."""
        return EPOCH + self.at

    async def sleep(self, seconds: float) -> None:
        """Move on."""
        self.slept.append(seconds)
        self.at += seconds


@dataclass
class Login:
    """A credential that can be renewed as often as `spare` has tokens."""

    token: str = SECRET
    spare: list[str] = field(default_factory=list)
    name: str = "tester"
    renewals: list[float | None] = field(default_factory=list)

    async def headers(self) -> Mapping[str, str]:
        """The token of now."""
        return {"Authorization": f"Bearer {self.token}"}

    async def renew(self, refused: Mapping[str, str], *, server_time: float | None) -> bool:
        """The next token, if there is one."""
        assert refused == {"Authorization": f"Bearer {self.token}"}
        self.renewals.append(server_time)
        if not self.spare:
            return False
        self.token = self.spare.pop(0)
        return True

    def secrets(self) -> tuple[str, ...]:
        """The token."""
        return (self.token,)


class Rig:
    """A client with everything around it within reach."""

    def __init__(
        self,
        *,
        login: Login | None = None,
        spacing: float = 0.0,
        shared: Shared | None = None,
        dialect: Dialect = GITHUB,
        **pace: Any,
    ) -> None:
        self.clock = Clock()
        self.login = login or Login()
        self.governor = LocalGovernor(self.clock.wall)
        self.ledger = LocalLedger(self.clock.wall)
        self.shared = shared or Shared(self.governor, LocalEtags(), self.ledger)
        self.http = httpx.AsyncClient()
        self.client = ApiClient(
            self.http,
            base_url=BASE,
            dialect=dialect,
            credential=self.login,
            shared=self.shared,
            write_spacing=spacing,
            pace=Pace(now=self.clock.now, sleep=self.clock.sleep, chance=lambda: 1.0, **pace),
        )

    async def aclose(self) -> None:
        """Close the pool."""
        await self.http.aclose()
