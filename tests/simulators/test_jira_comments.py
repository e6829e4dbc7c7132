"""Comments in the simulator: documents on Cloud, markup on Data Center and in the older API, properties on both."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentsmith.simulators import Running
from agentsmith.simulators.jira import JiraSimulator
from tests.support.jira_simulator import PROJECT, api, cloud, judge_requests, running, site

__all__ = ["api", "cloud", "judge_requests", "running", "site"]


def document(*texts: str) -> dict[str, Any]:
    """One paragraph."""
    content = [{"type": "text", "text": text} for text in texts]
    return {"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": content}]}


async def test_a_comment_with_its_properties(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    key = site.open_issue(PROJECT)
    body = {"body": document("hello"), "properties": [{"key": "k", "value": {"n": 1}}]}
    made = await api.post(f"/issue/{key}/comment", json=body)
    assert made.status_code == 201
    assert "properties" not in made.json()
    id_ = made.json()["id"]
    edit = {"body": document("bye"), "properties": [{"key": "k", "value": {"n": 2}}]}
    assert (await api.put(f"/issue/{key}/comment/{id_}", json=edit)).status_code == 200
    listed = (await api.get(f"/issue/{key}/comment?expand=properties")).json()
    (comment,) = listed["comments"]
    assert comment["properties"] == [{"key": "k", "value": {"n": 2}}]
    assert comment["body"] == document("bye")
    assert (await api.get(f"/comment/{id_}/properties/k")).json() == {"key": "k", "value": {"n": 2}}
    codes = [(await api.put(f"/comment/{id_}/properties/{name}", json=3)).status_code for name in "kl"]
    assert codes == [200, 201]
    assert site.comments(key)[0]["body"] == "bye"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("plain text", "INVALID_INPUT"),
        (document("fine", ""), "INVALID_INPUT"),
        (document("nul \0"), "INVALID_INPUT"),
        ({"type": "doc", "content": []}, "INVALID_INPUT"),
        (document(" "), "can not be empty"),
        (document("x" * 32_767), "32,767"),
    ],
)
async def test_documents_that_jira_refuses(site: JiraSimulator, api: httpx.AsyncClient, body: Any, words: str) -> None:
    key = site.open_issue(PROJECT)
    answer = await api.post(f"/issue/{key}/comment", json={"body": body})
    assert answer.status_code == 400
    assert words in answer.text


async def test_the_older_api_shows_and_takes_text(
    site: JiraSimulator, running: Running, api: httpx.AsyncClient
) -> None:
    key = site.open_issue(PROJECT, description="one\ntwo")
    url = f"{running.api_url}/rest/api/2/issue/{key}"
    assert (await api.get(url)).json()["fields"]["description"] == "one\ntwo"
    made = await api.post(f"{url}/comment", json={"body": "plain"})
    assert (made.status_code, made.json()["body"]) == (201, "plain")
    shown = (await api.get(f"/issue/{key}/comment")).json()["comments"][0]["body"]
    assert shown["type"] == "doc"


async def test_others_comments_are_not_ours_to_edit(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    key = site.open_issue(PROJECT)
    id_ = site.comment(key, "mine", "mona")
    site.set_role(PROJECT, "smith-bot", "write")
    assert (await api.put(f"/issue/{key}/comment/{id_}", json={"body": document("x")})).status_code == 400
    assert (await api.put(f"/issue/{key}/comment/999", json={"body": document("x")})).status_code == 404
    site.set_role(PROJECT, "smith-bot", "read")
    assert (await api.post(f"/issue/{key}/comment", json={"body": document("x")})).status_code == 403
    assert [c["body"] for c in site.comments(key)] == ["mine"]


class TestDataCenter:
    """The same on a Jira of one's own."""

    @pytest.fixture
    def cloud(self) -> bool:
        """No."""
        return False

    async def test_markup_in_and_out(self, site: JiraSimulator, api: httpx.AsyncClient) -> None:
        key = site.open_issue(PROJECT)
        made = await api.post(f"/issue/{key}/comment", json={"body": "*bold*"})
        assert (made.status_code, made.json()["body"]) == (201, "*bold*")
        assert made.json()["author"]["name"] == "smith-bot"
        assert (await api.post(f"/issue/{key}/comment", json={"body": "x" * 32_768})).status_code == 400
        assert (await api.post(f"/issue/{key}/comment", json={"body": document("x")})).status_code == 400

    async def test_search_by_number_edits_without_answer_and_no_version_three(
        self, site: JiraSimulator, running: Running, api: httpx.AsyncClient
    ) -> None:
        keys = [site.open_issue(PROJECT, labels=["x"]) for _ in range(3)]
        body = {"jql": "labels = x ORDER BY created ASC", "startAt": 2, "maxResults": 2, "fields": ["labels"]}
        found = (await api.post("/search", json=body)).json()
        assert ([i["key"] for i in found["issues"]], found["total"]) == ([keys[2]], 3)
        assert (await api.post("/search/jql", json={"jql": "labels = x"})).status_code == 404
        edited = await api.put(f"/issue/{keys[0]}?returnIssue=true", json={"update": {"labels": [{"add": "y"}]}})
        assert edited.status_code == 204
        assert (await api.get(f"{running.api_url}/rest/api/3/myself")).status_code == 404
        assert (await api.get(f"/issue/{keys[0]}/changelog")).status_code == 404
        shown = (await api.get(f"/issue/{keys[0]}?expand=changelog")).json()
        assert shown["changelog"]["histories"][0]["items"][0]["toString"] == "x y"

    async def test_silence_is_for_admins(self, site: JiraSimulator, api: httpx.AsyncClient) -> None:
        key = site.open_issue(PROJECT)
        path, body = f"/issue/{key}?notifyUsers=false", {"update": {"labels": [{"add": "y"}]}}
        site.set_role(PROJECT, "smith-bot", "write")
        assert (await api.put(path, json=body)).status_code == 403
        assert (await api.put(f"/issue/{key}", json=body)).status_code == 204
        site.set_role(PROJECT, "smith-bot", "admin")
        assert (await api.put(path, json=body)).status_code == 204

    async def test_basic_auth_is_off(self, running: Running) -> None:
        async with httpx.AsyncClient() as client:
            auth = httpx.BasicAuth("smith-bot@example.com", "token-of-smith")
            answer = await client.get(f"{running.api_url}/rest/api/2/myself", auth=auth)
        assert answer.status_code == 401
        assert answer.headers["x-ausername"] == "anonymous"
