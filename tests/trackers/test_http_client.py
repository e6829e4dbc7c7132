"""The HTTP layer against transport errors and bad answers: what is retried, what is typed, what is never shown."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import respx

from agentsmith.domain.errors import (
    BadAnswer,
    Refused,
    TicketNotFound,
    TrackerError,
    TrackerUnavailable,
    Unauthorized,
)
from agentsmith.trackers.github.dialect import GITHUB
from agentsmith.trackers.http import OutcomeUnknown, Redirected
from tests.support.http_rig import BASE, SECRET, Login, Rig

ISSUE = f"{BASE}/repos/acme/web/issues/1"
PATH = "/repos/acme/web/issues/1"
BROKEN = (httpx.ReadError, httpx.ReadTimeout, httpx.WriteError, httpx.RemoteProtocolError)
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.aclose()


@respx.mock
async def test_a_request_carries_credential_version_and_agent_and_no_condition(rig: Rig) -> None:
    route = respx.post(ISSUE).respond(200, json={"ok": True})
    answer = await rig.client.write("POST", PATH, {"title": "Ünï \ud800"})
    assert answer.data == {"ok": True}
    sent = route.calls.last.request
    assert sent.headers["authorization"] == f"Bearer {SECRET}"
    assert sent.headers["accept"] == "application/vnd.github+json"
    assert sent.headers["x-github-api-version"] == "2022-11-28"
    assert sent.headers["user-agent"].startswith("agentsmith/")
    assert sent.headers["content-type"] == "application/json"
    assert not {"if-match", "if-none-match"} & set(sent.headers)
    assert sent.content == b'{"title": "\\u00dcn\\u00ef \\ud800"}'


@pytest.mark.parametrize("error", [*BROKEN, *NEVER_SENT])
@respx.mock
async def test_a_read_is_tried_again_with_growing_delays(rig: Rig, error: type[httpx.TransportError]) -> None:
    respx.get(ISSUE).side_effect = [error("no"), error("no"), httpx.Response(200, json={"n": 1})]
    assert (await rig.client.get(PATH)).data == {"n": 1}
    assert rig.clock.slept == [0.5, 1.0]


@pytest.mark.parametrize("error", [*BROKEN, *NEVER_SENT])
@respx.mock
async def test_a_read_that_keeps_failing_is_unavailable(rig: Rig, error: type[httpx.TransportError]) -> None:
    route = respx.get(ISSUE).mock(side_effect=error(f"with {SECRET}"))
    with pytest.raises(TrackerUnavailable) as caught:
        await rig.client.get(PATH)
    assert route.call_count == 4
    assert not isinstance(caught.value, OutcomeUnknown)
    assert SECRET not in str(caught.value)
    assert "GET /v1/repos/acme/web/issues/1" in str(caught.value)


@pytest.mark.parametrize("error", BROKEN)
@respx.mock
async def test_a_write_that_broke_is_not_repeated_but_unknown(rig: Rig, error: type[httpx.TransportError]) -> None:
    route = respx.post(ISSUE).mock(side_effect=error("no"))
    with pytest.raises(OutcomeUnknown, match="may have been carried out"):
        await rig.client.write("POST", PATH, {})
    assert route.call_count == 1


@pytest.mark.parametrize("error", BROKEN)
@respx.mock
async def test_a_write_declared_repeatable_is_repeated(rig: Rig, error: type[httpx.TransportError]) -> None:
    respx.patch(ISSUE).side_effect = [error("no"), httpx.Response(200, json={})]
    assert (await rig.client.write("PATCH", PATH, {}, repeatable=True)).status == 200


@pytest.mark.parametrize("error", NEVER_SENT)
@respx.mock
async def test_a_write_that_never_left_is_sent_again(rig: Rig, error: type[httpx.TransportError]) -> None:
    respx.post(ISSUE).side_effect = [error("no"), httpx.Response(200, json={})]
    assert (await rig.client.write("POST", PATH, {})).status == 200


@pytest.mark.parametrize("error", NEVER_SENT)
@respx.mock
async def test_a_write_that_never_leaves_is_unavailable_and_not_in_doubt(
    rig: Rig, error: type[httpx.TransportError]
) -> None:
    respx.post(ISSUE).mock(side_effect=error("no"))
    with pytest.raises(TrackerUnavailable) as caught:
        await rig.client.write("POST", PATH, {})
    assert not isinstance(caught.value, OutcomeUnknown)
    assert rig.ledger.spent() == []


@pytest.mark.parametrize("status", [500, 502, 503, 504, 520, 408])
@respx.mock
async def test_server_errors(rig: Rig, status: int) -> None:
    reads = respx.get(ISSUE).respond(status, json={"message": "Server Error"})
    writes = respx.post(ISSUE).respond(status, html="<h1>Unicorn!</h1>")
    with pytest.raises(TrackerUnavailable, match=f"{status}: Server Error"):
        await rig.client.get(PATH)
    with pytest.raises(OutcomeUnknown, match="Unicorn"):
        await rig.client.write("POST", PATH, {})
    assert (reads.call_count, writes.call_count) == (4, 1)


@respx.mock
async def test_a_server_that_says_when_to_come_back_is_believed(rig: Rig) -> None:
    respx.get(ISSUE).side_effect = [httpx.Response(503, headers={"Retry-After": "7"}), httpx.Response(200, json=1)]
    assert (await rig.client.get(PATH)).data == 1
    assert rig.clock.slept == [7.0]


@respx.mock
async def test_nothing_is_sent_after_the_deadline(rig: Rig) -> None:
    route = respx.route(url=ISSUE).respond(200, json={})
    for call in (rig.client.get(PATH, deadline=0.0), rig.client.write("POST", PATH, {}, deadline=-1.0)):
        with pytest.raises(TrackerUnavailable, match="deadline has passed"):
            await call
    assert not route.called


@respx.mock
async def test_a_retry_that_would_come_too_late_is_not_waited_for(rig: Rig) -> None:
    respx.get(ISSUE).respond(503, headers={"Retry-After": "7"}, json={})
    with pytest.raises(TrackerUnavailable):
        await rig.client.get(PATH, deadline=6.9)
    assert rig.clock.slept == []


@pytest.mark.parametrize(("method", "error"), [("GET", TrackerUnavailable), ("POST", OutcomeUnknown)])
@respx.mock
async def test_a_slow_answer_ends_with_the_deadline(rig: Rig, method: str, error: type[TrackerError]) -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    respx.route(url=ISSUE).mock(side_effect=never)
    call = rig.client.get(PATH, deadline=0.02) if method == "GET" else rig.client.write(method, PATH, deadline=0.02)
    with pytest.raises(error, match=r"no answer within 0\.02 s"):
        await call


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, Unauthorized), (403, Refused), (404, TicketNotFound), (410, TicketNotFound), (400, Refused), (422, Refused)],
)
@respx.mock
async def test_refusals_are_typed_and_carry_the_platforms_words(
    rig: Rig, status: int, error: type[TrackerError]
) -> None:
    errors = [{"resource": "Label", "field": "name", "code": "invalid"}, "and more"]
    route = respx.route(url=ISSUE).respond(status, json={"message": f"No {SECRET} here", "errors": errors})
    for call in (rig.client.get(PATH), rig.client.write("POST", PATH, {})):
        with pytest.raises(error) as caught:
            await call
        assert f"{status}: No *** here; Label name invalid; and more" in str(caught.value)
        assert SECRET not in str(caught.value)
        assert not caught.value.retryable
    assert route.call_count == 2


@respx.mock
async def test_what_404_means_is_the_callers_choice(rig: Rig) -> None:
    respx.get(ISSUE).respond(404, json={"message": "Not Found"})
    with pytest.raises(Refused):
        await rig.client.get(PATH, missing=Refused)
    assert (await rig.client.get(PATH, allow=frozenset({404}))).data == {"message": "Not Found"}


@respx.mock
async def test_a_404_that_is_no_api_answer_points_at_base_url(rig: Rig) -> None:
    respx.get(ISSUE).respond(404, html="<html>nginx</html>")
    with pytest.raises(BadAnswer, match="check base_url"):
        await rig.client.get(PATH)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(200, html=f"<html>{SECRET} {'x' * 5000}</html>"), "text/html, not JSON"),
        (httpx.Response(200, content=b'{"a":1}'), "of no declared type"),
        (httpx.Response(200, content=b'{"a": "\xff\xfe"}', headers={"content-type": "application/json"}), "not UTF-8"),
        (httpx.Response(200, content=b'{"a": ', headers={"content-type": "application/json"}), "malformed JSON"),
        (httpx.Response(200, content=b"[" * 100_000, headers={"content-type": "application/json"}), "malformed JSON"),
        (httpx.Response(200, content=b"1" * 5000, headers={"content-type": "application/json"}), "malformed JSON"),
        (httpx.Response(206 + 100, json={}), "306"),
        (httpx.Response(304), "304"),
    ],
)
@respx.mock
async def test_answers_that_cannot_be(rig: Rig, answer: httpx.Response, words: str) -> None:
    respx.get(ISSUE).mock(return_value=answer)
    with pytest.raises(BadAnswer, match=words) as caught:
        await rig.client.get(PATH)
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 400


@respx.mock
async def test_a_body_that_is_not_compressed_as_promised(rig: Rig) -> None:
    def garbled(request: httpx.Request) -> httpx.Response:
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        return httpx.Response(200, stream=Pieces([b"no gzip at all"]), headers=headers)

    respx.get(ISSUE).mock(side_effect=garbled)
    with pytest.raises(BadAnswer, match="decompressed"):
        await rig.client.get(PATH)


class Pieces(httpx.AsyncByteStream):
    """A body in pieces that counts how many were asked for."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces, self.taken = pieces, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            self.taken += 1
            yield piece


