"""Somebody else's client (python-gitlab), unchanged, against the simulator; and a description of the API as a hint."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import gitlab
import httpx
import pytest
from gitlab.exceptions import GitlabAuthenticationError, GitlabCreateError, GitlabGetError, GitlabUpdateError

from agentsmith.simulators import Fault, Running
from agentsmith.simulators.gitlab import GitLabSimulator
from tests.support import gitlab_simulator
from tests.support.contracts import ContractBroken, ContractJudge, described
from tests.support.gitlab_simulator import PROJECT

lab, running, api = gitlab_simulator.lab, gitlab_simulator.running, gitlab_simulator.api

T = TypeVar("T")


@pytest.fixture
def client(running: Running) -> Iterator[gitlab.Gitlab]:
    """python-gitlab with the bot's token."""
    with gitlab.Gitlab(running.url, private_token="token-of-smith", retry_transient_errors=False) as client:
        yield client


async def run(work: Callable[[], T]) -> T:
    """python-gitlab blocks, so it works beside the loop that serves it."""
    return await asyncio.to_thread(work)


async def test_labels_and_their_history(client: gitlab.Gitlab, lab: GitLabSimulator) -> None:
    iid = lab.open_issue(PROJECT, labels=["bug"])

    def work() -> list[Any]:
        project = client.projects.get(PROJECT)
        project.labels.create({"name": "agent-smith:pending", "color": "#ff8800", "description": "waiting"})
        with pytest.raises(GitlabCreateError, match="Label already exists"):
            project.labels.create({"name": "bug", "color": "#ff8800"})
        issue = project.issues.get(iid)
        project.issues.update(iid, {"add_labels": "agent-smith:pending,area/web", "remove_labels": "bug"})
        issue = project.issues.get(iid)
        assert issue.labels == ["agent-smith:pending", "area/web"]
        issue.labels = ["one", "two"]
        issue.save()
        renamed = project.labels.list(get_all=True)[0]
        renamed.new_name = "renamed"
        renamed.save()
        return [(e.action, e.label["name"], e.user["username"]) for e in issue.resourcelabelevents.list(get_all=True)]

    events = await run(work)
    assert events[:4] == [
        ("add", "bug", "mona"),
        ("add", "renamed", "smith-bot"),
        ("add", "area/web", "smith-bot"),
        ("remove", "bug", "smith-bot"),
    ]
    assert lab.labels(PROJECT, iid) == ["one", "two"]
    lab.assert_understood()


@pytest.mark.parametrize("keyset", [True, False])
async def test_listing_pages_and_skips_nothing(client: gitlab.Gitlab, lab: GitLabSimulator, keyset: bool) -> None:
    opened = [lab.open_issue(PROJECT, labels=["x"]) for _ in range(45)]
    how: dict[str, Any] = {"pagination": "keyset"} if keyset else {}

    def work() -> list[int]:
        project = client.projects.get(PROJECT, lazy=True)
        found = project.issues.list(
            state="opened", labels=["x"], order_by="created_at", sort="asc", iterator=True, **how
        )
        return [issue.iid for issue in found]

    assert await run(work) == opened
    lab.assert_understood()


async def test_comments_links_people_and_hooks(client: gitlab.Gitlab, lab: GitLabSimulator) -> None:
    lab.hub.changes.premium = True
    lab.set_access(PROJECT, "smith-bot", "maintainer")
    one, two = lab.open_issue(PROJECT, actor="mona"), lab.open_issue(PROJECT)

    def work() -> None:
        client.auth()
        assert client.user is not None
        assert client.user.username == "smith-bot"
        project = client.projects.get(PROJECT)
        issue = project.issues.get(one)
        note = issue.notes.create({"body": "one"})
        note.body = "uno"
        note.save()
        issue.notes.create({"body": "two"}).delete()
        assert [n.body for n in issue.notes.list(get_all=True)] == ["uno"]
        issue.links.create({"target_project_id": project.id, "target_issue_iid": two, "link_type": "is_blocked_by"})
        assert [(link.iid, link.link_type) for link in issue.links.list(get_all=True)] == [(two, "is_blocked_by")]
        mona = client.users.list(username="mona", get_all=True)[0]
        assert project.members_all.get(mona.id).access_level == gitlab.const.AccessLevel.DEVELOPER
        hook = project.hooks.create({"url": "http://127.0.0.1:9/hook", "issues_events": True, "token": "secret"})
        assert [h.id for h in project.hooks.list(get_all=True)] == [hook.id]
        hook.delete()
        created = project.issues.create({"title": "T", "description": "B", "labels": ["a", "b"]})
        assert created.labels == ["a", "b"]
        created.state_event = "close"
        created.save()
        assert project.issues.get(created.iid).state == "closed"

    await run(work)
    lab.assert_understood()


