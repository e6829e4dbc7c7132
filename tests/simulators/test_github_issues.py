"""Issues, labels and comments as GitHub keeps them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentsmith.simulators import Fault
from agentsmith.simulators.github import GitHubSimulator

REPO = "acme/web"


def names(answer: httpx.Response) -> list[str]:
    return [label["name"] for label in answer.json()]


class TestLabelsOnIssues:
    """Additive, idempotent, and honest about what is there afterwards."""

    @pytest.fixture
    def number(self, hub: GitHubSimulator) -> int:
        return hub.open_issue(REPO, labels=["bug"])

    async def test_adding_answers_the_full_list_and_makes_the_label(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, number: int
    ) -> None:
        answer = await api.post(f"/issues/{number}/labels", json={"labels": ["agent-smith:pending"]})
        assert answer.status_code == 200
        assert names(answer) == ["bug", "agent-smith:pending"]
        made = (await api.get("/labels/agent-smith%3Apending")).json()
        assert (made["color"], made["description"], made["default"]) == ("ededed", None, False)

    async def test_adding_twice_changes_nothing(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, number: int
    ) -> None:
        for _ in range(2):
            answer = await api.post(f"/issues/{number}/labels", json={"labels": ["BUG", "x"]})
            assert names(answer) == ["bug", "x"]
        assert [e["label"] for e in hub.events(REPO, number)] == ["bug", "x"]

    async def test_removing_answers_the_rest_and_then_404(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, number: int
    ) -> None:
        hub.add_label(REPO, number, "area/web: main")
        answer = await api.delete(f"/issues/{number}/labels/area%2Fweb%3A%20main")
        assert (answer.status_code, names(answer)) == (200, ["bug"])
        again = await api.delete(f"/issues/{number}/labels/area%2Fweb%3A%20main")
        assert again.status_code == 404
        assert again.json()["message"] == "Label does not exist"
        assert again.json()["documentation_url"].startswith("https://docs.github.com")
        missing = await api.delete("/issues/999/labels/bug")
        assert (missing.status_code, missing.json()["message"]) == (404, "Not Found")

    async def test_replacing_loses_what_others_added(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, number: int
    ) -> None:
        hub.add_label(REPO, number, "by-a-person")
        assert names(await api.put(f"/issues/{number}/labels", json={"labels": ["mine"]})) == ["mine"]
        hub.add_label(REPO, number, "by-a-person")
        answer = await api.patch(f"/issues/{number}", json={"labels": ["bug"]})
        assert [label["name"] for label in answer.json()["labels"]] == ["bug"]
        assert (await api.delete(f"/issues/{number}/labels")).status_code == 204
        assert names(await api.get(f"/issues/{number}/labels")) == []

    @pytest.mark.parametrize("label", ["x" * 51, "a,b", " ", 7])
    async def test_what_github_does_not_store_is_422(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, number: int, label: object
    ) -> None:
        answer = await api.post(f"/issues/{number}/labels", json={"labels": [label]})
        assert answer.status_code == 422
        assert answer.json()["message"] == "Validation Failed"
        assert answer.json()["errors"][0]["resource"] == "Label"
        assert hub.labels(REPO, number) == ["bug"]

    async def test_bodies_that_are_no_json(self, api: httpx.AsyncClient, number: int) -> None:
        answer = await api.post(f"/issues/{number}/labels", content=b"{oops")
        assert (answer.status_code, answer.json()["message"]) == (400, "Problems parsing JSON")
        answer = await api.post(f"/issues/{number}/labels", json={"labels": "x"})
        assert answer.status_code == 422

    async def test_a_reader_is_refused_but_an_edit_of_labels_is_dropped_in_silence(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, number: int
    ) -> None:
        own = hub.open_issue(REPO, actor="smith-bot")
        hub.set_permission(REPO, "smith-bot", "read")
        refused = await api.post(f"/issues/{number}/labels", json={"labels": ["x"]})
        assert refused.status_code == 403
        assert refused.json()["message"] == "Resource not accessible by personal access token"
        dropped = await api.patch(f"/issues/{own}", json={"labels": ["x"], "title": "New"})
        assert dropped.status_code == 200
        assert (dropped.json()["title"], dropped.json()["labels"]) == ("New", [])
        created = await api.post("/issues", json={"title": "T", "labels": ["x"]})
        assert (created.status_code, created.json()["labels"]) == (201, [])

    async def test_silent_permission_loss_on_demand(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, number: int
    ) -> None:
        hub.inject(Fault("silent_permission_loss", times=None))
        assert names(await api.post(f"/issues/{number}/labels", json={"labels": ["x"]})) == ["bug"]
        assert names(await api.delete(f"/issues/{number}/labels/bug")) == ["bug"]
        assert hub.events(REPO, number)[1:] == []

    async def test_a_removal_may_be_lenient(self, hub: GitHubSimulator, api: httpx.AsyncClient, number: int) -> None:
        hub.inject(Fault("lenient_delete"))
        assert (await api.delete(f"/issues/{number}/labels/nothing")).status_code == 200


class TestLabelsOfRepositories:
    """Labels are made, renamed and deleted for all issues at once."""

    async def test_life_of_a_label(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        made = await api.post("/labels", json={"name": "one", "color": "ff0000", "description": "d"})
        assert made.status_code == 201
        assert made.headers["location"] == made.json()["url"]
        number = hub.open_issue(REPO, labels=["ONE"])
        twice = await api.post("/labels", json={"name": "One", "color": "ff0000"})
        assert twice.status_code == 422
        assert twice.json()["errors"] == [{"resource": "Label", "code": "already_exists", "field": "name"}]
        renamed = await api.patch("/labels/one", json={"new_name": "uno", "color": "00ff00"})
        assert (renamed.json()["name"], renamed.json()["color"]) == ("uno", "00ff00")
        assert hub.labels(REPO, number) == ["uno"]
        assert (await api.delete("/labels/uno")).status_code == 204
        assert hub.labels(REPO, number) == []
        assert (await api.get("/labels/uno")).status_code == 404

    @pytest.mark.parametrize(
        "body", [{"color": "ff0000"}, {"name": "x", "color": "#ff0000"}, {"name": "x", "color": 3}]
    )
    async def test_bad_labels(self, api: httpx.AsyncClient, body: dict[str, Any]) -> None:
        assert (await api.post("/labels", json=body)).status_code == 422

    async def test_renaming_onto_another(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        hub.open_issue(REPO, labels=["a", "b"])
        assert (await api.patch("/labels/a", json={"new_name": "B"})).status_code == 422


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
        assert (await api.get("/issues", params={"per_page": "x", "page": "y"})).status_code == 200
        assert (await api.get("/issues", params={"page": 50})).json() == []

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
        for vanished in (lambda: hub.edit_comment(REPO, comment, "c"), lambda: hub.delete_comment(REPO, comment)):
            with pytest.raises(LookupError):
                vanished()
