"""The receiver: verified on the raw bytes, handed over once, and closed to whatever cannot be verified (P7)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentsmith.daemon.services import _learn_own_account
from agentsmith.domain.errors import StoreUnavailable, TrackerUnavailable
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import Actor, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.webhook import BadPayload, BadSignature, Incoming
from agentsmith.store import Store
from agentsmith.trackers.github.settings import GitHubSettings
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.github.webhook import GitHubWebhooks
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import connect
from agentsmith.web.app import make_app
from agentsmith.web.receiver import Endpoint, Receiver
from agentsmith.web.server import WebServer, listen
from tests.support.redis_server import RedisServer

SECRETS = ("new secret", "old secret")
TICKET = TicketId("github.com/acme/web#7")


def signed(body: bytes, secret: str = SECRETS[0]) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def payload(action: str = "labeled", label: str = "agent-smith", **changes: Any) -> dict[str, Any]:
    sender = {"login": "mona", "id": 1, "type": "User"}
    issue = {"number": 7, "labels": [{"name": label}], "title": "t", "user": sender, "state": "open"}
    repository = {"full_name": "Acme/Web"}
    base = {"action": action, "issue": issue, "label": {"name": label}, "repository": repository, "sender": sender}
    return {**base, **changes}


Post = Callable[..., Any]


def poster(client: httpx.AsyncClient) -> Post:
    async def post(
        data: Any = None,
        *,
        body: bytes | None = None,
        event: str = "issues",
        delivery: str = "d-1",
        secret: str = SECRETS[0],
        tracker: str = "web",
        drop: tuple[str, ...] = (),
        **headers: str,
    ) -> httpx.Response:
        raw = body if body is not None else json.dumps(payload() if data is None else data).encode()
        sent = {
            "content-type": "application/json",
            "x-github-event": event,
            "x-github-delivery": delivery,
            "x-hub-signature-256": signed(raw, secret),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        kept = {name: value for name, value in sent.items() if name not in drop}
        return await client.post(f"/webhooks/{tracker}", content=raw, headers=kept)

    return post


def receiver(store: Store, *, read_within: float = 5.0) -> Receiver:
    conf = GitHubSettings.model_validate({"platform": "github", "repository": "acme/web", "token": "t"})
    tracker = conf.open("web", LabelSet(), connect(Shared()))
    reader = GitHubWebhooks(Site("acme/web"), SECRETS)
    endpoints = {"web": Endpoint(tracker, reader), "polled": Endpoint(tracker, None)}
    return Receiver(store, endpoints, read_within=read_within)


@pytest.fixture
async def post(store: Store) -> AsyncIterator[Post]:
    async def ready() -> None:
        return None

    transport = httpx.ASGITransport(app=make_app(receiver(store), ready=ready))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield poster(client)


async def inbox(store: Store) -> list[Signal]:
    return [Signal.from_json(text) for text in await store.redis.lrange(store.keys.inbox, 0, -1)]


async def test_a_signed_label_is_handed_over(post: Post, store: Store) -> None:
    answer = await post()
    assert answer.status_code == 202
    [signal] = await inbox(store)
    assert (signal.tracker, signal.key, signal.ticket) == ("web", "7", TICKET)
    assert signal.cause == "webhook issues.labeled"


@pytest.mark.parametrize("secret", SECRETS)
async def test_several_secrets_are_valid_at_once(post: Post, secret: str) -> None:
    assert (await post(secret=secret)).status_code == 202


@pytest.mark.parametrize(
    "forged",
    [
        {"drop": ("x-hub-signature-256",)},
        {"secret": "wrong"},
        {"x_hub_signature_256": "sha256="},
        {"x_hub_signature_256": ""},
        {"x_hub_signature_256": "sha1=" + "0" * 40},
        {"x_hub_signature_256": "sha256=" + "0" * 64},
        {"x_hub_signature_256": signed(b"another body")},
        {"x_hub_signature_256": signed(json.dumps(payload()).encode()).removeprefix("sha256=")},
    ],
)
async def test_P7_what_is_not_signed_is_refused(post: Post, store: Store, forged: dict[str, Any]) -> None:
    answer = await post(**forged)
    assert answer.status_code == 401
    assert SECRETS[0] not in answer.text
    assert not await inbox(store)


async def test_a_tracker_without_a_secret_takes_no_webhook(post: Post, store: Store) -> None:
    assert (await post(tracker="polled")).status_code == 401
    assert not await inbox(store)


async def test_the_published_test_vector_verifies() -> None:
    reader = GitHubWebhooks(Site("acme/web"), ("It's a Secret to Everybody",))
    wanted = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"x-hub-signature-256": wanted, "x-github-delivery": "d", "x-github-event": "issues"}
    with pytest.raises(BadPayload):  # verified, then not JSON
        reader.read(Incoming(headers, b"Hello, World!"), now=0)
    with pytest.raises(BadSignature):
        reader.read(Incoming(headers, b"Hello, World?"), now=0)


async def test_an_unknown_tracker_is_404(post: Post) -> None:
    assert (await post(tracker="nobody")).status_code == 404


async def test_the_same_delivery_is_taken_once(post: Post, store: Store) -> None:
    assert (await post()).status_code == 202
    await store.signals.take("hand", wait=0.1)
    again = await post()
    assert (again.status_code, again.json()) == (200, {"answer": "seen"})
    assert not await inbox(store)


async def test_deliveries_for_one_waiting_ticket_are_merged(post: Post, store: Store) -> None:
    assert (await post(delivery="a")).json() == {"answer": "accepted"}
    assert (await post(delivery="b")).json() == {"answer": "merged"}
    assert len(await inbox(store)) == 1


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("ping", {"zen": "x"}),
        ("pull_request", payload()),
        ("issues", payload("pinned")),
        ("issues", payload(repository={"full_name": "acme/other"})),
        ("issues", payload(issue={"number": 7, "labels": [], "pull_request": {}})),
        ("issue_comment", payload("edited", comment={"id": 1, "body": "x", "user": None})),
        ("issues", {"action": "labeled"}),
        ("issues", []),
        ("issues", payload(issue={"number": "seven", "labels": []})),
    ],
)
async def test_authentic_but_uninteresting_is_fine(post: Post, store: Store, event: str, data: Any) -> None:
    answer = await post(data, event=event)
    assert answer.status_code == 200
    assert answer.json()["answer"].startswith("ignored")
    assert not await inbox(store)


@pytest.mark.parametrize("action", ["opened", "edited", "labeled", "unlabeled", "closed", "reopened"])
async def test_events_that_matter_are_signalled(post: Post, store: Store, action: str) -> None:
    assert (await post(payload(action))).status_code == 202
    assert len(await inbox(store)) == 1


async def test_our_own_writes_trigger_nothing_but_a_persons_do(post: Post, store: Store) -> None:
    await store.intents.note_published(TICKET, Status.DONE)
    ours = payload("labeled", "agent-smith:done")
    assert "wrote ourselves" in (await post(ours, delivery="1")).text
    # A person, perhaps with the same token, takes the label off again: the ticket no longer shows what we published.
    removed = payload("unlabeled", "agent-smith:done")
    removed["issue"]["labels"] = [{"name": "agent-smith"}]
    assert (await post(removed, delivery="2")).status_code == 202


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_only_json_is_taken(post: Post, kind: str) -> None:
    assert (await post(content_type=kind)).status_code == 415


async def test_a_body_that_says_it_is_too_large_is_not_read(post: Post) -> None:
    assert (await post(content_length=str(GitHubWebhooks.largest + 1))).status_code == 413


async def test_a_deep_body_is_no_trouble(post: Post, store: Store) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert (await post(body=deep)).status_code == 200
    assert not await inbox(store)


async def test_redis_away_is_503_and_the_delivery_may_come_again(
    private_server: Callable[..., RedisServer], store: Store
) -> None:
    server = private_server()
    async with Store(server.url, times=replace(store.times)) as other:
        transport = httpx.ASGITransport(app=make_app(receiver(other), ready=_ready))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            send = poster(client)
            server.kill()
            assert (await send()).status_code == 503
            server.start()
            assert (await send()).status_code == 202


async def _ready() -> None:
    return None


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[int]:
    web = WebServer(app, listen("127.0.0.1", 0))
    task = asyncio.create_task(web.serve())
    try:
        yield web.port
    finally:
        web.stop()
        await task


async def raw_request(port: int, head: bytes, *, end: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    if end:
        writer.write_eof()
    try:
        async with asyncio.timeout(60):
            return await reader.read(65536)
    finally:
        writer.close()


async def test_a_body_that_never_comes_is_408_and_one_cut_short_does_no_harm(store: Store) -> None:
    head = b"POST /webhooks/web HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 50\r\n"
    head += b"x-hub-signature-256: " + signed(b"").encode() + b"\r\n\r\n{"
    async with served(make_app(receiver(store, read_within=0.2), ready=_ready)) as port:
        assert b" 408 " in (await raw_request(port, head)).split(b"\r\n")[0]
        await raw_request(port, head, end=True)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/healthz")).status_code == 200
            assert (await poster(client)()).status_code == 202


HEADER = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=80)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    headers=st.dictionaries(
        st.sampled_from(["x-hub-signature-256", "x-github-event", "x-github-delivery", "x-hub-signature"]), HEADER
    ),
    body=st.binary(max_size=300),
)
def test_W2_nothing_unsigned_is_ever_believed(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(BadSignature):
        GitHubWebhooks(Site("acme/web"), SECRETS).read(Incoming(headers, body), now=0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(
    event=st.sampled_from(["issues", "issue_comment", "ping", ""]),
    data=JSON | st.fixed_dictionaries({"action": JSON, "issue": JSON, "repository": JSON}, optional={"label": JSON}),
)
def test_W2_whatever_is_signed_is_read_or_named_bad(event: str, data: Any) -> None:
    body = json.dumps(data).encode()
    headers = {"x-hub-signature-256": signed(body), "x-github-event": event, "x-github-delivery": "d"}
    with contextlib.suppress(BadPayload):
        GitHubWebhooks(Site("acme/web"), SECRETS).read(Incoming(headers, body), now=0)


def test_the_published_payloads_are_understood() -> None:
    folder = Path(__file__).parents[3] / "shared" / "webhooks" / "github"
    if not folder.is_dir():
        pytest.skip("the published webhook payloads are not here: ../shared/webhooks")
    for file in sorted(folder.glob("*.json")):
        event = file.name.partition(".")[0]
        body = file.read_bytes()
        name = json.loads(body).get("repository", {}).get("full_name", "acme/web")
        headers = {"x-hub-signature-256": signed(body), "x-github-event": event, "x-github-delivery": "d"}
        read = GitHubWebhooks(Site(name), SECRETS).read(Incoming(headers, body), now=0)
        assert (type(read).__name__ == "TicketEvent") == (event in ("issues", "issue_comment")), file.name


class SlowToAnswer:
    """A tracker that tells who we are only when it is asked once more."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = [*errors]

    async def me(self) -> Actor:
        if self._errors:
            raise self._errors.pop(0)
        return Actor("1", "smith-bot")


@pytest.mark.parametrize("error", [TrackerUnavailable("502"), StoreUnavailable("Redis is away")])
async def test_whoever_cannot_learn_at_once_which_account_is_ours_asks_again(error: Exception) -> None:
    endpoint = Endpoint(cast(Tracker, SlowToAnswer(error)), None)
    await _learn_own_account(endpoint)
    assert endpoint.me == Actor("1", "smith-bot")
