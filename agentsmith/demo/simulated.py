"""The demo on a platform's simulator, which is served by the demo itself and tells the engine by signed webhooks."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from agentsmith.demo.venue import Engine, Seen, Venue
from agentsmith.simulators import serve
from agentsmith.simulators.playground import CodePlayground, Playground
from agentsmith.simulators.playgrounds import PLAYGROUNDS


class SimulatedVenue:
    """A project on a simulator. Its state is in this process, so that looking at it costs nothing."""

    def __init__(self, stage: Playground) -> None:
        self._stage = stage
        self._titles: dict[str, str] = {}

    @property
    def about(self) -> str:
        """See Venue."""
        return f"{self._stage.title}'s simulator at {self._stage.simulator.url}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """See Venue."""
        return self._stage.tracker()

    def connect(self, engine: Engine) -> None:
        """See Venue."""
        self._stage.send_webhooks(engine.receiver)

    async def open(self, title: str, labels: Sequence[str]) -> Seen:
        """See Venue."""
        key = self._stage.tickets.open(title, labels)
        self._titles[key] = title
        return self._seen(key)

    async def label(self, key: str, label: str) -> Seen:
        """See Venue."""
        self._stage.tickets.add_label(key, label)
        return self._seen(key)

    async def tickets(self) -> list[Seen]:
        """See Venue."""
        return [self._seen(key) for key in self._titles]

    async def comments(self, key: str) -> list[str]:
        """See Venue."""
        return self._stage.tickets.texts(key)

    @property
    def code(self) -> CodePlayground | None:
        """See Venue."""
        return self._stage if isinstance(self._stage, CodePlayground) else None

    def complaints(self) -> list[str]:
        """See Venue."""
        simulator = self._stage.simulator
        return [f"{request.method} {request.path}" for request in simulator.unknown_requests] + simulator.crashes

    def _seen(self, key: str) -> Seen:
        return Seen(key, self._titles[key], frozenset(self._stage.tickets.labels(key)))


@contextlib.asynccontextmanager
async def open_simulated(platform: str) -> AsyncIterator[Venue]:
    """The platform, served until the block ends."""
    stage = PLAYGROUNDS[platform]()
    try:
        async with serve(stage.simulator):
            yield SimulatedVenue(stage)
    finally:
        stage.simulator.git.remove()
