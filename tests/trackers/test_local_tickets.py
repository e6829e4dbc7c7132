"""What people do with local tickets, what they may type, and what the configuration says about it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentsmith.config import Duration
from agentsmith.domain.errors import ConfigError, TicketNotFound
from agentsmith.trackers.local.settings import LocalSettings
from agentsmith.trackers.local.tickets import LocalTickets, ticket_json


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[LocalTickets]:
    """An empty one."""
    async with LocalTickets(path=tmp_path / "tickets.sqlite3", project="tickets") as made:
        yield made


async def test_the_json_of_a_ticket(desk: LocalTickets) -> None:
    await desk.new(title="other", actor="bob")
    ticket = await desk.new(title="  Fix the door ", body="It squeaks.\n", labels=["b", "A", "a"], actor="alice")
    await desk.comment("2", "Soon!", actor="bob")
    await desk.link("2", "1", actor="alice")
    shown = await desk.show("local/tickets#2")
    data = ticket_json(shown.ticket, comments=shown.comments, blockers=shown.blockers)
    json.dumps(data)
    assert data.pop("updated_at").endswith("+00:00")
    (comment,) = data.pop("comments")
    assert (comment["author"], comment["body"], comment["edited_at"]) == ("bob", "Soon!", None)
    assert data == {
        "id": "local/tickets#2",
        "key": "2",
        "tracker": "local",
        "title": "Fix the door",
        "body": "It squeaks.\n",
        "labels": ["A", "b"],
        "state": "open",
        "url": "local://tickets/2",
        "author": "alice",
        "revision": "3",
        "blocked_by": [{"id": "local/tickets#1", "state": "open"}],
    }
    assert "comments" not in ticket_json(ticket)


async def test_asking_for_what_is_so_changes_nothing(desk: LocalTickets) -> None:
    ticket = await desk.new(title="t", body="b", labels=["bug"], actor="alice")
    await desk.new(title="other", actor="alice")
    linked = await desk.link("1", "2", actor="alice")
    assert linked.revision == "2" != ticket.revision
    for again in (
        desk.label("1", "BUG", actor="bob"),
        desk.unlabel("1", "nowhere", actor="bob"),
        desk.reopen("1", actor="bob"),
        desk.edit("1", title="t", actor="bob"),
        desk.link("1", "2", actor="bob"),
        desk.unlink("2", "1", actor="bob"),
    ):
        await again
    assert (await desk.show("1")).ticket == linked


async def test_every_change_raises_the_revision(desk: LocalTickets) -> None:
    await desk.new(title="t", actor="alice")
    await desk.new(title="other", actor="alice")
    revisions = [
        ticket.revision
        for ticket in (
            await desk.label("1", "bug", "ui", actor="bob"),
            await desk.unlabel("1", "BUG", actor="bob"),
            await desk.comment("1", "hello", actor="bob"),
            await desk.edit("1", body="new", actor="bob"),
            await desk.close("1", actor="bob"),
            await desk.reopen("1", actor="bob"),
            await desk.link("1", "2", actor="bob"),
            await desk.unlink("1", "2", actor="bob"),
        )
    ]
    assert revisions == [str(n) for n in range(2, 10)]
    assert (await desk.show("1")).ticket.labels == {"ui"}


async def test_listing_by_labels_and_state(desk: LocalTickets) -> None:
    for labels in (["bug"], ["bug", "ui"], ["ui"], []):
        await desk.new(title="t", labels=labels, actor="alice")
    await desk.close("2", actor="alice")
    assert [t.key for t in await desk.tickets()] == ["1", "3", "4"]
    assert [t.key for t in await desk.tickets(state="closed")] == ["2"]
    assert [t.key for t in await desk.tickets(labels=["BUG"], state="all")] == ["1", "2"]
    assert [t.key for t in await desk.tickets(labels=["ui", "bug"], state="all")] == ["2"]


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("title", "  ", "title is empty"),
        ("title", "a\nb", "line break"),
        ("title", "x" * 501, "at most 500"),
        ("title", "\udcff", "not valid Unicode at character 1"),
        ("body", "a\0b", "NUL"),
        ("body", "ok \ud800", "not valid Unicode at character 4"),
        ("body", "é" * 524_289, "1,048,578 bytes"),
        ("label", "", "label is empty"),
        ("label", "a,b", "comma"),
        ("label", "a\u2028b", "line break"),
        ("label", "x" * 51, "at most 50"),
        ("actor", " ", "actor is empty"),
        ("actor", "AgentSmith", "own name"),
        ("actor", "x" * 101, "at most 100"),
    ],
)
async def test_what_cannot_be_stored_is_refused_with_the_reason(
    desk: LocalTickets, field: str, value: str, complaint: str
) -> None:
    given = {"title": "t", "body": "b", "label": "bug", "actor": "alice", field: value}
    with pytest.raises(ConfigError, match=complaint) as caught:
        await desk.new(title=given["title"], body=given["body"], labels=[given["label"]], actor=given["actor"])
    assert len(str(caught.value)) < 200
    assert await desk.tickets(state="all") == []


async def test_what_is_just_allowed_is_stored(desk: LocalTickets) -> None:
    body = "é" * 524_288
    await desk.new(title="x" * 500, body=body, labels=["x" * 50, "日本 🧵"], actor="Ünï Cödé")
    ticket = (await desk.show("1")).ticket
    assert (ticket.body, ticket.author) == (body, "Ünï Cödé")
    assert ticket.labels == {"x" * 50, "日本 🧵"}


async def test_an_empty_comment_is_refused(desk: LocalTickets) -> None:
    await desk.new(title="t", actor="alice")
    with pytest.raises(ConfigError, match="comment is empty"):
        await desk.comment("1", " \n", actor="alice")


@pytest.mark.parametrize("key", ["7", "nonsense", "", "local/other#1", "01", "1; DROP TABLE tickets"])
async def test_an_unknown_ticket_is_named(desk: LocalTickets, key: str) -> None:
    await desk.new(title="t", actor="alice")
    for call in (
        desk.show(key),
        desk.close(key, actor="alice"),
        desk.link("1", key, actor="alice"),
        desk.link(key, "1", actor="alice"),
    ):
        with pytest.raises(TicketNotFound, match="local/tickets"):
            await call


async def test_a_ticket_cannot_wait_for_itself(desk: LocalTickets) -> None:
    await desk.new(title="t", actor="alice")
    with pytest.raises(ConfigError, match="itself"):
        await desk.link("1", "local://tickets/1", actor="alice")


def test_the_settings_work_without_any(tmp_path: Path) -> None:
    settings = LocalSettings()
    assert (settings.platform, settings.project) == ("local", "tickets")
    assert settings.poll_interval == Duration(2)
    assert settings.file(tmp_path) == tmp_path / "tickets.sqlite3"
    assert settings.project_identity() == "local/tickets"


def test_a_path_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/alice")
    assert LocalSettings(path=Path("t.db")).file(Path("/data")) == tmp_path / "t.db"
    assert LocalSettings(path=Path("~/t.db")).file(Path("/data")) == Path("/home/alice/t.db")


@pytest.mark.parametrize(
    ("field", "value"),
    [("project", "a b"), ("project", ""), ("project", "a#1"), ("path", "a\0b"), ("path", "~nobody-here/t")],
)
def test_settings_that_cannot_work_are_refused(field: str, value: str) -> None:
    with pytest.raises(ValidationError, match=r"is not a|no such home"):
        LocalSettings.model_validate({field: value})
