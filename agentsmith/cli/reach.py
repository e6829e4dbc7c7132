"""Reaching the Redis of a configuration without ever starting one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Final
from urllib.parse import quote, urlsplit

from agentsmith.config import Config
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.ticket import Ticket
from agentsmith.opening import Opened, lease_times
from agentsmith.store import Process, Store
from agentsmith.store.server_home import ServerHome
from agentsmith.store.server_process import ping

_PATIENCE: Final = 2.0
_TAKES_SIGNALS: Final = {"receiver", "poller"}


@contextlib.asynccontextmanager
async def store_if_up(config: Config) -> AsyncIterator[Opened | None]:
    """The store, or None while our own server does not run; StoreUnavailable when a configured one fails."""
    url = await _address(config)
    if url is None:
        yield None
        return
    async with Store(url, times=lease_times(config), namespace=config.redis.namespace) as store:
        yield Opened(store, url, None, await store.check())


async def _address(config: Config) -> str | None:
    if config.redis.url is not None:
        return config.redis.url.get_secret_value()
    socket = ServerHome(config.data_dir).published_socket()
    if socket is None or await ping(socket) != "ready":
        return None
    return f"unix://{quote(str(socket))}"


def shown_address(config: Config) -> str | None:
    """`redis.url` without user, password and options (P8); None for a server of our own."""
    if config.redis.url is None:
        return None
    parts = urlsplit(config.redis.url.get_secret_value())
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def listening(processes: list[Process]) -> bool:
    """Whether one of the processes deals with signals."""
    return any(_TAKES_SIGNALS & set(process.roles) for process in processes)


class Word(StrEnum):
    """What became of a word to the daemon."""

    HEARD = "heard"
    WAITS = "waits"
    """It stands in Redis, and no daemon is up to take it."""
    LOST = "lost"


async def announce(config: Config, ticket: Ticket, *, remark: str = "", labelled: bool = False) -> Word:
    """Have the ticket looked at now, or a command in a comment obeyed.

    Polling finds the ticket in any case, but no command.
    """
    kind = SignalKind.COMMAND if remark else SignalKind.LOOK
    signal = Signal(
        ticket.tracker, ticket.key, ticket.id, kind, cause="a person changed it", remark=remark, labelled=labelled
    )
    try:
        async with asyncio.timeout(_PATIENCE), store_if_up(config) as opened:
            if opened is None:
                return Word.LOST
            await opened.store.signals.send([signal])
            return Word.HEARD if listening(await opened.store.presence.alive()) else Word.WAITS
    except Exception:  # a hint that is lost costs a poll interval, and the ticket itself was changed
        return Word.LOST