async def test_merge_requests(client: gitlab.Gitlab, lab: GitLabSimulator) -> None:
    lab.push(PROJECT, "topic", {"new.txt": "new\n"})
    branches = {"source_branch": "topic", "target_branch": "main"}

    def work() -> None:
        project = client.projects.get(PROJECT)
        assert (project.default_branch, project.empty_repo) == ("main", False)
        made = project.mergerequests.create({**branches, "title": "Draft: T", "description": "B"})
        assert (made.draft, made.work_in_progress, made.state) == (True, True, "opened")
        with pytest.raises(
            GitlabCreateError, match="Another open merge request already exists for this source branch: !1"
        ):
            project.mergerequests.create({**branches, "title": "T"})
        with pytest.raises(GitlabCreateError, match="does not exist"):
            project.mergerequests.create({**branches, "source_branch": "none", "title": "T"})
        made.title = "T"
        made.save()
        found = project.mergerequests.list(state="opened", source_branch="topic", get_all=True)
        assert [(mr.iid, mr.draft, mr.source_project_id) for mr in found] == [(made.iid, False, project.id)]
        made.state_event = "close"
        made.save()
        assert project.mergerequests.list(state="opened", get_all=True) == []
        project.mergerequests.create({**branches, "title": "Once more", "description": "text\n/close\n/title Owned"})

    await run(work)
    shown = [(mr["state"], mr["title"], mr["body"]) for mr in lab.merge_requests(PROJECT)]
    assert shown == [("closed", "T", "B"), ("closed", "Owned", "text")]
    lab.set_access(PROJECT, "smith-bot", "reporter")
    with pytest.raises(GitlabCreateError, match="403 Forbidden"):
        await run(lambda: client.projects.get(PROJECT).mergerequests.create({**branches, "title": "T"}))
    lab.assert_understood()


async def test_an_empty_project_has_no_default_branch(client: gitlab.Gitlab, lab: GitLabSimulator) -> None:
    lab.add_project("acme/empty", empty=True)
    assert (await run(lambda: client.projects.get("acme/empty"))).default_branch is None
    lab.push("acme/empty", "main", {"a": "b"})
    assert (await run(lambda: client.projects.get("acme/empty"))).default_branch == "main"


async def test_errors_are_what_the_client_expects(client: gitlab.Gitlab, lab: GitLabSimulator) -> None:
    lab.open_issue(PROJECT)

    def work() -> None:
        project = client.projects.get(PROJECT)
        with pytest.raises(GitlabGetError, match="404 Not found"):
            project.issues.get(99)
        with pytest.raises(GitlabGetError, match="404 Project Not Found"):
            client.projects.get("acme/nowhere")
        with pytest.raises(GitlabUpdateError, match="403 Forbidden"):
            project.issues.update(1, {"title": "T"})

    lab.set_access(PROJECT, "smith-bot", "guest")
    await run(work)
    lab.inject(Fault("bad_credentials"))
    with pytest.raises(GitlabAuthenticationError, match="401 Unauthorized"):
        await run(client.auth)


def without_nulls(value: Any) -> Any:
    """The same without what is null: the description has never heard of it."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


async def test_a_tour_of_what_was_written_down(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    """The description is old and was made by hand from the docs: a hint. Where it errs, this test says so."""
    judge = ContractJudge("gitlab")
    lab.set_access(PROJECT, "smith-bot", "owner")
    lab.open_issue(PROJECT, labels=["a"])
    lab.open_issue(PROJECT)
    lab.comment(PROJECT, 1, "hi")

    async def ask(method: str, path: str, body: Any) -> int:
        answer = await api.request(method, path, json=body)
        data = without_nulls(answer.json())
        judged = httpx.Response(answer.status_code, json=data)
        assert judge.check(answer.request, judged), f"{method} {path} is not described"
        return answer.status_code

    tour: list[tuple[str, str, Any, int]] = [
        ("GET", "/issues?state=opened&labels=a&order_by=created_at&sort=asc", None, 200),
        ("GET", "/issues/2", None, 200),
        ("PUT", "/issues/1", {"add_labels": "b", "remove_labels": "a"}, 200),
        ("GET", "/issues/1/notes?sort=asc&order_by=created_at", None, 200),
        ("GET", "/issues/1/resource_label_events", None, 200),
        ("GET", "/labels", None, 200),
        ("GET", "/issues/99", None, 404),
    ]
    for method, path, body, status in tour:
        assert await ask(method, path, body) == status
    assert judge.judged == len(tour)
    # It knows neither paging nor that what is made is answered with 201, and takes the labels of one issue for objects.
    for method, path, body, words in (
        ("GET", "/issues/1", None, "labels/0"),
        ("GET", "/issues?per_page=3", None, "undescribed query"),
        ("POST", "/issues/1/notes", {"body": "x"}, "no such status"),
        ("POST", "/labels", {"name": "n", "color": "#ff0000"}, "no such status"),
    ):
        with pytest.raises(ContractBroken, match=words):
            await ask(method, path, body)
    lab.assert_understood()


async def test_what_is_not_simulated_says_so(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    """A 404 would read as `there is none`; whoever is told that believes it."""
    lab.set_access(PROJECT, "smith-bot", "maintainer")
    iid = lab.open_issue(PROJECT, labels=["a"])
    known = {"id": quote(PROJECT, safe=""), "issue_iid": str(iid), "label_id": "a"}
    known["note_id"] = str(lab.comment(PROJECT, iid, "hi"))
    known["hook_id"] = str(lab.register_webhook(PROJECT, "http://127.0.0.1:9/x"))
    root = str(api.base_url).partition("/projects/")[0]
    told: dict[str, int] = {}
    for path in described("gitlab", "get"):
        filled = re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], "1"), path.removeprefix("/api/v4"))
        answer = await api.get(f"{root}{filled}")
        told[path] = answer.status_code
        if answer.status_code == 404:
            # Of what is simulated there is none with the number 1, and that is said in GitLab's own words.
            assert not any(word in path for word in ("discussions", "branches", "pipelines", "jobs", "approval")), path
        elif answer.status_code != 200:
            assert (answer.status_code, "does not know this" in answer.text) == (500, True), (path, answer.text)
    assert told["/api/v4/projects/{id}/merge_requests/{merge_request_iid}/discussions"] == 500
    assert told["/api/v4/projects/{id}/repository/branches/{branch}"] == 500
    changes = await api.get("/merge_requests/1/changes")
    assert "does not know this" in changes.text
    assert list(told.values()).count(200) > 10
    lab.unknown_requests.clear()
