"""Serving the app: uvicorn inside our own event loop, started and stopped by the daemon."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import Final

import uvicorn
from starlette.applications import Starlette

from agentsmith.domain.errors import ConfigError
from agentsmith.web.connection import IncomingConnection

_BACKLOG: Final = 128
_LARGEST_HEAD: Final = 16 * 1024
"""Bytes; no platform comes near it."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; ConfigError when the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        # By its protocol asyncio knows what to send without delay (TCP_NODELAY).
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; "
            "set server.port (0 picks a free one) or server.host, or end what uses it"
        ) from None
    listener.setblocking(False)
    return listener


class _WithoutSignals(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon."""
        yield


class WebServer:
    """Serves until told to stop."""

    def __init__(self, app: Starlette, listener: socket.socket, *, trusted_proxies: Sequence[str] = ()) -> None:
        """Only what `trusted_proxies` say about whom they speak for is believed."""
        self._listener = listener
        config = uvicorn.Config(
            app,
            http=IncomingConnection,
            ws="none",
            backlog=_BACKLOG,
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=5,
            server_header=False,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
        )
        self._server = _WithoutSignals(config)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._listener.getsockname()[1])

    async def serve(self) -> None:
        """Serve until `stop`."""
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Accept no more, finish what is under way."""
        self._server.should_exit = True
