"""Through sentinels: the primary is found, followed, and left the moment that it is not the primary any more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentsmith.domain.errors import StoreUnavailable
from agentsmith.store import AWAY, Outage, Pushed, Store
from agentsmith.store.connection import _Sentinels
from tests.support.redis_server import RedisServer, free_port
from tests.support.sentinels import SERVICE, Deployment, deployed
from tests.support.stores import TIMES, PrivateServer, a_request, begin, ticket_id
from tests.support.wait import wait_until

PASSWORD = "hush"


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    with deployed(password=PASSWORD) as deployment:
        yield deployment


async def test_the_master_is_found(deployment: Deployment) -> None:
    async with Store(deployment.url, times=TIMES) as store:
        assert await store.check()
        assert await store.queue.push(a_request(1)) is Pushed.PUSHED
        assert deployment.primary.command("LLEN", store.keys.queue) == 1


async def test_a_failover_is_survived(deployment: Deployment) -> None:
    master, (replica,) = deployment.primary, deployment.replicas
    async with Store(deployment.url, times=TIMES) as store:
        store.outage = Outage(first_wait=0.01, longest_wait=0.05)
        lease, _ = await begin(store)
        await store.redis.delete(store.keys.settling)
        assert master.command("WAIT", "1", "5000") == 1, "the replica has what was acknowledged"
        master.kill()
        with capture_logs() as logs:
            assert await store.outage.outlast(lambda: store.runs.renew(lease, ttl=60)) == "renewed"
        told = [line["event"].split(",")[0] for line in logs]
        assert sorted(told) == ["redis has another primary", "redis is away", "redis is back"]
        assert await store.presence.settling(), "it is another server: nothing is declared dead yet"
        newer, _ = await begin(store, 2)
        assert newer.fence > lease.fence
        assert replica.command("EXISTS", store.keys.heartbeat(ticket_id(2))) == 1


async def test_an_unknown_service_is_told(deployment: Deployment) -> None:
    url = deployment.url.replace(SERVICE, "nothing")
    async with Store(url, times=TIMES) as store:
        with pytest.raises(StoreUnavailable, match="nothing") as caught:
            await store.check()
    assert PASSWORD not in str(caught.value)


async def test_no_sentinel_there() -> None:
    async with Store(f"redis+sentinel://127.0.0.1:{free_port()}/tickets", times=TIMES) as store:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await store.check()


# Two that both take writes: what a sentinel says decides, however long the old one takes to hear of it.


class Sentinel:
    """A real one, which is told whom to name."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.server.port}/{SERVICE}"

    def name(self, primary: RedisServer) -> None:
        """From now on this one is the primary; whoever was, is told nothing."""
        if self.server.command("SENTINEL", "MASTERS"):
            self.server.command("SENTINEL", "REMOVE", SERVICE)
        self.server.command("SENTINEL", "MONITOR", SERVICE, "127.0.0.1", str(primary.port), "1")


@pytest.fixture
def sentinel() -> Iterator[Sentinel]:
    with RedisServer("--sentinel", conf="sentinel resolve-hostnames no\n", tcp=True) as server:
        yield Sentinel(server)


def connections(server: RedisServer) -> list[str]:
    """Whoever is connected, but for sentinels and whoever asks this."""
    told = str(server.command("CLIENT", "LIST")).splitlines()
    return [line for line in told if "name=sentinel" not in line and "cmd=client" not in line]


async def test_nobody_goes_on_talking_to_the_old_primary(sentinel: Sentinel, private_server: PrivateServer) -> None:
    old, new = private_server(tcp=True), private_server(tcp=True)
    sentinel.name(old)
    async with Store(sentinel.url, times=TIMES) as store:
        await asyncio.gather(*(store.redis.ping() for _ in range(3)))
        taking = asyncio.create_task(store.queue.take("c1", wait=60))
        await wait_until(lambda: "cmd=blmove" in str(old.command("CLIENT", "LIST")), what="the take is blocked")
        assert len(connections(old)) >= 3
        sentinel.name(new)
        with pytest.raises(AWAY):
            await taking
        assert await store.outage.outlast(lambda: store.queue.push(a_request(1))) is Pushed.PUSHED
        assert (old.command("LLEN", store.keys.queue), new.command("LLEN", store.keys.queue)) == (0, 1)
        await wait_until(lambda: not connections(old), what="no connection is left")


async def test_a_sentinel_that_is_behind_is_not_believed(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, turned_away = _Sentinels.check_master_state, []

    def note(sentinels: _Sentinels, state: dict[str, Any], service: str) -> bool:
        usable = judge(sentinels, state, service)
        if not usable:
            turned_away.append(state["port"])
        return usable

    monkeypatch.setattr(_Sentinels, "check_master_state", note)
    old, new = private_server(tcp=True), private_server(tcp=True)
    monitor = f"sentinel monitor {SERVICE} 127.0.0.1"
    newer = f"{monitor} {new.port} 1\nsentinel config-epoch {SERVICE} 5\n"
    with (
        RedisServer("--sentinel", conf=f"{monitor} {old.port} 1\n", tcp=True) as behind,
        RedisServer("--sentinel", conf=newer, tcp=True) as knowing,
    ):
        url = f"redis+sentinel://127.0.0.1:{behind.port},127.0.0.1:{knowing.port}/{SERVICE}"
        async with Store(url, times=TIMES) as store:
            await store.redis.ping()

            async def has_moved() -> bool:
                with contextlib.suppress(*AWAY):
                    await store.prove()
                return bool(new.command("EXISTS", store.keys.probe))

            await wait_until(has_moved, what="the primary that the newer configuration names")
            old.command("FLUSHALL")

            async def is_turned_away() -> bool:
                await store.outage.outlast(store.prove)
                return turned_away.count(old.port) > 1

            await wait_until(is_turned_away, what="the one that is behind to be asked twice", within=60)
            assert not old.command("EXISTS", store.keys.probe)


async def test_a_replica_that_is_named_as_the_primary_is_not_believed(
    sentinel: Sentinel, private_server: PrivateServer
) -> None:
    primary, replica = private_server(tcp=True), private_server(tcp=True)
    sentinel.name(replica)
    replica.command("REPLICAOF", "127.0.0.1", str(primary.port))
    async with Store(sentinel.url, times=TIMES) as store:
        with pytest.raises(AWAY, match="is named as the primary, but is a replica"):
            await store.redis.ping()
