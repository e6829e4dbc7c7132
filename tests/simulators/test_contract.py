"""The published description judges a tour of everything it describes; and the judge itself is judged."""

from __future__ import annotations

import httpx
import pytest

from agentsmith.simulators import Fault
from agentsmith.simulators.github import GitHubSimulator
from tests.support.contracts import ContractBroken, ContractJudge, Exchange

REPO = "acme/web"


@pytest.fixture
def judge() -> ContractJudge:
    """Skips, loudly, where there is nothing to judge by."""
    return ContractJudge("github")


async def test_a_tour_of_what_is_described(judge: ContractJudge, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
    hub.set_permission(REPO, "smith-bot", "admin")
    number, pull = hub.open_issue(REPO, labels=["a"]), hub.open_pull_request(REPO, labels=["a"])
    comment = hub.comment(REPO, number, "hi")
    hub.push(REPO, "fresh", {"new.txt": "new\n"})
    blocker = hub.issue(REPO, hub.open_issue(REPO)).id
    blocking = f"/issues/{number}/dependencies/blocked_by"
    root = str(api.base_url).partition("/repos/")[0]
    issue = f"/issues/{number}"
    hook = {"config": {"url": "http://127.0.0.1:9/x", "content_type": "json"}, "events": ["issues"], "active": False}
    tour = [
        ("GET", f"{root}/user", None, 200),
        ("GET", f"{root}/rate_limit", None, 200),
        ("GET", "/issues?state=all&labels=a&sort=created&direction=asc&per_page=1", None, 200),
        ("POST", "/issues", {"title": "T", "body": "B", "labels": ["x"]}, 201),
        ("GET", issue, None, 200),
        ("GET", "/issues/4711", None, 404),
        ("PATCH", issue, {"title": "U", "state": "closed", "state_reason": "completed"}, 200),
        ("PATCH", issue, {"state": "open"}, 200),
        ("GET", f"{issue}/labels", None, 200),
        ("POST", f"{issue}/labels", {"labels": ["b"]}, 200),
        ("PUT", f"{issue}/labels", {"labels": ["b", "c"]}, 200),
        ("DELETE", f"{issue}/labels/c", None, 200),
        ("DELETE", f"{issue}/labels/c", None, 404),
        ("GET", f"{issue}/comments", None, 200),
        ("POST", f"{issue}/comments", {"body": "x"}, 201),
        ("PATCH", f"/issues/comments/{comment}", {"body": "y"}, 200),
        ("GET", f"/issues/comments/{comment}", None, 200),
        ("GET", "/issues/comments", None, 200),
        ("GET", f"{issue}/events", None, 200),
        ("GET", f"{issue}/timeline", None, 200),
        ("GET", "/branches/main", None, 200),
        ("GET", "/branches/nowhere", None, 404),
        ("POST", blocking, {"issue_id": blocker}, 201),
        ("POST", blocking, {"issue_id": blocker}, 422),
        ("POST", blocking, {"issue_id": 4711}, 404),
        ("GET", blocking, None, 200),
        ("POST", f"{issue}/reactions", {"content": "eyes"}, 201),
        ("POST", f"{issue}/reactions", {"content": "eyes"}, 200),
        ("GET", f"{issue}/reactions", None, 200),
        ("GET", "/labels", None, 200),
        ("POST", "/labels", {"name": "n", "color": "ff0000", "description": "d"}, 201),
        ("POST", "/labels", {"name": "n", "color": "ff0000"}, 422),
        ("GET", "/labels/n", None, 200),
        ("PATCH", "/labels/n", {"new_name": "m"}, 200),
        ("DELETE", "/labels/m", None, 204),
        ("POST", "/hooks", hook, 201),
        ("GET", "/hooks", None, 200),
        ("GET", "/pulls?state=open&head=acme:topic", None, 200),
        ("GET", f"/pulls/{pull}", None, 200),
        ("PATCH", f"/pulls/{pull}", {"title": "V", "body": "W", "base": "main"}, 200),
        ("PATCH", f"/pulls/{pull}", {"state": "closed"}, 200),
        ("POST", "/pulls", {"title": "T", "head": "fresh", "base": "main", "body": "B", "draft": True}, 201),
        ("POST", "/pulls", {"title": "T", "head": "fresh", "base": "main"}, 422),
        ("DELETE", f"/issues/comments/{comment}", None, 204),
        ("DELETE", f"{issue}/labels", None, 204),
    ]
    for method, path, body, status in tour:
        answer = await api.request(method, path, json=body)
        assert answer.status_code == status, (method, path, answer.text)
        assert judge.check(answer.request, answer), f"{method} {path} is not described"
    hub.delete_issue(REPO, number)
    gone = await api.get(issue)
    assert judge.check(gone.request, gone)
    assert judge.judged == len(tour) + 1
    hub.assert_understood()


async def test_what_newer_clients_read_is_there(hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
    """Of a repository and of labels, where they are asked for by themselves."""
    number = hub.open_issue(REPO, labels=["a"])
    whole = (await api.get(str(api.base_url).rstrip("/"))).json()
    assert (whole["subscribers_count"], whole["network_count"]) == (0, 0)
    for path in ("/labels", f"/issues/{number}/labels"):
        [label, *_] = (await api.get(path)).json()
        assert (label["archived_at"], label["archived_by"]) == (None, None)


async def test_what_is_described_nowhere_is_counted(judge: ContractJudge, api: httpx.AsyncClient) -> None:
    answer = await api.get("/git/ref/heads/main")
    assert not judge.check(answer.request, answer)
    assert judge.undescribed == [f"GET /repos/{REPO}/git/ref/heads/main"]


async def test_broken_exchanges_are_not_judged(
    judge: ContractJudge, hub: GitHubSimulator, api: httpx.AsyncClient
) -> None:
    number = hub.open_issue(REPO)
    hub.inject(Fault("malformed_json"))
    await api.get(f"/issues/{number}")
    assert not judge.check_recorded(hub.requests[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answer_body": b"[{}]"}, "required property"),
        ({"answer_body": b'{"message": "hi"}'}, "not of type 'array'"),
        ({"status": 202}, "no such status"),
        ({"query": "lables=x"}, "undescribed query"),
        ({"query": "per_page=many"}, "per_page"),
        ({"body": b'{"lables": ["x"]}'}, "request"),
        ({"body": b'{"labels": []}'}, "request"),
    ],
)
def test_the_judge_has_teeth(judge: ContractJudge, change: dict[str, object], words: str) -> None:
    get = "query" in change
    fields: dict[str, object] = {
        "method": "GET" if get else "POST",
        "path": f"/repos/{REPO}/issues" if get else f"/repos/{REPO}/issues/1/labels",
        "query": "",
        "headers": {"content-type": "application/json"},
        "body": b"" if get else b'{"labels": ["x"]}',
        "status": 200,
        "answer_headers": {"content-type": "application/json; charset=utf-8"},
        "answer_body": b"[]",
    }
    assert judge.check_exchange(Exchange(**fields))  # type: ignore[arg-type]
    with pytest.raises(ContractBroken, match=words):
        judge.check_exchange(Exchange(**(fields | change)))  # type: ignore[arg-type]
