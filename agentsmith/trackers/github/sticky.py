"""Our one comment per issue: how it is written, how it is recognised, and how it stays one (T13).

The first line is an HTML comment that people do not see, `<!-- agent-smith:status {memo} -->`; it counts only in a
comment that our own account wrote. A comment that may or may not have been made is looked for, never sent twice.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from agentsmith.domain.conversation import unspoken
from agentsmith.domain.errors import TicketNotFound
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.issues import Issues, snapshot_of
from agentsmith.trackers.github.notes import Notes
from agentsmith.trackers.github.payloads import Comment
from agentsmith.trackers.github.people import People
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import ApiClient, OutcomeUnknown

COMMENT_LIMIT: Final = 65_536
CUT: Final = "\n\n… (cut: GitHub takes no longer comment)"
EMPTY: Final = "…"
"""GitHub refuses a comment without text."""
_UNSAFE: Final = re.compile(r"[<>\s]|-(?=-)|-$")
_SHOWN: Final = "&lt;"
_REF: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?")


@dataclass(frozen=True, slots=True)
class Form:
    """How our comment looks for one label prefix; comments made under a former prefix are recognised too."""

    labels: LabelSet

    def head(self, memo: Memo) -> str:
        """The machine-read line that stands before the text."""
        return f"<!-- {_safe(self.labels.prefix)}:status {memo.to_line()} -->\n"

    def fit(self, text: str, memo: Memo) -> str:
        """The text as it will stand there: without what UTF-8 lacks, and with a note where it had to be cut."""
        return _fitted(unspoken(text, self.labels), COMMENT_LIMIT - _size(self.head(memo)))

    def plain(self, text: str) -> str:
        """A comment beside our one, fitted too; never in our form, whatever the text says (T16)."""
        fitted = _fitted(unspoken(text, self.labels), COMMENT_LIMIT - len(_SHOWN)) or EMPTY
        return fitted if self.read(fitted.lstrip()) is None else fitted.replace("<", _SHOWN, 1)

    def read(self, body: str) -> tuple[str, Memo | None] | None:
        """Text and memo of a comment in our form; None for any other. A memo that we cannot read is None."""
        head, _, text = body.replace("\r\n", "\n").partition("\n")
        for prefix in (self.labels.prefix, *self.labels.former_prefixes):
            start, end = f"<!-- {_safe(prefix)}:status ", " -->"
            if head.startswith(start) and head.endswith(end):
                return text, Memo.from_line(head[len(start) : -len(end)])
        return None


class Stickies:
    """Reads and writes our comments on the issues of one repository."""

    def __init__(
        self,
        *,
        client: ApiClient,
        site: Site,
        form: Form,
        issues: Issues,
        people: People,
        notes: Notes,
        now: Callable[[], float],
        page_size: int,
    ) -> None:
        self._client = client
        self._site = site
        self._form = form
        self._issues = issues
        self._people = people
        self._notes = notes
        self._now = now
        self._page_size = page_size

    async def read(self, ticket: Ticket, *, deadline: float | None = None) -> Sticky | None:
        """Our comment on the issue, if there is one and we wrote it."""
        number = self._issues.number(ticket.key)
        found: Sticky | None = None
        me = None
        async for record in self.records(ticket, deadline=deadline):
            body = record.get("body") if isinstance(record, dict) else None
            # Who we are costs a request: asked only once something looks like ours.
            if not isinstance(body, str) or self._form.read(body) is None:
                continue
            comment: Comment = payloads.read(Comment, record, "a comment")
            me = me or await self._people.me(deadline=deadline)
            if comment.user is None or not self._people.same(comment.user, me):
                continue
            sticky = self._sticky(comment)
            # Two of ours can only come from a lost answer; the one that the newest run wrote is the one.
            if found is None or _fence(sticky) > _fence(found):
                found = sticky
        if found is not None:
            self._notes.of(number).comment = _comment_id(found.ref)
        return found

    async def records(self, ticket: Ticket, *, deadline: float | None = None) -> AsyncIterator[Any]:
        """Every comment on the issue, as GitHub tells it."""
        path = self._site.path(self._issues.number(ticket.key), "/comments")
        async for page in self._client.pages(path, params={"per_page": str(self._page_size)}, deadline=deadline):
            comments: list[Any] = payloads.read(list[Any], page.data, "a list of comments")
            for record in comments:
                yield record

    async def write(self, ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float) -> Sticky:
        """Make our comment or edit it in place; what stands there already is not written again."""
        number = self._issues.number(ticket.key)
        async with self._notes.lock(number):
            note = self._notes.of(number)
            fitted = self._form.fit(text, memo)
            body = self._form.head(memo) + fitted
            if known is not None and (known.text, known.memo) == (fitted, memo):
                return known
            if known is not None and (mine := await self._ours(number, known, deadline)) is not None:
                edited = await self._edit(number, mine, body, deadline)
                if edited is not None:
                    return edited
            elif self._notes.bare(snapshot_of(ticket), self._now()):
                return await self._create(number, body, ticket, deadline)
            there = await self.read(ticket, deadline=deadline)
            note.comment_in_doubt = False
            if there is None:
                return await self._create(number, body, ticket, deadline)
            if (there.text, there.memo) == (fitted, memo):
                return there
            edited = await self._edit(number, _comment_id(there.ref), body, deadline)
            return edited or await self._create(number, body, ticket, deadline)

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:
        """Post a comment of its own (T16)."""
        number = self._issues.number(ticket.key)
        async with self._notes.lock(number):
            path = self._site.path(number, "/comments")
            try:
                await self._client.write("POST", path, {"body": self._form.plain(text)}, deadline=deadline)
            finally:
                self._notes.of(number).commented = True  # the issue's ETag changed by our own doing

    async def _ours(self, number: str, known: Sticky, deadline: float) -> int | None:
        """The id behind `known`, if that comment is really ours; the reference itself says who wrote it."""
        found = _REF.fullmatch(known.ref)
        if found is None:
            return None
        comment_id, author = int(found[1]), found[2]
        if self._notes.of(number).comment == comment_id:
            return comment_id
        me = await self._people.me(deadline=deadline)
        if author is not None:
            return comment_id if author == me.id else None
        path = self._site.path(rest=f"/issues/comments/{comment_id}")
        answer = await self._client.get(path, deadline=deadline, allow=frozenset({404}))
        if answer.status == 404:
            return None
        comment: Comment = payloads.read(Comment, answer.data, "a comment")
        return comment_id if comment.user is not None and self._people.same(comment.user, me) else None

    async def _edit(self, number: str, comment_id: int, body: str, deadline: float) -> Sticky | None:
        """Replace our comment's text; None when the comment is gone. Doing it twice does no harm."""
        path = self._site.path(rest=f"/issues/comments/{comment_id}")
        try:
            answer = await self._client.write("PATCH", path, {"body": body}, deadline=deadline, repeatable=True)
        except TicketNotFound:
            self._notes.of(number).comment = None
            return None
        return self._written(number, payloads.read(Comment, answer.data, "a comment"))

    async def _create(self, number: str, body: str, ticket: Ticket, deadline: float) -> Sticky:
        note = self._notes.of(number)
        note.comment_in_doubt = True  # until an answer says otherwise; a garbled one or a cancelled call says nothing
        try:
            path = self._site.path(number, "/comments")
            answer = await self._client.write("POST", path, {"body": body}, deadline=deadline)
            comment: Comment = payloads.read(Comment, answer.data, "a comment")
        except OutcomeUnknown:
            there = await self.read(ticket, deadline=deadline)
            if there is None:
                raise
            note.comment_in_doubt = False
            return there
        if comment.user is not None:
            self._people.learn(comment.user)
        return self._written(number, comment)

    def _written(self, number: str, comment: Comment) -> Sticky:
        note = self._notes.of(number)
        note.comment, note.commented, note.comment_in_doubt = comment.id, True, False
        return self._sticky(comment)

    def _sticky(self, comment: Comment) -> Sticky:
        text, memo = self._form.read(comment.body or "") or (comment.body or "", None)
        author = f".{comment.user.id}" if comment.user else ""
        return Sticky(ref=f"{comment.id}{author}", text=text, memo=memo)


def _fitted(text: str, room: int) -> str:
    clean = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    clean = clean.replace("\r\n", "\n").rstrip()
    return clean if _size(clean) <= room else _first(clean, room - _size(CUT)) + CUT


def _comment_id(ref: str) -> int:
    found = _REF.fullmatch(ref)
    return int(found[1]) if found else 0


def _fence(sticky: Sticky) -> int:
    return sticky.memo.fence if sticky.memo else -1


def _safe(prefix: str) -> str:
    """The prefix as it may stand inside an HTML comment."""
    return _UNSAFE.sub("_", prefix)


def _size(text: str) -> int:
    """The length as the strictest reader counts it: a character outside the basic plane counts twice."""
    return len(text) + sum(1 for c in text if ord(c) > 0xFFFF)


def _first(text: str, room: int) -> str:
    """As much of the beginning as fits."""
    if len(text) <= room // 2:
        return text
    kept, used = [], 0
    for character in text[:room]:
        used += 2 if ord(character) > 0xFFFF else 1
        if used > room:
            break
        kept.append(character)
    return "".join(kept)
