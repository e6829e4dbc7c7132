"""The GitLab simulator's issues, labels and people: what the service does, quirks included."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentsmith.simulators import Fault, Running
from agentsmith.simulators.gitlab import GitLabSimulator
from tests.support import gitlab_simulator
from tests.support.gitlab_simulator import PROJECT

lab, running, api = gitlab_simulator.lab, gitlab_simulator.running, gitlab_simulator.api


async def relabel(api: httpx.AsyncClient, iid: int, **fields: Any) -> list[str]:
    """The labels after an edit."""
    answer = await api.put(f"/issues/{iid}", json=fields)
    assert answer.status_code == 200, answer.text
    labels: list[str] = answer.json()["labels"]
    return labels


async def test_labels_are_added_and_removed_in_one_step(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    iid = lab.open_issue(PROJECT, labels=["a", "b"])
    assert await relabel(api, iid, add_labels="c,a", remove_labels="b,never") == ["a", "c"]
    assert await relabel(api, iid, add_labels=["d e"], remove_labels=["a"]) == ["c", "d e"]
    before = lab.issue(PROJECT, iid)
    assert await relabel(api, iid, add_labels="c", remove_labels="never") == ["c", "d e"]
    assert lab.issue(PROJECT, iid) is before  # nothing changed, nothing was touched
    form = await api.put(f"/issues/{iid}", data={"add_labels": "f", "remove_labels": "c"})
    assert form.json()["labels"] == ["d e", "f"]
    assert await relabel(api, iid, labels="only") == ["only"]
    assert {"a", "b", "c", "d e", "f", "only"} <= {label["name"] for label in (await api.get("/labels")).json()}


async def test_names_are_compared_letter_by_letter(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    iid = lab.open_issue(PROJECT, labels=["Bug"])
    assert await relabel(api, iid, add_labels="bug") == ["Bug", "bug"]
    assert (await api.get("/issues", params={"labels": "BUG"})).json() == []


@pytest.mark.parametrize(("premium", "left"), [(True, ["k::two", "x"]), (False, ["k::one", "k::two", "x"])])
async def test_scoped_labels_exclude_each_other_on_paid_tiers(
    lab: GitLabSimulator, api: httpx.AsyncClient, premium: bool, left: list[str]
) -> None:
    lab.hub.changes.premium = premium
    iid = lab.open_issue(PROJECT, labels=["k::one", "x"])
    assert await relabel(api, iid, add_labels="k::two") == left
    if premium:
        # The key is everything up to the last `::`.
        assert await relabel(api, iid, add_labels="k::two::a") == ["k::two", "k::two::a", "x"]


async def test_every_label_change_leaves_an_event(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    iid = lab.open_issue(PROJECT, labels=["a"])
    await relabel(api, iid, add_labels="b", remove_labels="a")
    events = (await api.get(f"/issues/{iid}/resource_label_events")).json()
    assert [(e["user"]["username"], e["action"], e["label"]["name"]) for e in events] == [
        ("mona", "add", "a"),
        ("smith-bot", "add", "b"),
        ("smith-bot", "remove", "a"),
    ]
    assert [e["id"] for e in events] == sorted(e["id"] for e in events)
    one = await api.get(f"/issues/{iid}/resource_label_events/{events[0]['id']}")
    assert one.json() == events[0]
    assert (await api.delete("/labels/b")).status_code == 204
    assert (await api.get(f"/issues/{iid}")).json()["labels"] == []
    assert (await api.get(f"/issues/{iid}/resource_label_events")).json()[1]["label"] is None


async def test_a_list_is_filtered_ordered_and_paged_by_number(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    for n in range(5):
        lab.clock.advance(1)
        lab.open_issue(PROJECT, labels=["x", *(["y"] if n % 2 else [])])
    lab.close_issue(PROJECT, 5)

    async def iids(**params: Any) -> list[int]:
        return [issue["iid"] for issue in (await api.get("/issues", params=params)).json()]

    assert await iids() == [5, 4, 3, 2, 1]
    assert await iids(state="opened", sort="asc") == [1, 2, 3, 4]
    assert await iids(labels="x,y") == [4, 2]
    assert await iids(labels="None") == []
    assert await iids(labels="Any", state="closed") == [5]
    lab.clock.advance(1)
    moment = "2027-01-15T08:00:06Z"
    lab.edit_issue(PROJECT, 2, title="edited")
    assert await iids(updated_after=moment) == [2]
    assert await iids(order_by="updated_at") == [2, 5, 4, 3, 1]
    page = await api.get("/issues", params={"per_page": 2, "page": 2})
    wanted = {"x-page": "2", "x-per-page": "2", "x-prev-page": "1", "x-next-page": "3", "x-total-pages": "3"}
    assert {name: page.headers[name] for name in wanted} == wanted
    assert set(page.links) == {"prev", "next", "first", "last"}
    assert [i["iid"] for i in (await api.get(page.links["last"]["url"])).json()] == [1]
    for wrong in ({"state": "open"}, {"updated_after": "yesterday"}, {"per_page": "many"}, {"order_by": "mood"}):
        assert (await api.get("/issues", params=wrong)).status_code == 400


async def test_keyset_pages_shift_nothing(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    for _ in range(5):
        lab.open_issue(PROJECT, labels=["x"])
    params = {"labels": "x", "pagination": "keyset", "order_by": "created_at", "sort": "asc", "per_page": "2"}
    page = await api.get("/issues", params=params)
    lab.remove_label(PROJECT, 1, "x")
    seen = [issue["iid"] for issue in page.json()]
    while "next" in page.links:
        assert set(page.links) == {"next"}
        page = await api.get(page.links["next"]["url"])
        seen += [issue["iid"] for issue in page.json()]
    assert seen == [1, 2, 3, 4, 5]
    assert (await api.get("/issues", params={**params, "cursor": "?"})).status_code == 400


async def test_conditional_requests_mean_nothing(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    iid = lab.open_issue(PROJECT)
    first = await api.get(f"/issues/{iid}")
    assert first.headers["etag"]
    again = await api.get(f"/issues/{iid}", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.json()) == (200, first.json())
    write = await api.put(f"/issues/{iid}", json={"title": "T"}, headers={"If-Match": '"other"'})
    assert write.status_code == 200


@pytest.mark.parametrize(
    ("level", "own", "status", "labels"),
    [
        ("developer", False, 200, ["x"]),
        ("reporter", False, 200, ["x"]),
        ("planner", False, 200, ["x"]),
        ("guest", False, 403, []),
        ("guest", True, 200, []),
        ("none", False, 403, []),
        ("none", True, 200, []),
    ],
)
async def test_who_may_label(
    lab: GitLabSimulator, api: httpx.AsyncClient, level: str, own: bool, status: int, labels: list[str]
) -> None:
    lab.set_access(PROJECT, "smith-bot", level)
    iid = lab.open_issue(PROJECT, actor="smith-bot" if own else "mona")
    answer = await api.put(f"/issues/{iid}", json={"add_labels": "x"})
    assert answer.status_code == status
    assert lab.labels(PROJECT, iid) == labels


async def test_who_gets_in(lab: GitLabSimulator, running: Running, api: httpx.AsyncClient) -> None:
    lab.open_issue(PROJECT)
    lab.add_token("reader", scopes=["read_api"])
    lab.add_token("short", expires_in=10)
    lab.add_token("oauth", oauth=True)
    url = f"{running.api_url}/projects/{PROJECT.replace('/', '%2F')}/issues/1"

    async def status(method: str = "GET", **headers: str) -> tuple[int, Any]:
        async with httpx.AsyncClient(verify=False, trust_env=False) as client:  # noqa: S501 - plain HTTP
            answer = await client.request(
                method, url, headers=headers, json={"title": "T"} if method == "PUT" else None
            )
            return answer.status_code, answer.json()

    assert await status() == (401, {"message": "401 Unauthorized"})
    assert (await status(**{"PRIVATE-TOKEN": "wrong"}))[0] == 401
    assert (await status(**{"PRIVATE-TOKEN": "token-of-smith"}))[0] == 200
    assert (await status(Authorization="Bearer token-of-smith"))[0] == 200
    assert (await status(**{"PRIVATE-TOKEN": "oauth"}))[0] == 401
    assert (await status(Authorization="Bearer oauth"))[0] == 200
    assert (await status(**{"PRIVATE-TOKEN": "reader"}))[0] == 200
    assert (await status("PUT", **{"PRIVATE-TOKEN": "reader"}))[1]["error"] == "insufficient_scope"
    lab.clock.advance(11)
    assert (await status(**{"PRIVATE-TOKEN": "short"}))[1]["error"] == "invalid_token"
    lab.revoke_token("token-of-smith")
    assert (await api.get("/issues/1")).status_code == 401


async def test_paths_must_be_encoded_and_ids_work(
    lab: GitLabSimulator, running: Running, api: httpx.AsyncClient
) -> None:
    number = lab.project(PROJECT).id
    iid = lab.open_issue(PROJECT)
    assert (await api.get(f"{running.api_url}/projects/{number}/issues/{iid}")).status_code == 200
    assert (await api.get(f"{running.api_url}/projects/{PROJECT}/issues/{iid}")).status_code == 404
    assert (await api.get(f"{running.api_url}/projects/9999/issues/{iid}")).json()["message"] == "404 Project Not Found"
    assert (await api.get("/issues/99")).json()["message"] == "404 Not found"


async def test_a_renamed_project_can_be_read_but_not_written(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    iid = lab.open_issue(PROJECT)
    lab.rename_project(PROJECT, "acme/site")
    moved = await api.get(f"/issues/{iid}", params={"x": "1"})
    assert moved.status_code == 301
    assert moved.headers["location"].endswith(f"/projects/{lab.project('acme/site').id}/issues/{iid}?x=1")
    refused = await api.put(f"/issues/{iid}", json={"title": "T"})
    assert (refused.status_code, refused.json()["message"]) == (
        405,
        "Non GET methods are not allowed for moved projects",
    )


async def test_moving_and_deleting(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    target = lab.add_project("acme/api")
    iid = lab.open_issue(PROJECT, title="Moves", labels=["x"])
    moved = await api.post(f"/issues/{iid}/move", json={"to_project_id": target})
    assert (moved.status_code, moved.json()["title"]) == (201, "Moves")
    here = (await api.get(f"/issues/{iid}")).json()
    assert (here["state"], here["moved_to_id"]) == ("closed", moved.json()["id"])
    assert (await api.delete(f"/issues/{iid}")).status_code == 403
    lab.set_access(PROJECT, "smith-bot", "owner")
    assert (await api.delete(f"/issues/{iid}")).status_code == 204
    assert (await api.get(f"/issues/{iid}")).status_code == 404


async def test_links_block_on_paid_tiers_only(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    one, two = lab.open_issue(PROJECT), lab.open_issue(PROJECT)
    body = {"target_project_id": PROJECT, "target_issue_iid": two, "link_type": "is_blocked_by"}
    refused = await api.post(f"/issues/{one}/links", json=body)
    assert (refused.status_code, refused.json()["message"]) == (403, "Blocked issues not available for current license")
    assert (await api.post(f"/issues/{one}/links", json={**body, "link_type": "relates_to"})).status_code == 201
    lab.hub.changes.premium = True
    assert (await api.post(f"/issues/{one}/links", json=body)).status_code == 201
    mine = (await api.get(f"/issues/{one}/links")).json()
    theirs = (await api.get(f"/issues/{two}/links")).json()
    assert [(link["iid"], link["link_type"]) for link in mine] == [(two, "relates_to"), (two, "is_blocked_by")]
    assert [(link["iid"], link["link_type"]) for link in theirs] == [(one, "relates_to"), (one, "blocks")]
    assert (await api.delete(f"/issues/{one}/links/{mine[0]['issue_link_id']}")).status_code == 200
    assert len((await api.get(f"/issues/{two}/links")).json()) == 1


async def test_limits_are_plain_text(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    lab.hub.limits.limit = 2
    lab.open_issue(PROJECT)
    first = await api.get("/issues/1")
    assert (first.headers["ratelimit-limit"], first.headers["ratelimit-remaining"]) == ("2", "1")
    await api.get("/issues/1")
    refused = await api.get("/issues/1")
    assert (refused.status_code, refused.text) == (429, "Retry later\n")
    assert refused.headers["content-type"].startswith("text/plain")
    lab.clock.advance(int(refused.headers["retry-after"]))
    assert (await api.get("/issues/1")).status_code == 200
    lab.inject(Fault("rate_limited"))
    assert "retry-after" not in (await api.get("/issues/1")).headers


async def test_old_versions_are_served_on_demand(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    iid = lab.open_issue(PROJECT, labels=["a"])
    lab.add_label(PROJECT, iid, "b")
    lab.inject(Fault("stale_read"))
    assert (await api.get(f"/issues/{iid}")).json()["labels"] == ["a"]
    assert (await api.get(f"/issues/{iid}")).json()["labels"] == ["a", "b"]


async def test_what_it_does_not_know_is_an_error_that_is_kept(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    lab.open_issue(PROJECT)
    assert (await api.get("/pipelines")).status_code == 500
    assert (await api.patch("/issues/1", json={})).status_code == 500
    assert (await api.get("/issues", params={"lables": "x"})).status_code == 500
    assert (await api.put("/issues/1", json={"lables": "x"})).status_code == 500
    assert len(lab.unknown_requests) == 4
    with pytest.raises(AssertionError, match="lables"):
        lab.assert_understood()


async def test_people_act_over_the_control_plane_too(lab: GitLabSimulator, running: Running) -> None:
    async with httpx.AsyncClient(base_url=f"{running.url}/_control", verify=False) as control:  # noqa: S501
        described = (await control.get("")).json()
        assert described["simulator"] == "gitlab"
        assert {"rate_limited", "silent_permission_loss", "label_survives"} <= set(described["fault_kinds"])
        made = await control.post("/act/open_issue", json={"project": PROJECT, "labels": ["a"]})
        iid = made.json()["result"]
        await control.post("/act/add_label", json={"project": PROJECT, "iid": iid, "label": "b"})
        shown = await control.post("/act/labels", json={"project": PROJECT, "iid": iid})
        assert shown.json() == {"result": ["a", "b"]}
        await control.post("/reset")
    assert lab.hub.world.projects == {}