@pytest.mark.parametrize("headers", [{}, {"content-length": "99999"}, {"content-encoding": "gzip"}])
@respx.mock
async def test_a_huge_answer_is_given_up_early(headers: dict[str, str]) -> None:
    rig = Rig(largest_body=1000)
    piece = gzip.compress(b"x" * 100_000) if "content-encoding" in headers else b"x" * 600
    body = Pieces([piece] * 50)
    respx.get(ISSUE).mock(return_value=httpx.Response(200, stream=body, headers=headers))
    with pytest.raises(BadAnswer, match="larger than 1000 bytes"):
        await rig.client.get(PATH)
    assert body.taken <= 2
    await rig.aclose()


@respx.mock
async def test_an_empty_answer_is_none(rig: Rig) -> None:
    respx.delete(ISSUE).respond(204)
    assert (await rig.client.write("DELETE", PATH)).data is None


# --- redirects --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@respx.mock
async def test_a_read_follows_redirects_on_its_own_host(rig: Rig, status: int) -> None:
    respx.get(ISSUE).respond(status, headers={"Location": "/v1/repositories/7/issues/1"})
    target = respx.get(f"{BASE}/repositories/7/issues/1").respond(200, json={"n": 1})
    answer = await rig.client.get(PATH)
    assert (answer.data, answer.redirected, answer.url) == ({"n": 1}, True, f"{BASE}/repositories/7/issues/1")
    assert target.calls.last.request.headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.example/v1/x",
        "http://api.example/v1/x",
        "https://api.example:8443/v1/x",
        "//evil.example",
        "ftp://api.example/",
        "http://[",
        "",
    ],
)
@respx.mock
async def test_a_redirect_elsewhere_is_refused(rig: Rig, location: str) -> None:
    respx.get(ISSUE).respond(302, headers={"Location": location})
    elsewhere = respx.route().respond(200, json={})
    with pytest.raises(BadAnswer, match="redirect"):
        await rig.client.get(PATH)
    assert not elsewhere.called


