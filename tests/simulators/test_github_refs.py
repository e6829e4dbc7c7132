"""Git refs, commits and pull requests."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from agentsmith.simulators import Fault
from agentsmith.simulators.github import GitHubSimulator

REPO = "acme/web"
CLAIM = "refs/agent-smith/claims/issue-42"


@pytest.fixture
async def tip(api: httpx.AsyncClient) -> str:
    return str((await api.get("/git/ref/heads/main")).json()["object"]["sha"])


async def test_a_ref_is_created_by_exactly_one(api: httpx.AsyncClient, tip: str) -> None:
    for _ in range(3):
        body = {"ref": CLAIM, "sha": tip}
        answers = await asyncio.gather(*(api.post("/git/refs", json=body) for _ in range(10)))
        assert sorted(answer.status_code for answer in answers) == [201] + [422] * 9
        losers = {answer.json()["message"] for answer in answers if answer.status_code == 422}
        assert losers == {"Reference already exists"}
        assert (await api.delete(f"/git/{CLAIM}")).status_code == 204
        gone = await api.delete(f"/git/{CLAIM}")
        assert (gone.status_code, gone.json()["message"]) == (422, "Reference does not exist")


async def test_reads_of_refs_may_lag(hub: GitHubSimulator, api: httpx.AsyncClient, tip: str) -> None:
    name = CLAIM.removeprefix("refs/")
    await api.post("/git/refs", json={"ref": CLAIM, "sha": tip})
    hub.inject(Fault("stale_read", path="/git/ref/"))
    assert (await api.get(f"/git/ref/{name}")).status_code == 404
    shown = (await api.get(f"/git/ref/{name}")).json()
    assert (shown["ref"], shown["object"]["sha"]) == (CLAIM, tip)
    matching = (await api.get("/git/matching-refs/agent-smith/claims")).json()
    assert [ref["ref"] for ref in matching] == [CLAIM]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"ref": "main", "sha": "TIP"}, 422),
        ({"ref": "refs/heads", "sha": "TIP"}, 422),
        ({"ref": CLAIM, "sha": "f" * 40}, 422),
        ({"ref": CLAIM}, 422),
        ({"sha": "TIP"}, 422),
    ],
)
async def test_bad_refs(api: httpx.AsyncClient, tip: str, body: dict[str, str], status: int) -> None:
    filled = {key: tip if value == "TIP" else value for key, value in body.items()}
    assert (await api.post("/git/refs", json=filled)).status_code == status


async def test_an_empty_repository_conflicts(hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
    hub.add_repository("acme/empty", empty=True)
    url = str(api.base_url).replace("/web", "/empty")
    answer = await api.post(f"{url}git/refs", json={"ref": CLAIM, "sha": "0" * 40})
    assert (answer.status_code, answer.json()["message"]) == (409, "Git Repository is empty.")
    assert (await api.get(f"{url}branches/main")).status_code == 404


async def test_commits_carry_a_date_and_move_refs_forward(
    hub: GitHubSimulator, api: httpx.AsyncClient, tip: str
) -> None:
    first = (await api.get(f"/git/commits/{tip}")).json()
    hub.clock.advance(90)
    body = {"message": "claim", "tree": first["tree"]["sha"], "parents": [tip]}
    made = await api.post("/git/commits", json=body)
    assert made.status_code == 201
    assert made.json()["committer"]["date"] == "2027-01-15T08:01:30Z"
    new = made.json()["sha"]
    assert (await api.patch("/git/refs/heads/main", json={"sha": new})).status_code == 200
    back = await api.patch("/git/refs/heads/main", json={"sha": tip})
    assert (back.status_code, back.json()["message"]) == (422, "Update is not a fast forward")
    assert (await api.patch("/git/refs/heads/main", json={"sha": tip, "force": True})).status_code == 200
    assert (await api.patch("/git/refs/heads/none", json={"sha": tip})).status_code == 422
    assert (await api.patch("/git/refs/heads/main", json={"sha": "0" * 40})).status_code == 422
    assert (await api.get("/branches/main")).json()["commit"]["sha"] == tip
    assert (await api.get(f"/git/commits/{'0' * 40}")).status_code == 404


async def test_pull_requests(hub: GitHubSimulator, api: httpx.AsyncClient, tip: str) -> None:
    body = {"title": "T", "head": "topic", "base": "main", "body": "B"}
    await api.post("/git/refs", json={"ref": "refs/heads/topic", "sha": tip})
    none = await api.post("/pulls", json=body)
    assert (none.status_code, none.json()["errors"][0]["message"]) == (422, "No commits between main and topic")
    hub.push(REPO, "topic", {"new": "file"})
    made = await api.post("/pulls", json=body)
    assert made.status_code == 201
    assert made.json()["head"]["sha"] == hub.branches(REPO)["topic"]
    number = made.json()["number"]
    twice = await api.post("/pulls", json=body)
    assert twice.status_code == 422
    assert twice.json()["errors"][0]["message"].startswith("A pull request already exists for acme:topic")
    found = (await api.get("/pulls", params={"head": "acme:topic", "state": "open"})).json()
    assert [pull["number"] for pull in found] == [number]
    assert (await api.post("/pulls", json={**body, "head": "none"})).status_code == 422
    edited = await api.patch(f"/pulls/{number}", json={"title": "U", "state": "closed"})
    assert (edited.json()["title"], edited.json()["state"]) == ("U", "closed")
    assert (await api.patch(f"/pulls/{number}", json={"state": "ajar"})).status_code == 422
    assert (await api.get(f"/pulls/{number}")).json()["merged"] is False
    assert (await api.get(f"/pulls/{hub.open_issue(REPO)}")).status_code == 404
    assert (await api.get("/pulls", params={"head": "acme:topic"})).json() == []
