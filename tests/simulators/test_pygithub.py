"""Somebody else's client, unchanged, against the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from github import Auth, Github, GithubException, GithubIntegration

from agentsmith.simulators import Clock, Running, serve
from agentsmith.simulators.github import GitHubSimulator

REPO = "acme/web"
T = TypeVar("T")


@pytest.fixture
def judge_requests() -> bool:
    """What PyGithub sends is its own business (label names as a bare array, for one); our answers are ours."""
    return False


@pytest.fixture
def client(running: Running) -> Iterator[Github]:
    """PyGithub without its own pauses between requests: time is simulated here."""
    auth = Auth.Token("token-of-smith")
    client = Github(
        base_url=running.api_url, auth=auth, seconds_between_requests=0, seconds_between_writes=0, retry=None
    )
    yield client
    client.close()


async def run(work: Callable[[], T]) -> T:
    """PyGithub blocks, so it works beside the loop that serves it."""
    return await asyncio.to_thread(work)


async def test_labels(client: Github, hub: GitHubSimulator) -> None:
    number = hub.open_issue(REPO, labels=["bug"])

    def work() -> list[str]:
        repository = client.get_repo(REPO)
        repository.create_label("agent-smith:pending", "ff8800", "waiting")
        issue = repository.get_issue(number)
        issue.add_to_labels("agent-smith:pending", "area/web")
        issue.remove_from_labels("bug")
        with pytest.raises(GithubException, match="Label does not exist"):
            issue.remove_from_labels("bug")
        with pytest.raises(GithubException, match="already_exists"):
            repository.create_label("BUG", "ff8800")
        repository.get_label("area/web").edit("area/site", "00ff00")
        repository.get_label("bug").delete()
        assert {label.name for label in repository.get_labels()} == {"agent-smith:pending", "area/site"}
        return [label.name for label in issue.get_labels()]

    assert await run(work) == ["agent-smith:pending", "area/site"]
    assert hub.labels(REPO, number) == ["agent-smith:pending", "area/site"]
    hub.assert_understood()


async def test_listing_pages_and_skips_nothing(client: Github, hub: GitHubSimulator) -> None:
    opened = [hub.open_issue(REPO, labels=["x"]) for _ in range(65)]
    pull = hub.open_pull_request(REPO, labels=["x"])

    def work() -> list[tuple[int, bool]]:
        found = client.get_repo(REPO).get_issues(state="open", labels=["x"], sort="created", direction="asc")
        return [(issue.number, issue.pull_request is not None) for issue in found]

    assert await run(work) == [(number, False) for number in opened] + [(pull, True)]
    hub.assert_understood()


async def test_comments_events_reactions(client: Github, hub: GitHubSimulator) -> None:
    number = hub.open_issue(REPO, labels=["x"], actor="mona")

    def work() -> Any:
        issue = client.get_repo(REPO).get_issue(number)
        comment = issue.create_comment("one")
        comment.edit("uno")
        comment.create_reaction("eyes")
        issue.create_reaction("rocket")
        issue.create_comment("two").delete()
        assert [c.body for c in issue.get_comments()] == ["uno"]
        assert issue.get_comment(comment.id).user.login == "smith-bot"
        assert [r.content for r in issue.get_reactions()] == ["rocket"]
        assert [e.event for e in issue.get_timeline()] == ["labeled", "commented"]
        issue.edit(state="closed", state_reason="completed")
        told = list(issue.get_events())
        # PyGithub asks for the whole event when a field is not in the list's form of it.
        assert told[1].label is None
        return [(told[0].event, told[0].actor.login, told[0].label.name), (told[1].event, told[1].actor.login)]

    assert await run(work) == [("labeled", "mona", "x"), ("closed", "smith-bot")]
    hub.assert_understood()


async def test_pull_requests_and_drafts(client: Github, hub: GitHubSimulator) -> None:
    hub.push(REPO, "topic", {"new.txt": "new\n"})
    hub.open_issue(REPO)

    def work() -> None:
        repository = client.get_repo(REPO)
        pull = repository.create_pull(base="main", head="topic", title="T", body="B", draft=True)
        assert (pull.draft, pull.state, pull.head.ref, pull.base.ref) == (True, "open", "topic", "main")
        assert [p.number for p in repository.get_pulls(state="open", head="acme:topic")] == [pull.number]
        pull.mark_ready_for_review()
        assert repository.get_pull(pull.number).draft is False
        pull.convert_to_draft()
        pull.edit(title="U", body="C")
        again = repository.get_pull(pull.number)
        assert (again.title, again.body, again.draft) == ("U", "C", True)
        with pytest.raises(GithubException, match=r"A pull request already exists for acme:topic"):
            repository.create_pull(base="main", head="topic", title="T")
        with pytest.raises(GithubException, match="No commits between main and main"):
            repository.create_pull(base="main", head="main", title="T")
        with pytest.raises(GithubException, match='"field": "head"'):
            repository.create_pull(base="main", head="none", title="T")
        pull.edit(state="closed")
        repository.create_pull(base="main", head="topic", title="Once more")

    await run(work)
    assert [(p["state"], p["title"]) for p in hub.pull_requests(REPO)] == [("closed", "U"), ("open", "Once more")]
    hub.assert_understood()


async def test_a_repository_without_drafts(client: Github, hub: GitHubSimulator) -> None:
    hub.add_repository("acme/private", private=True, drafts=False)
    hub.push("acme/private", "topic", {"new.txt": "new\n"})

    def work() -> None:
        repository = client.get_repo("acme/private")
        with pytest.raises(GithubException, match="Draft pull requests are not supported in this repository"):
            repository.create_pull(base="main", head="topic", title="T", draft=True)
        pull = repository.create_pull(base="main", head="topic", title="T")
        with pytest.raises(GithubException, match="Draft pull requests are not supported in this repository"):
            pull.convert_to_draft()

    await run(work)


async def test_refs_pulls_and_people(client: Github, hub: GitHubSimulator) -> None:
    hub.set_permission(REPO, "mona", "triage")

    def work() -> None:
        repository = client.get_repo(REPO)
        tip = repository.get_git_ref("heads/main").object.sha
        assert repository.get_branch("main").commit.sha == tip
        repository.create_git_ref("refs/heads/topic", tip)
        with pytest.raises(GithubException, match="Reference already exists"):
            repository.create_git_ref("refs/heads/topic", tip)
        repository.get_git_ref("heads/topic").delete()
        assert repository.get_collaborator_permission("mona") == "read"
        assert repository.get_collaborator_role_name("mona") == "triage"
        assert client.get_user().login == "smith-bot"
        assert client.get_rate_limit().rate.limit == 5000
        created = repository.create_issue("T", body="B", labels=["a", "b"])
        assert [label.name for label in created.labels] == ["a", "b"]

    await run(work)
    hub.assert_understood()


async def test_hooks(client: Github, hub: GitHubSimulator) -> None:
    hub.set_permission(REPO, "smith-bot", "admin")

    def work() -> int:
        repository = client.get_repo(REPO)
        config = {"url": "http://127.0.0.1:9/hook", "content_type": "json"}
        hook = repository.create_hook("web", config, ["issues"], active=False)
        assert [h.id for h in repository.get_hooks()] == [hook.id]
        assert list(repository.get_hook_deliveries(hook.id)) == []
        hook.delete()
        return hook.id

    assert await run(work)
    hub.assert_understood()


async def test_transferred_renamed_and_deleted(client: Github, hub: GitHubSimulator) -> None:
    hub.add_repository("acme/other")
    moved, deleted = hub.open_issue(REPO, title="Moved"), hub.open_issue(REPO)
    there = hub.transfer_issue(REPO, moved, "acme/other")
    hub.delete_issue(REPO, deleted)

    def work() -> None:
        repository = client.get_repo(REPO)
        issue = repository.get_issue(moved)
        assert (issue.title, issue.number) == ("Moved", there)
        with pytest.raises(GithubException) as caught:
            repository.get_issue(deleted)
        assert caught.value.status == 410

    await run(work)
    hub.rename_repository("acme/other", "elsewhere")
    assert await run(lambda: client.get_repo("acme/other").full_name) == "acme/elsewhere"


async def test_a_github_app() -> None:
    # PyGithub dates its JWT by the real clock, so this simulator keeps real time.
    hub = GitHubSimulator(clock=Clock())
    hub.add_repository(REPO)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()
    app = hub.add_app("agent-smith", public)
    installation = hub.install_app(int(app["id"]))
    number = hub.open_issue(REPO)
    async with serve(hub) as running:

        def work() -> str:
            auth = Auth.AppAuth(int(app["id"]), private)
            with GithubIntegration(auth=auth, base_url=running.api_url) as integration:
                assert integration.get_app().slug == "agent-smith"
                client = integration.get_github_for_installation(installation)
                issue = client.get_repo(REPO).get_issue(number)
                return issue.create_comment("from the app").user.login

        assert await run(work) == "agent-smith[bot]"
    hub.assert_understood()
