"""A real project under the conformance suite: people act through the platform's own API, with a credential of theirs.

Nothing is asked of the tracker under test but what the suite asks of it. What goes wrong, goes wrong in its connections
(`Tap`); the service itself is never harmed. Tickets that a test opened are closed at its end.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import httpx

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.frame import Simulator
from agentsmith.trackers.http import Pace, Shared
from tests.conformance.harness import Fault, Platform

PREFIX: Final = "AGENTSMITH_LIVE_"
FAULTS: Final = frozenset({Fault.UNAVAILABLE, Fault.UNREACHABLE, Fault.LOST_ANSWER})
Account = Mapping[str, str]


class Tap(httpx.AsyncHTTPTransport):
    """A connection that counts writes, and in which things go wrong on demand."""

    def __init__(self, asks: Callable[[str, str], bool]) -> None:
        super().__init__()
        self._asks = asks
        self.wrote = 0
        self.fault: Fault | None = None
        self.before_write: Callable[[], Awaitable[object]] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As in the base class, unless something goes wrong."""
        write = not self._asks(request.method, request.url.path)
        if write and self.before_write is not None:
            callback, self.before_write = self.before_write, None
            await callback()
        if self.fault is Fault.UNAVAILABLE:
            return httpx.Response(503, request=request, json={"message": "Service Unavailable"})
        if self.fault is Fault.UNREACHABLE:
            raise httpx.ReadError("the connection broke", request=request)
        response = await super().handle_async_request(request)
        self.wrote += write and response.is_success
        if write and self.fault is Fault.LOST_ANSWER:
            self.fault = None
            await response.aread()
            raise httpx.ReadError("the answer was lost", request=request)
        return response


class LivePlatform(Platform):
    """One project of a real account, and a person with an account of their own."""

    service: ClassVar[str]
    """The middle of the names of its environment variables: `GITHUB`."""
    needed: ClassVar[tuple[str, ...]]
    """What an account must have, as the names of its variables end."""
    optional: ClassVar[Mapping[str, str]] = {}
    """What it may have, with the defaults."""
    questions: ClassVar[tuple[str, ...]] = ()
    """How the paths end of what is asked by POST and changes nothing."""
    pace: ClassVar[Pace] = Pace()

    def __init__(self, account: Account, labels: LabelSet, person: httpx.AsyncClient) -> None:
        self.account, self.person = account, person
        self.secrets = (account["TOKEN"], account["PERSON_TOKEN"])
        self._labels, self._shared = labels, Shared()
        self._taps: list[Tap] = []
        self._trackers: list[Tracker] = []
        self._opened: list[str] = []
        self.tracker = self._another()

    @classmethod
    def configured(cls, environ: Mapping[str, str]) -> Account | None:
        """The account that the environment names; None where it names none."""
        names = (*cls.needed, *cls.optional)
        given = {name: environ.get(f"{PREFIX}{cls.service}_{name}", "") for name in names}
        if not any(given[name] for name in cls.needed):
            return None
        if missing := [f"{PREFIX}{cls.service}_{name}" for name in cls.needed if not given[name]]:
            raise ValueError(f"the account is named by half: set {', '.join(missing)}, too")
        return {name: value or cls.optional.get(name, "") for name, value in given.items()}

    @classmethod
    @asynccontextmanager
    async def at(cls, account: Account, labels: LabelSet) -> AsyncIterator[Platform]:
        """The project of that account; what was opened there is closed at the end."""
        async with AsyncExitStack() as stack:
            person = await stack.enter_async_context(cls.login(account))
            platform = cls(account, labels, person)
            try:
                yield platform
            finally:
                platform.taps_heal()
                for key in platform._opened:
                    await platform.close(key)
                for tracker in platform._trackers:
                    await tracker.aclose()

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path, labels: LabelSet) -> AsyncIterator[Platform]:  # noqa: ARG003
        """See Platform."""
        account = cls.configured(os.environ)
        assert account is not None
        async with cls.at(account, labels) as platform:
            yield platform

    @classmethod
    @abstractmethod
    def login(cls, account: Account) -> httpx.AsyncClient:
        """The person's own client, with the address of the project's API."""

    @classmethod
    @abstractmethod
    def rehearsal(cls) -> tuple[Simulator, Callable[[str], Account]]:
        """A simulator to try all this on, and the account there once its API's address is known."""

    @abstractmethod
    def open(self, labels: LabelSet, shared: Shared, http: httpx.AsyncClient) -> Tracker:
        """A tracker on the project, with pages of three."""

    @abstractmethod
    async def create(self, title: str, body: str, labels: tuple[str, ...]) -> str:
        """Open a ticket as the person."""

    async def open_ticket(
        self,
        title: str = "a ticket",
        body: str = "",
        labels: tuple[str, ...] = (),
        author: str = "alice",  # noqa: ARG002 - all are one
    ) -> str:
        """See Platform."""
        key = await self.create(title, body, labels)
        self._opened.append(key)
        return key

    async def ask(self, method: str, path: str, body: Any = None, **params: str) -> Any:
        """What the service answers to the person; anything but success fails the test."""
        answer = await self.person.request(method, path, json=body, params=params or None)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
        return answer.json() if answer.content else None

    def asks(self, method: str, path: str) -> bool:
        """Whether such a request changes nothing."""
        return method == "GET" or path.endswith(self.questions)

    async def writes(self) -> int:
        """As far as our own trackers are concerned, and nobody else writes while the suite counts."""
        return sum(tap.wrote for tap in self._taps)

    def between_read_and_write(self, callback: Callable[[], Awaitable[object]]) -> None:
        """At the gate of the tracker's pool."""
        self._taps[0].before_write = callback

    async def second_tracker(self) -> Tracker:
        """With connections and memories of its own."""
        return self._another()

    async def inject(self, fault: Fault, key: str | None = None) -> None:  # noqa: ARG002
        """In the connections of our trackers."""
        for tap in self._taps:
            tap.fault = fault

    async def heal(self) -> None:
        """See Platform."""
        self.taps_heal()

    def taps_heal(self) -> None:
        """Nothing goes wrong from now on."""
        for tap in self._taps:
            tap.fault = None

    async def delete(self, key: str) -> None:
        """Takes rights that nobody should need for a test."""
        raise NotImplementedError

    async def reactions(self, key: str, ref: str) -> list[str]:
        """Not looked at here."""
        raise NotImplementedError

    def _another(self) -> Tracker:
        tap = Tap(self.asks)
        self._taps.append(tap)
        tracker = self.open(self._labels, self._shared, httpx.AsyncClient(transport=tap))
        self._trackers.append(tracker)
        return tracker
