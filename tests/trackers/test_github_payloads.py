"""GitHub's JSON, as published and as broken, read into tickets."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.domain.errors import BadAnswer
from agentsmith.trackers.github.dialect import limit, message, quota
from agentsmith.trackers.github.payloads import Comment, Event, Issue, Permission, Snapshot, read, to_ticket
from agentsmith.trackers.github.site import Site

SITE = Site("Acme/Web")
ISSUE: dict[str, Any] = {
    "id": 1,
    "node_id": "I_kw",
    "number": 12,
    "title": "Fix the door",
    "body": None,
    "state": "open",
    "html_url": "https://github.com/Acme/Web/issues/12",
    "labels": [
        {"id": 5, "node_id": "LA_5", "name": "bug", "color": "f29513", "default": True, "description": None},
        "plain name",
    ],
    "user": {"login": "octocat", "id": 1, "type": "User"},
    "assignees": [{"login": "hubot", "id": 2, "type": "User"}],
    "comments": 3,
    "updated_at": "2026-11-16T19:00:00Z",
    "reactions": {"url": "x"},
}
PUBLISHED = Path(__file__).resolve().parents[2] / ".." / "shared" / "webhooks" / "github"


def ticket_of(**changes: Any) -> Any:
    """The ticket that the issue with these changes gives."""
    issue: Issue = read(Issue, {**ISSUE, **changes}, "an issue")
    return to_ticket(issue, SITE, "web", etag='W/"1"', read_at=5.0)


def test_an_issue_becomes_a_ticket() -> None:
    ticket = ticket_of()
    assert ticket.id == "github.com/acme/web#12"
    assert (ticket.key, ticket.tracker, ticket.title, ticket.body) == ("12", "web", "Fix the door", "")
    assert ticket.url == "https://github.com/Acme/Web/issues/12"
    assert ticket.labels == {"bug", "plain name"}
    assert ticket.open
    assert (ticket.author, ticket.assignees) == ("octocat", {"hubot"})
    assert ticket.updated_at == datetime(2026, 11, 16, 19, tzinfo=UTC)
    assert ticket.revision == to_ticket(read(Issue, ISSUE, "an issue"), SITE, "web", etag=None, read_at=9.0).revision, (
        "a list shows no ETag"
    )
    assert not ticket.pull_request
    assert ticket.native == Snapshot(
        key="12", node_id="I_kw", comments=3, label_ids={"bug": "LA_5"}, etag='W/"1"', read_at=5.0
    )


def test_what_may_be_missing() -> None:
    bare = {name: ISSUE[name] for name in ("number", "title", "state", "html_url", "labels")}
    ticket = to_ticket(read(Issue, bare, "an issue"), SITE, "web", etag=None, read_at=0.0)
    assert (ticket.author, ticket.updated_at) == ("ghost", None)
    assert ticket.revision
    assert ticket_of(user=None).author == "ghost"
    assert ticket_of(pull_request={"url": "x"}).pull_request
    assert not ticket_of(state="closed").open


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", "12"),
        ("number", 12.5),
        ("number", True),
        ("number", None),
        ("title", None),
        ("title", 3),
        ("title", ["x"]),
        ("body", 5),
        ("state", None),
        ("html_url", None),
        ("labels", None),
        ("labels", "bug"),
        ("labels", [{"name": None}]),
        ("labels", [None]),
        ("labels", [[]]),
        ("user", "octocat"),
        ("user", {"login": "x", "id": "1"}),
        ("comments", "many"),
        ("updated_at", "noon"),
        ("updated_at", "2026-11-16T19:00:00"),
        ("pull_request", 1),
        ("assignees", None),
    ],
)
def test_a_wrong_field_is_named_and_its_value_is_not_shown(field: str, value: object) -> None:
    with pytest.raises(BadAnswer) as caught:
        read(Issue, {**ISSUE, "body": "the whole body", field: value}, "issue 12")
    text = str(caught.value)
    assert text.startswith(f"GitHub: issue 12 is malformed: {field}")
    assert "the whole body" not in text
    assert "noon" not in text
    assert "many" not in text


@pytest.mark.parametrize("field", ["number", "title", "state", "html_url", "labels"])
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(BadAnswer, match=field):
        read(Issue, {k: v for k, v in ISSUE.items() if k != field}, "issue 12")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(ISSUE)), inner, max_size=4),
    max_leaves=8,
)


@given(JSON, st.sampled_from([Issue, Comment, Event, Permission, list[Issue]]))
def test_any_json_is_read_or_refused(data: Any, shape: Any) -> None:
    with contextlib.suppress(BadAnswer):
        read(shape, data, "it")


@given(st.dictionaries(st.sampled_from(sorted(ISSUE)), JSON, max_size=3))
def test_any_broken_issue_is_read_or_refused(changes: dict[str, Any]) -> None:
    with contextlib.suppress(BadAnswer):
        ticket_of(**changes)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"the published payloads are not at {PUBLISHED}")
@pytest.mark.parametrize("name", ["issues.labeled.1", "issues.opened.1", "issues.edited.1", "issue_comment.created.1"])
def test_published_payloads_are_understood(name: str) -> None:
    data = json.loads((PUBLISHED / f"{name}.json").read_text(encoding="utf-8"))
    issue: Issue = read(Issue, data["issue"], "an issue")
    ticket = to_ticket(issue, Site(data["repository"]["full_name"]), "web", etag=None, read_at=0.0)
    assert ticket.key == str(data["issue"]["number"])
    assert ticket.labels == {label["name"] for label in data["issue"]["labels"]}
    assert ticket.id == f"github.com/{data['repository']['full_name'].lower()}#{ticket.key}"
    if "comment" in data:
        comment: Comment = read(Comment, data["comment"], "a comment")
        assert comment.user is not None
        assert comment.user.login == data["comment"]["user"]["login"]


# --- what headers and messages mean -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"message": "Not Found"}, "Not Found"),
        (
            {"message": "Validation Failed", "errors": [{"resource": "Label", "code": "x"}]},
            "Validation Failed; Label x",
        ),
        ({"message": "No", "errors": ["a", {"message": "b"}, 3, None, {}]}, "No; a; b"),
        ({"errors": "oops"}, ""),
        ({"message": 5}, ""),
        ([], ""),
        (None, ""),
    ],
)
def test_messages(data: object, text: str) -> None:
    assert message(data) == text


def test_a_quota_needs_all_its_numbers() -> None:
    headers = {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "7", "x-ratelimit-reset": "1800000000"}
    assert quota(headers) == ("core", 5000, 7, 1800000000.0)
    assert quota({**headers, "x-ratelimit-resource": "graphql"}) == ("graphql", 5000, 7, 1800000000.0)
    assert quota({**headers, "x-ratelimit-remaining": "many"}) is None
    assert quota({}) is None


@given(
    st.integers(100, 599),
    st.dictionaries(st.sampled_from(["retry-after", "x-ratelimit-remaining"]), st.text()),
    st.text(),
)
def test_only_403_and_429_can_be_limits(status: int, headers: dict[str, str], words: str) -> None:
    found = limit(status, headers, words)
    assert found is None or status in (403, 429)
    assert status != 429 or found is not None
