"""The receiver with every platform's deliveries: what is authentic comes in once, all else stays outside (P7)."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from agentsmith.config import TrackerSettings
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Incoming, TicketEvent, Uninteresting
from agentsmith.store import Store
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import connect
from agentsmith.trackers.jira.settings import JiraSettings
from agentsmith.trackers.registry import platforms
from agentsmith.web.app import make_app
from agentsmith.web.receiver import Endpoint, Receiver
from tests.support.senders import (
    FORMER,
    GITLAB_SIGNED,
    LABEL,
    PUBLISHED,
    SECRET,
    SENDERS,
    Headers,
    Sender,
    _gitlab_sign,
    _settings,
)

Post = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture(params=sorted(SENDERS))
def sender(request: pytest.FixtureRequest) -> Sender:
    return SENDERS[request.param]


async def _ready() -> None:
    return None


def posting(store: Store, endpoints: dict[str, Endpoint], peer: str = "203.0.113.7") -> httpx.AsyncClient:
    app = make_app(Receiver(store, endpoints), ready=_ready)
    transport = httpx.ASGITransport(app=app, client=(peer, 4711))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


@pytest.fixture
def endpoint(sender: Sender) -> Endpoint:
    return Endpoint(sender.tracker(), sender.reader())


@pytest.fixture
async def post(store: Store, endpoint: Endpoint) -> AsyncIterator[Post]:
    async with posting(store, {"web": endpoint}) as client:

        async def send(delivery: tuple[Headers, bytes], **changes: str | None) -> httpx.Response:
            headers, body = delivery
            changed = {name.replace("_", "-"): value for name, value in changes.items()}
            kept = {name: value for name, value in {**headers, **changed}.items() if value is not None}
            return await client.post("/webhooks/web", content=body, headers=kept)

        yield send


async def inbox(store: Store) -> list[Signal]:
    return [Signal.from_json(text) for text in await store.redis.lrange(store.keys.inbox, 0, -1)]


async def test_a_label_that_was_set_is_handed_over(sender: Sender, post: Post, store: Store) -> None:
    answer = await post(sender.delivery(sender.labelled()))
    assert (answer.status_code, answer.json()) == (202, {"answer": "accepted"})
    [signal] = await inbox(store)
    assert (signal.tracker, signal.key, signal.kind) == ("web", sender.key, SignalKind.LOOK)
    assert signal.ticket == sender.tracker().ticket_id(sender.key)


async def test_a_label_of_peoples_is_told_from_one_of_ours(sender: Sender, post: Post, store: Store) -> None:
    """Only the former may be a trigger that is set again; what changed is told by every platform in its own way."""
    ours = json.loads(json.dumps(sender.labelled()).replace(LABEL, "agent-smith:in-progress"))
    await post(sender.delivery(ours, "d-1"))
    await post(sender.delivery(sender.commented("hello"), "d-2"))
    [signal] = await inbox(store)
    assert not signal.labelled
    assert not (await store.signals.opened(signal)).labelled
    await post(sender.delivery(sender.labelled(), "d-3"))
    assert (await inbox(store))[-1].labelled


@pytest.mark.parametrize("sender", sorted(SENDERS.keys() - {"gitlab-signed"}), indirect=True)
async def test_a_former_secret_is_good_while_both_are_configured(sender: Sender, post: Post) -> None:
    assert (await post(sender.delivery(sender.labelled(), secret=FORMER))).status_code == 202


async def test_P7_a_missing_proof_is_401(sender: Sender, post: Post, store: Store) -> None:
    headers, body = sender.delivery(sender.labelled())
    proofs = set(sender.sign(body, headers, SECRET))
    for proof in proofs:
        answer = await post((headers, body), **{proof.replace("-", "_"): None})
        assert answer.status_code == 401, proof
        assert SECRET not in answer.text
    bare = {name: value for name, value in headers.items() if name not in proofs}
    assert (await post((bare, body))).status_code == 401
    assert not await inbox(store)


async def test_P7_a_wrong_proof_is_401(sender: Sender, post: Post, store: Store) -> None:
    headers, body = sender.delivery(sender.labelled())
    for proof, value in sender.sign(body, headers, SECRET).items():
        for wrong in ("", " ", "x", value[:-1], value[:-2] + "zz", f"{value}0", value.swapcase(), "sha256=", "Basic "):
            if wrong == value:
                continue
            answer = await post((headers, body), **{proof.replace("-", "_"): wrong})
            assert answer.status_code == 401, (proof, wrong)
    assert (await post(sender.delivery(sender.labelled(), secret="guessed"))).status_code == 401
    assert not await inbox(store)


@pytest.mark.parametrize("sender", ["github", "gitlab-signed", "jira"], indirect=True)  # the others sign nothing
async def test_P7_a_body_that_was_changed_on_its_way_is_401(sender: Sender, post: Post, store: Store) -> None:
    headers, body = sender.delivery(sender.labelled())
    for changed in (body + b" ", body.replace(LABEL.encode(), b"agent-smyth"), b"", body[:-1]):
        assert (await post((headers, changed))).status_code == 401
    assert not await inbox(store)


@pytest.mark.parametrize("age", [-400, 400, 86400 * 365])
async def test_P7_a_signature_that_is_too_old_or_too_young_is_401(store: Store, age: float) -> None:
    sender = GITLAB_SIGNED
    async with posting(store, {"web": Endpoint(sender.tracker(), sender.reader())}) as client:
        headers, body = sender.delivery(sender.labelled())
        key = sender.settings.webhook_secrets()[0]
        stale = {**headers, **_gitlab_sign(body, headers, key, time.time() - age)}
        assert (await client.post("/webhooks/web", content=body, headers=stale)).status_code == 401
        young = {**headers, **_gitlab_sign(body, headers, key, time.time() - 200)}
        assert (await client.post("/webhooks/web", content=body, headers=young)).status_code == 202


async def test_whoever_has_a_signing_token_is_not_content_with_a_bare_secret(store: Store) -> None:
    sender = GITLAB_SIGNED
    async with posting(store, {"web": Endpoint(sender.tracker(), sender.reader())}) as client:
        headers, body = sender.delivery(sender.labelled())
        bare = {name: value for name, value in headers.items() if not name.startswith("webhook-s")}
        for token in ("", SECRET, sender.settings.webhook_secrets()[0]):
            sent = {**bare, "x-gitlab-token": token}
            assert (await client.post("/webhooks/web", content=body, headers=sent)).status_code == 401
    assert not await inbox(store)


@pytest.mark.parametrize("sender", ["gitlab", "jira"], indirect=True)
async def test_a_server_too_old_to_name_its_deliveries_is_heard_all_the_same(
    sender: Sender, post: Post, store: Store
) -> None:
    unnamed = {"idempotency_key": None, "webhook_id": None, "x_atlassian_webhook_identifier": None}
    assert (await post(sender.delivery(sender.labelled()), **unnamed)).status_code == 202
    assert len(await inbox(store)) == 1
    again = await post(sender.delivery(sender.labelled()), **unnamed)
    assert (again.status_code, again.json()) == (200, {"answer": "seen"})


async def test_a_replayed_delivery_is_taken_once(sender: Sender, post: Post, store: Store) -> None:
    assert (await post(sender.delivery(sender.labelled()))).status_code == 202
    await store.signals.take("hand", wait=0.1)
    await store.signals.opened(Signal("web", sender.key, sender.tracker().ticket_id(sender.key)))
    again = await post(sender.delivery(sender.labelled()))
    assert (again.status_code, again.json()) == (200, {"answer": "seen"})
    assert not await inbox(store)
    assert (await post(sender.delivery(sender.labelled(), "d-2"))).status_code == 202


async def test_authentic_but_about_nothing_is_fine(sender: Sender, post: Post, store: Store) -> None:
    answer = await post(sender.delivery(sender.ping()))
    assert answer.status_code == 200
    assert answer.json()["answer"].startswith("ignored: ")
    assert not await inbox(store)


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b'"x"', b"{}", b"\xff\xfe", b"[" * 50_000 + b"]" * 50_000])
async def test_authentic_but_unreadable_is_fine_too(sender: Sender, post: Post, store: Store, body: bytes) -> None:
    answer = await post(sender.delivery(body))
    assert answer.status_code == 200, answer.text
    assert not await inbox(store)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; x=y"])
async def test_only_json_is_taken(sender: Sender, post: Post, kind: str) -> None:
    assert (await post(sender.delivery(sender.labelled()), content_type=kind)).status_code == 415


async def test_a_charset_behind_the_type_does_no_harm(sender: Sender, post: Post) -> None:
    kind = "Application/JSON; charset=utf-8"
    assert (await post(sender.delivery(sender.labelled()), content_type=kind)).status_code == 202


async def test_too_much_is_413(
    sender: Sender, endpoint: Endpoint, post: Post, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers, body = sender.delivery(sender.labelled())
    assert endpoint.reader is not None
    assert endpoint.reader.largest <= Receiver(store, {}).room.most, "there must be room for it"
    for length in (str(endpoint.reader.largest + 1), "9" * 5000):
        assert (await post((headers, body), content_length=length)).status_code == 413
    for length in ("many", "-1", "1_0"):
        assert (await post((headers, body), content_length=length)).status_code == 400
    # Without a length it is found out while reading.
    monkeypatch.setattr(type(endpoint.reader), "largest", 10)
    assert (await post((headers, body), content_length="0")).status_code == 413
    assert not await inbox(store)


@pytest.mark.parametrize("ending", ["slow", "cut short"])
async def test_a_body_that_does_not_come_whole_is_refused_and_may_come_again(
    sender: Sender, store: Store, ending: str
) -> None:
    app = make_app(
        Receiver(store, {"web": Endpoint(sender.tracker(), sender.reader())}, read_within=0.05), ready=_ready
    )
    headers, body = sender.delivery(sender.labelled())

    async def answer(*chunks: bytes, whole: bool) -> int:
        """The status of a delivery that comes in these pieces, the last of which is the end, or is not."""
        left, told = list(chunks), []

        async def receive() -> dict[str, Any]:
            if left:
                return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or not whole}
            if ending == "slow":
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            told.append(message.get("status"))

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/webhooks/web",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("203.0.113.7", 4711),
        }
        await app(scope, receive, send)
        return int(told[0])

    for half in (b"", body[:1], body[: len(body) // 2], body):
        assert await answer(half, whole=False) == {"slow": 408, "cut short": 400}[ending]
    assert not await inbox(store)
    assert await answer(body[:7], body[7:], whole=True) == 202, "it was not marked as seen"


SEVERAL: dict[str, Callable[[Any], None]] = {
    # How each platform tells that three labels changed in one stroke; GitHub sends a delivery for each of them.
    "azure-devops": lambda payload: payload["resource"]["fields"].update(
        {"System.Tags": {"oldValue": "agent-smith:done; old", "newValue": f"{LABEL}; old"}}
    ),
    "gitlab": lambda payload: payload["changes"]["labels"].update(
        previous=[{"title": "agent-smith:done"}, {"title": "old"}], current=[{"title": LABEL}, {"title": "old"}]
    ),
    "jira": lambda payload: payload["changelog"]["items"][0].update(
        fromString="agent-smith:done old", toString=f"{LABEL} old"
    ),
}


@pytest.mark.parametrize("sender", sorted(SEVERAL), indirect=True)
async def test_several_labels_at_once_are_no_write_of_ours(sender: Sender, post: Post, store: Store) -> None:
    """Somebody takes our label off and sets the trigger in one stroke; what is left is what we wrote last."""
    ticket = sender.tracker().ticket_id(sender.key)
    await store.intents.note_published(ticket, Status.PENDING)
    payload = sender.labelled()
    SEVERAL[sender.platform](payload)
    assert (await post(sender.delivery(payload))).status_code == 202
    [signal] = await inbox(store)
    assert (signal.kind, signal.labelled) == (SignalKind.LOOK, True)


async def test_what_rules_and_bots_do_is_told_too(sender: Sender, post: Post, store: Store) -> None:
    """Whether they may is decided where the ticket is read, not by who a webhook says it was."""
    text = json.dumps(sender.labelled())
    for name, bot in (("mona", "renovate[bot]"), ("Mona", "Automation for Jira"), ('"User"', '"Bot"')):
        text = text.replace(name, bot)
    assert (await post(sender.delivery(json.loads(text)))).status_code == 202
    assert len(await inbox(store)) == 1


async def test_a_tracker_without_a_secret_takes_nothing_but_from_anybody_if_told_so(
    sender: Sender, store: Store
) -> None:
    polled = sender.settings.model_copy(update={"webhook_secret": ()})
    assert platforms()[sender.platform].webhooks(polled) is None
    opened = polled.model_copy(update={"insecure": True})
    reader = platforms()[sender.platform].webhooks(opened)
    assert reader is not None
    headers, body = sender.delivery(sender.labelled())
    for proof in sender.sign(body, headers, SECRET):
        del headers[proof]
    endpoints = {"closed": Endpoint(sender.tracker(), None), "open": Endpoint(sender.tracker(), reader)}
    async with posting(store, endpoints) as client:
        assert (await client.post("/webhooks/closed", content=body, headers=headers)).status_code == 401
        assert (await client.post("/webhooks/open", content=body, headers=headers)).status_code == 202


async def test_a_command_in_a_comment_is_handed_over_as_one(sender: Sender, post: Post, store: Store) -> None:
    answer = await post(sender.delivery(sender.commented("/agent-smith retry\nplease")))
    assert answer.status_code == 202
    [signal] = await inbox(store)
    assert (signal.kind, signal.key) == (SignalKind.COMMAND, sender.key)
    assert signal.remark in ("99", "rev-3")


async def test_two_commands_are_not_merged(sender: Sender, post: Post, store: Store) -> None:
    first, second = sender.commented("/agent-smith retry"), sender.commented("/agent-smith why")
    text = json.dumps(second).replace("99", "100").replace('"rev": 3', '"rev": 4')
    await post(sender.delivery(first, "d-1"))
    await post(sender.delivery(json.loads(text), "d-2"))
    assert len(await inbox(store)) == 2


# Azure DevOps names the author of a comment without an id, so there a comment of ours costs a look.
@pytest.mark.parametrize("sender", sorted(SENDERS.keys() - {"azure-devops"}), indirect=True)
async def test_what_we_say_ourselves_is_no_news(sender: Sender, endpoint: Endpoint, post: Post, store: Store) -> None:
    reading = sender.reader().understand(Incoming(*sender.delivery(sender.commented("hello"))))
    assert isinstance(reading, TicketEvent)
    assert reading.remark is not None
    endpoint.me = Actor(reading.remark.author.id, "we")
    answer = await post(sender.delivery(sender.commented("hello")))
    assert (answer.status_code, "said ourselves" in answer.text) == (200, True)
    # A person who shares the account with us can still command us.
    assert (await post(sender.delivery(sender.commented("/agent-smith why"), "d-2"))).status_code == 202
    assert len(await inbox(store)) == 1


async def test_P8_what_is_kept_of_a_delivery_holds_nothing_secret_and_can_be_read_again(
    sender: Sender, post: Post, store: Store
) -> None:
    from agentsmith.intake.deliveries import Kept

    headers, body = sender.delivery(sender.labelled())
    await post((headers, body))
    [text] = await store.signals.kept("web")
    for name, proof in sender.sign(body, headers, SECRET).items():
        if name == "webhook-timestamp":
            continue  # a time is no secret
        assert proof not in text
        assert base64.b64encode(proof.encode()).decode() not in text
    kept = Kept.from_json(text)
    again = sender.reader().understand(kept.incoming)
    assert isinstance(again, TicketEvent)
    assert (again.id, again.key) == ("d-1", sender.key)


async def test_only_so_many_deliveries_are_kept(sender: Sender, post: Post, store: Store) -> None:
    for number in range(103):
        await post(sender.delivery(sender.labelled(), f"d-{number}"))
    kept = await store.signals.kept("web")
    assert len(kept) == 100
    assert json.loads(kept[-1])["id"] == "d-102"


ADDRESS = "10.1.2.3"


def data_center(*addresses: str) -> Any:
    return _settings(
        JiraSettings,
        platform="jira",
        deployment="data-center",
        project="WEB",
        base_url="https://jira.example.com",
        webhook_addresses=list(addresses),
    )


@pytest.mark.parametrize(
    ("addresses", "peer", "secret", "status"),
    [
        (("10.1.0.0/16",), ADDRESS, SECRET, 202),
        (("10.1.0.0/16",), ADDRESS, FORMER, 202),
        (("10.1.0.0/16",), f"::ffff:{ADDRESS}", SECRET, 202),
        ((ADDRESS,), ADDRESS, SECRET, 202),
        ((ADDRESS,), ADDRESS, "guessed", 401),
        ((ADDRESS,), "10.1.2.4", SECRET, 401),
        ((ADDRESS,), "testclient", SECRET, 401),
        ((), ADDRESS, SECRET, 401),
    ],
)
async def test_a_data_center_that_cannot_sign_needs_the_secret_and_the_right_address(
    store: Store, addresses: tuple[str, ...], peer: str, secret: str, status: int
) -> None:
    sender, settings = SENDERS["jira"], data_center(*addresses)
    headers, body = sender.delivery(sender.labelled())
    del headers["x-hub-signature"]
    endpoints = {"web": Endpoint(settings.open("web", sender.tracker().labels, connect(Shared())), settings.webhooks())}
    async with posting(store, endpoints, peer) as client:
        assert (await client.post(f"/webhooks/web/{secret}", content=body, headers=headers)).status_code == status
        assert (await client.post("/webhooks/web", content=body, headers=headers)).status_code == 401


async def test_a_secret_in_the_path_means_nothing_elsewhere(sender: Sender, store: Store) -> None:
    headers, body = sender.delivery(sender.labelled())
    for proof in sender.sign(body, headers, SECRET):
        del headers[proof]
    async with posting(store, {"web": Endpoint(sender.tracker(), sender.reader())}, ADDRESS) as client:
        assert (await client.post(f"/webhooks/web/{SECRET}", content=body, headers=headers)).status_code == 401


def test_every_platform_has_a_reader_only_where_something_can_be_verified() -> None:
    for name, platform in platforms().items():
        settings: TrackerSettings | None = next((s.settings for s in SENDERS.values() if s.platform == name), None)
        assert (settings is None) == (name == "local")
        if settings is not None:
            assert platform.webhooks(settings) is not None


# --- Payloads as they are published -----------------------------------------------------------------------------------

needs_published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason=f"THE PUBLISHED WEBHOOK PAYLOADS ARE NOT HERE, SO NOBODY CHECKS OURS: {PUBLISHED}"
)
WANTED: dict[str, tuple[str, Any, str, dict[str, Any]]] = {
    # file: sender, settings, event header (where there is one), what must be read from it
    "github/issues.labeled.1.json": (
        "github",
        {"repository": "Codertocat/Hello-World"},
        "issues",
        {"key": "1", "changed": True},
    ),
    "github/issues.unlabeled.1.json": (
        "github",
        {"repository": "Codertocat/Hello-World"},
        "issues",
        {"key": "1", "changed": True},
    ),
    "github/issues.opened.1.json": ("github", {"repository": "Codertocat/Hello-World"}, "issues", {"key": "1"}),
    "github/issues.reopened.1.json": ("github", {"repository": "Codertocat/Hello-World"}, "issues", {"key": "1"}),
    "github/issues.edited.1.json": ("github", {"repository": "Codertocat/Hello-World"}, "issues", {"key": "1"}),
    "github/issue_comment.created.1.json": (
        "github",
        {"repository": "Codertocat/Hello-World"},
        "issue_comment",
        {"key": "1", "remark": True},
    ),
    "github/ping.none.1.json": ("github", {"repository": "Codertocat/Hello-World"}, "ping", {}),
    "github/pull_request.labeled.1.json": ("github", {"repository": "Codertocat/Hello-World"}, "pull_request", {}),
    "gitlab/go-gitlab.issue.json": (
        "gitlab",
        {"project": "gitlabhq/gitlab-test"},
        "Issue Hook",
        {"key": "23", "changed": True},
    ),
    "gitlab/go-gitlab.note_issue.json": (
        "gitlab",
        {"project": "gitlab-org/gitlab-test"},
        "Note Hook",
        {"key": "17", "remark": True},
    ),
    "gitlab/go-scm.issue_labeled.json": (
        "gitlab",
        {"project": "gitlab-org/hello-world"},
        "Issue Hook",
        {"changed": True},
    ),
    "gitlab/zulip.issue_hook__issue_updated.json": (
        "gitlab",
        {"project": "tomaszkolek0/my-awesome-project"},
        "Issue Hook",
        {"key": "1"},
    ),
    "gitlab/zulip.test_hook__issue_test_payload.json": (
        "gitlab",
        {"project": "eeshangarg/public-repo"},
        "Issue Hook",
        {},
    ),
    "azure/DERIVED-by-us.workitem.updated.tags.json": (
        "azure-devops",
        {"organization": "org", "project": "p"},
        "",
        {"key": "131", "changed": True},
    ),
    "azure/docs.workitem.commented.json": (
        "azure-devops",
        {"organization": "fabrikam", "project": "FabrikamCloud"},
        "",
        {"key": "5", "remark": True},
    ),
    "azure/docs.workitem.created.json": (
        "azure-devops",
        {"organization": "fabrikam", "project": "FabrikamCloud"},
        "",
        {"key": "5"},
    ),
    "azure/docs.workitem.updated.json": (
        "azure-devops",
        {"organization": "fabrikam", "project": "FabrikamCloud"},
        "",
        {"key": "5"},
    ),
    "azure/rfennell.workitem.updated.json": (
        "azure-devops",
        {"organization": "fabrikam", "project": "FabrikamCloud"},
        "",
        {"key": "5"},
    ),
    "jira/mm.webhook-cloud-comment-created.json": ("jira", {"project": "TES"}, "", {"key": "TES-41", "remark": True}),
    "jira/mm.webhook-issue-created.json": ("jira", {"project": "TES"}, "", {"key": "TES-41", "changed": True}),
    "jira/mm.webhook-issue-updated-labels.json": ("jira", {"project": "TES"}, "", {"key": "TES-41", "changed": True}),
    "jira/mm.webhook-server-issue-updated-commented-1.json": (
        "jira",
        {"project": "PRJX"},
        "",
        {"key": "PRJX-14", "remark": True},
    ),
    "jira/zulip.issue_updated__status.json": ("jira", {"project": "TEST"}, "", {"key": "TEST-1"}),
}


@needs_published
def test_every_published_payload_is_looked_at() -> None:
    there = {str(file.relative_to(PUBLISHED)) for file in PUBLISHED.glob("*/*.json")}
    assert there <= set(WANTED), "a payload that no test reads"


@needs_published
@pytest.mark.parametrize("file", WANTED)
def test_a_published_payload_is_understood(file: str) -> None:
    sender_name, place, event, wanted = WANTED[file]
    sender = SENDERS[sender_name]
    body = (PUBLISHED / file).read_bytes()
    settings = sender.settings.model_copy(update=place)
    names = {"github": "x-github-event", "gitlab": "x-gitlab-event"}
    headers = {**sender.name(json.loads(body), "d-1"), **({names[sender.platform]: event} if event else {})}
    signed = {**headers, **sender.sign(body, headers, SECRET)}
    read = settings.webhooks().read(Incoming(signed, body), now=time.time())
    if not wanted:
        assert isinstance(read, Uninteresting)
        assert read.reason
        return
    assert isinstance(read, TicketEvent), read
    assert "key" not in wanted or read.key == wanted["key"]
    assert bool(read.changed) == wanted.get("changed", False)
    assert bool(read.remark) == wanted.get("remark", False)
