"""The frame: serving, the request log, unknown routes, the clock and the control plane."""

from __future__ import annotations

import asyncio
import signal
import time

import httpx
import pytest

from agentsmith.simulators import Clock, Fault, Running, serve
from agentsmith.simulators.github import GitHubSimulator
from agentsmith.simulators.wire import application
from tests.support.wait import quickest

REPO = "acme/web"


async def test_starting_and_stopping_is_quick_and_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    async def served() -> float:
        began = time.monotonic()
        async with serve(GitHubSimulator()) as running:
            assert running.url.startswith("http://127.0.0.1:")
            assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
        return time.monotonic() - began

    assert await quickest(served, than=0.5) < 0.5


async def test_an_open_connection_does_not_delay_the_end(hub: GitHubSimulator) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        async with serve(hub) as running:
            await client.get(f"{running.url}/_control")
        with pytest.raises(httpx.TransportError):
            await client.get(f"{running.url}/_control")


async def test_the_end_does_not_wait_for_a_request_that_hangs(hub: GitHubSimulator) -> None:
    fault = hub.inject(Fault("slow"))
    async with httpx.AsyncClient(trust_env=False, headers={"Authorization": "token x"}) as client:
        async with serve(hub) as running:
            hanging = asyncio.create_task(client.get(f"{running.api_url}/user"))
            await fault.hit()
        with pytest.raises(httpx.TransportError):
            await hanging


