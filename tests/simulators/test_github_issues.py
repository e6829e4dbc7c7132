"""Issues as GitHub keeps them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentsmith.simulators import Fault
from agentsmith.simulators.github import GitHubSimulator

REPO = "acme/web"


def names(answer: httpx.Response) -> list[str]:
    return [label["name"] for label in answer.json()]


class TestListing:
    """Filters, order and pages."""

    async def test_labels_are_anded_and_pull_requests_are_among_the_issues(
        self, hub: GitHubSimulator, api: httpx.AsyncClient
    ) -> None:
        both = hub.open_issue(REPO, labels=["a", "b"])
        hub.open_issue(REPO, labels=["a"])
        pull = hub.open_pull_request(REPO, labels=["a", "b"])
        hub.close_issue(REPO, hub.open_issue(REPO, labels=["a", "b"]))
        found = (await api.get("/issues", params={"labels": "A,b", "direction": "asc"})).json()
        assert [issue["number"] for issue in found] == [both, pull]
        assert ["pull_request" in issue for issue in found] == [False, True]
        assert found[1]["pull_request"]["url"].endswith(f"/pulls/{pull}")

    async def test_states_since_sort_and_direction(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        first = hub.open_issue(REPO)
        hub.clock.advance(60)
        second = hub.open_issue(REPO)
        hub.clock.advance(60)
        hub.comment(REPO, first, "more")
        hub.close_issue(REPO, second)

        async def numbers(**query: str) -> list[int]:
            return [issue["number"] for issue in (await api.get("/issues", params=query)).json()]

        assert await numbers() == [first]
        assert await numbers(state="closed") == [second]
        assert await numbers(state="all") == [second, first]
        assert await numbers(state="all", direction="asc") == [first, second]
        assert await numbers(state="all", sort="comments") == [first, second]
        hub.clock.advance(60)
        hub.add_label(REPO, first, "late")
        assert await numbers(state="all", sort="updated") == [first, second]
        since = hub.issue(REPO, first).updated_at.isoformat()
        assert await numbers(state="all", since=since) == [first]
        assert await numbers(creator="nobody") == []
        assert await numbers(state="all", assignee="none", direction="asc") == [first, second]
        assert await numbers(assignee="*") == []

    async def test_bad_filters_are_422(self, api: httpx.AsyncClient) -> None:
        assert (await api.get("/issues", params={"state": "weird"})).status_code == 422
        assert (await api.get("/issues", params={"since": "yesterday"})).status_code == 422

    async def test_pages_are_linked_and_every_issue_comes_once(
        self, hub: GitHubSimulator, api: httpx.AsyncClient
    ) -> None:
        opened = [hub.open_issue(REPO) for _ in range(7)]
        answer = await api.get("/issues", params={"per_page": 3, "direction": "asc"})
        assert set(answer.links) == {"next", "last"}
        assert f"/repositories/{hub.repository(REPO).id}/issues?" in answer.links["next"]["url"]
        seen = [issue["number"] for issue in answer.json()]
        while "next" in answer.links:
            answer = await api.get(answer.links["next"]["url"])
            seen += [issue["number"] for issue in answer.json()]
        assert seen == opened
        assert set(answer.links) == {"first", "prev"}
        assert (await api.get("/issues", params={"per_page": 1000})).links == {}
        assert (await api.get("/issues", params={"page": 50})).json() == []
        hub.forget_requests()  # what follows is not what the description allows
        assert (await api.get("/issues", params={"per_page": "x", "page": "y"})).status_code == 200
        hub.forget_requests()

    async def test_a_filter_may_be_wrong(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO, labels=["other"])
        hub.inject(Fault("wrong_filter"))
        found = (await api.get("/issues", params={"labels": "wanted"})).json()
        assert [issue["number"] for issue in found] == [number]


class TestIssues:
    """Made, edited, closed; moved, deleted, hidden."""

    async def test_create_edit_close_reopen(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        made = await api.post("/issues", json={"title": "T", "body": "B", "labels": ["x", {"name": "y"}]})
        assert made.status_code == 201
        body = made.json()
        assert (body["user"]["login"], body["author_association"]) == ("smith-bot", "COLLABORATOR")
        assert [label["name"] for label in body["labels"]] == ["x", "y"]
        path = f"/issues/{body['number']}"
        closed = (await api.patch(path, json={"state": "closed", "state_reason": "not_planned"})).json()
        assert (closed["state"], closed["state_reason"]) == ("closed", "not_planned")
        assert closed["closed_by"]["login"] == "smith-bot"
        again = (await api.patch(path, json={"state": "open", "assignees": ["mona"]})).json()
        assert (again["state"], again["closed_at"]) == ("open", None)
        assert again["assignee"]["login"] == "mona"
        assert [e["event"] for e in hub.events(REPO, body["number"])][-2:] == ["closed", "reopened"]

    @pytest.mark.parametrize("body", [{}, {"title": 7}, {"title": "x" * 70_000}, {"title": "T", "body": "x" * 65_537}])
    async def test_bad_issues_are_422(self, api: httpx.AsyncClient, body: dict[str, Any]) -> None:
        assert (await api.post("/issues", json=body)).status_code == 422

    async def test_bad_edits(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        assert (await api.patch(f"/issues/{number}", json={"state": "ajar"})).status_code == 422
        assert (await api.patch(f"/issues/{number}", json={"lables": []})).status_code == 422
        assert (await api.patch(f"/issues/{number}", json=[1])).status_code == 400
        hub.set_permission(REPO, "smith-bot", "read")
        assert (await api.patch(f"/issues/{number}", json={"title": "x"})).status_code == 403

    async def test_a_deleted_issue_is_gone(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        hub.delete_issue(REPO, number)
        answer = await api.get(f"/issues/{number}")
        assert (answer.status_code, answer.json()["message"]) == (410, "This issue was deleted")
        assert (await api.post(f"/issues/{number}/labels", json={"labels": ["x"]})).status_code == 410
        assert hub.open_issue(REPO) == number + 1

    async def test_a_transferred_issue_redirects(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        hub.add_repository("acme/other")
        hub.open_issue("acme/other", labels=["kept"])
        number = hub.open_issue(REPO, labels=["kept", "left"])
        there = hub.transfer_issue(REPO, number, "acme/other")
        answer = await api.get(f"/issues/{number}")
        assert answer.status_code == 301
        target = hub.repository("acme/other").id
        assert answer.headers["location"].endswith(f"/repositories/{target}/issues/{there}")
        assert answer.json()["url"] == answer.headers["location"]
        followed = await api.get(f"/issues/{number}", follow_redirects=True)
        assert followed.json()["repository_url"].endswith("/repos/acme/other")
        assert [label["name"] for label in followed.json()["labels"]] == ["kept"]
        written = await api.post(f"/issues/{number}/labels", json={"labels": ["x"]})
        assert written.status_code == 301
        assert written.headers["location"].endswith(f"/issues/{there}/labels")

    async def test_a_renamed_repository_redirects(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        hub.rename_repository(REPO, "site")
        answer = await api.get(f"/issues/{number}", params={"a": "b"})
        identity = hub.repository("acme/site").id
        assert answer.status_code == 301
        assert answer.headers["location"].endswith(f"/repositories/{identity}/issues/{number}?a=b")
        hub.forget_requests()  # the made-up query is no part of the description
        written = await api.post(f"/issues/{number}/labels", json={"labels": ["x"]})
        assert written.status_code == 307
        followed = await api.post(f"/issues/{number}/labels", json={"labels": ["x"]}, follow_redirects=True)
        assert names(followed) == ["x"]
        slash = await api.delete(f"/issues/{number}/labels/a%2Fb")
        assert slash.headers["location"].endswith(f"/issues/{number}/labels/a%2Fb")
        hub.forget_requests()  # nor is the 307 of a renamed repository

    async def test_what_one_may_not_see_is_not_found(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        hub.add_repository("acme/secret", private=True)
        hub.add_token("stranger", login="eve", permission=None)
        number = hub.open_issue("acme/secret")
        url = str(api.base_url).replace("/web", "/secret")
        answer = await api.get(f"{url}issues/{number}", headers={"Authorization": "token stranger"})
        assert (answer.status_code, answer.json()["message"]) == (404, "Not Found")
        hub.add_token("limited", login="smith-bot", repositories=["acme/secret"])
        answer = await api.get("/issues", headers={"Authorization": "token limited"})
        assert answer.status_code == 404

    async def test_issues_may_be_switched_off(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        hub.disable_issues(REPO)
        assert (await api.get(f"/issues/{number}")).status_code == 410
        assert (await api.post("/issues", json={"title": "T"})).status_code == 410
        assert (await api.get("/issues")).json() == []

    async def test_history_names_who_did_it(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO, labels=["a"], actor="mona")
        hub.remove_label(REPO, number, "a", "hubert")
        hub.remove_label(REPO, number, "never-there", "hubert")
        hub.comment(REPO, number, "hm", "mona")
        await api.post(f"/issues/{number}/labels", json={"labels": ["b"]})
        hub.lock_issue(REPO, number, reason="spam")
        events = (await api.get(f"/issues/{number}/events")).json()
        told = [(e["event"], e["actor"]["login"], e.get("label", {}).get("name")) for e in events]
        assert told == [
            ("labeled", "mona", "a"),
            ("unlabeled", "hubert", "a"),
            ("labeled", "smith-bot", "b"),
            ("locked", "mona", None),
        ]
        assert [e["id"] for e in events] == sorted(e["id"] for e in events)
        timeline = (await api.get(f"/issues/{number}/timeline", params={"per_page": 100})).json()
        assert [e["event"] for e in timeline] == ["labeled", "unlabeled", "commented", "labeled", "locked"]

    async def test_reactions_are_new_once(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        comment = hub.comment(REPO, number, "hi")
        for path in (f"/issues/{number}/reactions", f"/issues/comments/{comment}/reactions"):
            assert (await api.post(path, json={"content": "eyes"})).status_code == 201
            assert (await api.post(path, json={"content": "eyes"})).status_code == 200
            assert (await api.post(path, json={"content": "sigh"})).status_code == 422
            assert [r["user"]["login"] for r in (await api.get(path)).json()] == ["smith-bot"]
        only = await api.get(f"/issues/{number}/reactions", params={"content": "heart"})
        assert only.json() == []
        assert (await api.get(f"/issues/{number}")).json()["reactions"]["eyes"] == 1

    async def test_dependencies(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        hub.add_repository("acme/other")
        waiting, blocker = hub.open_issue(REPO), hub.open_issue("acme/other", title="First this")
        hub.set_blocked_by(REPO, waiting, [("acme/other", blocker)])
        path = f"/issues/{waiting}/dependencies/blocked_by"
        (shown,) = (await api.get(path)).json()
        assert (shown["title"], shown["repository"]["full_name"]) == ("First this", "acme/other")
        second = hub.issue(REPO, hub.open_issue(REPO))
        assert (await api.post(path, json={"issue_id": second.id})).status_code == 201
        assert (await api.post(path, json={"issue_id": second.id})).status_code == 422
        assert (await api.post(path, json={"issue_id": second.number})).status_code == 404
        blocking = (await api.get(f"/issues/{second.number}/dependencies/blocking")).json()
        assert [issue["number"] for issue in blocking] == [waiting]
        assert (await api.delete(f"{path}/{second.id}")).status_code == 200
        assert (await api.delete(f"{path}/{second.id}")).status_code == 404
