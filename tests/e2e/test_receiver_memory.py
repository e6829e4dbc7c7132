"""A receiver in a process of its own, while strangers crowd it: it stays small, and a platform is answered."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import pytest
import yaml

from tests.e2e.daemons import Daemons
from tests.support.senders import SECRET, SENDERS
from tests.support.wait import wait_until

MOST_MB: Final = 30.0
"""What strangers may cost us, all together, at any moment."""
EVERYBODY: Final = 610
HUGE: Final = 16 * 1024 * 1024
HEAD: Final = b"POST /webhooks/web HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
SIGNED_BY_NOBODY: Final = b"x-hub-signature-256: sha256=" + b"0" * 64 + b"\r\n"
WITHIN: Final = 60.0
_COMES_AGAIN: Final = 1.0

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may look so deep into a daemon, which hides its memory"),
]


class Crowd:
    """Strangers: each keeps its connection for as long as it can, and then comes again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks: list[asyncio.Task[None]] = []
        self.connected = 0

    def come(self, count: int, sent: bytes, piece: bytes, pause: float) -> None:
        """So many, who send this and then piece after piece."""
        self._tasks += [asyncio.create_task(self._stay(sent, piece, pause)) for _ in range(count)]

    async def _stay(self, sent: bytes, piece: bytes, pause: float) -> None:
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self._port)
                self.connected += 1
                try:
                    writer.write(sent)
                    while True:
                        writer.write(piece)
                        await writer.drain()
                        await asyncio.sleep(pause)  # time: a stranger's, who is slow
                finally:
                    writer.transport.abort()
            await asyncio.sleep(_COMES_AGAIN)  # time: a stranger's, who was hung up on

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


@asynccontextmanager
async def crowded(port: int) -> AsyncIterator[Crowd]:
    """300 who never finish what they begin, ten who send all that we take, and 300 who send it slowly."""
    crowd = Crowd(port)
    crowd.come(100, b"", b"", 0.2)
    crowd.come(100, b"POST /webhooks/web HT", b"", 0.2)
    crowd.come(100, HEAD, b"x-slow: x\r\n", 0.2)
    whole = HEAD + SIGNED_BY_NOBODY + f"content-length: {HUGE}\r\n\r\n".encode()
    crowd.come(10, whole, b" " * 65536, 0)
    crowd.come(300, whole, b" " * 512, 0.1)
    try:
        yield crowd
    finally:
        await crowd.leave()


def megabytes(pid: int, name: str) -> float:
    """What /proc tells of the process's memory: VmRSS is what it has now, VmHWM the most since that was reset."""
    told = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in told.splitlines() if line.startswith(f"{name}:")) / 1000


def forget_the_most(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


async def test_strangers_cost_little_memory_and_keep_no_platform_out(
    tmp_path: Path, redis_url: str, namespace: str
) -> None:
    config = tmp_path / "agentsmith.yaml"
    tracker = {"platform": "github", "repository": "acme/web", "token": "t", "webhook_secret": SECRET}
    document = {
        "data_dir": str(tmp_path / "data"),
        "log": {"format": "json"},
        "server": {"port": 0},
        "redis": {"url": redis_url, "namespace": namespace},
        "trackers": {"web": {**tracker, "base_url": "http://127.0.0.1:9"}},
        "triggers": [{"label": "agent-smith", "pipeline": "work"}],
        "pipelines": {"work": {"steps": [{"run": "true"}]}},
    }
    config.write_text(yaml.safe_dump(document))
    async with Daemons(tmp_path) as daemons:
        daemon = await daemons.start(config, "receiver", fresh=True)
        port = await daemon.port()

        async def taken(number: int) -> bool:
            """Whether it was taken; a busy machine may be so slow that it has to be sent once more."""
            headers, body = SENDERS["github"].delivery(SENDERS["github"].labelled(), f"d-{number}")
            with contextlib.suppress(httpx.TransportError):
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=WITHIN) as platform:
                    answer = await platform.post("/webhooks/web", content=body, headers=headers)
                return answer.status_code in (200, 202)
            return False

        for number in range(10):
            await wait_until(partial(taken, number), what="a delivery to be taken")
        idle = megabytes(daemon.pid, "VmRSS")
        forget_the_most(daemon.pid)
        async with crowded(port) as crowd:
            await wait_until(lambda: crowd.connected >= EVERYBODY, what="everybody to come")
            for number in range(10, 20):
                await wait_until(partial(taken, number), what="a delivery to be taken in the crowd")
            await wait_until(lambda: crowd.connected >= 2 * EVERYBODY, what="as many to come once more")
        assert megabytes(daemon.pid, "VmHWM") - idle <= MOST_MB
