"""What programs read over HTTP: why a ticket did or did not run, and metrics; and who may read it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentsmith.store import Store
from agentsmith.web.access import ReadAccess, is_loopback
from agentsmith.web.app import Answers, make_app
from agentsmith.web.receiver import Endpoint, Receiver
from tests.support.stores import TIMES
from tests.support.world import World, open_world

HERE = ReadAccess("127.0.0.1")


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url) as world:
        yield world


async def _ready() -> None:
    return None


@asynccontextmanager
async def client_of(
    world: World, access: ReadAccess = HERE, *, host: str = "127.0.0.1:8080", store: Store | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    answers = Answers(store or world.store, world.trackers, access)
    endpoints = {"local": Endpoint(world.trackers["local"], None)}
    app = make_app(Receiver(world.store, endpoints), ready=_ready, answers=answers)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=f"http://{host}") as client:
        yield client


async def dealt_with(world: World, key: str) -> None:
    await world.store.signals.send([world.signal(key)])
    payload = await world.store.signals.take(world.process.name, wait=1)
    assert payload is not None
    await world.intake._deal_with(payload)


@pytest.mark.parametrize("named", ["1", "local:1", "local/tickets#1", "local://tickets/1"])
async def test_why_is_told_for_a_ticket_however_it_is_named(world: World, named: str) -> None:
    key = await world.open_ticket("agent-smith:done")
    await dealt_with(world, key)
    async with client_of(world) as client:
        answer = await client.get(f"/api/v1/tickets/{quote(named, safe='/:')}/why")
    assert answer.status_code == 200
    told = answer.json()
    assert (told["ticket"], told["reachable"], told["now"]) == ("local/tickets#1", True, "neither queued nor running")
    [look] = told["looks"]
    shut = [gate for gate in look["gates"] if not gate["passed"]]
    assert [gate["gate"] for gate in shut] == ["status is pending"]
    assert "remove the label" in shut[0]["remedy"]


async def test_why_of_what_nobody_looked_at_says_so(world: World) -> None:
    await world.open_ticket()
    async with client_of(world) as client:
        assert (await client.get("/api/v1/tickets/1/why")).json()["looks"] == []


@pytest.mark.parametrize("named", ["seven", "github.com/acme/web%2312", "..", "%00", "1/why/2"])
async def test_what_names_no_ticket_is_404(world: World, named: str) -> None:
    async with client_of(world) as client:
        assert (await client.get(f"/api/v1/tickets/{named}/why")).status_code == 404


async def test_the_api_is_for_reading_only(world: World) -> None:
    async with client_of(world) as client:
        for path in ("/api/v1/tickets/1/why", "/metrics"):
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                assert (await client.request(method, path)).status_code == 405


async def metrics_of(client: httpx.AsyncClient) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_metrics_tell_what_came_of_looks_and_webhooks_and_how_much_there_is(world: World) -> None:
    claimed = ("agentsmith_looks_total", (("outcome", "Claimed"), ("tracker", "local")))
    refused = ("agentsmith_webhooks_total", (("status", "401"), ("tracker", "local")))
    unknown = ("agentsmith_webhooks_total", (("status", "404"), ("tracker", "-")))
    async with client_of(world) as client:
        before = await metrics_of(client)
        await dealt_with(world, await world.open_ticket())
        json_ = {"content-type": "application/json"}
        await client.post("/webhooks/local", content=b"{}", headers=json_)
        await client.post("/webhooks/a-name-that-a-stranger-made-up", content=b"{}", headers=json_)
        after = await metrics_of(client)
    for name in (claimed, refused, unknown):
        assert after[name] - before.get(name, 0) == 1, name
    assert after[("agentsmith_depth", (("what", "queued"),))] == 1
    assert after[("agentsmith_depth", (("what", "running"),))] == 0
    assert after[("agentsmith_redis_up", ())] == 1
    assert not any("stranger" in str(name) for name in after)


async def test_P9_without_redis_the_depths_are_unknown_not_zero(world: World, tmp_path: Path) -> None:
    await world.open_ticket()
    async with client_of(world) as client:
        await metrics_of(client)
    nowhere = Store(f"unix://{tmp_path / 'nowhere'}", times=TIMES)
    async with nowhere, client_of(world, store=nowhere) as client:
        told = await metrics_of(client)
        assert told[("agentsmith_redis_up", ())] == 0
        assert math.isnan(told[("agentsmith_depth", (("what", "queued"),))])
        answer = await client.get("/api/v1/tickets/1/why")
        assert (answer.status_code, answer.json()["reachable"]) == (503, False)


@pytest.mark.parametrize(
    ("listening", "host", "headers", "status"),
    [
        ("127.0.0.1", "127.0.0.1:8080", {}, 200),
        ("localhost", "localhost:8080", {}, 200),
        ("::1", "[::1]:8080", {}, 200),
        ("127.0.0.1", "agentsmith.example.com", {}, 401),  # a tunnel, or a page that a browser was lured to
        ("127.0.0.1", "127.0.0.1:8080", {"x-forwarded-for": "203.0.113.7"}, 401),
        ("127.0.0.1", "127.0.0.1:8080", {"forwarded": "for=203.0.113.7"}, 401),
        ("127.0.0.1", "127.0.0.1:8080", {"via": "1.1 proxy"}, 401),
        ("0.0.0.0", "127.0.0.1:8080", {}, 401),  # noqa: S104 - is refused
        ("10.0.0.5", "10.0.0.5:8080", {}, 401),
    ],
)
async def test_P8_without_a_token_only_this_machine_may_read(
    world: World, listening: str, host: str, headers: dict[str, str], status: int
) -> None:
    async with client_of(world, ReadAccess(listening), host=host) as client:
        for path in ("/metrics", "/api/v1/tickets/1/why"):
            answer = await client.get(path, headers=headers)
            assert answer.status_code == status, path
            if status == 401:
                assert "server.api_token" in answer.json()["answer"]
                assert "local/tickets" not in answer.text
        # Health says nothing about anybody.
        assert (await client.get("/healthz", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("Bearer right", 200),
        ("bearer right", 200),
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("Basic right", 401),
        ("right", 401),
        ("Bearer right right", 401),
        (None, 401),
    ],
)
async def test_P8_with_a_token_everybody_needs_it(world: World, sent: str | None, status: int) -> None:
    headers: dict[str, Any] = {} if sent is None else {"authorization": sent}
    for listening in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 - a name only
        async with client_of(world, ReadAccess(listening, "right"), host="agentsmith.example.com") as client:
            assert (await client.get("/metrics", headers=headers)).status_code == status


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("127.0.0.5", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("x", False)],  # noqa: S104
)
def test_what_only_this_machine_can_reach(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
