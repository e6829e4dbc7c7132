"""The local tracker under the conformance suite. People work through the desk; what is there is read by SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeVar

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.tickets import Said
from agentsmith.trackers.local.change import Change, Writer
from agentsmith.trackers.local.database import Database
from agentsmith.trackers.local.rows import ME, Rows
from agentsmith.trackers.local.tickets import LocalTickets
from agentsmith.trackers.local.tracker import COMMENT_LIMIT, LocalTracker
from tests.conformance.harness import Capabilities, Fault, Platform

T = TypeVar("T")


class InterruptedDatabase(Database):
    """Lets something happen right before the next write: after every read that the tracker bases it on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.before_write: Callable[[], Awaitable[object]] | None = None

    async def write(self, work: Callable[[sqlite3.Connection], T], *, deadline: float | None = None) -> T:
        """As in the base class, after the callback."""
        callback, self.before_write = self.before_write, None
        if callback is not None:
            await callback()
        return await super().write(work, deadline=deadline)


class LocalPlatform(Platform):
    """A fresh SQLite file per test."""

    capabilities = Capabilities(
        compare_and_set=True,
        comment_limit=COMMENT_LIMIT,
        faults=frozenset({Fault.UNAVAILABLE, Fault.MALFORMED}),
        reactions=False,
        circles=False,
        hooks=False,
    )

    def __init__(self, path: Path, labels: LabelSet) -> None:
        self._path, self._labels = path, labels
        self._desk = LocalTickets(path=path, project="tickets")
        self._trackers: list[LocalTracker] = []
        self._database = InterruptedDatabase(path)
        self.tracker = self._another(self._database)

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path, labels: LabelSet) -> AsyncIterator[Platform]:
        """An empty file in `folder`."""
        platform = cls(folder / "tickets.sqlite3", labels)
        await platform.tracker.me()
        try:
            yield platform
        finally:
            await platform._desk.aclose()
            for tracker in platform._trackers:
                await tracker.aclose()

    def _another(self, database: Database) -> LocalTracker:
        tracker = LocalTracker(name="local", path=self._path, project="tickets", labels=self._labels)
        tracker.database = database
        tracker.page_size = 3
        self._trackers.append(tracker)
        return tracker

    async def open_ticket(
        self, title: str = "a ticket", body: str = "", labels: tuple[str, ...] = (), author: str = "alice"
    ) -> str:
        """Through the desk."""
        return (await self._desk.new(title=title, body=body, labels=labels, actor=author)).key

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:
        """Through the desk."""
        await self._desk.label(key, label, actor=actor)

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:
        """Through the desk."""
        await self._desk.unlabel(key, label, actor=actor)

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> str:
        """Through the desk."""
        await self._desk.comment(key, body, actor=actor)
        return str((await self._desk.show(key)).comments[-1].id)

    async def person_withdraws(self, key: str, ref: str) -> None:
        """Behind the tracker's back; the desk has no such thing."""

        def work(con: sqlite3.Connection) -> None:
            con.execute("DELETE FROM comments WHERE id = ?", (int(ref),))

        del key
        await self.tracker.database.write(work)  # type: ignore[attr-defined]

    async def reactions(self, key: str, ref: str) -> list[str]:  # noqa: ARG002
        """There are none."""
        return []

    async def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str = "alice") -> None:
        """As a person; as ourselves, past the tracker."""
        if actor != ME.name:
            await self._desk.edit(key, title=title, body=body, actor=actor)
            return
        rows = Rows(tracker="local", project="tickets")

        def work(con: sqlite3.Connection) -> None:
            ticket = rows.read(con, key)
            change = Change(con, rows, ticket, Writer(ME))
            change.write(title=title or ticket.title, body=ticket.body if body is None else body)

        await self.tracker.database.write(work)  # type: ignore[attr-defined]

    async def close(self, key: str) -> None:
        """Through the desk."""
        await self._desk.close(key, actor="alice")

    async def reopen(self, key: str) -> None:
        """Through the desk."""
        await self._desk.reopen(key, actor="alice")

    async def delete(self, key: str) -> None:
        """By SQL: the desk throws nothing away."""
        self._sql("DELETE FROM tickets WHERE number = ?", key)

    async def block(self, key: str, by: str) -> None:
        """Through the desk."""
        await self._desk.link(key, by, actor="alice")

    async def labels(self, key: str) -> set[str]:
        """The rows of the table."""
        rows = self._sql("SELECT name FROM labels, tickets WHERE ticket = tickets.id AND number = ?", key)
        return {name for (name,) in rows}

    async def comments(self, key: str) -> list[Said]:
        """The rows of the table."""
        rows = self._sql(
            "SELECT c.author, c.body, c.id FROM comments c JOIN tickets t ON c.ticket = t.id"
            " WHERE number = ? ORDER BY c.id",
            key,
        )
        return [Said(author, body, str(ref)) for author, body, ref in rows]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """Played back from the events; those of one revision were committed together."""
        history: list[frozenset[str]] = [frozenset()]
        last = None
        for revision, kind, label in self._sql(
            "SELECT e.revision, kind, detail FROM events e JOIN tickets t ON e.ticket = t.id"
            " WHERE number = ? AND kind IN ('opened', 'labelled', 'unlabelled') ORDER BY e.id",
            key,
        ):
            now = history[-1]
            if revision != last and last is not None:
                history.append(now)
            if kind != "opened":
                history[-1] = now | {label} if kind == "labelled" else now - {label}
            last = revision
        return history

    async def writes(self) -> int:
        """Every write raises the revision of a ticket."""
        ((total,),) = self._sql("SELECT coalesce(sum(revision), 0) FROM tickets")
        return int(total)

    def between_read_and_write(self, callback: Callable[[], Awaitable[object]]) -> None:
        """At the gate of the database."""
        self._database.before_write = callback

    async def second_tracker(self) -> Tracker:
        """With a connection of its own."""
        return self._another(Database(self._path))

    def paged_by(self, size: int) -> Tracker:
        """With a connection of its own."""
        tracker = self._another(Database(self._path))
        tracker.page_size = size
        return tracker

    async def inject(self, fault: Fault, key: str | None = None) -> None:
        """UNAVAILABLE hides a table; MALFORMED puts bytes where text belongs."""
        if fault is Fault.UNAVAILABLE:
            self._sql("ALTER TABLE labels RENAME TO hidden")
        else:
            self._sql("UPDATE tickets SET title = x'ff00', updated_at = 'noon' WHERE number = ?", key)

    async def heal(self) -> None:
        """Show the table again."""
        self._sql("ALTER TABLE hidden RENAME TO labels")

    def _sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path, timeout=10, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            return connection.execute(statement, values).fetchall()
