"""Changing a ticket in the file: each change compares and raises the revision and records who did what."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.trackers.local.rows import Rows, fold, now


class StaleRevision(Exception):
    """The ticket is not as it was read any more; nothing was written. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who makes a change, and on behalf of which run."""

    actor: Actor
    run: str | None = None
    fence: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """What the record of a ticket tells of one change."""

    by: Writer
    kind: str
    detail: str = ""
    at: str | None = None
    """None: now."""


class Change:
    """One change of one ticket, inside a write transaction: all that it does has the same new revision."""

    def __init__(self, con: sqlite3.Connection, rows: Rows, ticket: Ticket, by: Writer) -> None:
        """Compare and set: raises StaleRevision unless the ticket is still as it was read."""
        self._con, self._by = con, by
        compared = con.execute(
            "UPDATE tickets SET revision = revision + 1, updated_at = ?"
            " WHERE project = ? AND number = ? AND revision = ?",
            (now(), rows.project, ticket.key, ticket.revision),
        )
        if compared.rowcount != 1:
            raise StaleRevision(ticket.key)
        self._row, self._revision = con.execute(
            "SELECT id, revision FROM tickets WHERE project = ? AND number = ?", (rows.project, ticket.key)
        ).fetchone()

    def add(self, label: str) -> None:
        """Put a label on, as spelled; one that differs in case only stays as it is."""
        added = self._con.execute(
            "INSERT INTO labels VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (self._row, fold(label), label)
        )
        if added.rowcount == 1:
            self._record("labelled", label)

    def remove(self, label: str) -> None:
        """Take a label off."""
        removed = self._con.execute("DELETE FROM labels WHERE ticket = ? AND folded = ?", (self._row, fold(label)))
        if removed.rowcount == 1:
            self._record("unlabelled", label)

    def write(self, *, title: str, body: str) -> None:
        """Replace the text."""
        before = self._con.execute("SELECT title, body FROM tickets WHERE id = ?", (self._row,)).fetchone()
        self._con.execute("UPDATE tickets SET title = ?, body = ? WHERE id = ?", (title, body, self._row))
        parts = (("title", before[0] != title), ("body", before[1] != body))
        self._record("edited", " ".join(name for name, changed in parts if changed))

    def set_open(self, value: bool) -> None:
        """Close or reopen."""
        state = "open" if value else "closed"
        self._con.execute("UPDATE tickets SET state = ? WHERE id = ?", (state, self._row))
        self._record("reopened" if value else "closed")

    def comment(self, body: str, memo: str | None = None) -> int:
        """Add a comment; answers its id."""
        actor = self._by.actor
        added = self._con.execute(
            "INSERT INTO comments (ticket, author, bot, body, memo, created_at) VALUES (?, ?, ?, ?, ?, ?)",
            (self._row, actor.name, actor.bot, body, memo, now()),
        )
        self._record("commented")
        return int(added.lastrowid or 0)

    def edit_comment(self, comment: int, body: str, memo: str | None) -> None:
        """Replace a comment in place. Not recorded: progress is written often, and the comment says when."""
        self._con.execute(
            "UPDATE comments SET body = ?, memo = ?, edited_at = ? WHERE id = ?", (body, memo, now(), comment)
        )

    def block(self, blocker: int, key: str) -> None:
        """Wait for ticket `key`, in row `blocker`."""
        self._con.execute("INSERT INTO links VALUES (?, ?)", (self._row, blocker))
        self._record("blocked", key)

    def unblock(self, blocker: int, key: str) -> None:
        """Wait for it no longer."""
        self._con.execute("DELETE FROM links WHERE ticket = ? AND blocker = ?", (self._row, blocker))
        self._record("unblocked", key)

    def _record(self, kind: str, detail: str = "") -> None:
        _event(self._con, self._row, self._revision, Event(self._by, kind, detail))


def open_ticket(con: sqlite3.Connection, rows: Rows, *, title: str, body: str, labels: list[str], by: Writer) -> Ticket:
    """A new open ticket with the next number, at revision 1."""
    con.execute(
        "INSERT INTO projects VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET last_number = last_number + 1",
        (rows.project,),
    )
    at = now()
    made = con.execute(
        "INSERT INTO tickets (project, number, title, body, state, revision, author, created_at, updated_at)"
        " SELECT name, last_number, ?, ?, 'open', 1, ?, ?, ? FROM projects WHERE name = ?",
        (title, body, by.actor.name, at, at, rows.project),
    )
    row = int(made.lastrowid or 0)
    _event(con, row, 1, Event(by, "opened", at=at))
    for label in {fold(name): name for name in reversed(labels)}.values():
        con.execute("INSERT INTO labels VALUES (?, ?, ?)", (row, fold(label), label))
        _event(con, row, 1, Event(by, "labelled", label, at))
    (number,) = con.execute("SELECT number FROM tickets WHERE id = ?", (row,)).fetchone()
    return rows.read(con, str(number))


def _event(con: sqlite3.Connection, row: int, revision: int, event: Event) -> None:
    by = event.by
    con.execute(
        "INSERT INTO events (ticket, revision, at, actor, bot, kind, detail, run, fence)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (row, revision, event.at or now(), by.actor.name, by.actor.bot, event.kind, event.detail, by.run, by.fence),
    )
