"""The GitLab simulator's webhooks: who is told what, how it is authenticated, and when a hook is switched off."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import BadPayload, BadSignature, Incoming, TicketEvent, Uninteresting
from agentsmith.simulators import Fault
from agentsmith.simulators.gitlab import GitLabSimulator
from agentsmith.simulators.gitlab.changes import By
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.webhook import GitLabWebhooks
from tests.support import gitlab_simulator
from tests.support.gitlab_simulator import PROJECT, START
from tests.support.receiver import Received, Receiver, receiving

lab, running, api = gitlab_simulator.lab, gitlab_simulator.running, gitlab_simulator.api

PUBLISHED = Path(__file__).resolve().parents[2] / ".." / "shared" / "webhooks" / "gitlab"
SECRET = "It's a Secret to Everybody"
KEY = bytes(range(32))
SIGNING = "whsec_" + base64.b64encode(KEY).decode()


@pytest.fixture
async def inbox() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
def hook(lab: GitLabSimulator, running: object, inbox: Receiver) -> int:
    """A hook for everything; it depends on `running`, because only a served simulator sends."""
    return lab.register_webhook(PROJECT, inbox.url, token=SECRET, signing_token=SIGNING)


def told(inbox: Receiver) -> list[str]:
    """Kind and action of everything that arrived."""
    bodies = [request.json for request in inbox.requests]
    return [f"{b['object_kind']}.{b['object_attributes'].get('action')}" for b in bodies]


@pytest.mark.usefixtures("hook")
async def test_everything_that_happens_is_told_once(lab: GitLabSimulator, inbox: Receiver) -> None:
    iid = lab.open_issue(PROJECT, labels=["a"])
    lab.add_label(PROJECT, iid, "b", "robin")
    lab.comment(PROJECT, iid, "hi")
    lab.edit_issue(PROJECT, iid, title="New")
    lab.close_issue(PROJECT, iid)
    lab.reopen_issue(PROJECT, iid)
    lab.add_label(PROJECT, iid, "quiet", webhook=False)
    lab.add_label(PROJECT, iid, "b")  # it is there already
    lab.delete_issue(PROJECT, iid)
    await lab.outbox.settle()
    assert told(inbox) == ["issue.open", "issue.update", "note.create", "issue.update", "issue.close", "issue.reopen"]
    labelled = inbox.requests[1].json
    assert labelled["user"]["username"] == "robin"
    sides = labelled["changes"]["labels"]
    assert [[label["title"] for label in sides[side]] for side in ("previous", "current")] == [["a"], ["a", "b"]]


@pytest.mark.usefixtures("hook")
async def test_headers(lab: GitLabSimulator, inbox: Receiver) -> None:
    lab.open_issue(PROJECT)
    await lab.outbox.settle()
    (request,) = inbox.requests
    headers = request.headers
    assert headers["x-gitlab-event"] == "Issue Hook"
    assert headers["x-gitlab-token"] == SECRET
    assert headers["x-gitlab-instance"] == lab.url
    assert headers["webhook-id"] == headers["idempotency-key"]
    assert headers["webhook-timestamp"] == str(int(START))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    digest = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"
    names = ("idempotency-key", "x-gitlab-webhook-uuid", "x-gitlab-event-uuid")
    assert len({headers[name] for name in names}) == 3


async def test_one_event_has_one_uuid_for_all_hooks(lab: GitLabSimulator, hook: int, inbox: Receiver) -> None:
    lab.register_webhook(PROJECT, inbox.url)
    lab.open_issue(PROJECT)
    await lab.outbox.settle()
    one, two = (request.headers for request in inbox.requests)
    assert one["x-gitlab-event-uuid"] == two["x-gitlab-event-uuid"]
    assert one["idempotency-key"] != two["idempotency-key"]
    assert "x-gitlab-token" not in two
    assert "webhook-signature" not in two


async def test_a_hook_that_fails_rests_and_is_switched_off_in_the_end(
    lab: GitLabSimulator, hook: int, inbox: Receiver
) -> None:
    inbox.status = 500
    for failures in range(1, 4):
        lab.open_issue(PROJECT)
        await lab.outbox.settle()
        assert (len(inbox.requests), lab.hook_status(hook)) == (failures, "executable")
    rest, failures = 60.0, 3
    while True:
        lab.open_issue(PROJECT)
        await lab.outbox.settle()
        failures += 1
        assert len(inbox.requests) == failures
        if failures == 40:
            break
        assert lab.hook_status(hook) == "temporarily_disabled"
        lab.open_issue(PROJECT)
        await lab.outbox.settle()
        assert len(inbox.requests) == failures  # it rests
        lab.clock.advance(rest + 1)
        assert lab.hook_status(hook) == "executable"
        rest = min(rest * 2, 86_400.0)
    assert lab.hook_status(hook) == "disabled"
    lab.clock.advance(10 * 86_400)
    lab.open_issue(PROJECT)
    await lab.outbox.settle()
    assert len(inbox.requests) == 40
    assert lab.hooks.withheld == 37


async def test_a_success_forgives(lab: GitLabSimulator, hook: int, inbox: Receiver) -> None:
    for status in (404, 500, 400, 200, 500, 500, 500):
        inbox.status = status
        lab.open_issue(PROJECT)
        await lab.outbox.settle()
    assert lab.hook_status(hook) == "executable"


async def test_life_of_a_hook_over_the_api(
    lab: GitLabSimulator, api: httpx.AsyncClient, hook: int, inbox: Receiver
) -> None:
    assert (await api.get("/hooks")).status_code == 403
    lab.set_access(PROJECT, "smith-bot", "maintainer")
    body = {"url": inbox.url, "token": SECRET, "issues_events": True}
    made = await api.post("/hooks", json=body)
    assert made.status_code == 201
    assert SECRET not in made.text
    path = f"/hooks/{made.json()['id']}"
    assert (made.json()["issues_events"], made.json()["note_events"]) == (True, False)
    assert (await api.post("/hooks", json={})).status_code == 400
    assert (await api.post("/hooks", json={"url": "ftp://x"})).status_code == 422
    assert [h["id"] for h in (await api.get("/hooks")).json()] == [hook, made.json()["id"]]
    await api.delete(f"/hooks/{hook}")
    inbox.status = 500
    assert (await api.post(f"{path}/test/issues_events")).status_code == 422
    for _ in range(4):
        lab.open_issue(PROJECT)
        await lab.outbox.settle()
    shown = (await api.get(path)).json()
    assert shown["alert_status"] == "temporarily_disabled"
    assert shown["disabled_until"] == "2027-01-15T08:01:00.000Z"
    inbox.status = 200
    assert (await api.post(f"{path}/test/issues_events")).status_code == 201
    await lab.outbox.settle()
    assert told(inbox)[-1] == "issue.None"
    assert (await api.get(path)).json()["alert_status"] == "executable"
    log = (await api.get(f"{path}/events")).json()
    assert [entry["response_status"] for entry in log] == ["200", "500", "500", "500", "500"]
    assert (await api.post(f"{path}/events/{log[-1]['id']}/resend")).status_code == 201
    await lab.outbox.settle()
    first, again = inbox.requests[0], inbox.requests[-1]
    assert again.body == first.body
    assert again.headers["idempotency-key"] == first.headers["idempotency-key"]
    assert again.headers["x-gitlab-webhook-uuid"] != first.headers["x-gitlab-webhook-uuid"]
    edited = await api.put(path, json={"url": inbox.url, "issues_events": False, "note_events": True})
    assert (edited.json()["issues_events"], edited.json()["note_events"]) == (False, True)
    assert (await api.delete(path)).status_code == 204


@pytest.mark.usefixtures("hook")
async def test_lost_late_repeated_and_swapped(lab: GitLabSimulator, inbox: Receiver) -> None:
    for kind, event in (("lost", "open"), ("repeated", "update"), ("late", "close"), ("out_of_order", "reopen")):
        lab.inject(Fault(f"webhook_{kind}", event=rf"issue\.{event}"))
    iid = lab.open_issue(PROJECT)
    lab.add_label(PROJECT, iid, "x")
    lab.close_issue(PROJECT, iid)
    lab.reopen_issue(PROJECT, iid)
    lab.comment(PROJECT, iid, "hi")
    await lab.outbox.settle()
    assert told(inbox) == ["issue.update", "issue.update", "note.create", "issue.reopen"]
    keys = [request.headers["idempotency-key"] for request in inbox.requests]
    assert keys[0] == keys[1]
    lab.release_webhooks()
    await lab.outbox.settle()
    assert told(inbox)[-1] == "issue.close"


def missing(published: Any, ours: Any, where: str = "") -> list[str]:
    """The keys of a published payload that ours lacks. What is null or empty on either side may have any shape."""
    if isinstance(published, dict) and isinstance(ours, dict):
        if where == ".changes":  # only what changed is in it
            published = {key: value for key, value in published.items() if key in ours}
        found = [f"{where}.{key}" for key in published if key not in ours and key not in OUTDATED]
        for key in published.keys() & ours.keys():
            found += missing(published[key], ours[key], f"{where}.{key}")
        return found
    if isinstance(published, list) and isinstance(ours, list):
        return missing(published[0], ours[0], f"{where}[]") if published and ours else []
    if published is not None and ours is not None and type(published) is not type(ours):
        return [f"{where}: {type(ours).__name__} instead of {type(published).__name__}"]
    return []


OUTDATED = {
    "deleted_at",
    "branch_name",
    "position",
    "lock_version",
    "service_desk_reply_to",
    "escalation_status",
    "escalation_policy",
}
"""Keys that GitLab no longer sends, or for incidents only."""


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("go-gitlab.issue.json", "issue.update"),
        ("go-scm.issue_labeled.json", "issue.update"),
        ("zulip.issue_hook__issue_updated.json", "issue.update"),
        ("zulip.test_hook__issue_test_payload.json", "issue.test"),
        ("go-gitlab.note_issue.json", "note.create"),
    ],
)
async def test_payloads_have_every_key_of_the_published_ones(
    lab: GitLabSimulator, api: httpx.AsyncClient, hook: int, file: str, kind: str
) -> None:
    if not PUBLISHED.is_dir():
        pytest.skip(f"NOT COMPARED: the published payloads are not at {PUBLISHED}")
    lab.set_access(PROJECT, "smith-bot", "maintainer")
    iid = lab.open_issue(PROJECT, body="text", labels=["a"])
    project = lab.project(PROJECT)
    project.save(lab.hub.changes.edit_issue(project, lab.issue(PROJECT, iid), By("mona"), assignees=("mona",)))
    lab.comment(PROJECT, iid, "hi")
    await api.post(f"/hooks/{hook}/test/issues_events")
    lab.add_label(PROJECT, iid, "b")
    sent = {delivery.event: json.loads(delivery.body) for delivery in lab.outbox.log}
    assert missing(json.loads((PUBLISHED / file).read_text()), sent[kind]) == []


# --- our own reader, fed by the simulator ----------------------------------------------------------------------------


def incoming(request: Received, **headers: str) -> Incoming:
    """What the receiver hands to the reader."""
    changed = {**request.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Incoming({name: value for name, value in changed.items() if value}, request.body)


@pytest.fixture
async def delivered(lab: GitLabSimulator, hook: int, inbox: Receiver) -> Received:
    """A label that robin set."""
    lab.open_issue(PROJECT, labels=["a", "agent-smith::done"], webhook=False)
    lab.add_label(PROJECT, 1, "b", "robin")
    await lab.outbox.settle()
    return inbox.requests[0]


@pytest.mark.parametrize("secrets", [(SECRET,), (SIGNING,), ("old", SECRET), (SIGNING, "other")])
def test_the_reader_believes_what_is_signed_or_knows_the_secret(
    lab: GitLabSimulator, delivered: Received, secrets: tuple[str, ...]
) -> None:
    event = GitLabWebhooks(Site(PROJECT), secrets).read(incoming(delivered), now=START)
    robin = lab.hub.world.user("robin")
    assert event == TicketEvent(
        id=delivered.headers["idempotency-key"],
        event="issue.update",
        key="1",
        actor=Actor(str(robin.id), "robin"),
        labels=frozenset({"a", "b", "agent-smith:done"}),
        changed=frozenset({"b"}),
    )


@pytest.mark.parametrize(
    ("secrets", "headers", "now"),
    [
        (("wrong",), {}, START),
        ((SECRET,), {"x_gitlab_token": ""}, START),
        ((SECRET,), {"x_gitlab_token": "ünknown"}, START),
        ((SIGNING,), {"webhook_signature": "v1,AAAA"}, START),
        ((SIGNING,), {"webhook_signature": ""}, START),
        ((SIGNING,), {"webhook_timestamp": "soon"}, START),
        ((SIGNING,), {"webhook_timestamp": str(int(START) + 1)}, START),
        ((SIGNING,), {"webhook_id": "another"}, START),
        ((SIGNING,), {}, START + 301),
        ((SIGNING,), {}, START - 301),
        ((SIGNING, SECRET), {"webhook_signature": "v1,AAAA"}, START),
    ],
)
def test_the_reader_refuses_everything_else(
    delivered: Received, secrets: tuple[str, ...], headers: dict[str, str], now: float
) -> None:
    with pytest.raises(BadSignature):
        GitLabWebhooks(Site(PROJECT), secrets).read(incoming(delivered, **headers), now=now)


def test_a_second_signature_may_be_the_good_one(delivered: Received) -> None:
    both = f"v1,AAAA {delivered.headers['webhook-signature']}"
    event = GitLabWebhooks(Site(PROJECT), (SIGNING,)).read(incoming(delivered, webhook_signature=both), now=START)
    assert isinstance(event, TicketEvent)


@pytest.mark.usefixtures("hook")
async def test_the_reader_tells_what_is_interesting(lab: GitLabSimulator, inbox: Receiver) -> None:
    reader = GitLabWebhooks(Site(PROJECT), (SECRET,))
    iid = lab.open_issue(PROJECT)
    lab.open_issue(PROJECT, type="task")
    lab.comment(PROJECT, iid, "/close\nplease", "robin")
    await lab.outbox.settle()
    opened, task, noted, closed = (reader.read(incoming(r), now=START) for r in inbox.requests)
    assert isinstance(opened, TicketEvent)
    assert isinstance(task, TicketEvent)
    assert (opened.event, task.event, task.key) == ("issue.open", "work_item.open", "2")
    assert isinstance(noted, TicketEvent)
    assert noted.remark is not None
    assert (noted.remark.text, noted.remark.author.name) == ("please", "robin")
    assert isinstance(closed, TicketEvent)
    assert (closed.event, closed.changed) == ("issue.close", None)
    other = GitLabWebhooks(Site("acme/other"), (SECRET,))
    assert isinstance(other.read(incoming(inbox.requests[0]), now=START), Uninteresting)
    by_id = GitLabWebhooks(Site(str(lab.project(PROJECT).id)), (SECRET,))
    assert isinstance(by_id.read(incoming(inbox.requests[0]), now=START), TicketEvent)
    pushed = incoming(inbox.requests[0], x_gitlab_event="Push Hook")
    assert isinstance(reader.read(pushed, now=START), Uninteresting)


def altered(delivered: Received, change: dict[str, Any]) -> Incoming:
    """The delivery with other attributes."""
    body = delivered.json
    body["object_attributes"].update(change)
    return Incoming(delivered.headers, json.dumps(body).encode())


@pytest.mark.parametrize("change", [{"type": "Epic"}, {"type": "Key Result"}, {"action": None}, {"action": "approved"}])
def test_work_items_that_are_no_tickets_and_tests_are_not_interesting(
    delivered: Received, change: dict[str, Any]
) -> None:
    reader = GitLabWebhooks(Site(PROJECT), (SECRET,))
    assert isinstance(reader.read(altered(delivered, change), now=START), Uninteresting)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"object_kind": "issue"}', b"\xff", b'{"object_kind":1}'])
def test_what_cannot_be_read_is_bad(delivered: Received, body: bytes) -> None:
    with pytest.raises(BadPayload):
        GitLabWebhooks(Site(PROJECT), (SECRET,)).read(Incoming(delivered.headers, body), now=START)
    with pytest.raises(BadPayload):
        GitLabWebhooks(Site(PROJECT), (SECRET,)).read(altered(delivered, {"iid": "x"}), now=START)
