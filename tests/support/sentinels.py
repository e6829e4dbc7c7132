"""A primary, its replicas and the sentinels that watch them: real ones, in a hurry."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from redis.exceptions import RedisError, ResponseError

from tests.support.redis_server import RedisServer, free_port, wait_for

SERVICE: Final = "tickets"
_WITHIN: Final = 60.0
"""Longer than a failover takes on a busy machine."""


@dataclass
class Deployment:
    """One primary among several servers, and who says which."""

    servers: list[RedisServer]
    sentinels: list[RedisServer]
    password: str = ""

    @property
    def url(self) -> str:
        """The address for clients; the first sentinel in it is one that is not there, so the next one is asked."""
        credentials = f":{self.password}@" if self.password else ""
        hosts = ",".join(f"127.0.0.1:{port}" for port in (free_port(), *(each.port for each in self.sentinels)))
        return f"redis+sentinel://{credentials}{hosts}/{SERVICE}/0"

    @property
    def primary(self) -> RedisServer:
        """The one that the sentinels name."""
        _, port = self.sentinels[0].command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(port))

    @property
    def replicas(self) -> list[RedisServer]:
        """The others."""
        primary = self.primary
        return [server for server in self.servers if server is not primary]

    def fail_over(self) -> RedisServer:
        """A planned failover: the primary lives, and is told later than everybody else. Returns the new one."""
        before = self.primary
        _wait(self._is_whole, what="replicas that can take over")

        def is_over() -> bool:
            with contextlib.suppress(ResponseError):  # it is under way, or the last one is not over yet
                self.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE)
            return self.primary is not before and self._agreed()

        _wait(is_over, what="another primary")
        return self.primary

    def kill_primary(self) -> RedisServer:
        """The primary is lost. Returns the new one; `restart` the old one to have it back as a replica."""
        before = self.primary
        _wait(self._is_whole, what="replicas that can take over")
        before.kill()
        _wait(lambda: self.primary is not before and self._agreed(), what="another primary")
        return self.primary

    def _agreed(self) -> bool:
        """Whether no failover is under way, and all sentinels name the same primary."""
        told = [sentinel.command("SENTINEL", "MASTER", SERVICE) for sentinel in self.sentinels]
        return all({"failover_in_progress", "o_down"}.isdisjoint(_words(each["flags"])) for each in told) and (
            len({each["port"] for each in told}) == 1
        )

    def _is_whole(self) -> bool:
        """Whether every server follows the primary, as every sentinel knows."""
        if not self._agreed():
            return False
        for sentinel in self.sentinels:
            found = sentinel.command("SENTINEL", "REPLICAS", SERVICE)
            if sorted(each["master-link-status"] for each in found) != ["ok"] * (len(self.servers) - 1):
                return False
            if any({"s_down", "o_down", "disconnected"} & _words(each["flags"]) for each in found):
                return False
        return True


@contextlib.contextmanager
def deployed(
    *options: str, replicas: int = 1, sentinels: int = 1, password: str = "", min_replicas: int = 0
) -> Iterator[Deployment]:
    """All of them, running and known to each other."""
    with contextlib.ExitStack() as stack:
        # From the start on, so that one that comes back alone takes no writes.
        shared = ("--repl-diskless-sync-delay", "0", "--min-replicas-to-write", str(min_replicas), *options)
        if password:
            shared += ("--masterauth", password)
        primary = stack.enter_context(RedisServer(*shared, tcp=True, password=password))
        follow = ("--replicaof", "127.0.0.1", str(primary.port))
        servers = [primary]
        servers += [
            stack.enter_context(RedisServer(*shared, *follow, tcp=True, password=password)) for _ in range(replicas)
        ]
        wait_for(lambda: primary.command("WAIT", str(replicas), "100") == replicas, what="the replicas follow")
        quorum = sentinels // 2 + 1
        watching = [
            stack.enter_context(
                RedisServer(
                    "--sentinel",
                    conf=f"sentinel monitor {SERVICE} 127.0.0.1 {primary.port} {quorum}\n"
                    + (f"sentinel auth-pass {SERVICE} {password}\n" if password else "")
                    + f"sentinel down-after-milliseconds {SERVICE} 200\nsentinel failover-timeout {SERVICE} 5000\n",
                    tcp=True,
                )
            )
            for _ in range(sentinels)
        ]
        for sentinel in watching:
            _hurry(sentinel, alone=sentinels == 1)
        deployment = Deployment(servers, watching, password)
        _wait(deployment._is_whole, what="the sentinels know the replicas")
        _wait(lambda: _know_each_other(watching), what="the sentinels know each other")
        yield deployment


def _wait(predicate: Callable[[], bool], *, what: str) -> None:
    def slowly() -> bool:
        time.sleep(0.03)  # time: each look is a connection or several
        return predicate()

    wait_for(slowly, what=what, within=_WITHIN)


def _words(flags: str | set[str]) -> set[str]:
    return set(flags.split(",")) if isinstance(flags, str) else set(flags)


def _hurry(sentinel: RedisServer, *, alone: bool) -> None:
    """Let it look more often than it does by default, where it can be told to.

    Among several, one that hurries to publish also hurries to undo a promotion that it has not heard of.
    """
    for period in ("info-period", "ping-period", "ask-period", "tilt-period", *(("publish-period",) if alone else ())):
        with contextlib.suppress(RedisError):
            sentinel.command("SENTINEL", "DEBUG", period, "100")


def _know_each_other(sentinels: list[RedisServer]) -> bool:
    return all(len(each.command("SENTINEL", "SENTINELS", SERVICE)) == len(sentinels) - 1 for each in sentinels)