@respx.mock
async def test_a_host_that_the_platform_uses_is_followed_without_the_credential() -> None:
    rig = Rig(dialect=replace(GITHUB, hosts=frozenset({"files.example"})))
    respx.get(ISSUE).respond(302, headers={"Location": "https://files.example/x"})
    respx.get("https://files.example/x").respond(302, headers={"Location": "http://files.example/y"})
    plain = respx.get("http://files.example/y").respond(200, json={})
    with pytest.raises(BadAnswer, match="redirect"):
        await rig.client.get(PATH)
    assert not plain.called
    target = respx.get("https://files.example/x").respond(200, json={"n": 1})
    assert (await rig.client.get(PATH)).data == {"n": 1}
    assert "authorization" not in target.calls.last.request.headers
    await rig.aclose()


@respx.mock
async def test_redirects_in_a_circle_end(rig: Rig) -> None:
    respx.get(ISSUE).respond(301, headers={"Location": ISSUE})
    with pytest.raises(BadAnswer, match="more than 5 redirects"):
        await rig.client.get(PATH)


@respx.mock
async def test_a_write_is_never_led_elsewhere(rig: Rig) -> None:
    respx.post(ISSUE).respond(307, headers={"Location": f"{BASE}/repositories/7/issues/1"}, json={"message": "Moved"})
    target = respx.post(f"{BASE}/repositories/7/issues/1").respond(200, json={})
    with pytest.raises(Redirected, match="307: Moved"):
        await rig.client.write("POST", PATH, {})
    assert not target.called


# --- credentials ------------------------------------------------------------------------------------------------


@respx.mock
async def test_a_refused_credential_is_renewed_once() -> None:
    rig = Rig(login=Login("token-one-1234", spare=["token-two-1234"]))

    def judge(request: httpx.Request) -> httpx.Response:
        good = request.headers["authorization"] == "Bearer token-two-1234"
        date = {"Date": "Mon, 16 Nov 2026 19:00:00 GMT"}
        return httpx.Response(200, json={}) if good else httpx.Response(401, json={"message": "Bad"}, headers=date)

    route = respx.post(ISSUE).mock(side_effect=judge)
    assert (await rig.client.write("POST", PATH, {})).status == 200
    assert route.call_count == 2
    assert rig.login.renewals == [1794855600.0]
    await rig.aclose()


@respx.mock
async def test_a_credential_that_stays_refused_is_unauthorized() -> None:
    rig = Rig(login=Login("token-one-1234", spare=["token-two-1234", "token-three-12"]))
    route = respx.get(ISSUE).respond(401, json={"message": "Bad credentials"})
    with pytest.raises(Unauthorized, match="Bad credentials"):
        await rig.client.get(PATH)
    assert route.call_count == 2
    await rig.aclose()


@respx.mock
async def test_a_credential_that_comes_too_late_is_not_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(rig.login, "headers", never)
    with pytest.raises(TrackerUnavailable, match="no token in time"):
        await rig.client.get(PATH, deadline=0.01)
