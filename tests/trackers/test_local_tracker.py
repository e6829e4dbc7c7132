"""The local tracker beyond the contract: names, rights and the record of who did what."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Actor
from agentsmith.domain.tracker import Access, Blocker, Move
from agentsmith.trackers.local.tickets import LocalTickets
from agentsmith.trackers.local.tracker import LocalTracker

CLAIM = Move(Status.PENDING, Status.ENQUEUED, run="run-1", fence=7, deadline=float("inf"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the tickets are; the folder is made on demand."""
    return tmp_path / "data" / "tickets.sqlite3"


@pytest.fixture
async def tracker(path: Path) -> AsyncIterator[LocalTracker]:
    """On a file that is not there yet."""
    made = LocalTracker(name="mine", path=path, project="tickets", labels=LabelSet())
    yield made
    await made.aclose()


@pytest.fixture
async def desk(path: Path) -> AsyncIterator[LocalTickets]:
    """On the same file."""
    async with LocalTickets(path=path, project="tickets") as made:
        yield made


async def test_projects_in_one_file_do_not_see_each_other(
    path: Path, tracker: LocalTracker, desk: LocalTickets
) -> None:
    async with LocalTickets(path=path, project="other") as other:
        await other.new(title="theirs", labels=["bug"], actor="bob")
        ours = await desk.new(title="ours", labels=["bug"], actor="alice")
        assert (await other.show("1")).ticket.id == "local/other#1"
    assert [t.title async for t in tracker.find("bug")] == ["ours"]
    assert ours.id == "local/tickets#1"


async def test_a_number_is_never_given_twice(path: Path, desk: LocalTickets) -> None:
    await desk.new(title="first", actor="alice")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM tickets")
    assert (await desk.new(title="second", actor="alice")).key == "2"


async def test_names(tracker: LocalTracker, desk: LocalTickets) -> None:
    ticket = await desk.new(title="t", actor="alice")
    assert (tracker.platform, tracker.name, tracker.project) == ("local", "mine", "local/tickets")
    assert (ticket.id, ticket.key, ticket.url) == ("local/tickets#1", "1", "local://tickets/1")
    assert tracker.filter_hint(Status.DONE) == "agentsmith ticket list --label agent-smith:done"
    assert await tracker.me() == Actor(id="agentsmith", name="agentsmith", bot=True)


async def test_P7_every_person_may_write_and_no_program(tracker: LocalTracker) -> None:
    assert await tracker.access_of(Actor("alice", "alice")) is Access.WRITE
    assert await tracker.access_of(await tracker.me()) is Access.NONE


async def test_P7_setting_a_label_that_is_there_does_not_change_who_set_it(
    tracker: LocalTracker, desk: LocalTickets
) -> None:
    ticket = await desk.new(title="t", labels=["bug"], actor="alice")
    await desk.label(ticket.key, "BUG", actor="mallory")
    by = await tracker.labelled_by(ticket, "Bug")
    assert by is not None
    assert (by.actor.name, by.access) == ("alice", Access.WRITE)
    assert (await tracker.get(ticket.key)).labels == {"bug"}


async def test_a_move_is_recorded_with_its_run(path: Path, tracker: LocalTracker, desk: LocalTickets) -> None:
    await tracker.move(await desk.new(title="t", actor="alice"), CLAIM)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT actor, bot, kind, detail, run, fence FROM events ORDER BY id").fetchall()
    assert rows == [
        ("alice", 0, "opened", "", None, None),
        ("agentsmith", 1, "labelled", "agent-smith:enqueued", "run-1", 7),
    ]


async def test_blockers_are_what_people_linked(tracker: LocalTracker, desk: LocalTickets) -> None:
    first, second, third = [await desk.new(title=t, actor="alice") for t in ("first", "second", "third")]
    await desk.link(third.key, second.key, actor="alice")
    await desk.link(third.key, first.id, actor="alice")
    await desk.close(first.key, actor="alice")
    blockers = await tracker.blockers(third)
    assert blockers == (Blocker(first.id, first.url, open=False), Blocker(second.id, second.url, open=True))
    await desk.unlink(third.key, first.key, actor="alice")
    assert [blocker.id for blocker in await tracker.blockers(third)] == [second.id]
