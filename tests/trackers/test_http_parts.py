"""The small parts of the HTTP layer: ETags, pages, header dates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
import respx
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.domain.errors import BadAnswer, RateLimited, TrackerUnavailable
from agentsmith.trackers.azuredevops.dialect import AZURE_DEVOPS
from agentsmith.trackers.github.dialect import GITHUB
from agentsmith.trackers.gitlab.dialect import DIALECT as GITLAB
from agentsmith.trackers.http import Answer, LocalEtags, link_header
from agentsmith.trackers.http.dialect import http_date, retry_after, whole_number
from agentsmith.trackers.http.paging import Page, links
from agentsmith.trackers.jira.dialect import DIALECT as JIRA
from tests.support.http_rig import BASE, EPOCH, Login, Rig

PATH = "/repos/acme/web/issues"
URL = f"{BASE}{PATH}"


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.aclose()


@respx.mock
async def test_an_unchanged_answer_comes_from_the_cache_with_its_links(rig: Rig) -> None:
    route = respx.get(URL)
    first = httpx.Response(200, json=["ü"], headers={"ETag": 'W/"1"', "Link": f'<{URL}?page=2>; rel="next"'})
    route.side_effect = [first, httpx.Response(304), httpx.Response(200, json=["new"], headers={"ETag": 'W/"2"'})]
    answers = [await rig.client.get(PATH, params={"per_page": "3"}) for _ in range(3)]
    assert [a.data for a in answers] == [["ü"], ["ü"], ["new"]]
    assert [a.unchanged for a in answers] == [False, True, False]
    assert answers[1].link == answers[0].link != ""
    assert [c.request.headers.get("if-none-match") for c in route.calls] == [None, 'W/"1"', 'W/"1"']


@respx.mock
async def test_what_one_credential_saw_is_not_shown_to_another(rig: Rig) -> None:
    other = Rig(login=Login(name="other"), shared=rig.shared)
    route = respx.get(URL).respond(200, json=["private"], headers={"ETag": '"1"'})
    await rig.client.get(PATH)
    await other.client.get(PATH)
    assert "if-none-match" not in route.calls.last.request.headers
    await other.aclose()


@respx.mock
async def test_the_callers_own_etag_is_enough_to_learn_that_nothing_changed(rig: Rig) -> None:
    respx.get(URL, headers={"If-None-Match": '"mine"'}).respond(304)
    answer = await rig.client.get(PATH, etag='"mine"')
    assert (answer.unchanged, answer.data, answer.etag) == (True, None, '"mine"')


async def test_the_cache_is_bounded_and_drops_what_was_not_used() -> None:
    etags = LocalEtags(limit=3000)
    for n in range(3):
        await etags.save("a", f"u{n}", etag=str(n), body=b"x" * 700, link="")
    assert await etags.load("a", "u0") is not None
    await etags.save("a", "u3", etag="3", body=b"x" * 700, link="")
    assert [await etags.load("a", f"u{n}") is not None for n in range(4)] == [True, False, True, True]
    await etags.save("a", "u3", etag="4", body=b"x" * 4000, link="")
    assert await etags.load("a", "u3") is None
    assert await etags.load("b", "u0") is None


# --- pages ------------------------------------------------------------------------------------------------------


async def collect(rig: Rig) -> list[object]:
    """All pages of the list."""
    return [item async for page in rig.client.pages(PATH, params={"q": "a b"}) for item in page.data]


@respx.mock
async def test_pages_are_followed_to_the_end(rig: Rig) -> None:
    links_ = {
        "": f'<{URL}?q=a+b&page=2>; rel="next", <{URL}?page=3>; rel="last"',
        "2": f"<{URL}?q=a+b&page=3>; rel=next",
    }

    def serve(request: httpx.Request) -> httpx.Response:
        page = request.url.params.get("page", "")
        assert request.url.params["q"] == "a b"
        return httpx.Response(200, json=[page], headers={"Link": links_.get(page, "")})

    respx.get(URL).mock(side_effect=serve)
    assert await collect(rig) == ["", "2", "3"]


@respx.mock
async def test_an_error_on_a_later_page_is_no_short_list(rig: Rig) -> None:
    respx.get(URL, params={"page": "2"}).respond(502)
    respx.get(URL).respond(200, json=[1], headers={"Link": f'<{URL}?page=2>; rel="next"'})
    with pytest.raises(TrackerUnavailable):
        await collect(rig)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (f'<{URL}?q=a+b>; rel="next"', "do not end"),
        ('<https://evil.example/issues?page=2>; rel="next"', "evil.example"),
        ('<https://:bad>; rel="next"', "link|URL"),
    ],
)
@respx.mock
async def test_pages_that_lead_nowhere(rig: Rig, link: str, words: str) -> None:
    respx.get(URL).respond(200, json=[1], headers={"Link": link})
    with pytest.raises(BadAnswer, match=words):
        await collect(rig)


def test_link_headers_in_all_their_forms() -> None:
    assert links('<https://x/a,b;c?p=2>; rel="next last", <y>;rel=prev; title="a, b"') == {
        "next": "https://x/a,b;c?p=2",
        "last": "https://x/a,b;c?p=2",
        "prev": "y",
    }
    assert links("") == links("nonsense") == links("<x>") == {}


@given(st.text())
def test_any_link_header_can_be_read(text: str) -> None:
    links(text)


# --- headers ----------------------------------------------------------------------------------------------------


@given(st.text())
def test_any_header_can_be_read(text: str) -> None:
    headers = {"retry-after": text, "date": text, "n": text}
    assert (retry_after(headers) or 0.0) >= 0
    http_date(headers)
    assert (whole_number(headers, "n") or 0) >= 0


def test_header_forms() -> None:
    assert retry_after({}) is None
    assert retry_after({"retry-after": "0"}) == 0.0
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}) == 0.0
    assert http_date({"date": "Thu, 01 Jan 1970 00:01:00 GMT"}) == 60.0
    assert http_date({"date": f"Thu, 01 Jan {'9' * 20} 00:01:00 GMT"}) is None
    assert http_date({"date": f"Thu, 01 Jan 1970 00:01:00 +{'9' * 20}"}) is None
    assert whole_number({"n": " 12 "}, "n") == 12
    assert whole_number({"n": "-1"}, "n") is None


@respx.mock
async def test_a_pause_has_a_bound_and_is_warned_of_once(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    far = "Fri, 31 Dec 9999 23:59:59 GMT"
    for value in ("3601", "9" * 400, far):
        assert retry_after({"retry-after": value}) == 3600.0
    told = {"Retry-After": "9" * 400}
    respx.get(URL).respond(429, json={"message": "slow down"}, headers=told)
    for _ in range(2):
        with pytest.raises(RateLimited) as refused:
            await rig.client.get(PATH)
        assert refused.value.retry_at == pytest.approx(EPOCH + 3600)
    assert capsys.readouterr().out.count("asked to stay away for very long") == 1


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/repos/acme/web/issues", True),
        ("/api/v3/repos/acme/web/issues/12", True),
        ("/repositories/7/issues/12/comments", True),
        ("/repos/acme/web/labels", True),
        ("/repos/acme/web/issues/12/events", False),
        ("/repos/acme/web/issues/12/timeline", False),
        ("/repos/acme/web/issues/comments/9", False),
        ("/repos/acme/web/collaborators/mona/permission", False),
        ("/orgs/acme/teams/ops/memberships/mona", False),
        ("/repos/acme/issues/collaborators/mona/permission", False),
        ("/user", False),
        ("/repos/issues/12", False),
    ],
)
def test_who_did_something_and_what_somebody_may_is_never_kept(path: str, kept: bool) -> None:
    assert (GITHUB.reusable(path) is not None) is kept
    assert not any(dialect.reusable(path) for dialect in (GITLAB, AZURE_DEVOPS, JIRA))


@pytest.mark.parametrize(
    ("link", "count", "onward"),
    [
        ("", 2, None),
        ("", 3, {"per_page": "3", "page": "3"}),
        (f'<{URL}?page=9>; rel="next"', 2, {}),
    ],
)
def test_behind_a_full_page_that_is_unchanged_there_may_be_another(
    link: str, count: int, onward: dict[str, str] | None
) -> None:
    page = Page(PATH, {"per_page": "3", "page": "2"})
    answer = Answer(200, {}, list(range(count)), URL, '"1"', link, unchanged=True)
    found = link_header(page, answer)
    assert (None if found is None else found.params) == onward
    assert link_header(page, replace(answer, unchanged=False, link="")) is None