async def test_an_unknown_route_is_an_error_that_is_remembered(hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
    answer = await api.get("/no/such/thing?with=query")
    assert answer.status_code == 500
    assert "does not know" in answer.json()["message"]
    assert [r.path for r in hub.unknown_requests] == ["/repos/acme/web/no/such/thing"]
    with pytest.raises(AssertionError, match="no/such/thing"):
        hub.assert_understood()


async def test_an_unknown_query_parameter_is_not_ignored_in_silence(
    hub: GitHubSimulator, api: httpx.AsyncClient
) -> None:
    answer = await api.get("/issues", params={"lables": "x"})
    assert answer.status_code == 500
    assert len(hub.unknown_requests) == 1
    hub.forget_requests()  # the judge would rightly complain


async def test_a_crash_is_told_and_kept(hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
    hub.hub.door = None  # type: ignore[assignment]
    answer = await api.get("/issues/1")
    assert answer.status_code == 500
    assert "AttributeError" in hub.crashes.pop()


async def test_the_log_tells_everything_but_secrets(hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
    number = hub.open_issue(REPO)
    await api.post(f"/issues/{number}/labels", json={"labels": ["a:b"]}, headers={"X-Thing": "1"})
    await api.delete(f"/issues/{number}/labels/a%3Ab")
    first, second = hub.requests
    assert (first.method, first.path, first.status) == ("POST", f"/repos/{REPO}/issues/{number}/labels", 200)
    assert first.body == {"labels": ["a:b"]}
    assert first.headers["x-thing"] == "1"
    assert first.headers["authorization"] == "Bearer ***"
    assert first.caller == "smith-bot"
    assert first.counted
    assert first.answer_body.startswith(b"[{")
    assert second.raw_path.endswith("/labels/a%3Ab")
    assert second.path.endswith("/labels/a:b")
    assert "token-of-smith" not in repr(hub.requests)


async def test_secrets_in_bodies_are_masked(hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
    hub.set_permission(REPO, "smith-bot", "admin")
    config = {"url": "http://127.0.0.1:9/hook", "secret": "very-secret", "content_type": "json"}
    assert (await api.post("/hooks", json={"config": config, "events": ["issues"]})).status_code == 201
    assert "very-secret" not in repr(hub.requests)
    assert hub.requests[0].body["config"]["secret"] == "***"


async def test_reset_forgets_all(hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
    hub.open_issue(REPO)
    hub.inject(Fault("refuse", times=None))
    hub.clock.advance(100)
    hub.reset()
    assert not hub.requests
    assert not list(hub.faults)
    assert hub.clock.now() == 1_800_000_000.0
    with pytest.raises(LookupError):
        hub.labels(REPO, 1)
    assert (await api.get("/issues/1")).status_code == 401


def test_time_jumps_forward_only() -> None:
    clock = Clock(1000.0)
    woken: list[float] = []
    clock.watch(lambda: woken.append(clock.now()))
    assert clock.advance(5) == 1005.0
    assert woken == [1005.0]
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)
    assert abs(Clock().now() - time.time()) < 60


def test_one_simulator_may_live_in_several_loops() -> None:
    hub = GitHubSimulator()

    async def ask() -> int:
        async with serve(hub) as running, httpx.AsyncClient(trust_env=False) as client:
            hub.clock.advance(1)
            await asyncio.sleep(0)
            return (await client.get(f"{running.url}/_control/clock")).status_code

    assert [asyncio.run(ask()), asyncio.run(ask())] == [200, 200]


async def test_it_answers_without_a_socket_too(hub: GitHubSimulator) -> None:
    number = hub.open_issue(REPO, labels=["x"])
    transport = httpx.ASGITransport(app=application(hub))
    headers = {"Authorization": "token token-of-smith"}
    async with httpx.AsyncClient(transport=transport, base_url="http://hub.test", headers=headers) as client:
        answer = await client.get(f"/repos/{REPO}/issues/{number}")
        assert answer.json()["url"] == f"http://hub.test/repos/{REPO}/issues/{number}"
        hub.inject(Fault("applied_then_lost", method="POST"))
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(f"/repos/{REPO}/issues/{number}/labels", json={"labels": ["y"]})
    assert hub.labels(REPO, number) == ["x", "y"]


class TestControlPlane:
    """What Python can do, HTTP can do."""

    @pytest.fixture
    async def control(self, running: Running, api: httpx.AsyncClient) -> httpx.AsyncClient:
        api.base_url = httpx.URL(f"{running.url}/_control")
        return api

    async def test_it_describes_itself(self, control: httpx.AsyncClient) -> None:
        body = (await control.get("")).json()
        assert body["simulator"] == "github"
        assert "open_issue" in body["operations"]
        assert "applied_then_lost" in body["fault_kinds"]
        assert "secondary_limit" in body["fault_kinds"]

    async def test_people_act(self, control: httpx.AsyncClient, hub: GitHubSimulator) -> None:
        opened = await control.post("/act/open_issue", json={"repo": REPO, "title": "Hi", "labels": ["a"]})
        number = opened.json()["result"]
        await control.post("/act/add_label", json={"repo": REPO, "number": number, "label": "b"})
        labels = await control.post("/act/labels", json={"repo": REPO, "number": number})
        assert labels.json() == {"result": ["a", "b"]}
        assert hub.labels(REPO, number) == ["a", "b"]

    @pytest.mark.parametrize(
        ("path", "body", "status"),
        [
            ("/act/no_such", {}, 404),
            ("/act/open_issue", {"repo": "no/where"}, 400),
            ("/act/open_issue", {"wrong": 1}, 400),
            ("/act/add_repository", {"repo": "nonsense"}, 400),
            ("/act/open_issue", [1], 400),
            ("/faults", {"kind": "no_such"}, 400),
            ("/faults", {"kind": "refuse", "colour": "red"}, 400),
            ("/faults", {}, 400),
            ("/faults/none/release", {}, 404),
            ("/clock", {"advance": "soon"}, 400),
            ("/deliveries/77/attempts", {}, 404),
        ],
    )
    async def test_nonsense_is_refused(self, control: httpx.AsyncClient, path: str, body: object, status: int) -> None:
        answer = await control.post(path, json=body)
        assert answer.status_code == status
        assert answer.json()["message"]

    async def test_faults_come_and_go(self, control: httpx.AsyncClient, running: Running) -> None:
        made = await control.post("/faults", json={"kind": "status", "status": 502, "path": "/user$"})
        assert made.status_code == 201
        assert (await control.get(f"{running.api_url}/user")).status_code == 502
        assert (await control.get(f"{running.api_url}/user")).status_code == 200
        (listed,) = (await control.get("/faults")).json()
        assert listed["struck"] == 1
        assert (await control.post(f"/faults/{listed['name']}/release")).status_code == 200
        assert (await control.delete(f"/faults/{listed['name']}")).status_code == 200
        assert (await control.delete(f"/faults/{listed['name']}")).status_code == 404
        assert (await control.delete("/faults")).json() == []

    async def test_log_clock_and_reset(
        self, control: httpx.AsyncClient, running: Running, hub: GitHubSimulator
    ) -> None:
        await control.get(f"{running.api_url}/user")
        await control.get(f"{running.api_url}/nonsense")
        log = (await control.get("/requests")).json()
        assert [(entry["path"], entry["status"]) for entry in log] == [("/user", 200), ("/nonsense", 500)]
        assert [entry["path"] for entry in (await control.get("/unknown")).json()] == ["/nonsense"]
        assert (await control.delete("/requests")).json() == []
        before = (await control.get("/clock")).json()["now"]
        assert (await control.post("/clock", json={"advance": 60})).json()["now"] == before + 60
        assert (await control.get("/deliveries")).json() == []
        assert (await control.post("/deliveries/release")).status_code == 200
        assert (await control.post("/deliveries/settle")).status_code == 200
        await control.post("/reset")
        assert not hub.hub.world.repositories
