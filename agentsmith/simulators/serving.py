"""Serving a simulator on loopback in this process: uvicorn's protocol without its signals and its ticks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from agentsmith.simulators.frame import Simulator
from agentsmith.simulators.wire import application


@dataclass(frozen=True, slots=True)
class Running:
    """A simulator that is being served."""

    simulator: Simulator
    url: str
    """Where the server is, e.g. `http://127.0.0.1:40123`; the control plane is under `/_control`."""
    port: int

    @property
    def api_url(self) -> str:
        """The API root: what a client is configured with."""
        return self.url + self.simulator.api_root


class _Connection(H11Protocol):
    """Hands its transport to the application, which breaks connections off on purpose."""

    def __init__(self, config: uvicorn.Config, server_state: ServerState) -> None:
        super().__init__(config, server_state, {})
        # Per connection, because switching it off in the config would silence every uvicorn of this process.
        self.access_log = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state: dict[str, Any] = {"transport": transport}


@asynccontextmanager
async def serve(simulator: Simulator, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Running]:
    """Serve until the block ends; port 0 takes a free one. Webhooks leave while the block runs."""
    app = application(simulator)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        # Longer than any client keeps an idle connection: one that is closed while a write leaves would be a fault that
        # nobody armed.
        timeout_keep_alive=75,
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(config, state), host, port)
    bound = server.sockets[0].getsockname()[1]
    simulator.url = f"http://{host}:{bound}"
    courier = asyncio.create_task(simulator.outbox.run())
    try:
        yield Running(simulator, simulator.url, bound)
    finally:
        courier.cancel()
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        # Requests that wait in a fault notice the hang-up and end by themselves.
        await asyncio.gather(*state.tasks, return_exceptions=True)
        await server.wait_closed()
        with contextlib.suppress(asyncio.CancelledError):
            await courier
