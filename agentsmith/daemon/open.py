"""Opening what a configuration names: the store, with our own Redis if none is configured, trackers and forges.

What speaks HTTP is imported when a tracker is opened: most commands never do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agentsmith import redaction
from agentsmith.config import Config
from agentsmith.config.lacking import demand
from agentsmith.domain.errors import StoreRefused, StoreUnavailable
from agentsmith.domain.forge import Forge
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.webhook import WebhookReader
from agentsmith.store import LeaseTimes, Outage, Store
from agentsmith.store.server.binary import ServerUnavailable
from agentsmith.store.server.embedded import EmbeddedServer

if TYPE_CHECKING:
    from agentsmith.trackers.http import Shared

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opened:
    """A store that answers, its address, and the server that we keep for it, if it is ours."""

    store: Store
    url: str
    server: EmbeddedServer | None
    version: str


def shadow_of(config: Config) -> Config:
    """The same configuration with a memory of its own: a shadow takes nothing from a daemon beside it."""
    return config.model_copy(
        update={"redis": config.redis.model_copy(update={"namespace": f"{config.redis.namespace}:shadow"})}
    )


def lease_times(config: Config) -> LeaseTimes:
    """The durations that the store needs."""
    lease = config.lease
    return LeaseTimes(
        ttl=lease.ttl,
        renew_every=lease.renew_every,
        margin=lease.margin,
        lock=lease.claim_lock,
        leader=lease.leader,
    )


@contextlib.asynccontextmanager
async def open_store(config: Config, *, until: asyncio.Event | None = None) -> AsyncIterator[Opened]:
    """Connect to the configured Redis, or to our own, and check that it can serve us.

    One that is there, but refuses or has no room for now, is waited for until the event is set; without one it is not.
    """
    for secret in config.secrets():
        redaction.register_secret(secret)
    async with contextlib.AsyncExitStack() as stack:
        server: EmbeddedServer | None = None
        if config.redis.url is not None:
            url = demand(config.redis.url.get_secret_value())
        else:
            binary = Path(config.redis.server) if config.redis.server else None
            server = EmbeddedServer(config.data_dir, binary=binary)
            await _patiently(server.start, Outage(), until)
            stack.push_async_callback(server.stop)
            url = server.url
        store = Store(url, times=lease_times(config), namespace=config.redis.namespace)
        await stack.enter_async_context(store)
        yield Opened(store, url, server, await _patiently(store.check, store.outage, until))


async def _patiently(step: Callable[[], Awaitable[T]], outage: Outage, until: asyncio.Event | None) -> T:
    """Do `step`, again and again while it is refused for now and the event is not set."""
    while True:
        try:
            result = await step()
        except ServerUnavailable as error:
            raise StoreUnavailable(str(error)) from None
        except StoreRefused as refused:
            if until is None or until.is_set():
                raise
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(outage.noticed(refused)):
                    await until.wait()
        else:
            outage.over()
            return result


def webhook_readers(config: Config) -> dict[str, WebhookReader | None]:
    """Who reads each tracker's webhooks; None where they are refused."""
    from agentsmith.trackers import registry

    return registry.webhook_readers(config)


@contextlib.asynccontextmanager
async def open_trackers(config: Config, store: Store | None = None) -> AsyncIterator[dict[str, Tracker]]:
    """Make every configured tracker; none of them is asked anything yet.

    With a store, all replicas on it keep within the platforms' limits together, and out of each other's way.
    """
    async with contextlib.AsyncExitStack() as stack:
        from agentsmith.trackers import registry

        trackers = registry.build(config, _shared(store))
        for tracker in trackers.values():
            stack.push_async_callback(tracker.aclose)
        yield trackers


@contextlib.asynccontextmanager
async def open_forges(config: Config, store: Store | None = None) -> AsyncIterator[dict[str, Forge]]:
    """Make the forge of every tracker whose tickets are about some code, by the tracker's name.

    None of them is asked anything yet. With a store they keep within the platforms' limits together with the trackers.
    """
    async with contextlib.AsyncExitStack() as stack:
        from agentsmith.trackers import forges as code

        forges = code.build(config, _shared(store))
        for forge in {id(forge): forge for forge in forges.values()}.values():
            stack.push_async_callback(forge.aclose)
        yield forges


def _shared(store: Store | None) -> Shared:
    from agentsmith.tickets.lock import LabelLocks
    from agentsmith.trackers.http import Shared

    if store is None:
        return Shared()
    return Shared(governor=store.quotas, ledger=store.quotas, label_lock=LabelLocks(store))
