"""Webhooks: signed, one per label, once; lost, late, repeated and swapped on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import httpx
import pytest

from agentsmith.simulators import Fault, Running
from agentsmith.simulators.github import GitHubSimulator
from agentsmith.simulators.github.webhooks import signature
from tests.support.receiver import Receiver, receiving

REPO = "acme/web"
SECRET = "It's a Secret to Everybody"


@pytest.fixture
async def inbox() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
def hook(hub: GitHubSimulator, running: Running, inbox: Receiver) -> int:
    """A hook for everything; it depends on `running`, because only a served simulator sends."""
    return hub.register_webhook(REPO, inbox.url, secret=SECRET)


def events(inbox: Receiver) -> list[str]:
    told = []
    for request in inbox.requests:
        action = request.json.get("action")
        told.append(request.headers["x-github-event"] + (f".{action}" if action else ""))
    return told


def test_the_published_signature() -> None:
    assert signature(SECRET, b"Hello, World!") == (
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    )


async def test_headers_and_signature(hub: GitHubSimulator, hook: int, inbox: Receiver) -> None:
    hub.open_issue(REPO)
    await hub.outbox.settle()
    (request,) = inbox.requests
    assert request.headers["x-github-event"] == "issues"
    assert request.headers["x-github-hook-id"] == str(hook)
    assert len(request.headers["x-github-delivery"]) == 36
    assert request.headers["user-agent"].startswith("GitHub-Hookshot/")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-hub-signature-256"] == signature(SECRET, request.body)
    assert request.json["issue"]["url"].startswith(hub.url)


async def test_one_delivery_per_label_and_per_change(hub: GitHubSimulator, hook: int, inbox: Receiver) -> None:
    hub.add_repository("acme/other")
    hub.register_webhook("acme/other", inbox.url)
    number = hub.open_issue(REPO, labels=["a", "b"], actor="mona")
    hub.remove_label(REPO, number, "a", "hubert")
    hub.edit_issue(REPO, number, title="New")
    comment = hub.comment(REPO, number, "hi")
    hub.edit_comment(REPO, comment, "ho")
    hub.delete_comment(REPO, comment)
    hub.close_issue(REPO, number)
    hub.reopen_issue(REPO, number)
    hub.lock_issue(REPO, number)
    hub.transfer_issue(REPO, number, "acme/other")
    hub.delete_issue(REPO, hub.open_issue(REPO))
    await hub.outbox.settle()
    assert events(inbox) == [
        "issues.opened",
        "issues.labeled",
        "issues.labeled",
        "issues.unlabeled",
        "issues.edited",
        "issue_comment.created",
        "issue_comment.edited",
        "issue_comment.deleted",
        "issues.closed",
        "issues.reopened",
        "issues.locked",
        "issues.transferred",
        "issues.opened",
        "issues.opened",
        "issues.deleted",
    ]
    bodies = [request.json for request in inbox.requests]
    assert [body["label"]["name"] for body in bodies[1:4]] == ["a", "b", "a"]
    assert bodies[3]["sender"]["login"] == "hubert"
    assert [label["name"] for label in bodies[3]["issue"]["labels"]] == ["b"]
    assert bodies[4]["changes"] == {"title": {"from": "Something to do"}}
    assert bodies[11]["changes"]["new_repository"]["full_name"] == "acme/other"
    assert bodies[12]["changes"]["old_issue"]["number"] == number
    assert bodies[0]["organization"]["login"] == "acme"


async def test_pull_requests_have_their_own_event(hub: GitHubSimulator, hook: int, inbox: Receiver) -> None:
    number = hub.open_pull_request(REPO)
    hub.add_label(REPO, number, "x")
    hub.comment(REPO, number, "hi")
    await hub.outbox.settle()
    assert events(inbox) == ["pull_request.opened", "pull_request.labeled", "issue_comment.created"]
    assert "pull_request" in inbox.requests[2].json["issue"]


async def test_our_own_writes_are_told_too(
    hub: GitHubSimulator, hook: int, inbox: Receiver, api: httpx.AsyncClient
) -> None:
    number = hub.open_issue(REPO, webhook=False)
    await api.post(f"/issues/{number}/labels", json={"labels": ["x"]})
    await hub.outbox.settle()
    assert events(inbox) == ["issues.labeled"]
    assert inbox.requests[0].json["sender"]["login"] == "smith-bot"


async def test_changes_without_a_webhook(hub: GitHubSimulator, hook: int, inbox: Receiver) -> None:
    number = hub.open_issue(REPO, webhook=False)
    hub.add_label(REPO, number, "x", webhook=False)
    await hub.outbox.settle()
    assert inbox.requests == []
    assert hub.labels(REPO, number) == ["x"]


async def test_subscriptions(hub: GitHubSimulator, running: Running, inbox: Receiver) -> None:
    hub.register_webhook(REPO, inbox.url, events=["issue_comment"], content_type="form", ping=True)
    number = hub.open_issue(REPO)
    hub.comment(REPO, number, "hi & ho")
    await hub.outbox.settle()
    assert [r.headers["x-github-event"] for r in inbox.requests] == ["ping", "issue_comment"]
    assert "x-hub-signature-256" not in inbox.requests[1].headers
    form = parse_qs(inbox.requests[1].body.decode())
    assert '"hi & ho"' in form["payload"][0]


@pytest.mark.usefixtures("hook")
class TestFaults:
    """What happens to deliveries on their way."""

    async def test_lost(self, hub: GitHubSimulator, inbox: Receiver) -> None:
        hub.inject(Fault("webhook_lost", event=r"issues\.opened"))
        hub.inject(Fault("webhook_lost", event="labeled", logged=False))
        hub.open_issue(REPO, labels=["x"])
        hub.open_issue(REPO)
        await hub.outbox.settle()
        assert events(inbox) == ["issues.opened"]
        assert [d.status for d in hub.outbox.log] == ["lost", "OK"]

    async def test_late_until_released(self, hub: GitHubSimulator, inbox: Receiver) -> None:
        hub.inject(Fault("webhook_late"))
        hub.open_issue(REPO, labels=["x"])
        await hub.outbox.settle()
        assert events(inbox) == ["issues.labeled"]
        assert len(hub.outbox.held) == 1
        hub.release_webhooks()
        await hub.outbox.settle()
        assert events(inbox) == ["issues.labeled", "issues.opened"]

    async def test_late_by_the_simulated_clock(self, hub: GitHubSimulator, inbox: Receiver) -> None:
        hub.inject(Fault("webhook_late", seconds=300))
        hub.open_issue(REPO)
        await hub.outbox.settle()
        assert inbox.requests == []
        hub.clock.advance(299)
        await hub.outbox.settle()
        assert inbox.requests == []
        hub.clock.advance(1)
        await hub.outbox.settle()
        assert events(inbox) == ["issues.opened"]

    async def test_repeated(self, hub: GitHubSimulator, inbox: Receiver) -> None:
        hub.inject(Fault("webhook_repeated", copies=2))
        hub.open_issue(REPO)
        await hub.outbox.settle()
        assert len(inbox.requests) == 3
        assert len({r.headers["x-github-delivery"] for r in inbox.requests}) == 1
        assert len({r.body for r in inbox.requests}) == 1

    async def test_out_of_order(self, hub: GitHubSimulator, inbox: Receiver) -> None:
        hub.inject(Fault("webhook_out_of_order", event="opened"))
        hub.open_issue(REPO, labels=["x"])
        await hub.outbox.settle()
        assert events(inbox) == ["issues.labeled", "issues.opened"]

    async def test_nobody_tries_again(self, hub: GitHubSimulator, inbox: Receiver) -> None:
        inbox.status = 503
        hub.open_issue(REPO)
        await hub.outbox.settle()
        inbox.status = 202
        hub.clock.advance(86_400)
        await hub.outbox.settle()
        assert len(inbox.requests) == 1
        (delivery,) = hub.outbox.log
        assert (delivery.status_code, delivery.status) == (503, "Invalid HTTP Response: 503")

    async def test_a_receiver_that_does_not_answer(self, hub: GitHubSimulator, inbox: Receiver) -> None:
        hub.outbox.timeout = 0.05
        inbox.mute = True
        hub.open_issue(REPO)
        await hub.outbox.settle()
        assert hub.outbox.log[0].status == "timed out"

    async def test_a_receiver_that_is_not_there(self, hub: GitHubSimulator) -> None:
        hub.hooks.hooks.clear()
        hub.register_webhook(REPO, "http://127.0.0.1:9/nobody")
        hub.open_issue(REPO)
        await hub.outbox.settle()
        assert hub.outbox.log[0].status == "failed to connect to host"

    async def test_what_becomes_due_leaves_by_itself(self, hub: GitHubSimulator, inbox: Receiver) -> None:
        hub.open_issue(REPO)
        while not inbox.requests:  # noqa: ASYNC110 - turns of the loop until the courier has been there
            await asyncio.sleep(0)
        assert events(inbox) == ["issues.opened"]


async def test_an_app_hears_of_its_repositories(hub: GitHubSimulator, running: Running, inbox: Receiver) -> None:
    hub.add_repository("acme/other")
    app = hub.add_app("agent-smith", "no key needed here")
    installation = hub.install_app(int(app["id"]), repositories=[REPO], webhook_url=inbox.url, webhook_secret=SECRET)
    hub.open_issue("acme/other")
    hub.open_issue(REPO)
    await hub.outbox.settle()
    (request,) = inbox.requests
    assert request.json["installation"]["id"] == installation
    assert request.headers["x-github-hook-installation-target-type"] == "integration"


async def test_sending_without_a_server(hub: GitHubSimulator, inbox: Receiver) -> None:
    hub.register_webhook(REPO, inbox.url)
    hub.open_issue(REPO)
    await hub.outbox.settle()
    assert events(inbox) == ["issues.opened"]
