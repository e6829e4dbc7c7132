"""Connecting to Redis: every kind of address, the requirements, and calm behaviour while it is away."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final, TypeVar, cast
from urllib.parse import unquote, urlsplit

import redis
from redis.asyncio import Redis
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
)
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import ConnectionError, RedisError, TimeoutError
from redis.utils import str_if_bytes

from agentsmith import __version__
from agentsmith.boottime import boottime
from agentsmith.domain.errors import StoreRefused, StoreUnavailable
from agentsmith.store import error_replies
from agentsmith.store.redis_commands import Commands

T = TypeVar("T")

SENTINEL_SCHEME: Final = "redis+sentinel"
OLDEST: Final = (6, 2)
_CONNECT_S: Final = 5.0
_SENTINEL_S: Final = 2.0
"""The next sentinel is asked then: who looks for the primary has no time to lose."""
_ANSWER_S: Final = 10.0
"""Longer than any blocking call of ours, so that only a dead connection runs into it."""

_NEWS_AFTER: Final = 60.0
"""A refusal that did not occur for so long is logged again when it does."""

_WHO: Final = DriverInfo(lib_version=redis.__version__).add_upstream_driver("agentsmith", __version__)
"""For CLIENT LIST. Left to itself, redis-py reads the documents of its package anew for every connection."""

AWAY: Final = (ConnectionError, TimeoutError, StoreUnavailable)
"""What Redis being away looks like, error replies included (`error_replies`): trying the same again later can help."""


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
    cancellations before Python 3.12. A lock whose renewal cannot be ended is never released.

    Here, and nowhere else, error replies become `StoreRefused`.
    """

    answer_within: ClassVar[float] = _ANSWER_S

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            async with asyncio.timeout(self.answer_within):
                return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except builtins.TimeoutError:
            raise TimeoutError(f"no answer within {self.answer_within:.0f} s") from None
        except RedisError as error:
            refused = error_replies.refusal(error)
            if refused is None:
                raise
            if refused.reconnect:
                await _hang_up(self.connection_pool)
            raise refused from None


async def _hang_up(pool: ConnectionPool) -> None:
    """Close every connection, those included on which somebody waits for an answer: they find it broken.

    Not by `pool.disconnect`, which takes connections apart while others read from them.
    """
    for connection in (*pool._available_connections, *pool._in_use_connections):
        if connection._writer is not None:
            connection._writer.close()
    await asyncio.sleep(0)  # until the pool can see it


class _SentinelClient(_Client):
    answer_within = _SENTINEL_S

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().execute_command(*args, **options)
        except StoreRefused as refused:
            raise ConnectionError(str(refused)) from None  # and the next sentinel is asked


class _Sentinels(Sentinel):
    """Passes over a sentinel that is behind: one of them told of a newer configuration."""

    newest = 0

    def check_master_state(self, state: dict[str, Any], service_name: str) -> bool:
        usable = super().check_master_state(state, service_name)
        if not usable or state["config-epoch"] < self.newest:
            return False
        self.newest = state["config-epoch"]
        return True

    def ask_another_first(self) -> None:
        """The one that answered last is asked first; without this, no other one ever would be."""
        self.sentinels.append(self.sentinels.pop(0))


class _PrimaryPool(SentinelConnectionPool):
    """Keeps no connection to a server that is not the primary any more.

    After a failover the old primary goes on taking writes until it is made a replica, ten seconds later. Whoever still
    talks to it then works on tickets that others take from the new one.
    """

    async def get_master_address(self) -> Any:
        """Ask the sentinels; once they name another address, nobody talks to the old one."""
        try:
            address = await self.sentinel_manager.discover_master(self.service_name)
        except MasterNotFoundError:
            self.sentinel_manager.newest = 0  # they may have been set up anew
            raise
        if self.master_address not in (None, address):
            _log().warning("redis has another primary, connecting to it", address=":".join(map(str, address)))
            await _hang_up(self)
        self.master_address = address
        return address


