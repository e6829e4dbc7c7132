"""Jira's issues in the simulator: edits, properties, transitions, search, limits, and who may do what."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentsmith.simulators import Fault, Running
from agentsmith.simulators.jira import JiraSimulator
from tests.support.jira_judge import JiraJudge
from tests.support.jira_simulator import PROJECT, START, TLS, TOKEN, api, cloud, judge_requests, running, site

__all__ = ["api", "cloud", "judge_requests", "running", "site"]


def labels(*operations: dict[str, Any]) -> dict[str, Any]:
    """An edit of labels."""
    return {"update": {"labels": list(operations)}}


async def test_an_edit_adds_and_removes_at_once_and_is_answered_with_nothing(
    site: JiraSimulator, api: httpx.AsyncClient
) -> None:
    key = site.open_issue(PROJECT, labels=["a", "b"])
    claim = {"key": "agent-smith.lifecycle", "value": {"run": "r", "fence": 3}}
    body = {**labels({"remove": "a"}, {"add": "c"}, {"add": "b"}, {"remove": "absent"}), "properties": [claim]}
    answer = await api.put(f"/issue/{key}", json=body)
    assert (answer.status_code, answer.content) == (204, b"")
    assert site.labels(key) == ["b", "c"]
    assert site.issue(key).properties == {"agent-smith.lifecycle": {"run": "r", "fence": 3}}
    assert len(site.issue(key).history) == 1
    assert site.label_history(key) == [{"a", "b"}, {"b", "c"}]


async def test_the_edited_fields_come_back_where_asked_for(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    key = site.open_issue(PROJECT, labels=["a"])
    answer = await api.put(f"/issue/{key}?returnIssue=true&notifyUsers=false", json=labels({"add": "b"}))
    assert answer.status_code == 200
    assert answer.json()["fields"] == {"labels": ["a", "b"]}
    assert "properties" not in answer.json()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (labels({"add": "two words"}), "The label 'two words' contains spaces which is invalid."),
        (labels({"add": "x" * 256}), "maximum length"),
        (labels({"put": "x"}), "not recognised"),
        ({"fields": {"labels": ["a"]}, **labels({"add": "b"})}, "cannot appear in both"),
        ({"fields": {"nonsense": 1}}, "not on the appropriate screen"),
        ({"update": {"nonsense": [{"set": 1}]}}, "not on the appropriate screen"),
        ([], "Invalid request payload"),
    ],
)
async def test_what_jira_refuses(site: JiraSimulator, api: httpx.AsyncClient, body: Any, words: str) -> None:
    key = site.open_issue(PROJECT, labels=["a"])
    answer = await api.put(f"/issue/{key}", json=body)
    assert answer.status_code == 400
    assert words in answer.text
    assert site.labels(key) == ["a"]


async def test_labels_that_are_not_on_the_screen_or_not_ours_to_edit(
    site: JiraSimulator, api: httpx.AsyncClient
) -> None:
    key = site.open_issue(PROJECT)
    site.set_role(PROJECT, "smith-bot", "read")
    refused = await api.put(f"/issue/{key}", json=labels({"add": "b"}))
    assert refused.status_code == 400
    site.set_role(PROJECT, "smith-bot", "write")
    assert (await api.put(f"/issue/{key}", json=labels({"add": "b"}))).status_code == 204
    site.hide_labels(PROJECT)
    refused = await api.put(f"/issue/{key}", json=labels({"add": "c"}))
    assert refused.json()["errors"] == {
        "labels": "Field 'labels' cannot be set. It is not on the appropriate screen, or unknown."
    }
    site.set_role(PROJECT, "smith-bot", "none")
    assert (await api.get(f"/issue/{key}")).status_code == 404


async def test_get_shows_the_fields_and_properties_that_were_asked_for(
    site: JiraSimulator, api: httpx.AsyncClient
) -> None:
    key = site.open_issue(PROJECT, description="one\n\ntwo\nthree", labels=["a"])
    site.set_property(key, "p", {"x": 1})
    shown = (await api.get(f"/issue/{key}?fields=labels,description,comment&properties=p")).json()
    assert set(shown["fields"]) == {"labels", "description", "comment"}
    assert shown["properties"] == {"p": {"x": 1}}
    assert shown["fields"]["comment"]["total"] == 0
    assert [node["type"] for node in shown["fields"]["description"]["content"]] == ["paragraph", "paragraph"]
    assert (await api.get(f"/issue/{key.lower()}")).json()["key"] == key


async def test_a_moved_issue_answers_under_its_old_key(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    site.add_project("OPS")
    site.set_role("OPS", "smith-bot", "read")
    key = site.open_issue(PROJECT)
    assert site.move_issue(key, "OPS") == "OPS-1"
    assert (await api.get(f"/issue/{key}")).json()["key"] == "OPS-1"


async def test_the_history_tells_labels_separated_by_spaces(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    key = site.open_issue(PROJECT, labels=["a"])
    site.add_label(key, "b", "mona")
    site.remove_label(key, "a", "hubot")
    page = (await api.get(f"/issue/{key}/changelog?startAt=0&maxResults=1")).json()
    assert (page["total"], page["isLast"]) == (2, False)
    (change,) = page["values"][0]["items"]
    assert (change["field"], change["fromString"], change["toString"]) == ("labels", "a", "a b")
    last = (await api.get(f"/issue/{key}/changelog?startAt=1&maxResults=1")).json()["values"][0]
    assert (last["author"]["displayName"], last["items"][0]["toString"]) == ("hubot", "b")


async def test_properties_say_whether_they_are_new(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    path = f"/issue/{site.open_issue(PROJECT)}/properties/k"
    codes = [(await api.put(path, json={"v": n})).status_code for n in range(2)]
    assert codes == [201, 200]
    assert (await api.get(path)).json() == {"key": "k", "value": {"v": 1}}
    codes = [(await api.delete(path)).status_code for _ in range(2)]
    assert codes == [204, 404]


async def test_transitions_lead_only_from_where_the_issue_is(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    key = site.open_issue(PROJECT)
    ways = (await api.get(f"/issue/{key}/transitions")).json()["transitions"]
    by_name = {way["to"]["name"]: way["id"] for way in ways}
    assert set(by_name) == {"In Progress", "Done"}
    assert ways[0]["to"]["statusCategory"]["key"] in ("indeterminate", "done")
    body = {"transition": {"id": by_name["Done"]}, "properties": [{"key": "p", "value": 1}]}
    codes = [(await api.post(f"/issue/{key}/transitions", json=body)).status_code for _ in range(2)]
    assert codes == [204, 400]
    assert (site.status(key), site.issue(key).properties) == ("Done", {"p": 1})
    back = {"transition": {"id": site.hub.world.project(PROJECT).ways_from(site.issue(key).status)[0].id}}
    refused = await api.post(f"/issue/{key}/transitions", json={**back, **labels({"add": "x"})})
    assert "not on the appropriate screen" in refused.text
    site.inject(Fault("transition_conflict"))
    codes = [(await api.post(f"/issue/{key}/transitions", json=back)).status_code for _ in range(2)]
    assert codes == [409, 204]


async def test_links_have_two_ends(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    blocker, blocked = site.open_issue(PROJECT), site.open_issue(PROJECT)
    body = {"type": {"name": "Blocks"}, "inwardIssue": {"key": blocker}, "outwardIssue": {"key": blocked}}
    assert (await api.post("/issueLink", json=body)).status_code == 201
    (from_blocked,) = (await api.get(f"/issue/{blocked}?fields=issuelinks")).json()["fields"]["issuelinks"]
    (from_blocker,) = (await api.get(f"/issue/{blocker}?fields=issuelinks")).json()["fields"]["issuelinks"]
    assert from_blocked["inwardIssue"]["key"] == blocker
    assert from_blocked["type"]["inward"] == "is blocked by"
    assert "outwardIssue" not in from_blocked
    assert from_blocker["outwardIssue"]["key"] == blocked


async def search(api: httpx.AsyncClient, jql: str, **more: Any) -> dict[str, Any]:
    """One page of a search."""
    answer = await api.post("/search/jql", json={"jql": jql, "fields": ["labels"], **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def keys(page: dict[str, Any]) -> list[str]:
    """The keys on a page."""
    return [issue["key"] for issue in page["issues"]]


async def test_search_pages_by_token_and_tells_no_total(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    made = [site.open_issue(PROJECT, labels=["X"]) for _ in range(5)]
    site.open_issue(PROJECT, labels=["xx"])
    site.transition(made[1], "Done")
    jql = f'project = "{PROJECT}" AND labels = "x" AND statusCategory != Done ORDER BY created ASC, key ASC'
    first = await search(api, jql, maxResults=3)
    assert keys(first) == [made[0], made[2], made[3]]
    assert (first["isLast"], "total" in first) == (False, False)
    second = await search(api, jql, maxResults=3, nextPageToken=first["nextPageToken"])
    assert (keys(second), second["isLast"], "nextPageToken" in second) == ([made[4]], True, False)
    bare = await api.post("/search/jql", json={"jql": jql})
    assert bare.json()["issues"][0] == {"id": str(site.issue(made[0]).id)}


async def test_the_index_lags_but_for_what_is_reconciled(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    site.set_index_lag(60)
    key = site.open_issue(PROJECT, labels=["x"])
    jql, id_ = "labels = x", site.issue(key).id
    assert keys(await search(api, jql)) == []
    assert keys(await search(api, jql, reconcileIssues=[id_])) == [key]
    site.clock.advance(60)
    assert keys(await search(api, jql)) == [key]
    site.remove_label(key, "x")
    assert keys(await search(api, jql)) == [key]
    fetched = (await api.post("/issue/bulkfetch", json={"issueIdsOrKeys": [key], "fields": ["labels"]})).json()
    assert fetched["issues"][0]["fields"]["labels"] == []
    site.refresh_index()
    assert keys(await search(api, jql)) == []


@pytest.mark.parametrize(
    ("jql", "words"),
    [
        ("ORDER BY created", "Unbounded"),
        ("project = NOPE", "does not exist for the field 'project'"),
        ("labels =", "it ends after"),
        ("labels in (a", "Expecting ')'"),
    ],
)
async def test_queries_that_jira_refuses(site: JiraSimulator, api: httpx.AsyncClient, jql: str, words: str) -> None:
    answer = await api.post("/search/jql", json={"jql": jql})
    assert answer.status_code == 400
    assert words in answer.text
    site.assert_understood()


async def test_a_query_that_only_we_do_not_know_is_recorded(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    assert (await api.post("/search/jql", json={"jql": 'text ~ "x"'})).status_code == 500
    assert (await api.post("/search/jql", json={"jql": "sprint = 3"})).status_code == 200  # nothing to compare it with
    site.open_issue(PROJECT)
    assert (await api.post("/search/jql", json={"jql": "sprint = 3"})).status_code == 500
    assert (await api.get("/dashboard")).status_code == 500
    with pytest.raises(AssertionError, match="dashboard"):
        site.assert_understood()


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_old_search_is_gone(site: JiraSimulator, api: httpx.AsyncClient, method: str) -> None:
    answer = await api.request(method, "/search", json={"jql": "labels = x"} if method == "POST" else None)
    assert answer.status_code == 410
    assert "/rest/api/3/search/jql" in answer.text
    site.assert_understood()


async def test_writes_to_one_issue_are_limited(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    site.hub.limits.enforced = True
    key, other = site.open_issue(PROJECT), site.open_issue(PROJECT)

    async def write(which: str) -> httpx.Response:
        return await api.put(f"/issue/{which}/properties/k", json=1)

    assert {(await write(key)).status_code for _ in range(20)} == {200, 201}
    refused = await write(key)
    assert (refused.status_code, refused.headers["ratelimit-reason"]) == (429, "jira-per-issue-on-write")
    assert refused.headers["retry-after"] == "2"
    assert (await write(other)).status_code == 201
    assert (await api.get(f"/issue/{key}")).status_code == 200
    for _ in range(4):
        site.clock.advance(2)
        assert {(await write(key)).status_code for _ in range(20)} == {200}
    site.clock.advance(2)
    assert (await write(key)).status_code == 429
    site.clock.advance(22)
    assert (await write(key)).status_code == 200


async def test_who_comes_in(site: JiraSimulator, running: Running, api: httpx.AsyncClient) -> None:
    site.add_token("short", user="smith-bot", expires_in=60)
    url = f"{running.api_url}/rest/api/3/myself"

    async def code(auth: httpx.Auth | None = None, bearer: str | None = None) -> int:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        async with httpx.AsyncClient(verify=TLS, trust_env=False) as client:
            answer = await client.get(url, auth=auth, headers=headers)
            return answer.status_code

    email = "smith-bot@example.com"
    assert await code(httpx.BasicAuth(email, TOKEN)) == 200
    assert await code(httpx.BasicAuth("mona@example.com", TOKEN)) == 401
    assert await code(httpx.BasicAuth(email, "wrong")) == 401
    assert await code(bearer=TOKEN) == 401
    assert await code() == 401
    assert await code(httpx.BasicAuth(email, "short")) == 200
    site.clock.advance(61)
    assert await code(httpx.BasicAuth(email, "short")) == 401
    site.revoke_token(TOKEN)
    refused = await api.get("/myself")
    assert (refused.status_code, refused.headers["x-seraph-loginreason"]) == (401, "AUTHENTICATED_FAILED")


async def test_a_stranger_sees_empty_lists(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    key = site.open_issue(PROJECT, labels=["x"])
    site.inject(Fault("anonymous", times=None))
    found = await api.post("/search/jql", json={"jql": "labels = x", "fields": ["labels"]})
    assert (found.status_code, found.json()["issues"]) == (200, [])
    assert found.headers["x-seraph-loginreason"] == "AUTHENTICATED_FAILED"
    assert (await api.get(f"/issue/{key}")).status_code == 404


async def test_only_admins_are_told_what_others_may(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    account = site.add_user("mona")
    path = f"/user/permission/search?projectKey={PROJECT}&accountId={account}&permissions="
    assert [u["accountId"] for u in (await api.get(path + "EDIT_ISSUES,TRANSITION_ISSUES")).json()] == [account]
    assert (await api.get(path + "ADMINISTER_PROJECTS")).json() == []
    assert (await api.get(path + "NONSENSE")).status_code == 400
    site.set_role(PROJECT, "smith-bot", "write")
    assert (await api.get(path + "EDIT_ISSUES")).status_code == 403


async def test_a_tour_of_what_is_described(site: JiraSimulator, api: httpx.AsyncClient) -> None:
    judge = JiraJudge()
    key = site.open_issue(PROJECT, labels=["a"], description="text")
    comment = site.comment(key, "hi")
    document = {"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": []}]}
    document["content"] = [{"type": "paragraph", "content": [{"type": "text", "text": "said"}]}]
    fields = {"project": {"key": PROJECT}, "summary": "S", "labels": ["x"], "issuetype": {"name": "Task"}}
    issue = f"/issue/{key}"
    tour: list[tuple[str, str, Any, int]] = [
        ("GET", "/myself", None, 200),
        ("GET", "/serverInfo", None, 200),
        ("POST", "/issue", {"fields": fields}, 201),
        ("POST", "/issue", {"fields": {}}, 400),
        ("GET", issue, None, 200),
        ("GET", f"{issue}?fields=labels,status&properties=p&expand=changelog", None, 200),
        ("GET", "/issue/WEB-999", None, 404),
        ("PUT", issue, labels({"add": "b"}), 204),
        ("PUT", f"{issue}?returnIssue=true&notifyUsers=false", labels({"remove": "b"}), 200),
        ("GET", f"{issue}/editmeta", None, 200),
        ("GET", f"{issue}/changelog?startAt=0&maxResults=1", None, 200),
        ("GET", f"{issue}/transitions", None, 200),
        ("PUT", f"{issue}/properties/p", {"x": 1}, 201),
        ("GET", f"{issue}/properties/p", None, 200),
        ("DELETE", f"{issue}/properties/p", None, 204),
        ("GET", f"{issue}/comment?expand=properties", None, 200),
        ("POST", f"{issue}/comment", {"body": document, "properties": [{"key": "k", "value": {}}]}, 201),
        ("PUT", f"{issue}/comment/{comment}?notifyUsers=false", {"body": document}, 200),
        ("GET", f"{issue}/comment/{comment}", None, 200),
        ("DELETE", f"{issue}/comment/{comment}", None, 204),
        ("POST", "/search/jql", {"jql": "labels = a", "fields": ["labels", "status"], "reconcileIssues": [1]}, 200),
        ("GET", "/search/jql?jql=labels%3Da&fields=labels", None, 200),
        ("POST", "/issue/bulkfetch", {"issueIdsOrKeys": [key], "fields": ["labels"], "properties": ["p"]}, 200),
        ("GET", "/label", None, 200),
        ("DELETE", issue, None, 204),
    ]
    for method, path, body, status in tour:
        answer = await api.request(method, path, json=body)
        assert answer.status_code == status, (method, path, answer.text)
        assert judge.check(answer.request, answer), f"{method} {path} is not described"
    assert judge.judged == len(tour)
    site.assert_understood()


async def test_everything_can_be_done_from_another_process(running: Running) -> None:
    async with httpx.AsyncClient(base_url=running.url, verify=TLS, trust_env=False) as control:
        made = await control.post("/_control/act/open_issue", json={"key": PROJECT, "labels": ["a"]})
        key = made.json()["result"]
        await control.post("/_control/act/set_index_lag", json={"seconds": 5})
        await control.post("/_control/act/transition", json={"key": key, "status": "Done"})
        assert (await control.post("/_control/act/status", json={"key": key})).json() == {"result": "Done"}
        assert (await control.post("/_control/act/labels", json={"key": "WEB-99"})).status_code == 400
        advanced = await control.post("/_control/clock", json={"advance": 5})
        assert advanced.json()["now"] == START + 5


@pytest.mark.parametrize("by", ["id", "key"])
async def test_an_issue_is_opened_in_a_project_by_id_or_key(
    site: JiraSimulator, api: httpx.AsyncClient, by: str
) -> None:
    project = site.hub.world.project(PROJECT)
    named = {"id": str(project.id)} if by == "id" else {"key": PROJECT}
    fields = {"project": named, "summary": "S", "issuetype": {"name": "Task"}}
    answer = await api.post("/issue", json={"fields": fields})
    assert answer.status_code == 201, answer.text
    assert site.issue(answer.json()["key"]).project == PROJECT
    for wrong in ({"id": "4711"}, {"key": "NO"}, {}, None, "WEB"):
        refused = await api.post("/issue", json={"fields": {**fields, "project": wrong}})
        assert (refused.status_code, "project" in refused.text) == (400, True)
