"""Reaching the Redis of a configuration without ever starting one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Final
from urllib.parse import quote, urlsplit

from agentsmith.cli import output
from agentsmith.config import Config
from agentsmith.config.lacking import demand, lacks_in
from agentsmith.daemon.build import Opened, lease_times
from agentsmith.domain.errors import StoreUnavailable
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.ticket import Ticket
from agentsmith.store import Process, Store
from agentsmith.store.server import ServerUnavailable, joined_if_up
from agentsmith.store.server_home import ServerHome

_PATIENCE: Final = 2.0
_TAKES_SIGNALS: Final = {"receiver", "poller"}


@contextlib.asynccontextmanager
async def store_if_up(config: Config, *, patience: float | None = None) -> AsyncIterator[Opened | None]:
    """The store, or None while our own server does not run; StoreUnavailable when it runs and cannot be reached.

    `patience` is how long our own may take to answer, if that is to be less than its start can take.
    """
    url = await _address(config, patience)
    if url is None:
        yield None
        return
    async with Store(url, times=lease_times(config), namespace=config.redis.namespace) as store:
        yield Opened(store, url, None, await store.check())


async def _address(config: Config, patience: float | None) -> str | None:
    if config.redis.url is not None:
        return demand(config.redis.url.get_secret_value())
    try:
        socket = await joined_if_up(ServerHome(config.data_dir), patience=patience)
    except ServerUnavailable as error:
        raise StoreUnavailable(str(error)) from None
    return None if socket is None else f"unix://{quote(str(socket))}"


def shown_address(config: Config) -> str | None:
    """`redis.url` without user, password and options (P8); None for a server of our own."""
    if config.redis.url is None:
        return None
    url = config.redis.url.get_secret_value()
    if lacks_in(url):
        return "unknown: its variable is not set"
    parts = urlsplit(url)
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
    UNREACHED = "unreached"
    """A daemon may be up, but its Redis cannot be reached from here; that was said."""


async def announce(config: Config, ticket: Ticket, *, remark: str = "", labelled: bool = False) -> Word:
    """Have the ticket looked at now, or a command in a comment obeyed.

    Polling finds the ticket in any case, but no command.
    """
    kind = SignalKind.COMMAND if remark else SignalKind.LOOK
    signal = Signal(
        ticket.tracker, ticket.key, ticket.id, kind, cause="a person changed it", remark=remark, labelled=labelled
    )
    try:
        async with asyncio.timeout(_PATIENCE), store_if_up(config, patience=_PATIENCE / 2) as opened:
            if opened is None:
                return Word.LOST
            await opened.store.signals.send([signal])
            return Word.HEARD if listening(await opened.store.presence.alive()) else Word.WAITS
    except StoreUnavailable as error:
        output.note(f"no daemon was told: {output.clean(str(error))}")
        return Word.UNREACHED
    except Exception:  # a hint that is lost costs a poll interval, and the ticket itself was changed
        return Word.LOST