class _PrimaryConnection(SentinelManagedConnection):
    """A connection to a server that says itself that it is the primary: a sentinel may be the last to know."""

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        await super().on_connect_check_health(check_health)
        await self.send_command("INFO", "replication", check_health=False)
        reply = str_if_bytes(await self.read_response())
        if "role:master" not in reply:
            raise ConnectionError(f"{self.host}:{self.port} is named as the primary, but is a replica")


class _PrimaryClient(_Client):
    """Follows the primary that the sentinels name, from its first command to its end."""

    answer_within = _ANSWER_S + 2 * _CONNECT_S  # connecting may have to pass over sentinels that are silent
    look_every: ClassVar[float] = 0.25
    _following: asyncio.Task[None] | None = None

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        if self._following is None:
            self._following = asyncio.create_task(self._follow())
        return await super().execute_command(*args, **options)

    async def _follow(self) -> None:
        """Notice another primary also while every connection is in use, or none is being made."""
        pool = cast(_PrimaryPool, self.connection_pool)
        while True:
            await asyncio.sleep(self.look_every)
            pool.sentinel_manager.ask_another_first()
            with contextlib.suppress(RedisError, OSError):
                await pool.get_master_address()

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
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
    sentinel = _Sentinels(  # type: ignore[no-untyped-call]  # redis-py leaves this one unannotated
        sentinels, sentinel_kwargs=asking, **options
    )
    sentinel.sentinels = [_SentinelClient(host=host, port=port, **asking) for host, port in sentinels]
    client = sentinel.master_for(
        service,
        redis_class=_PrimaryClient,
        connection_pool_class=_PrimaryPool,
        connection_class=_PrimaryConnection,
        db=number,
    )
    return cast(Commands, client)


def _host_and_port(text: str) -> tuple[str, int]:
    parsed = urlsplit(f"//{text}")
    if not parsed.hostname:
        raise ValueError(text)
    return parsed.hostname, parsed.port or 26379


async def check_requirements(redis: Commands) -> str:
    """The server's name and version, or StoreUnavailable with what is wrong and how to mend it.

    StoreRefused when it may answer later.
    """
    try:
        info = await redis.info("server")
        memory = await redis.info("memory")
        cluster = await redis.info("cluster")
    except StoreRefused as error:
        if not error.settings:
            raise
        raise StoreUnavailable(f"Redis cannot be used: {error}") from None
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
    """Whether Redis is away, said once when it goes and once when it is back, by however many loops notice.

    What a person has to mend is said apart, once per reply: some commands may go on working meanwhile.
    """

    def __init__(self, *, first_wait: float = 0.05, longest_wait: float = 2.0) -> None:
        self._first_wait, self._longest_wait = first_wait, longest_wait
        self._failures = 0
        self._logged = False
        self._remedies: dict[str, float] = {}

    @property
    def now(self) -> bool:
        """Whether the last attempt found Redis away."""
        return self._failures > 0

    def noticed(self, error: BaseException) -> float:
        """Note a failure; answers how long to wait before trying again."""
        self._failures += 1
        if isinstance(error, StoreRefused) and error.remedy:
            self._tell_remedy(error)
        elif not self._logged:
            self._logged = True
            _log().warning("redis is away, trying again until it is back", error=str(error))
        wait = min(self._longest_wait, self._first_wait * 2.0 ** min(self._failures, 10))
        return wait * random.uniform(0.5, 1.0)  # noqa: S311 - spreads reconnects, guards nothing

    def _tell_remedy(self, refused: StoreRefused) -> None:
        last, now = self._remedies.get(refused.remedy), boottime()
        self._remedies[refused.remedy] = now
        if last is None or now - last > _NEWS_AFTER:
            _log().error("redis refuses, trying again until it does not", reply=refused.reply, remedy=refused.remedy)

    def over(self) -> None:
        """Note a success."""
        if self._logged:
            _log().info("redis is back", failed_attempts=self._failures)
        self._failures, self._logged = 0, False

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
    # Late: a third of what releasing a lease has to import, which somebody waits for, and it says nothing.
    import structlog

    return structlog.get_logger()
