"""The local tracker: tickets in a SQLite file. No credential, no network; the reference of the contract.

It is also the plainest reading of `domain.tracker`: a platform with a true compare-and-set can copy `move`.
"""

from __future__ import annotations

import logging
import shlex
import sqlite3
from collections.abc import AsyncIterator, Collection, Iterable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from agentsmith.boottime import boottime
from agentsmith.domain.conversation import Acknowledged, unspoken
from agentsmith.domain.errors import BadAnswer, TicketNotFound, TrackerUnavailable
from agentsmith.domain.foreign import foreign
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor, Ticket, TicketId
from agentsmith.domain.tracker import Access, Applied, Blocker, Gone, Labelling, Move, MoveOutcome, Sticky, Unknown
from agentsmith.domain.vetting import History
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.local.change import Change, StaleRevision, Writer
from agentsmith.trackers.local.database import Database
from agentsmith.trackers.local.rows import ME, Rows
from agentsmith.trackers.shared.relabel import Relabel, only, plan

COMMENT_LIMIT: Final = 65_536
"""Characters in our comment: what GitHub allows, so that a text that fits here fits there."""
_CUT: Final = "\n\n… (cut)"

_log = logging.getLogger(__name__)


class LocalTracker:
    """Tickets of one project in the SQLite file at `path`; see `domain.tracker` for what each method owes."""

    platform: Final = "local"

    def __init__(self, *, name: str, path: Path, project: str, labels: LabelSet) -> None:
        self.name = name
        self.labels = labels
        self.page_size = 100
        self.database = Database(path)
        self._rows = Rows(tracker=name, project=project)

    @property
    def project(self) -> str:
        """The canonical project: `local/tickets`."""
        return self._rows.identity

    def ticket_id(self, key: str) -> TicketId:
        """`local/tickets#3`."""
        return self._rows.ticket_id(key)

    def identify(self, text: str) -> str | None:
        """The key behind `3`, `local/tickets#3` or `local://tickets/3` (T15)."""
        return self._rows.identify(text)

    def filter_hint(self, status: Status) -> str:
        """The command that lists the tickets in `status`."""
        return f"agentsmith ticket list --label {shlex.quote(self.labels.label(status))}"

    async def get(self, key: str) -> Ticket:
        """The ticket as it is now (T1, T3)."""
        return await self.database.read(partial(self._rows.read, key=key))

    async def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open ticket that carries one of `labels` (T2)."""
        seen: set[str] = set()
        for label in labels:
            async for ticket in self._with(label):
                if ticket.key not in seen:
                    seen.add(ticket.key)
                    yield ticket

    async def _with(self, label: str) -> AsyncIterator[Ticket]:
        """Every open ticket that carries `label`, by number, page by page."""
        after = 0
        while True:
            page = await self.database.read(
                partial(self._rows.page, label=label, states=("open", "open"), after=after, limit=self.page_size)
            )
            for row, found in page:
                after = row
                if isinstance(found, BadAnswer):
                    _log.warning("skipped a malformed ticket", extra={"tracker": self.name, "error": str(found)})
                else:
                    yield found
            if len(page) < self.page_size:
                return

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        """Publish one edge by compare-and-set, starting from `ticket` as it was read (T4 to T11)."""
        by = Writer(ME, run=move.run, fence=move.fence)
        seen, fresh = ticket, False
        try:
            while boottime() < move.deadline:
                todo = plan(self.labels, seen.labels, move)
                if isinstance(todo, Relabel):
                    try:
                        write = partial(self._relabel, ticket=seen, add=todo.adding, remove=todo.remove, by=by)
                        return Applied(await self.database.write(write, deadline=move.deadline))
                    except StaleRevision:
                        pass  # somebody was quicker: look again, the edit may have been unrelated (T10)
                elif fresh:
                    return todo(seen)
                seen, fresh = await self.get(ticket.key), True
        except TicketNotFound as error:
            return Gone(str(error))
        except TrackerUnavailable as error:
            return Unknown(str(error))
        return Unknown("the deadline passed before the write began")

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        """Leave one lifecycle label (T12); nothing is written if those changed since `ticket` was read.

        The caller chose `keep` from what it saw: a `done` that appeared since must not be swept away (P4).
        """

        def work(con: sqlite3.Connection) -> Ticket:
            now = self._rows.read(con, ticket.key)
            if self.labels.lifecycle(now.labels) != self.labels.lifecycle(ticket.labels):
                return now
            todo = only(self.labels, now.labels, keep)
            return now if todo.nothing else self._relabel(con, now, todo.adding, todo.remove, Writer(ME))

        return await self.database.write(work, deadline=deadline)

    async def read_sticky(self, ticket: Ticket) -> Sticky | None:
        """Our comment on the ticket (T13)."""
        comment = await self.database.read(partial(self._rows.sticky, key=ticket.key))
        if comment is None:
            return None
        return Sticky(ref=str(comment.id), text=comment.body, memo=Memo.from_line(comment.memo or ""))

    async def write_sticky(
        self, ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float
    ) -> Sticky:
        """Make our comment or edit it in place (T13)."""
        del known  # the look-up that it would save is a part of the transaction here
        body, line = _storable(unspoken(text, self.labels)), memo.to_line()

        def work(con: sqlite3.Connection) -> int:
            now = self._rows.read(con, ticket.key)
            old = self._rows.sticky(con, ticket.key)
            if old is not None and (old.body, old.memo) == (body, line):
                return old.id
            change = Change(con, self._rows, now, Writer(ME, run=memo.run, fence=memo.fence))
            if old is None:
                return change.comment(body, line)
            change.edit_comment(old.id, body, line)
            return old.id

        ref = await self.database.write(work, deadline=deadline)
        return Sticky(ref=str(ref), text=body, memo=memo)

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:
        """Post a comment beside our one, which is known by its memo (T16)."""
        body = _storable(unspoken(text, self.labels))

        def work(con: sqlite3.Connection) -> None:
            Change(con, self._rows, self._rows.read(con, ticket.key), Writer(ME)).comment(body)

        await self.database.write(work, deadline=deadline)

    async def relabel(
        self, ticket: Ticket, *, add: Collection[str] = (), remove: Collection[str] = (), deadline: float
    ) -> Ticket:
        """Change labels that are not ours (T17)."""
        wanted = foreign(self.labels.lifecycle, add, remove)

        def work(con: sqlite3.Connection) -> Ticket:
            now = self._rows.read(con, ticket.key)
            todo = wanted.left(now.labels)
            return now if todo.nothing else self._relabel(con, now, todo.add, todo.remove, Writer(ME))

        return await self.database.write(work, deadline=deadline)

    async def me(self) -> Actor:
        """Ourselves; opens the file, so that start-up shows what is wrong with it."""
        await self.database.open()
        return ME

    async def labelled_by(self, ticket: Ticket, label: str) -> Labelling | None:
        """Who last put `label` on the ticket, from the record of events."""
        deeds = (await self.history(ticket, label)).deeds
        actor = deeds[0].actor if deeds else None
        return None if actor is None else Labelling(actor, await self.access_of(actor), deeds[0].event)

    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the ticket since `label` was put on (T21)."""
        return History(await self.database.read(partial(self._rows.history, key=ticket.key, label=label)))

    async def access_of(self, actor: Actor) -> Access:
        """WRITE for every person, for whoever can write the file may; nothing for programs (P7)."""
        return Access.NONE if actor.bot else Access.WRITE

    async def remark(self, ticket: Ticket, ref: str) -> Remark | None:
        """A comment by its number (T19)."""

        def work(con: sqlite3.Connection) -> Remark | None:
            for comment in self._rows.comments(con, ticket.key):
                if str(comment.id) == ref:
                    return Remark(ref, comment.author, comment.body, datetime.fromisoformat(comment.created_at))
            return None

        return await self.database.read(work)

    async def remarks(self, ticket: Ticket, *, since: float) -> tuple[Remark, ...]:
        """What was said since then (T22); the file's times are by our own clock."""

        def work(con: sqlite3.Connection) -> tuple[Remark, ...]:
            said = [(c, datetime.fromisoformat(c.created_at)) for c in self._rows.comments(con, ticket.key)]
            return tuple(Remark(str(c.id), c.author, c.body, at) for c, at in said if at.timestamp() >= since)

        return await self.database.read(work)

    async def acknowledge(self, ticket: Ticket, ref: str, *, deadline: float) -> Acknowledged:  # noqa: ARG002
        """There are no reactions in a file (T20)."""
        return Acknowledged.NO_WAY

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """The tickets that people linked this one to as blocked by."""
        return await self.database.read(partial(self._rows.blockers, key=ticket.key))

    async def aclose(self) -> None:
        """Close the file."""
        await self.database.aclose()

    def _relabel(
        self, con: sqlite3.Connection, ticket: Ticket, add: Iterable[str], remove: Iterable[str], by: Writer
    ) -> Ticket:
        """Add first, then remove (T8)."""
        change = Change(con, self._rows, ticket, by)
        for label in add:
            change.add(label)
        for label in remove:
            change.remove(label)
        return self._rows.read(con, ticket.key)


def _storable(text: str) -> str:
    """The text as the file can hold it: without what UTF-8 lacks, cut to the limit."""
    clean = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= COMMENT_LIMIT else clean[: COMMENT_LIMIT - len(_CUT)] + _CUT
