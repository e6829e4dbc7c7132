"""Each fault does what it says, as often as it says, where it says."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from agentsmith.simulators import Fault
from agentsmith.simulators.github import GitHubSimulator

REPO = "acme/web"


@pytest.fixture
def number(hub: GitHubSimulator) -> int:
    return hub.open_issue(REPO, labels=["first"])


async def add(api: httpx.AsyncClient, number: int, label: str) -> httpx.Response:
    return await api.post(f"/issues/{number}/labels", json={"labels": [label]})


async def test_refuse_applies_nothing(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    hub.inject(Fault("refuse", method="POST"))
    with pytest.raises(httpx.RemoteProtocolError):
        await add(api, number, "x")
    assert hub.labels(REPO, number) == ["first"]
    assert (hub.requests[0].status, hub.requests[0].faults) == (None, ["refuse"])
    assert (await add(api, number, "x")).status_code == 200


async def test_applied_then_lost_applies_everything(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    hub.inject(Fault("applied_then_lost", path="/labels"))
    with pytest.raises(httpx.RemoteProtocolError):
        await add(api, number, "x")
    assert hub.labels(REPO, number) == ["first", "x"]
    assert hub.requests[0].counted


async def test_reset_mid_body_applies_and_breaks(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    hub.inject(Fault("reset_mid_body", method="POST"))
    with pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
        await add(api, number, "x")
    assert hub.labels(REPO, number) == ["first", "x"]


async def test_status_comes_with_body_and_headers(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    hub.inject(Fault("status", status=502, body={"message": "bad gateway"}, headers={"Retry-After": "7"}))
    answer = await add(api, number, "x")
    assert (answer.status_code, answer.json()["message"]) == (502, "bad gateway")
    assert answer.headers["retry-after"] == "7"
    hub.inject(Fault("status", body="plain words"))
    assert (await add(api, number, "x")).text == "plain words"
    hub.inject(Fault("status"))
    assert (await add(api, number, "x")).status_code == 503
    assert hub.labels(REPO, number) == ["first"]


@pytest.mark.parametrize("after", [False, True])
async def test_slow_waits_until_it_is_released(
    hub: GitHubSimulator, api: httpx.AsyncClient, number: int, after: bool
) -> None:
    fault = hub.inject(Fault("slow", method="POST", after=after))
    waiting = asyncio.create_task(add(api, number, "x"))
    await fault.hit()
    await asyncio.sleep(0)
    assert not waiting.done()
    assert hub.labels(REPO, number) == (["first", "x"] if after else ["first"])
    fault.release()
    assert (await waiting).status_code == 200
    assert hub.labels(REPO, number) == ["first", "x"]


async def test_slow_by_seconds(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    hub.inject(Fault("slow", seconds=0.01))
    assert (await api.get(f"/issues/{number}")).status_code == 200


async def test_a_client_that_leaves_a_slow_write_early(
    hub: GitHubSimulator, api: httpx.AsyncClient, number: int
) -> None:
    hub.inject(Fault("slow", method="POST"))
    with pytest.raises(httpx.ReadTimeout):
        await api.post(f"/issues/{number}/labels", json={"labels": ["x"]}, timeout=httpx.Timeout(30, read=0.05))


async def test_removing_a_slow_fault_lets_go(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    fault = hub.inject(Fault("slow", times=None))
    waiting = asyncio.create_task(api.get(f"/issues/{number}"))
    await fault.hit()
    assert hub.remove_fault(fault.name)
    assert (await waiting).status_code == 200


async def test_stale_reads_look_back(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    hub.add_label(REPO, number, "second")
    hub.comment(REPO, number, "hello")

    async def labels_of(path: str) -> list[str]:
        body = (await api.get(path)).json()
        issue = body[0] if isinstance(body, list) else body
        return [label["name"] for label in issue["labels"]]

    hub.inject(Fault("stale_read", behind=2, times=2))
    assert await labels_of(f"/issues/{number}") == ["first"]
    assert await labels_of("/issues") == ["first"]
    assert await labels_of(f"/issues/{number}") == ["first", "second"]
    hub.inject(Fault("stale_read", path="/comments"))
    assert (await api.get(f"/issues/{number}/comments")).json() == []
    hub.inject(Fault("stale_read", behind=99))
    assert await labels_of(f"/issues/{number}") == ["first"]


async def test_a_stale_read_never_makes_a_write_old(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    hub.add_label(REPO, number, "second")
    hub.inject(Fault("stale_read", times=None))
    answer = await add(api, number, "third")
    assert [label["name"] for label in answer.json()] == ["first", "second", "third"]


async def test_bodies_are_broken_in_their_ways(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    hub.inject(Fault("malformed_json"))
    answer = await api.get(f"/issues/{number}")
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        answer.json()
    hub.inject(Fault("invalid_utf8"))
    answer = await api.get(f"/issues/{number}")
    with pytest.raises(UnicodeDecodeError):
        answer.content.decode("utf-8")
    hub.inject(Fault("html_instead_of_json", status=502))
    answer = await api.get(f"/issues/{number}")
    assert answer.status_code == 502
    assert answer.headers["content-type"].startswith("text/html")
    hub.inject(Fault("huge", size=3_000_000))
    answer = await api.get(f"/issues/{number}")
    assert len(answer.content) > 2_900_000
    assert answer.json()["message"].startswith("xxx")
    assert "content-length" not in answer.headers


async def test_writes_behind_broken_bodies_are_applied(
    hub: GitHubSimulator, api: httpx.AsyncClient, number: int
) -> None:
    hub.inject(Fault("malformed_json"))
    await add(api, number, "x")
    assert hub.labels(REPO, number) == ["first", "x"]


async def test_faults_match_count_skip_and_chance(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    fault = hub.inject(Fault("status", method="^GET$", path=r"/issues/\d+$", times=2, skip=1))
    statuses = [(await api.get(f"/issues/{number}")).status_code for _ in range(5)]
    assert statuses == [200, 503, 503, 200, 200]
    assert fault.spent
    assert (await add(api, number, "x")).status_code == 200

    async def throw(seed: int) -> list[int]:
        hub.clear_faults()
        hub.inject(Fault("status", times=None, probability=0.5, seed=seed))
        return [(await api.get(f"/issues/{number}")).status_code for _ in range(20)]

    first = await throw(1)
    assert await throw(1) == first
    assert set(first) == {200, 503}
    assert await throw(2) != first


def test_unknown_kinds_are_refused_at_once(hub: GitHubSimulator) -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        hub.inject(Fault("gremlins"))


async def test_of_one_kind_one_strikes_at_a_time(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    hub.inject(Fault("status", status=502))
    hub.inject(Fault("status", status=504))
    statuses = [(await api.get(f"/issues/{number}")).status_code for _ in range(3)]
    assert statuses == [502, 504, 200]


async def test_a_fault_waits_for_what_it_is_about(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    kinds = ("stale_read", "silent_permission_loss", "lenient_delete", "wrong_filter")
    stale, silent, lenient, wrong = (hub.inject(Fault(kind)) for kind in kinds)
    await api.get(f"/issues/{number}")
    assert (stale.struck, silent.struck, lenient.struck, wrong.struck) == (1, 0, 0, 0)
    await api.get("/issues")
    assert (silent.struck, lenient.struck, wrong.struck) == (0, 0, 1)
    await add(api, number, "x")
    assert (silent.struck, lenient.struck) == (1, 0)
    await api.delete(f"/issues/{number}/labels/nothing")
    assert lenient.struck == 1


async def test_somebody_does_something_meanwhile(hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
    hub.inject(Fault("meanwhile", method="POST", action=lambda: hub.add_label(REPO, number, "before")))
    answer = await add(api, number, "x")
    assert [label["name"] for label in answer.json()] == ["first", "before", "x"]
    hub.inject(Fault("meanwhile", method="POST", after=True, action=lambda: hub.remove_label(REPO, number, "x")))
    answer = await add(api, number, "y")
    assert [label["name"] for label in answer.json()] == ["first", "before", "x", "y"]
    assert hub.labels(REPO, number) == ["first", "before", "y"]
