"""The file of the local tracker: what can be wrong with it, and several writers at once."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import AgentSmithError, ConfigError, TicketNotFound, TrackerUnavailable
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.tracker import Applied, Move, Unknown
from agentsmith.trackers.local.database import SCHEMA_VERSION, Database
from agentsmith.trackers.local.tickets import LocalTickets
from agentsmith.trackers.local.tracker import LocalTracker
from tests.support.private import open_to_others
from tests.support.wait import quickest, wait_until

NOBODY = 65534
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


async def opening_fails(path: Path) -> str:
    """What the person is told who starts with this file; one line, with the file's name in it."""
    database = Database(path)
    with pytest.raises(ConfigError) as caught:
        await database.open()
    await database.aclose()
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_tickets_are_for_our_user_alone(tmp_path: Path) -> None:
    """Whatever the umask; and a file that a former release made for everybody is closed."""
    path = tmp_path / "tickets.sqlite3"
    for _ in range(2):
        database = Database(path)
        await database.open()
        assert open_to_others(tmp_path) == []
        assert len(os.listdir(tmp_path)) == 3, "with what SQLite keeps beside it"
        await database.aclose()
        path.chmod(0o604)


async def test_a_directory_is_no_file(tmp_path: Path) -> None:
    assert "is a directory; name a file" in await opening_fails(tmp_path)


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "check the rights" in await opening_fails(tmp_path / "file" / "deep" / "tickets")


async def test_a_name_that_the_disk_cannot_hold_is_named(tmp_path: Path) -> None:
    assert "File name too long" in await opening_fails(tmp_path / ("x" * 300))


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n" * 500)
    assert "is not a ticket file" in await opening_fails(path)
    assert path.read_text() == "my notes\n" * 500


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photos (name)")
    assert "another program" in await opening_fails(path)


async def test_a_newer_format_is_refused(path: Path, tracker: LocalTracker) -> None:
    await tracker.me()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    assert "newer agentsmith" in await opening_fails(path)


@pytest.mark.parametrize("locked", ["file", "folder"])
async def test_a_file_that_may_not_be_written_is_refused(locked: str) -> None:
    privileged = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)  # noqa: S103 - others have to come by
        path = Path(name) / "data" / "tickets.sqlite3"
        database = Database(path)
        await database.open()
        await database.aclose()
        path.parent.chmod(0o755)
        target = path if locked == "file" else path.parent
        target.chmod(0o555)
        if privileged:
            os.seteuid(NOBODY)  # root may write everything
        try:
            assert "check the rights" in await opening_fails(path)
        finally:
            if privileged:
                os.seteuid(0)
            target.chmod(0o755)


@pytest.mark.parametrize("name", [":memory:", "file:x?mode=memory", "a b%20#c.db", "ünï.db"])
async def test_a_path_means_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    database = Database(Path(name))
    await database.open()
    await database.aclose()
    assert (tmp_path / name).stat().st_size > 0


@pytest.mark.parametrize(
    ("pragma", "remedy"), [("query_only = 1", "read-only"), ("max_page_count = 1", "the disk is full; make room")]
)
async def test_a_disk_that_takes_no_more_is_unavailable(
    path: Path, tracker: LocalTracker, desk: LocalTickets, pragma: str, remedy: str
) -> None:
    ticket = await desk.new(title="t", body="x" * 5000, actor="alice")
    await tracker.database.read(lambda con: con.execute(f"PRAGMA {pragma}").fetchall())
    text = "y" * 60_000
    with pytest.raises(TrackerUnavailable) as caught:
        await tracker.write_sticky(ticket, text, Memo("r", 1), known=None, deadline=float("inf"))
    assert str(path) in str(caught.value)
    assert remedy in str(caught.value)
    assert text[:50] not in str(caught.value)
    assert await tracker.read_sticky(ticket) is None


def scramble(path: Path) -> None:
    """Leave the first page and put noise everywhere else."""
    first = path.read_bytes()[:4096]
    path.write_bytes(first + os.urandom(path.stat().st_size - len(first)))


async def test_a_damaged_file_is_named_with_the_remedy(path: Path, tracker: LocalTracker, desk: LocalTickets) -> None:
    for n in range(30):
        await desk.new(title=f"ticket {n}", body="x" * 2000, actor="alice")
    await desk.aclose()
    scramble(path)
    with pytest.raises(AgentSmithError, match="restore it from a backup") as caught:
        await tracker.get("7")
    assert str(path) in str(caught.value)


