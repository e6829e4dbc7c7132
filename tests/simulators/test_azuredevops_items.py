"""The Azure DevOps simulator, seen by a plain HTTP client: work items, patches, comments, queries, and its traps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from agentsmith.simulators import Clock, Fault, serve
from agentsmith.simulators.azuredevops import AzureDevOpsSimulator
from agentsmith.simulators.azuredevops.sanitising import sanitised
from tests.simulators.conftest import START, TLS

TOKEN = "pat-of-smith-0123456789"
JSON_PATCH = "application/json-patch+json"
V = {"api-version": "7.1"}
PREVIEW = {"api-version": "7.1-preview.4"}


@pytest.fixture
async def azure() -> AsyncIterator[AzureDevOpsSimulator]:
    simulator = AzureDevOpsSimulator(clock=Clock(START))
    simulator.add_project("Web")
    simulator.add_token(TOKEN, user="smith@example.com")
    yield simulator
    simulator.assert_understood()


@pytest.fixture
async def api(azure: AzureDevOpsSimulator) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serve(azure) as running,
        httpx.AsyncClient(
            base_url=f"{running.api_url}/acme/Web/_apis/wit", auth=("", TOKEN), verify=TLS, trust_env=False
        ) as client,
    ):
        yield client


async def patch(api: httpx.AsyncClient, number: int, *operations: dict[str, Any]) -> httpx.Response:
    """Send a patch as it should be sent."""
    headers = {"Content-Type": JSON_PATCH}
    return await api.patch(f"/workitems/{number}", params=V, headers=headers, content=json.dumps(list(operations)))


def tags(op: str, value: str | None = None) -> dict[str, Any]:
    """One operation on the tags."""
    operation: dict[str, Any] = {"op": op, "path": "/fields/System.Tags"}
    return operation if value is None else {**operation, "value": value}


def rev(value: int) -> dict[str, Any]:
    """The test of the revision."""
    return {"op": "test", "path": "/rev", "value": value}


async def test_add_merges_replace_replaces_and_remove_clears(
    azure: AzureDevOpsSimulator, api: httpx.AsyncClient
) -> None:
    number = azure.open_item("Web", tags=["a", "b"])
    assert (await patch(api, number, tags("add", "c; A"))).json()["fields"]["System.Tags"] == "a; b; c"
    assert (await patch(api, number, tags("replace", "C;d"))).json()["fields"]["System.Tags"] == "c; d"
    azure.inject(Fault("add_overwrites"))
    assert (await patch(api, number, tags("add", "e"))).json()["fields"]["System.Tags"] == "e"
    assert "System.Tags" not in (await patch(api, number, tags("remove"))).json()["fields"]
    assert (await patch(api, number, tags("add", "z"))).json()["rev"] == 6


async def test_a_stale_revision_is_412_and_nothing_is_written(
    azure: AzureDevOpsSimulator, api: httpx.AsyncClient
) -> None:
    number = azure.open_item("Web", tags=["a"])
    azure.comment(number, "any comment is a revision")
    answer = await patch(api, number, {"op": "add", "path": "/fields/System.Title", "value": "new"}, rev(1))
    assert answer.status_code == 412
    body = answer.json()
    assert body["typeKey"] == "TestPatchOperationFailedException"
    wanted = "VS403351: Test Operation for path /rev failed, value 2 was not equal to test value 1."
    assert body["message"] == wanted
    assert azure.item(number).now.fields["System.Title"] == "Something to do"
    assert (await patch(api, number, rev(2), tags("replace", "b"))).status_code == 200


async def test_a_race_that_is_lost_at_the_last_moment_is_409(
    azure: AzureDevOpsSimulator, api: httpx.AsyncClient
) -> None:
    number = azure.open_item("Web")
    azure.inject(Fault("revision_race"))
    answer = await patch(api, number, rev(1), tags("add", "b"))
    assert (answer.status_code, answer.json()["typeKey"]) == (409, "WorkItemRevisionMismatchException")
    assert answer.json()["message"].startswith("TF26071")
    assert azure.tags(number) == []


async def test_a_patch_of_another_type_is_400(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    number = azure.open_item("Web")
    answer = await api.patch(f"/workitems/{number}", params=V, json=[tags("add", "a")])
    assert answer.status_code == 400
    assert JSON_PATCH in answer.json()["message"]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("🧵", "InvalidTagNameException"),
        ("@me", "InvalidTagNameException"),
        ("x" * 401, "InvalidTagNameException"),
        ("; ".join(str(n) for n in range(101)), "WorkItemTagLimitExceededException"),
    ],
)
async def test_bad_tags_are_refused(azure: AzureDevOpsSimulator, api: httpx.AsyncClient, value: str, key: str) -> None:
    number = azure.open_item("Web", tags=["a"])
    answer = await patch(api, number, tags("replace", value))
    assert (answer.status_code, answer.json()["typeKey"]) == (400, key)


async def test_the_first_spelling_of_a_tag_wins(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    azure.open_item("Web", tags=["Agent-Smith:Done"])
    number = azure.open_item("Web")
    await patch(api, number, tags("add", "agent-smith:done; other"))
    assert azure.tags(number) == ["Agent-Smith:Done", "other"]
    answer = await api.get("/tags", params=V)
    assert [tag["name"] for tag in answer.json()["value"]] == ["Agent-Smith:Done", "other"]


@pytest.mark.parametrize("status", [0, 200, 302, 401])
async def test_a_bad_token_gets_a_page_that_wants_a_sign_in(
    azure: AzureDevOpsSimulator, api: httpx.AsyncClient, status: int
) -> None:
    number = azure.open_item("Web")
    azure.inject(Fault("bad_credentials", status=status))
    answer = await api.get(f"/workitems/{number}")
    assert answer.status_code == (status or 203)
    if status in (0, 200):
        assert "Sign In" in answer.text
        assert answer.headers["content-type"].startswith("text/html")
    if status == 302:
        assert "/_signin" in answer.headers["location"]
    wrong = await api.get(f"/workitems/{number}", auth=("", "wrong"))
    assert wrong.status_code == 203


async def test_basic_and_bearer_are_not_exchangeable(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    azure.add_token("entra", user="principal", bearer=True)
    url = f"{api.base_url}workitems/{azure.open_item('Web')}"
    async with httpx.AsyncClient(verify=TLS, trust_env=False) as stranger:
        codes = [
            (await stranger.get(url, headers={"Authorization": f"Bearer {token}"})).status_code
            for token in ("entra", TOKEN)
        ]
        assert codes == [200, 203]
        assert (await stranger.get(url)).status_code == 203
        assert (await stranger.get(url, auth=("", "entra"))).status_code == 203


async def test_late_answers_and_limits(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    number = azure.open_item("Web")
    azure.inject(Fault("delayed", retry_after=9))
    late = await api.get(f"/workitems/{number}")
    assert (late.status_code, late.headers["retry-after"], late.headers["x-ratelimit-remaining"]) == (200, "9", "0")
    azure.inject(Fault("rate_limit", retry_after=30))
    refused = await api.get(f"/workitems/{number}")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
    assert "TF400733" in refused.json()["message"]


async def test_comments_are_in_preview(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    number = azure.open_item("Web")
    path = f"/workItems/{number}/comments"
    refused = await api.post(path, params=V, json={"text": "x"})
    assert refused.status_code == 400
    assert "under preview" in refused.json()["message"]
    assert (await api.post(path, params={"api-version": "7.1-preview.5"}, json={"text": "x"})).status_code == 400
    made = await api.post(path, params={**PREVIEW, "format": "markdown"}, json={"text": "x"})
    assert (made.status_code, made.json()["format"], made.json()["version"]) == (200, "markdown", 1)
    edited = await api.patch(f"{path}/{made.json()['id']}", params=PREVIEW, json={"text": "y"})
    assert (edited.json()["text"], edited.json()["version"]) == ("y", 2)
    assert azure.item(number).now.rev == 3
    azure.comment(number, "of somebody else")
    theirs = azure.comments(number)[1]["id"]
    assert (await api.patch(f"{path}/{theirs}", params=PREVIEW, json={"text": "z"})).status_code == 403
    page = (await api.get(path, params={**PREVIEW, "$top": "1", "order": "asc"})).json()
    assert (page["totalCount"], page["count"], page["comments"][0]["text"]) == (2, 1, "y")
    rest = (
        await api.get(path, params={**PREVIEW, "order": "asc", "continuationToken": page["continuationToken"]})
    ).json()
    assert [c["text"] for c in rest["comments"]] == ["of somebody else"]
    assert "continuationToken" not in rest
    assert (await api.delete(f"{path}/{made.json()['id']}", params=PREVIEW)).status_code == 200
    assert (await api.get(f"{path}/{made.json()['id']}", params=PREVIEW)).status_code == 404


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("plain", "plain"),
        ("a <!-- hidden --> b", "a  b"),
        ("a <b>bold</b> <unknown>text</unknown>", "a <b>bold</b> text"),
        ("before <div and the rest", "before "),
        ("if a <b then everything goes", "if a "),
        ("1 < 2 stays", "1 < 2 stays"),
        ("&lt;b&gt; stays", "&lt;b&gt; stays"),
        ("<!-- never closed", ""),
        ("<br> and <BR/>", "<br> and <BR/>"),
    ],
)
def test_what_becomes_of_a_comment(sent: str, stored: str) -> None:
    assert sanitised(sent) == stored


async def test_history_in_a_patch_is_a_comment_in_the_same_revision(
    azure: AzureDevOpsSimulator, api: httpx.AsyncClient
) -> None:
    number = azure.open_item("Web")
    history = {"op": "add", "path": "/fields/System.History", "value": "<p>claimed</p>"}
    body = (await patch(api, number, rev(1), tags("add", "x"), history)).json()
    (comment,) = azure.comments(number)
    assert (body["rev"], body["commentVersionRef"]["commentId"]) == (2, comment["id"])
    assert (comment["text"], body["fields"]["System.CommentCount"]) == ("<p>claimed</p>", 1)
    assert "commentVersionRef" not in (await patch(api, number, tags("add", "y"))).json()


async def test_queries(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    azure.add_project("Other")
    azure.open_item("Other", tags=["x"])
    one, two = azure.open_item("Web", tags=["x's", "X"]), azure.open_item("Web", tags=["x1"])
    azure.clock.advance(3600)
    azure.edit_item(two, title="later")

    async def ask(where: str, **more: str) -> Any:
        text = f"SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project AND {where}"  # noqa: S608
        answer = await api.post("/wiql", params={**V, **more}, json={"query": text})
        return [hit["id"] for hit in answer.json()["workItems"]] if answer.status_code == 200 else answer

    assert await ask("[System.Tags] CONTAINS 'x'") == [one]
    assert await ask("[System.Tags] CONTAINS 'x''s'") == [one]
    assert await ask("[System.Id] > 0", **{"$top": "1"}) == [one]
    assert await ask(f"[System.Id] > {one} AND [System.State] NOT IN ('Closed')") == [two]
    since = azure.clock.stamp().isoformat()
    refused = await ask(f"[System.ChangedDate] >= '{since}'")
    assert (refused.status_code, "date precision" in refused.text) == (400, True)
    assert await ask(f"[System.ChangedDate] >= '{since}'", timePrecision="true") == [two]
    assert (await ask("[System.Tags] CONTAINS 'x' nonsense")).status_code == 400
    assert (await ask("[System.Tags] CONTAINS 'it's'")).status_code == 400


@pytest.mark.parametrize("refuses", [True, False])
async def test_a_query_has_so_many_hits_and_no_more(refuses: bool) -> None:
    simulator = AzureDevOpsSimulator(query_limit=2, query_refuses=refuses)
    simulator.add_project("Web")
    simulator.add_token(TOKEN)
    for _ in range(3):
        simulator.open_item("Web")
    async with serve(simulator) as running, httpx.AsyncClient(auth=("", TOKEN), verify=TLS) as client:
        query = {"query": "SELECT [System.Id] FROM WorkItems WHERE [System.Id] > 0"}
        answer = await client.post(f"{running.url}/acme/Web/_apis/wit/wiql", params=V, json=query)
    if refuses:
        assert (answer.status_code, "VS402337" in answer.text) == (400, True)
    else:
        assert len(answer.json()["workItems"]) == 2


async def test_history_is_told_in_differences(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    number = azure.open_item("Web", actor="alice@example.com")
    azure.add_tag(number, "first", "bob@example.com")
    azure.add_tag(number, "second", "carol@example.com")
    azure.remove_tag(number, "first", "bob@example.com")
    updates = (await api.get(f"/workItems/{number}/updates", params=V)).json()["value"]
    assert [u["revisedBy"]["uniqueName"].split("@")[0] for u in updates] == ["alice", "bob", "carol", "bob"]
    assert [u["fields"].get("System.Tags") for u in updates] == [
        None,
        {"newValue": "first"},
        {"oldValue": "first", "newValue": "first; second"},
        {"oldValue": "first; second", "newValue": "second"},
    ]
    some = (await api.get(f"/workItems/{number}/updates", params={**V, "$skip": "1", "$top": "2"})).json()
    assert [u["id"] for u in some["value"]] == [2, 3]


async def test_many_at_once(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    first, second = azure.open_item("Web", tags=["x"]), azure.open_item("Web")
    azure.delete_item(second)
    body = {"ids": [first, second], "fields": ["System.Id", "System.Tags"], "errorPolicy": "omit"}
    answer = (await api.post("/workitemsbatch", params=V, json=body)).json()
    assert answer["count"] == 2
    assert answer["value"][0]["fields"] == {"System.Id": first, "System.Tags": "x"}
    assert answer["value"][1] is None
    body["errorPolicy"] = "fail"
    assert (await api.post("/workitemsbatch", params=V, json=body)).status_code == 404
    body["ids"] = list(range(1, 202))
    assert (await api.post("/workitemsbatch", params=V, json=body)).status_code == 400


async def test_fields_and_expansions_exclude_each_other(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    number, other = azure.open_item("Web"), azure.open_item("Web")
    azure.set_predecessors(number, [other])
    both = {**V, "fields": "System.Title", "$expand": "relations"}
    assert (await api.get(f"/workitems/{number}", params=both)).status_code == 400
    shown = (await api.get(f"/workitems/{number}", params={**V, "$expand": "relations"})).json()
    assert shown["relations"][0]["rel"] == "System.LinkTypes.Dependency-Reverse"
    assert shown["relations"][0]["url"].endswith(f"/acme/_apis/wit/workItems/{other}")
    assert "relations" not in (await api.get(f"/workitems/{number}", params=V)).json()


async def test_a_stale_read_shows_an_older_revision(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    number = azure.open_item("Web", title="old")
    azure.edit_item(number, title="new")
    azure.inject(Fault("stale_read"))
    titles = [(await api.get(f"/workitems/{number}")).json()["fields"]["System.Title"] for _ in range(2)]
    assert titles == ["old", "new"]


async def test_an_unknown_route_is_recorded(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    assert (await api.get("/queries")).status_code == 500
    assert len(azure.unknown_requests) == 1
    azure.unknown_requests.clear()
    number = azure.open_item("Web")
    assert (await api.get(f"/workitems/{number}", params={"surprise": "1"})).status_code == 500
    azure.unknown_requests.clear()


async def test_a_server_has_everything_below_its_own_root() -> None:
    simulator = AzureDevOpsSimulator(server=True, organization="DefaultCollection")
    simulator.add_project("Web")
    simulator.add_token(TOKEN)
    number = simulator.open_item("Web")
    async with serve(simulator) as running, httpx.AsyncClient(auth=("", TOKEN), verify=TLS) as client:
        url = f"{running.api_url}/defaultcollection/web/_APIS/wit/WorkItems/{number}"
        assert (await client.get(url)).status_code == 200
        assert running.api_url.endswith("/tfs")
    simulator.assert_understood()


@pytest.mark.parametrize("only", ["true", "True"])
async def test_what_is_only_validated_is_answered_and_not_kept(
    azure: AzureDevOpsSimulator, api: httpx.AsyncClient, only: str
) -> None:
    azure.subscribe("Web", "http://127.0.0.1:9/nobody", event="workitem.updated")
    azure.subscribe("Web", "http://127.0.0.1:9/nobody", event="workitem.created")
    number = azure.open_item("Web", tags=["a"], webhook=False)
    headers, tried = {"Content-Type": JSON_PATCH}, {**V, "validateOnly": only}
    wanted = [rev(1), tags("add", "New"), {"op": "add", "path": "/fields/System.History", "value": "hi"}]
    answer = await api.patch(f"/workitems/{number}", params=tried, headers=headers, content=json.dumps(wanted))
    assert (answer.status_code, answer.json()["fields"]["System.Tags"]) == (200, "a; New")
    assert (await api.get(f"/workitems/{number}", params=V)).json()["rev"] == 1
    assert (azure.tags(number), azure.comments(number)) == (["a"], [])
    title = json.dumps([{"op": "add", "path": "/fields/System.Title", "value": "T"}])
    answer = await api.post("/workitems/$Task", params=tried, headers=headers, content=title)
    assert answer.status_code == 200
    assert (await api.get(f"/workitems/{answer.json()['id']}", params=V)).status_code == 404
    assert azure.outbox.held == []
    # What is wrong is refused all the same, and what is meant is done.
    answer = await api.patch(f"/workitems/{number}", params=tried, headers=headers, content=json.dumps([rev(7)]))
    assert answer.status_code == 412
    await patch(api, number, rev(1), tags("add", "new"))
    assert azure.tags(number) == ["a", "new"], "in the spelling of whoever wrote it first for good"


async def test_a_field_that_no_process_has_is_refused(azure: AzureDevOpsSimulator, api: httpx.AsyncClient) -> None:
    number = azure.open_item("Web")
    for op in ({"op": "add", "value": "x"}, {"op": "remove"}):
        answer = await patch(api, number, {**op, "path": "/fields/Custom.Nowhere"})
        assert (answer.status_code, "TF51535" in answer.json()["message"]) == (400, True)
    azure.define_field("Web", "Custom.Team")
    assert (await patch(api, number, {"op": "add", "path": "/fields/Custom.Team", "value": "x"})).status_code == 200
    known = {"op": "add", "path": "/fields/Microsoft.VSTS.Common.Priority", "value": 2}
    assert (await patch(api, number, known)).status_code == 200
