"""Our one comment per issue: how it is written, how it is recognised, and how it stays one (T13).

A line that begins with `/` in a comment is a command, and GitLab carries it out with our rights: in a new comment as in
an edited one. Texts of others (an error, a log) end up in ours, so no line of ours begins with it: an invisible
character stands before the slash, also inside code blocks, where GitLab's own rules have changed over time.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from agentsmith.domain.errors import TicketNotFound
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.dialect import NOTES
from agentsmith.trackers.gitlab.issues import Issues
from agentsmith.trackers.gitlab.paging import onward
from agentsmith.trackers.gitlab.payloads import Note, snapshot_of
from agentsmith.trackers.gitlab.people import People
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.http import ApiClient, OutcomeUnknown
from agentsmith.trackers.shared.marked import MarkedComment
from agentsmith.trackers.shared.memory import Memory

COMMENT_LIMIT: Final = 1_000_000
CUT: Final = "\n\n… (cut: GitLab takes no longer comment)"
GUARD: Final = "\u200b"
"""A space of no width."""
_SLASH: Final = re.compile(r"^([^\S\n]*)/", re.M)
_REF: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?")


def harmless(text: str) -> str:
    """The text without commands: GitLab drops every carriage return before it looks for them, so we do too."""
    return _SLASH.sub(rf"\1{GUARD}/", text.replace("\r", ""))


def form(labels: LabelSet) -> MarkedComment:
    """How our comment looks on GitLab."""
    return MarkedComment(labels, COMMENT_LIMIT, CUT, harmless)


class Stickies:
    """Reads and writes our comments on the issues of one project."""

    def __init__(
        self,
        *,
        client: ApiClient,
        site: Site,
        form: MarkedComment,
        issues: Issues,
        people: People,
        memory: Memory,
        now: Callable[[], float],
        page_size: int,
    ) -> None:
        self._client = client
        self._site = site
        self._form = form
        self._issues = issues
        self._people = people
        self._memory = memory
        self._now = now
        self._page_size = page_size

    async def read(self, ticket: Ticket, *, deadline: float | None = None) -> Sticky | None:
        """Our comment on the issue, if there is one and we wrote it."""
        iid = self._issues.iid(ticket.key)
        found: Sticky | None = None
        async for record in self.records(ticket, deadline=deadline):
            body = record.get("body") if isinstance(record, dict) else None
            # A comment that is malformed in a way that does not concern us may stay so.
            if not isinstance(body, str) or self._form.read(body) is None:
                continue
            note: Note = payloads.read(Note, record, "a comment")
            if note.system or note.author is None:
                continue
            if str(note.author.id) != await self._people.my_id(deadline=deadline):
                continue
            sticky = self._sticky(note)
            # Two of ours can only come from a lost answer; the one that the newest run wrote is the one.
            if found is None or _fence(sticky) > _fence(found):
                found = sticky
        if found is not None:
            self._memory.of(iid).comment = str(_note_id(found.ref))
        return found

    async def records(self, ticket: Ticket, *, deadline: float | None = None) -> AsyncIterator[Any]:
        """Every comment on the issue, as GitLab tells it."""
        params = {
            "sort": "asc",
            "order_by": "created_at",
            "activity_filter": "only_comments",
            "per_page": str(self._page_size),
        }
        path = self._site.path(self._issues.iid(ticket.key), "/notes")
        async for page in self._client.pages(path, params=params, next_page=onward(params), deadline=deadline):
            records: list[Any] = payloads.read(list[Any], page.data, "a list of comments")
            for record in records:
                yield record

    async def write(self, ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float) -> Sticky:
        """Make our comment or edit it in place; what stands there already is not written again."""
        iid = self._issues.iid(ticket.key)
        async with self._memory.lock(iid):
            fitted = self._form.fit(text, memo)
            body = self._form.head(memo) + fitted
            if known is not None:
                if (known.text, known.memo) == (fitted, memo):
                    return known
                if await self._ours(iid, known, deadline):
                    edited = await self._edit(iid, _note_id(known.ref), body, deadline)
                    if edited is not None:
                        return edited
            elif self._memory.bare(snapshot_of(ticket), self._now()):
                return await self._create(iid, body, ticket, deadline)
            there = await self.read(ticket, deadline=deadline)
            self._memory.of(iid).in_doubt = False
            if there is not None and (there.text, there.memo) == (fitted, memo):
                return there
            edited = None if there is None else await self._edit(iid, _note_id(there.ref), body, deadline)
            return edited or await self._create(iid, body, ticket, deadline)

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:
        """Post a comment of its own (T16)."""
        iid = self._issues.iid(ticket.key)
        async with self._memory.lock(iid):
            path, body = self._site.path(iid, "/notes"), {"body": self._form.plain(text)}
            await self._client.write("POST", path, body, deadline=deadline, bucket=NOTES)

    async def _ours(self, iid: str, known: Sticky, deadline: float) -> bool:
        """Whether the comment behind `known` is really ours; the reference itself says who wrote it."""
        found = _REF.fullmatch(known.ref)
        if found is None:
            return False
        if self._memory.of(iid).comment == found[1]:
            return True
        # Without an author in it the reference is not one of ours: the search by marker decides then.
        return found[2] is not None and found[2] == await self._people.my_id(deadline=deadline)

    async def _edit(self, iid: str, note_id: int, body: str, deadline: float) -> Sticky | None:
        """Replace our comment's text; None when the comment is gone. Doing it twice does no harm."""
        path = self._site.path(iid, f"/notes/{note_id}")
        try:
            answer = await self._client.write(
                "PUT", path, {"body": body}, deadline=deadline, repeatable=True, bucket=NOTES
            )
        except TicketNotFound:
            self._memory.of(iid).comment = None
            return None
        return self._written(iid, payloads.read(Note, answer.data, "a comment"))

    async def _create(self, iid: str, body: str, ticket: Ticket, deadline: float) -> Sticky:
        trace = self._memory.of(iid)
        trace.in_doubt = True  # until an answer says otherwise; a garbled answer or a cancelled call says nothing
        try:
            path = self._site.path(iid, "/notes")
            answer = await self._client.write("POST", path, {"body": body}, deadline=deadline, bucket=NOTES)
            note: Note = payloads.read(Note, answer.data, "a comment")
        except OutcomeUnknown:
            there = await self.read(ticket, deadline=deadline)
            if there is None:
                raise
            trace.in_doubt = False
            return there
        if note.author is not None:
            self._people.learn(note.author)
        return self._written(iid, note)

    def _written(self, iid: str, note: Note) -> Sticky:
        trace = self._memory.of(iid)
        trace.comment, trace.in_doubt = str(note.id), False
        return self._sticky(note)

    def _sticky(self, note: Note) -> Sticky:
        text, memo = self._form.read(note.body or "") or (note.body or "", None)
        author = f".{note.author.id}" if note.author else ""
        return Sticky(ref=f"{note.id}{author}", text=text, memo=memo)


def _note_id(ref: str) -> int:
    found = _REF.fullmatch(ref)
    return int(found[1]) if found else 0


def _fence(sticky: Sticky) -> int:
    return sticky.memo.fence if sticky.memo else -1
