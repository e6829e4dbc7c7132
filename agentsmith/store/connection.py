"""Connecting to Redis: every kind of address, the requirements, and calm behaviour while it is away."""

from __future__ import annotations

import asyncio
import builtins
import random
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final, TypeVar, cast
from urllib.parse import unquote, urlsplit

import redis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
    TryAgainError,
)

from agentsmith import __version__
from agentsmith.domain.errors import StoreUnavailable
from agentsmith.store.commands import Commands

T = TypeVar("T")

SENTINEL_SCHEME: Final = "redis+sentinel"
OLDEST: Final = (6, 2)
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 10.0
"""Longer than any blocking call of ours, so that only a dead connection runs into it."""

_WHO: Final = DriverInfo(lib_version=redis.__version__).add_upstream_driver("agentsmith", __version__)
"""For CLIENT LIST. Left to itself, redis-py reads the documents of its package anew for every connection."""

AWAY: Final = (
    ConnectionError,
    TimeoutError,
    BusyLoadingError,
    ReadOnlyError,
    TryAgainError,
    ClusterDownError,
    OutOfMemoryError,
    StoreUnavailable,
)
"""What Redis being away looks like: trying the same again later can help."""


def connect(url: str) -> Commands:
    """A client for redis://, rediss://, unix:// or redis+sentinel://; nothing is sent yet.

    Commands are not repeated by the client: a repeated push or move is not the same as one. Callers that may
    repeat do so themselves.
    """
    options: dict[str, Any] = {
        "decode_responses": True,
        "encoding_errors": "surrogateescape",
        "retry": Retry(NoBackoff(), 0),
        "socket_connect_timeout": _CONNECT_S,
        "socket_timeout": None,  # see _Client
        "driver_info": _WHO,
    }
    parts = urlsplit(url)
    if parts.scheme == SENTINEL_SCHEME:
        return _through_sentinel(url, options)
    try:
        return cast(Commands, _Client.from_url(url, **options))
    except ValueError as error:
        raise StoreUnavailable(f"redis.url is not an address that Redis understands: {error}") from None


class _Client(Redis):
    """Bounds each command itself: under a `socket_timeout` redis-py sends with `asyncio.wait_for`, which loses
    cancellations before Python 3.12. A lock whose renewal cannot be ended is never released."""

    answer_within: ClassVar[float] = _ANSWER_S

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            async with asyncio.timeout(self.answer_within):
                return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except builtins.TimeoutError:
            raise TimeoutError(f"no answer within {self.answer_within:.0f} s") from None


class _SentinelClient(_Client):
    answer_within = _CONNECT_S


class _MasterClient(_Client):
    """Closes its connections to the sentinels with the one to the master."""

    answer_within = _ANSWER_S + 2 * _CONNECT_S  # connecting may have to pass over sentinels that are silent

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        for sentinel in cast(SentinelConnectionPool, self.connection_pool).sentinel_manager.sentinels:
            await sentinel.aclose()


def _through_sentinel(url: str, options: dict[str, Any]) -> Commands:
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    service, _, database = parts.path.strip("/").partition("/")
    try:
        sentinels = [_host_and_port(host) for host in hosts.split(",")]
        number = int(database or 0)
    except ValueError:
        sentinels, number = [], 0
    if not service or not sentinels:
        raise StoreUnavailable(
            "redis.url names no Sentinel service; write redis+sentinel://[user:password@]host:26379,host:26379/service"
        )
    user, _, password = credentials.rpartition(":")
    if credentials:
        options = {**options, "username": unquote(user) or None, "password": unquote(password) or None}
    asking = {name: options[name] for name in ("retry", "socket_connect_timeout", "socket_timeout", "driver_info")}
    sentinel = Sentinel(  # type: ignore[no-untyped-call]  # redis-py leaves this one unannotated
        sentinels, sentinel_kwargs=asking, **options
    )
    sentinel.sentinels = [_SentinelClient(host=host, port=port, **asking) for host, port in sentinels]
    return cast(Commands, sentinel.master_for(service, redis_class=_MasterClient, db=number))


def _host_and_port(text: str) -> tuple[str, int]:
    parsed = urlsplit(f"//{text}")
    if not parsed.hostname:
        raise ValueError(text)
    return parsed.hostname, parsed.port or 26379


async def check_requirements(redis: Commands) -> str:
    """The server's name and version, or StoreUnavailable with what is wrong and how to mend it."""
    try:
        info = await redis.info("server")
        memory = await redis.info("memory")
        cluster = await redis.info("cluster")
    except AuthenticationError as error:
        raise StoreUnavailable(f"Redis refuses the password in redis.url ({error}); correct it") from None
    except NoPermissionError as error:
        raise StoreUnavailable(f"the Redis user may not do what is needed: {error}; allow it INFO") from None
    except AWAY as error:
        raise StoreUnavailable(f"Redis cannot be reached ({error}); start it, or correct redis.url") from None
    except (RedisError, OSError) as error:
        raise StoreUnavailable(f"Redis cannot be used: {error}") from None
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get("valkey_version") or info["redis_version"])
    if name == "Redis" and tuple(int(p) for p in version.split(".")[:2]) < OLDEST:
        raise StoreUnavailable(f"Redis {version} is too old; use 6.2 or newer, or any Valkey")
    if int(cluster.get("cluster_enabled", 0)):
        raise StoreUnavailable(
            "this Redis runs in cluster mode, but agentsmith's scripts touch several keys at once; "
            "use a single server, Sentinel, or a managed one without cluster mode"
        )
    policy = str(memory.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        raise StoreUnavailable(
            f"this Redis may evict keys (maxmemory-policy {policy}), which would lose tickets; "
            "set maxmemory-policy noeviction"
        )
    return f"{name} {version}"


class Outage:
    """Whether Redis is away, said once when it goes and once when it is back, by however many loops notice."""

    def __init__(self, *, first_wait: float = 0.05, longest_wait: float = 2.0) -> None:
        self._first_wait, self._longest_wait = first_wait, longest_wait
        self._failures = 0

    @property
    def now(self) -> bool:
        """Whether the last attempt found Redis away."""
        return self._failures > 0

    def noticed(self, error: BaseException) -> float:
        """Note a failure; answers how long to wait before trying again."""
        self._failures += 1
        if self._failures == 1:
            _log().warning("redis is away, trying again until it is back", error=str(error))
        wait = min(self._longest_wait, self._first_wait * 2.0 ** min(self._failures, 10))
        return wait * random.uniform(0.5, 1.0)  # noqa: S311 - spreads reconnects, guards nothing

    def over(self) -> None:
        """Note a success."""
        if self._failures:
            _log().info("redis is back", failed_attempts=self._failures)
        self._failures = 0

    async def outlast(self, step: Callable[[], Awaitable[T]]) -> T:
        """Do `step`, again and again while Redis is away; `step` must be safe to repeat."""
        while True:
            try:
                result = await step()
            except AWAY as error:
                await asyncio.sleep(self.noticed(error))
            else:
                self.over()
                return result


def _log() -> Any:
    # Late: a third of what a farewell has to import, which people wait for, and it says nothing.
    import structlog

    return structlog.get_logger()