async def test_P9_a_file_that_vanishes_is_an_outage_not_an_empty_list(
    path: Path, tracker: LocalTracker, desk: LocalTickets
) -> None:
    ticket = await desk.new(title="t", labels=["bug"], actor="alice")
    await desk.aclose()
    assert await tracker.get(ticket.key) == await tracker.get(ticket.key)
    away = path.with_suffix(".away")
    os.rename(path, away)
    with pytest.raises(TrackerUnavailable, match="moved or deleted"):
        await anext(tracker.find("bug"))
    os.rename(away, path)
    assert (await anext(tracker.find("bug"))).key == ticket.key


async def test_a_restored_backup_is_read(tmp_path: Path, path: Path, tracker: LocalTracker) -> None:
    async with LocalTickets(path=tmp_path / "backup", project="tickets") as other:
        await other.new(title="from the backup", actor="alice")
    with pytest.raises(TicketNotFound):
        await tracker.get("1")
    (tmp_path / "backup").rename(path)
    for rest in path.parent.glob("*-*"):
        rest.unlink()
    assert (await tracker.get("1")).title == "from the backup"


async def test_a_writer_waits_for_another_without_stopping_the_loop(
    path: Path, tracker: LocalTracker, desk: LocalTickets
) -> None:
    ticket = await desk.new(title="t", actor="alice")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        move = asyncio.create_task(tracker.move(ticket, CLAIM))
        assert (await desk.show("1")).ticket == ticket  # readers do not wait
        assert not move.done()
        other.execute("COMMIT")
    assert isinstance(await move, Applied)


async def test_T11_waiting_for_another_writer_ends_at_the_deadline(
    path: Path, tracker: LocalTracker, desk: LocalTickets
) -> None:
    ticket = await desk.new(title="t", actor="alice")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        async def waited() -> float:
            begun = boottime()
            outcome = await tracker.move(ticket, Move(Status.PENDING, Status.ENQUEUED, "r", 1, begun + 0.1))
            assert isinstance(outcome, Unknown)
            return boottime() - begun

        assert await quickest(waited, than=5) < 5
        other.execute("COMMIT")
    assert (await tracker.get("1")).revision == ticket.revision


async def test_T11_a_write_that_outlives_its_deadline_is_undone(tracker: LocalTracker, desk: LocalTickets) -> None:
    await desk.new(title="before", actor="alice")
    deadline = boottime() + 0.1

    def dawdle(con: sqlite3.Connection) -> None:
        con.execute("UPDATE tickets SET title = 'after'")
        while boottime() < deadline:
            pass

    with pytest.raises(TrackerUnavailable, match="deadline"):
        await tracker.database.write(dawdle, deadline=deadline)
    assert (await tracker.get("1")).title == "before"


WORKER = """
import asyncio, pathlib, sys
from agentsmith.domain.errors import TicketNotFound
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.tracker import Applied, Move
from agentsmith.trackers.local.tickets import LocalTickets
from agentsmith.trackers.local.tracker import LocalTracker

async def main(path, name):
    tracker = LocalTracker(name="local", path=path, project="tickets", labels=LabelSet())
    applied = 0
    async with LocalTickets(path=path, project="tickets") as desk:
        sys.stdin.readline()  # all begin together, on a file that is not there yet
        for n in range(15):
            ticket = await desk.new(title=f"{name} {n}", labels=["bug"], actor=name)
            await desk.label(ticket.key, name, actor=name)
        for key in range(1, 31):
            try:
                ticket = await tracker.get(str(key))
            except TicketNotFound:
                continue
            outcome = await tracker.move(ticket, Move(Status.PENDING, Status.ENQUEUED, name, 1, float("inf")))
            applied += isinstance(outcome, Applied)
    await tracker.aclose()
    print(applied)

asyncio.run(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
"""


async def test_several_processes_share_the_file(path: Path, tracker: LocalTracker) -> None:
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, path, f"worker-{n}", stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        for n in range(4)
    ]
    applied = 0
    for output, errors in await asyncio.gather(*(worker.communicate(b"go\n") for worker in workers)):
        assert not errors.decode()
        applied += int(output)
    tickets = [ticket async for ticket in tracker.find("bug")]
    assert [ticket.key for ticket in tickets] == [str(n) for n in range(1, 61)]
    claimed = [ticket for ticket in tickets if "agent-smith:enqueued" in ticket.labels]
    assert len(claimed) == applied >= 30
    assert all(ticket.author in ticket.labels for ticket in tickets)


async def test_a_cancelled_call_leaves_the_tracker_usable(
    path: Path, tracker: LocalTracker, desk: LocalTickets
) -> None:
    ticket = await desk.new(title="t", actor="alice")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        move = asyncio.create_task(tracker.move(ticket, CLAIM))
        await asyncio.sleep(0)
        move.cancel()
        await wait_until(move.done, what="the cancellation")
        other.execute("COMMIT")
    assert (await tracker.get(ticket.key)).title == "t"
