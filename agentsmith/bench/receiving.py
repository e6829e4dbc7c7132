"""The receiver: signed deliveries of 12 kB, verified, deduplicated and handed over, beside a bare Starlette app."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from agentsmith.bench.figures import Reading, quantile
from agentsmith.bench.ground import BenchTrouble, Ground, daemon, python
from agentsmith.bench.load import Load, fire
from agentsmith.simulators import serve
from agentsmith.simulators.playgrounds import PLAYGROUNDS

_PLATFORM: Final = "github"
_TRACKER: Final = "bench"
_SIZE: Final = 12_000
_CONNECTIONS: Final = 64
_KEPT: Final = ("content-type", "user-agent", "x-github-event")
_NEVER_REACHED: Final = "http://127.0.0.1:9"
"""The receiver asks the platform for nothing but its own name, and not on the way of a delivery."""


async def measure(ground: Ground) -> list[Reading]:
    """The rows of this module."""
    stage = PLAYGROUNDS[_PLATFORM]()
    headers, payload = await _captured(stage)
    settings = stage.tracker() | {"base_url": _NEVER_REACHED}
    deliveries = _deliveries(ground.numbers, headers, payload, str(settings["webhook_secret"]))
    room = ground.room("receiver")
    config = {"trackers": {_TRACKER: settings}, "redis": {"url": ground.url, "namespace": room.name}}
    many, few = ground.times(4000), ground.times(300)
    async with daemon(room, config, "--role", "receiver") as ours, _bare(ground) as raw_port:
        raw = await _fired(raw_port, deliveries, many, _CONNECTIONS)
        load = await _fired(ours.port, deliveries, many, _CONNECTIONS)
        raw_alone = await _fired(raw_port, deliveries, few, 1)
        alone = await _fired(ours.port, deliveries, few, 1)
    stage.simulator.git.remove()
    where = f"receiver, {_CONNECTIONS} connections"
    return [
        Reading(where, "/s", load.per_second, raw.per_second),
        Reading(f"{where}: p99", "ms", quantile(load.took, 0.99), quantile(raw.took, 0.99)),
        Reading("receiver, one connection: p50", "ms", quantile(alone.took, 0.5), quantile(raw_alone.took, 0.5)),
    ]


async def _fired(port: int, deliveries: Iterator[bytes], count: int, connections: int) -> Load:
    """A tenth of it first, for whatever is made on first use."""
    await fire(port, [next(deliveries) for _ in range(max(1, count // 10))], connections=connections)
    return await fire(port, [next(deliveries) for _ in range(count)], connections=connections)


async def _captured(stage: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """A delivery as the simulator sends it when somebody labels a ticket."""
    heard: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:-2]
        headers = {name.casefold(): value for name, _, value in (line.partition(": ") for line in head)}
        await heard.put((headers, await reader.readexactly(int(headers["content-length"]))))
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1", 0) as server, serve(stage.simulator):
        key = stage.tickets.open("Something is wrong with the settings page")
        stage.send_webhooks(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        stage.tickets.add_label(key, "agent-smith")
        async with asyncio.timeout(30):
            while True:
                headers, body = await heard.get()
                payload = json.loads(body)
                if payload.get("action") == "labeled":
                    return headers, payload


def _deliveries(
    numbers: Iterator[int], headers: dict[str, str], payload: dict[str, Any], secret: str
) -> Iterator[bytes]:
    """Deliveries without end, each of a ticket of its own, signed, as they go over the wire."""
    kept = [f"{name}: {headers[name]}" for name in _KEPT]
    issue = payload["issue"]
    issue["body"] = "x" * max(0, _SIZE - len(json.dumps(payload)))
    for number in numbers:
        issue["number"], issue["id"] = number + 1, 1_000_000 + number
        body = json.dumps(payload).encode()
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        lines = [
            f"POST /webhooks/{_TRACKER} HTTP/1.1",
            "host: 127.0.0.1",
            *kept,
            f"x-github-delivery: {uuid.uuid4()}",
            f"x-hub-signature-256: sha256={signature}",
            f"content-length: {len(body)}",
        ]
        yield "\r\n".join([*lines, "", ""]).encode() + body


@contextlib.asynccontextmanager
async def _bare(ground: Ground) -> AsyncIterator[int]:
    """The raw limit in a process of its own; answers its port."""
    process = python(ground.room("bare"), "-m", "agentsmith.bench.bare", ground.url, stdout=subprocess.PIPE)
    try:
        line = await asyncio.to_thread(process.stdout.readline) if process.stdout is not None else b""
        if not line.strip().isdigit():
            raise BenchTrouble("the bare app that the receiver is compared with did not start")
        yield int(line)
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
        if process.stdout is not None:
            process.stdout.close()
