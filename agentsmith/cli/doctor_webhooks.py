"""What `agentsmith doctor` looks at of webhooks: whether we take them, and whether the platforms send any."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

from agentsmith.cli.checks import Check, State
from agentsmith.config import Config
from agentsmith.daemon.open import open_trackers, webhook_readers
from agentsmith.domain.errors import Refused, TrackerError
from agentsmith.domain.hooks import ManagesHooks, is_ours
from agentsmith.domain.tracker import Tracker
from agentsmith.trackers import registry

_PATIENCE: Final = 15.0
_SHORTEST_SECRET: Final = 24
"""Characters of a webhook_secret."""


def _secrets(name: str, secrets: Sequence[str]) -> Iterator[Check]:
    """Whoever has one signed delivery can try secrets at home, as many as they like."""
    shortest = min((len(secret) for secret in secrets), default=_SHORTEST_SECRET)
    if shortest < _SHORTEST_SECRET:
        saw = f"a webhook_secret has {shortest} characters, which can be guessed"
        remedy = (
            f"make one of {_SHORTEST_SECRET} or more, such as `openssl rand -hex 32` writes, and list both meanwhile"
        )
        yield Check(f"webhooks {name}", State.NOTE, saw, remedy)


async def examine_webhooks(config: Config) -> AsyncIterator[Check]:
    """Whether they are taken, and whether each platform has one for us."""
    async with open_trackers(config) as trackers:
        asked = {name: asyncio.create_task(_lack(config, name, tracker)) for name, tracker in trackers.items()}
        lacks = {name: await task for name, task in asked.items()}
    for check in await asyncio.to_thread(lambda: list(_taken(config, lacks))):
        yield check


async def _lack(config: Config, name: str, tracker: Tracker) -> tuple[str, str] | None:
    """What keeps webhooks from coming, and what to do; None where they come, or nobody can tell."""
    if not isinstance(tracker, ManagesHooks) or not config.trackers[name].webhook_secrets():
        return None
    install = "agentsmith webhooks install"
    try:
        async with asyncio.timeout(_PATIENCE):
            hooks = [hook for hook in await tracker.hooks() if is_ours(hook.url, name, config.server.public_url)]
    except Refused:
        return "whether the platform sends any, this token may not see", f"with one that may: {install}"
    except (TrackerError, TimeoutError):
        return None  # that the tracker does not answer is said of the tracker
    if not hooks:
        return "the platform has none that sends to us", install
    return (f"the one on the platform: {problems}", install) if (problems := "; ".join(hooks[0].problems)) else None


def _taken(config: Config, lacks: Mapping[str, tuple[str, str] | None]) -> Iterator[Check]:
    server, known = config.server, registry.platforms()
    taken = {name for name, reader in webhook_readers(config).items() if reader is not None}
    for name, settings in config.trackers.items():
        if name in taken:
            saw, remedy = lacks[name] or ("", "")
            state = f"taken at /webhooks/{name}{f', but {saw}' if saw else ''}; also polled {settings.polled}"
            yield Check(f"webhooks {name}", State.NOTE if saw else State.OK, state, remedy)
            yield from _secrets(name, settings.webhook_secrets())
        elif known[settings.platform].takes_webhooks:
            saw = f"refused, so tickets are found by polling only, {settings.polled}"
            remedy = f"set trackers.{name}.webhook_secret to have work start at once"
            yield Check(f"webhooks {name}", State.NOTE, saw, remedy)
        else:
            yield Check(f"webhooks {name}", State.OK, f"there are none; polled {settings.polled}")
    if not taken:
        return
    if server.host in ("127.0.0.1", "localhost", "::1"):
        remedy = "put a reverse proxy with TLS before it, or set server.host"
        yield Check("webhooks", State.NOTE, f"only this machine reaches {server.host}:{server.port}", remedy)
    if not server.port:
        return
    try:
        with socket.create_connection((server.host, server.port), timeout=2):
            yield Check("receiver", State.OK, f"something listens on {server.host}:{server.port}")
    except OSError:
        remedy = "start one: agentsmith up --role receiver"
        yield Check("receiver", State.NOTE, f"nobody listens on {server.host}:{server.port}", remedy)
