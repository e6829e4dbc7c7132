"""Comments as GitHub keeps them."""

from __future__ import annotations

import httpx
import pytest

from agentsmith.simulators.github import GitHubSimulator

REPO = "acme/web"


class TestComments:
    """Ids rise, texts have a limit, locked issues are for those with write access."""

    async def test_life_of_a_comment(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        made = await api.post(f"/issues/{number}/comments", json={"body": "one"})
        assert made.status_code == 201
        first = made.json()["id"]
        hub.clock.advance(5)
        hub.comment(REPO, number, "two")
        edited = await api.patch(f"/issues/comments/{first}", json={"body": "uno"})
        assert edited.json()["body"] == "uno"
        assert edited.json()["updated_at"] > edited.json()["created_at"]
        listed = (await api.get(f"/issues/{number}/comments")).json()
        assert [c["body"] for c in listed] == ["uno", "two"]
        assert (await api.get(f"/issues/{number}")).json()["comments"] == 2
        since = edited.json()["updated_at"]
        everywhere = await api.get("/issues/comments", params={"since": since, "direction": "desc"})
        assert [c["body"] for c in everywhere.json()] == ["two", "uno"]
        assert (await api.get(f"/issues/comments/{first}")).json()["user"]["login"] == "smith-bot"
        assert (await api.delete(f"/issues/comments/{first}")).status_code == 204
        assert (await api.get(f"/issues/comments/{first}")).status_code == 404
        assert (await api.patch(f"/issues/comments/{first}", json={"body": "x"})).status_code == 404

    async def test_the_limit_is_65536(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        path = f"/issues/{number}/comments"
        assert (await api.post(path, json={"body": "x" * 65_536})).status_code == 201
        over = await api.post(path, json={"body": "x" * 65_537})
        assert over.status_code == 422
        assert "maximum is 65536" in over.json()["errors"][0]["message"]
        assert (await api.post(path, json={"body": "  "})).status_code == 422
        assert (await api.post(path, json={})).status_code == 422

    async def test_others_comments_need_write_access(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        comment = hub.comment(REPO, number, "mine", "mona")
        assert (await api.patch(f"/issues/comments/{comment}", json={"body": "ours"})).status_code == 200
        hub.set_permission(REPO, "smith-bot", "triage")
        assert (await api.patch(f"/issues/comments/{comment}", json={"body": "no"})).status_code == 403

    async def test_locked_issues(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        assert (await api.put(f"/issues/{number}/lock", json={"lock_reason": "off-topic"})).status_code == 204
        assert (await api.get(f"/issues/{number}")).json()["active_lock_reason"] == "off-topic"
        assert (await api.post(f"/issues/{number}/comments", json={"body": "ok"})).status_code == 201
        hub.set_permission(REPO, "smith-bot", "triage")
        refused = await api.post(f"/issues/{number}/comments", json={"body": "no"})
        assert (refused.status_code, "is locked" in refused.json()["message"]) == (403, True)
        labelled = await api.post(f"/issues/{number}/labels", json={"labels": ["x"]})
        assert labelled.status_code == 200
        hub.set_permission(REPO, "smith-bot", "write")
        assert (await api.delete(f"/issues/{number}/lock")).status_code == 204

    async def test_people_edit_and_delete(self, hub: GitHubSimulator) -> None:
        number = hub.open_issue(REPO)
        comment = hub.comment(REPO, number, "a")
        hub.edit_comment(REPO, comment, "b")
        assert [c["body"] for c in hub.comments(REPO, number)] == ["b"]
        hub.delete_comment(REPO, comment)
        assert hub.comments(REPO, number) == []
        with pytest.raises(LookupError):
            hub.edit_comment(REPO, comment, "c")
        with pytest.raises(LookupError):
            hub.delete_comment(REPO, comment)
