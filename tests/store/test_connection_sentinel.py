"""Through Sentinel: the master is found, and found again after a failover."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from redis.exceptions import ResponseError
from structlog.testing import capture_logs

from agentsmith.domain.errors import StoreUnavailable
from agentsmith.store import Outage, Pushed, Store
from tests.support.redis_server import RedisServer, free_port, wait_for
from tests.support.stores import TIMES, a_request, begin, ticket_id

PASSWORD = "hush"


@dataclass
class Deployment:
    """A master, a replica, and the sentinel that watches them."""

    master: RedisServer
    replica: RedisServer
    sentinel: RedisServer

    @property
    def url(self) -> str:
        # The first address is one where nobody is: the next one is asked.
        return f"redis+sentinel://:{PASSWORD}@127.0.0.1:{free_port()},127.0.0.1:{self.sentinel.port}/tickets/0"

    def hurry(self) -> None:
        """Let the sentinel look more often than it does by default, where it can be told to."""
        for period in ("info-period", "ping-period", "publish-period", "ask-period", "tilt-period"):
            with contextlib.suppress(ResponseError):
                self.sentinel.command("SENTINEL", "DEBUG", period, "100")

    def knows_the_replica(self) -> bool:
        found = self.sentinel.command("SENTINEL", "REPLICAS", "tickets")
        return [replica["master-link-status"] for replica in found] == ["ok"]


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    with contextlib.ExitStack() as stack:
        options = ("--masterauth", PASSWORD, "--repl-diskless-sync-delay", "0")
        master = stack.enter_context(RedisServer(*options, tcp=True, password=PASSWORD))
        follow = ("--replicaof", "127.0.0.1", str(master.port))
        replica = stack.enter_context(RedisServer(*options, *follow, tcp=True, password=PASSWORD))
        wait_for(lambda: master.command("WAIT", "1", "100") == 1, what="the replica follows")
        sentinel = RedisServer(
            "--sentinel",
            conf=f"sentinel monitor tickets 127.0.0.1 {master.port} 1\n"
            f"sentinel auth-pass tickets {PASSWORD}\n"
            "sentinel down-after-milliseconds tickets 200\n"
            "sentinel failover-timeout tickets 2000\n",
            tcp=True,
        )
        stack.enter_context(sentinel)
        deployed = Deployment(master, replica, sentinel)
        deployed.hurry()
        wait_for(deployed.knows_the_replica, what="the sentinel knows the replica")
        yield deployed


async def test_the_master_is_found(deployment: Deployment) -> None:
    async with Store(deployment.url, times=TIMES) as store:
        assert await store.check()
        assert await store.queue.push(a_request(1)) is Pushed.PUSHED
        assert deployment.master.command("LLEN", store.keys.queue) == 1


async def test_a_failover_is_survived(deployment: Deployment) -> None:
    async with Store(deployment.url, times=TIMES) as store:
        store.outage = Outage(first_wait=0.01, longest_wait=0.05)
        lease, _ = await begin(store)
        await store.redis.delete(store.keys.settling)
        assert deployment.master.command("WAIT", "1", "5000") == 1, "the replica has what was acknowledged"
        deployment.master.kill()
        with capture_logs() as logs:
            assert await store.outage.outlast(lambda: store.runs.renew(lease, ttl=60)) == "renewed"
        told = [line["event"].split(",")[0] for line in logs]
        assert sorted(told) == ["redis has another primary", "redis is away", "redis is back"]
        assert await store.presence.settling(), "it is another server: nothing is declared dead yet"
        newer, _ = await begin(store, 2)
        assert newer.fence > lease.fence
        assert deployment.replica.command("EXISTS", store.keys.heartbeat(ticket_id(2))) == 1


async def test_an_unknown_service_is_told(deployment: Deployment) -> None:
    url = deployment.url.replace("tickets", "nothing")
    async with Store(url, times=TIMES) as store:
        with pytest.raises(StoreUnavailable, match="nothing") as caught:
            await store.check()
    assert PASSWORD not in str(caught.value)


async def test_no_sentinel_there() -> None:
    async with Store(f"redis+sentinel://127.0.0.1:{free_port()}/tickets", times=TIMES) as store:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await store.check()
