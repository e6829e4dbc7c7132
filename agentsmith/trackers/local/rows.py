"""The tickets of one project in the file: how they are named and read, inside a transaction."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from agentsmith.domain.errors import BadAnswer, TicketNotFound
from agentsmith.domain.ticket import Actor, Ticket, TicketId
from agentsmith.domain.tracker import Blocker
from agentsmith.domain.vetting import Deed, DeedKind, since_set

ME: Final = Actor(id="agentsmith", name="agentsmith", bot=True)

_EDITS: Final = {"title": DeedKind.TITLE, "body": DeedKind.BODY}
_KEY: Final = re.compile(r"[1-9][0-9]{0,17}")  # 18 digits fit into SQLite's integers
_ONE: Final = (
    "SELECT id, number, title, body, state, revision, author, updated_at FROM tickets WHERE project = ? AND number = ?"
)
# Row ids rise like numbers do; the index on labels gives them in order, so that a page costs what it shows.
_BY_LABEL: Final = (
    "SELECT id, number, title, body, state, revision, author, updated_at"
    " FROM labels JOIN tickets ON tickets.id = labels.ticket"
    " WHERE labels.folded = ? AND labels.ticket > ? AND project = ? AND state IN (?, ?)"
    " ORDER BY labels.ticket LIMIT ?"
)
_ALL: Final = (
    "SELECT id, number, title, body, state, revision, author, updated_at FROM tickets"
    " WHERE id > ? AND project = ? AND state IN (?, ?) ORDER BY id LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, and the machine-read line that only our sticky one has."""

    id: int
    author: Actor
    body: str
    created_at: str
    edited_at: str | None
    memo: str | None


@dataclass(frozen=True, slots=True)
class Rows:
    """The tickets of one project. `tracker` is the name that the configuration gives to it."""

    tracker: str
    project: str

    @property
    def identity(self) -> str:
        """The canonical project."""
        return f"local/{self.project}"

    def ticket_id(self, key: str) -> TicketId:
        """`local/tickets#3`."""
        return TicketId(f"{self.identity}#{key}")

    def url(self, key: str) -> str:
        """`local://tickets/3`: a name that stays true on any machine.

        It ends up in comments and pull requests, where a `file://` address would tell the layout of
        somebody's disk and still open nothing that a person can read.
        """
        return f"local://{self.project}/{key}"

    def identify(self, text: str) -> str | None:
        """The key that a key, canonical id or URL of this project names (T15)."""
        for start in (f"{self.identity}#", f"local://{self.project}/", ""):
            if text.startswith(start) and _KEY.fullmatch(text[len(start) :]):
                return text[len(start) :]
        return None

    def read(self, con: sqlite3.Connection, key: str) -> Ticket:
        """The ticket as it stands (T1, T3)."""
        return self._ticket(con, self._find(con, key))

    def row(self, con: sqlite3.Connection, key: str) -> int:
        """The ticket's row id, for what refers to it; TicketNotFound when there is none."""
        return int(self._find(con, key)[0])

    def page(
        self, con: sqlite3.Connection, label: str | None, *, states: tuple[str, str], after: int, limit: int
    ) -> list[tuple[int, Ticket | BadAnswer]]:
        """The next tickets behind row `after`, with their rows; a malformed one stands as its error (T2)."""
        if label is None:
            rows = con.execute(_ALL, (after, self.project, *states, limit)).fetchall()
        else:
            rows = con.execute(_BY_LABEL, (fold(label), after, self.project, *states, limit)).fetchall()
        found: list[tuple[int, Ticket | BadAnswer]] = []
        for row in rows:
            try:
                found.append((row[0], self._ticket(con, row)))
            except BadAnswer as error:
                found.append((row[0], error))
        return found

    def comments(self, con: sqlite3.Connection, key: str) -> Iterator[Comment]:
        """All comments, oldest first."""
        for row in con.execute(
            "SELECT id, author, bot, body, created_at, edited_at, memo FROM comments WHERE ticket = ? ORDER BY id",
            (self.row(con, key),),
        ):
            author = Actor(id=row[1], name=row[1], bot=bool(row[2]))
            yield Comment(row[0], author, body=row[3], created_at=row[4], edited_at=row[5], memo=row[6])

    def sticky(self, con: sqlite3.Connection, key: str) -> Comment | None:
        """Our one comment: known by its author and its memo, never by its text (T13)."""
        ours = (c for c in self.comments(con, key) if c.author == ME and c.memo is not None)
        return next(ours, None)

    def history(self, con: sqlite3.Connection, key: str, label: str) -> tuple[Deed, ...]:
        """What was done since the label was put on, from the record of events."""
        deeds: list[Deed] = []
        for event, at, name, bot, kind, detail in con.execute(
            "SELECT id, at, actor, bot, kind, detail FROM events WHERE ticket = ? AND kind IN (?, ?, ?) ORDER BY id",
            (self.row(con, key), "labelled", "unlabelled", "edited"),
        ):
            actor, when = Actor(id=name, name=name, bot=bool(bot)), datetime.fromisoformat(at)
            if kind == "edited":
                # Older files do not say what was edited.
                edits = [_EDITS[part] for part in _EDITS if not detail or part in detail]
                deeds += [Deed(edit, actor, when, str(event)) for edit in edits]
            else:
                deed = DeedKind.LABELLED if kind == "labelled" else DeedKind.UNLABELLED
                deeds.append(Deed(deed, actor, when, str(event), detail))
        return since_set(deeds, lambda name: fold(name) == fold(label)) or ()

    def blockers(self, con: sqlite3.Connection, key: str) -> tuple[Blocker, ...]:
        """The tickets that this one waits for, by number."""
        rows = con.execute(
            "SELECT number, state FROM links JOIN tickets ON tickets.id = links.blocker"
            " WHERE links.ticket = ? ORDER BY number",
            (self.row(con, key),),
        )
        return tuple(Blocker(self.ticket_id(str(n)), self.url(str(n)), state == "open") for n, state in rows)

    def _find(self, con: sqlite3.Connection, key: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = None
        if _KEY.fullmatch(key):
            row = con.execute(_ONE, (self.project, int(key))).fetchone()
        if row is None:
            raise TicketNotFound(f"there is no ticket {key[:40]!r} in {self.identity}")
        return row

    def _ticket(self, con: sqlite3.Connection, row: tuple[Any, ...]) -> Ticket:
        rowid, number, title, body, state, revision, author, updated_at = row
        labels = [name for (name,) in con.execute("SELECT name FROM labels WHERE ticket = ?", (rowid,))]
        texts = (title, body, author, *labels)
        if not all(isinstance(text, str) for text in texts) or not isinstance(revision, int):
            raise BadAnswer(f"ticket {number} in {self.identity} is damaged; edit it anew or delete it")
        try:
            updated = datetime.fromisoformat(updated_at)
        except (TypeError, ValueError):
            raise BadAnswer(f"ticket {number} in {self.identity} has no valid time of change") from None
        return Ticket(
            id=self.ticket_id(str(number)),
            key=str(number),
            tracker=self.tracker,
            title=title,
            body=body,
            url=self.url(str(number)),
            labels=frozenset(labels),
            open=state == "open",
            revision=str(revision),
            author=author,
            updated_at=updated,
            state=state,
        )


def fold(label: str) -> str:
    """What labels are compared by: their name without case and surrounding blanks."""
    # Lone surrogates cannot be stored, but asking for a label that has one is no error: it is nowhere.
    return label.strip().casefold().encode("utf-8", "backslashreplace").decode("utf-8")


def now() -> str:
    """The present, as the file keeps it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
