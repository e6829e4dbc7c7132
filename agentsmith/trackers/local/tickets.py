"""What people do with local tickets: the side of the tracker behind `agentsmith ticket …`.

Every method names its actor, checks what was typed (ConfigError says what is wrong with it), and changes the file in
one transaction. Asking for what is so already changes nothing and is no error.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Self

from agentsmith.domain.errors import BadAnswer, ConfigError, TicketNotFound
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Blocker
from agentsmith.trackers.local.change import Change, Writer, open_ticket
from agentsmith.trackers.local.checks import clean_actor, clean_body, clean_comment, clean_label, clean_title
from agentsmith.trackers.local.database import Database
from agentsmith.trackers.local.rows import Comment, Rows, fold

_PAGE: Final = 500

Effect = Callable[[Change], object]
Edit = Callable[[sqlite3.Connection, Ticket], list[Effect]]
State = Literal["open", "closed", "all"]
_STATES: Final[dict[State, tuple[str, str]]] = {
    "open": ("open", "open"),
    "closed": ("closed", "closed"),
    "all": ("open", "closed"),
}


@dataclass(frozen=True, slots=True)
class TicketDetails:
    """A ticket with all that is attached to it."""

    ticket: Ticket
    comments: tuple[Comment, ...]
    blockers: tuple[Blocker, ...]


class LocalTickets:
    """People's access to the tickets of one project. Keys may also be canonical ids or URLs."""

    def __init__(self, *, path: Path, project: str, name: str = "local") -> None:
        self._database = Database(path)
        self._rows = Rows(tracker=name, project=project)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the file."""
        await self._database.aclose()

    async def new(self, *, title: str, body: str = "", labels: Iterable[str] = (), actor: str) -> Ticket:
        """Open a ticket; its labels count as set by `actor`."""
        by, title, body = Writer(clean_actor(actor)), clean_title(title), clean_body(body)
        names = [clean_label(label) for label in labels]
        return await self._database.write(
            partial(open_ticket, rows=self._rows, title=title, body=body, labels=names, by=by)
        )

    async def tickets(self, *, labels: Iterable[str] = (), state: State = "open") -> list[Ticket]:
        """The tickets that carry every one of `labels`, by number; damaged ones are left out."""
        wanted = [fold(clean_label(label)) for label in labels]

        def work(con: sqlite3.Connection) -> list[Ticket]:
            found: list[Ticket] = []
            after, first = 0, next(iter(wanted), None)
            while page := self._rows.page(con, first, states=_STATES[state], after=after, limit=_PAGE):
                after = page[-1][0]
                found += [ticket for _, ticket in page if not isinstance(ticket, BadAnswer)]
            return [t for t in found if set(wanted) <= {fold(name) for name in t.labels}]

        return await self._database.read(work)

    async def show(self, key: str) -> TicketDetails:
        """The ticket with its comments and what it waits for."""
        key = self._key(key)

        def work(con: sqlite3.Connection) -> TicketDetails:
            ticket = self._rows.read(con, key)
            return TicketDetails(ticket, tuple(self._rows.comments(con, key)), self._rows.blockers(con, key))

        return await self._database.read(work)

    async def label(self, key: str, *labels: str, actor: str) -> Ticket:
        """Put labels on; one that is there in other letters stays as it is spelled."""
        names = [clean_label(label) for label in labels]

        def edit(_: sqlite3.Connection, ticket: Ticket) -> list[Effect]:
            present = {fold(name) for name in ticket.labels}
            return [partial(Change.add, label=name) for name in names if fold(name) not in present]

        return await self._change(key, actor, edit)

    async def unlabel(self, key: str, *labels: str, actor: str) -> Ticket:
        """Take labels off."""
        gone = {fold(label) for label in labels}

        def edit(_: sqlite3.Connection, ticket: Ticket) -> list[Effect]:
            return [partial(Change.remove, label=name) for name in sorted(ticket.labels) if fold(name) in gone]

        return await self._change(key, actor, edit)

    async def comment(self, key: str, body: str, *, actor: str) -> Ticket:
        """Write a comment."""
        text = clean_comment(body)
        return await self._change(key, actor, lambda _con, _ticket: [partial(Change.comment, body=text)])

    async def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str) -> Ticket:
        """Change the title, the body, or both."""
        new_title = None if title is None else clean_title(title)
        new_body = None if body is None else clean_body(body)

        def edit(_: sqlite3.Connection, ticket: Ticket) -> list[Effect]:
            as_title = ticket.title if new_title is None else new_title
            as_body = ticket.body if new_body is None else new_body
            same = (as_title, as_body) == (ticket.title, ticket.body)
            return [] if same else [partial(Change.write, title=as_title, body=as_body)]

        return await self._change(key, actor, edit)

    async def close(self, key: str, *, actor: str) -> Ticket:
        """Close the ticket."""
        return await self._set_open(key, False, actor)

    async def reopen(self, key: str, *, actor: str) -> Ticket:
        """Open it again."""
        return await self._set_open(key, True, actor)

    async def link(self, key: str, blocked_by: str, *, actor: str) -> Ticket:
        """Let the ticket wait for another one of this project."""
        other = self._key(blocked_by)
        if self._key(key) == other:
            raise ConfigError(f"ticket {other} cannot wait for itself; name another one")

        def edit(con: sqlite3.Connection, ticket: Ticket) -> list[Effect]:
            blocker = self._rows.row(con, other)
            linked = self._linked(con, ticket, other)
            return [] if linked else [partial(Change.block, blocker=blocker, key=other)]

        return await self._change(key, actor, edit)

    async def unlink(self, key: str, blocked_by: str, *, actor: str) -> Ticket:
        """Let it wait no longer."""
        other = self._key(blocked_by)

        def edit(con: sqlite3.Connection, ticket: Ticket) -> list[Effect]:
            blocker = self._rows.row(con, other)
            linked = self._linked(con, ticket, other)
            return [partial(Change.unblock, blocker=blocker, key=other)] if linked else []

        return await self._change(key, actor, edit)

    def _linked(self, con: sqlite3.Connection, ticket: Ticket, other: str) -> bool:
        return self._rows.ticket_id(other) in {found.id for found in self._rows.blockers(con, ticket.key)}

    async def _set_open(self, key: str, value: bool, actor: str) -> Ticket:
        def edit(_: sqlite3.Connection, ticket: Ticket) -> list[Effect]:
            return [] if ticket.open == value else [partial(Change.set_open, value=value)]

        return await self._change(key, actor, edit)

    async def _change(self, key: str, actor: str, edit: Edit) -> Ticket:
        """Do what `edit` finds to do on the ticket as it stands; with nothing to do, nothing is written."""
        by, key = Writer(clean_actor(actor)), self._key(key)

        def work(con: sqlite3.Connection) -> Ticket:
            ticket = self._rows.read(con, key)
            if effects := edit(con, ticket):
                change = Change(con, self._rows, ticket, by)
                for effect in effects:
                    effect(change)
            return self._rows.read(con, key)

        return await self._database.write(work)

    def _key(self, text: str) -> str:
        key = self._rows.identify(text.strip())
        if key is None:
            raise TicketNotFound(f"{text[:40]!r} names no ticket in {self._rows.identity}; keys are numbers: 3")
        return key


def ticket_json(
    ticket: Ticket, *, comments: Iterable[Comment] | None = None, blockers: Iterable[Blocker] | None = None
) -> dict[str, Any]:
    """The ticket as `--json` shows it; comments and blockers only where they were read."""
    shown: dict[str, Any] = {
        "id": ticket.id,
        "key": ticket.key,
        "tracker": ticket.tracker,
        "title": ticket.title,
        "body": ticket.body,
        "labels": sorted(ticket.labels),
        "state": "open" if ticket.open else "closed",
        "url": ticket.url,
        "author": ticket.author,
        "revision": ticket.revision,
        "updated_at": ticket.updated_at.isoformat() if ticket.updated_at else None,
    }
    if comments is not None:
        shown["comments"] = [
            {
                "author": comment.author.name,
                "body": comment.body,
                "created_at": comment.created_at,
                "edited_at": comment.edited_at,
            }
            for comment in comments
        ]
    if blockers is not None:
        shown["blocked_by"] = [{"id": b.id, "state": "open" if b.open else "closed"} for b in blockers]
    return shown
