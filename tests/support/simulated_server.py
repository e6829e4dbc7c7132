"""The simulated Redis in the place of a real one: what `RedisServer` and `Tenant` are to tests, without a process.

Its clock is the real one, so that the tests of the store hold it to the same deadlines.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import ConnectionError

from agentsmith.store.connection import connect
from agentsmith.store.redis_commands import Commands
from tests.simulation.client import SimulatedRedis
from tests.simulation.server import Blocked, SimulatedServer

SCHEME: Final = "simulated:"
_numbers = itertools.count(1)
_servers: dict[str, StagedServer] = {}


def connect_anywhere(url: str) -> Commands:
    """`connect`, for addresses of simulated servers too."""
    return _servers[url].client() if url.startswith(SCHEME) else connect(url)  # type: ignore[return-value]


class StagedServer:
    """A simulated server that tests can reach by an address, stop, kill and restart."""

    def __init__(self, *options: str) -> None:
        self.url = f"{SCHEME}{next(_numbers)}"
        self._persists = "--appendonly" in options
        self._server = SimulatedServer(lambda: time.time_ns() // 1000)
        self._going = asyncio.Event()
        self._going.set()
        self._dead = False

    def start(self) -> StagedServer:
        """Be reachable."""
        _servers[self.url] = self
        return self

    def client(self) -> Redis:
        """A client that may do everything."""
        return SimulatedRedis(self)

    def tenant(self, namespace: str) -> StagedTenant:
        """A namespace, to be left clean."""
        return StagedTenant(self, namespace)

    def command(self, *words: str) -> Any:
        """Send one command, from outside of any event loop."""
        if words[0] == "CLIENT":
            return self.freeze() if words[1] == "PAUSE" else self.thaw()
        return self._server.execute(*(word.encode() for word in words))

    def freeze(self) -> None:
        """Answer nothing for now."""
        self._going.clear()

    def thaw(self) -> None:
        """Go on."""
        self._going.set()

    def kill(self) -> None:
        """Be away."""
        self._dead = True

    def restart(self) -> None:
        """Come back as another process, with what was on disk."""
        self._server.restart(keep=self._persists)

    def close(self) -> None:
        """Be forgotten."""
        _servers.pop(self.url, None)

    def dump(self) -> dict[str, tuple[str, int]]:
        """Every key, with its type and its time to live in ms (-1 for ever)."""
        execute = self._server.execute
        return {
            key.decode("utf-8", "surrogateescape"): (execute(b"TYPE", key).decode(), execute(b"PTTL", key))
            for key in execute(b"KEYS", b"*")
        }

    async def ask(self, words: tuple[bytes, ...]) -> Any:
        """Carry a command out in its turn (Wire)."""
        await asyncio.sleep(0)  # no answer comes without a turn of the loop
        await self._going.wait()
        if self._dead:
            raise ConnectionError("the server is gone")
        if words[0] != b"BLMOVE":
            return self._server.execute(*words)
        return await self._block(*words[1:])

    async def _block(self, source: bytes, target: bytes, out: bytes, into: bytes, wait: bytes) -> bytes | None:
        served: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        blocked = Blocked(source, target, out, into, served.set_result)
        value = self._server.block(blocked)
        if value is not None:
            return value
        try:
            async with asyncio.timeout(float(wait) or None):
                return await served
        except TimeoutError:
            return None
        finally:
            self._server.unblock(blocked)


class StagedTenant:
    """One namespace on a simulated server. There are no users there, so nothing keeps tests in it but the check."""

    def __init__(self, server: StagedServer, namespace: str) -> None:
        self.server, self.namespace, self.url = server, namespace, server.url

    def dump(self) -> dict[str, tuple[str, int]]:
        """See `Tenant`."""
        return self.server.dump()

    def close(self) -> None:
        """Forget everything."""
        self.server.command("FLUSHALL")
