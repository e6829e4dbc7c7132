"""Hooks over the API, their delivery log and redelivery."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from agentsmith.simulators import Fault, Running
from agentsmith.simulators.github import GitHubSimulator
from tests.support.receiver import Receiver, receiving

REPO = "acme/web"
SECRET = "It's a Secret to Everybody"


@pytest.fixture
async def inbox() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
def hook(hub: GitHubSimulator, running: Running, inbox: Receiver) -> int:
    """A hook for everything; it depends on `running`, because only a served simulator sends."""
    return hub.register_webhook(REPO, inbox.url, secret=SECRET)


def events(inbox: Receiver) -> list[str]:
    told = []
    for request in inbox.requests:
        action = request.json.get("action")
        told.append(request.headers["x-github-event"] + (f".{action}" if action else ""))
    return told


class TestHookEndpoints:
    """Hooks over the API, their log and redelivery."""

    @pytest.fixture(autouse=True)
    def admin(self, hub: GitHubSimulator) -> None:
        hub.set_permission(REPO, "smith-bot", "admin")

    async def test_life_of_a_hook(self, hub: GitHubSimulator, api: httpx.AsyncClient, inbox: Receiver) -> None:
        config = {"url": inbox.url, "content_type": "json", "secret": SECRET}
        made = await api.post("/hooks", json={"config": config, "events": ["issues"], "active": True})
        assert made.status_code == 201
        assert made.json()["config"]["secret"] == "********"
        await hub.outbox.settle()
        assert events(inbox) == ["ping"]
        assert inbox.requests[0].json["hook_id"] == made.json()["id"]
        twice = await api.post("/hooks", json={"config": config, "events": ["issues"]})
        assert "already exists" in twice.json()["errors"][0]["message"]
        path = f"/hooks/{made.json()['id']}"
        assert (await api.get(path)).json()["last_response"]["code"] == 202
        edited = await api.patch(path, json={"add_events": ["issue_comment"], "active": False})
        assert (edited.json()["events"], edited.json()["active"]) == (["issues", "issue_comment"], False)
        hub.open_issue(REPO)
        await hub.outbox.settle()
        assert events(inbox) == ["ping"]
        edited = await api.patch(path, json={"events": ["*"], "active": True, "config": {"url": inbox.url}})
        assert edited.json()["config"]["content_type"] == "form"
        assert "secret" not in edited.json()["config"]
        removed = await api.patch(path, json={"remove_events": ["*"]})
        assert removed.json()["events"] == []
        assert (await api.post(f"{path}/pings")).status_code == 204
        assert [hook["id"] for hook in (await api.get("/hooks")).json()] == [made.json()["id"]]
        assert (await api.delete(path)).status_code == 204
        assert (await api.get(path)).status_code == 404
        assert (await api.post("/hooks", json={"config": {}})).status_code == 422

    async def test_only_admins_see_hooks(self, hub: GitHubSimulator, api: httpx.AsyncClient, hook: int) -> None:
        hub.set_permission(REPO, "smith-bot", "write")
        for path in ("/hooks", f"/hooks/{hook}", f"/hooks/{hook}/deliveries"):
            assert (await api.get(path)).status_code == 404

    async def test_the_log_and_redelivery(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, hook: int, inbox: Receiver
    ) -> None:
        inbox.status = 500
        hub.open_issue(REPO, labels=["x"])
        await hub.outbox.settle()
        inbox.status = 202
        hub.open_issue(REPO)
        await hub.outbox.settle()
        path = f"/hooks/{hook}/deliveries"
        listed = (await api.get(path)).json()
        assert [d["action"] for d in listed] == ["opened", "labeled", "opened"]
        failed = (await api.get(path, params={"status": "failure"})).json()
        assert [d["status_code"] for d in failed] == [500, 500]
        one = (await api.get(f"{path}/{failed[0]['id']}")).json()
        assert one["request"]["payload"]["label"]["name"] == "x"
        again = await api.post(f"{path}/{failed[0]['id']}/attempts")
        assert again.status_code == 202
        await hub.outbox.settle()
        first, last = inbox.requests[1], inbox.requests[-1]
        assert first.headers["x-github-delivery"] == last.headers["x-github-delivery"]
        assert first.body == last.body
        assert (await api.get(path)).json()[0]["redelivery"] is True
        assert (await api.post(f"{path}/4711/attempts")).status_code == 404

    async def test_the_log_is_paged_by_cursor_and_forgets(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, hook: int
    ) -> None:
        for _ in range(5):
            hub.open_issue(REPO)
        await hub.outbox.settle()
        answer = await api.get(f"/hooks/{hook}/deliveries", params={"per_page": 2})
        seen = [d["id"] for d in answer.json()]
        while "next" in answer.links:
            answer = await api.get(answer.links["next"]["url"])
            seen += [d["id"] for d in answer.json()]
        assert len(seen) == len(set(seen)) == 5
        assert (await api.get(f"/hooks/{hook}/deliveries", params={"cursor": "?"})).status_code == 400
        hub.clock.advance(3 * 86_400 + 1)
        assert (await api.get(f"/hooks/{hook}/deliveries")).json() == []

    @pytest.mark.usefixtures("hook")
    async def test_redelivery_over_the_control_plane(
        self, hub: GitHubSimulator, running: Running, api: httpx.AsyncClient, inbox: Receiver
    ) -> None:
        hub.inject(Fault("webhook_lost"))
        hub.open_issue(REPO)
        (lost,) = (await api.get(f"{running.url}/_control/deliveries")).json()
        assert lost["status"] == "lost"
        again = await api.post(f"{running.url}/_control/deliveries/{lost['id']}/attempts")
        assert again.status_code == 202
        await api.post(f"{running.url}/_control/deliveries/settle")
        assert inbox.requests[0].headers["x-github-delivery"] == lost["guid"]
