"""Labels as GitHub keeps them, on issues and of repositories."""

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

    async def test_adding_answers_the_full_list_and_makes_the_label(self, api: httpx.AsyncClient, number: int) -> None:
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
