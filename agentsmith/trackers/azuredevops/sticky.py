"""Our one comment per work item: made once, edited in place, never twice, never somebody else's (T13).

It is written through the comments API. As System.History in the patch of the tags a comment can be made, not edited,
so only the first one can travel with a move (see `Items.relabel`). Every comment, new or edited, is a revision of the
work item, and a work item has 10,000 of them in its life, so nothing is written that is there already.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from agentsmith.domain.errors import BadAnswer, TicketNotFound
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.azuredevops import payloads
from agentsmith.trackers.azuredevops.form import Form
from agentsmith.trackers.azuredevops.items import Items
from agentsmith.trackers.azuredevops.memory import Memory
from agentsmith.trackers.azuredevops.payloads import Comment, CommentPage, snapshot_of
from agentsmith.trackers.azuredevops.people import People
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.http import ApiClient, OutcomeUnknown

COMMENTS_VERSION: Final = "7.1-preview.4"
"""The plain version is answered with 400: the API is in preview still."""
_REF: Final = re.compile(r"([0-9]{1,10})(?:\.([0-9A-Za-z-]{1,64}))?")
_MOST_PAGES: Final = 1000


class Stickies:
    """Reads and writes our comments on the work items of one project."""

    def __init__(
        self,
        *,
        client: ApiClient,
        site: Site,
        form: Form,
        items: Items,
        people: People,
        memory: Memory,
        now: Callable[[], float],
        page_size: int,
        version: str = COMMENTS_VERSION,
    ) -> None:
        self._client = client
        self._site = site
        self._form = form
        self._items = items
        self._people = people
        self._memory = memory
        self._now = now
        self._page_size = page_size
        self._version = version

    async def read(self, ticket: Ticket, *, deadline: float | None = None) -> Sticky | None:
        """Our comment on the work item, if there is one and we wrote it."""
        number = self._items.number(ticket.key)
        found: Sticky | None = None
        async for record in self.records(ticket, deadline=deadline):
            sticky = await self._ours_in(record, deadline)
            # Two of ours can only come from a lost answer; the one that the newest run wrote is the one.
            if sticky is not None and (found is None or _fence(sticky) > _fence(found)):
                found = sticky
        if found is not None:
            self._memory.of(number).comment = _comment_id(found.ref)
        return found

    async def records(self, ticket: Ticket, *, deadline: float | None = None) -> AsyncIterator[Any]:
        """Every comment on the work item, as Azure DevOps tells it."""
        number = self._items.number(ticket.key)
        params = {"api-version": self._version, "$top": str(self._page_size), "order": "asc"}
        seen: set[str] = set()
        while True:
            path = self._site.path(f"/wit/workItems/{number}/comments")
            answer = await self._client.get(path, params=params, deadline=deadline)
            page: CommentPage = payloads.read(CommentPage, answer.data, "a list of comments")
            for record in page.comments:
                yield record
            if not page.continuation:
                return
            if page.continuation in seen or len(seen) >= _MOST_PAGES:
                raise BadAnswer(f"Azure DevOps: the comments of work item {number} do not end")
            seen.add(page.continuation)
            params = {**params, "continuationToken": page.continuation}

    async def write(self, ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float) -> Sticky:
        """Make our comment or edit it in place; what stands there already is not written again."""
        number = self._items.number(ticket.key)
        async with self._memory.lock(number):
            known = known or self._memory.just_said(snapshot_of(ticket))
            fitted = self._form.fit(text, memo)
            body = self._form.write(fitted, memo)
            if known is not None:
                if (known.text, known.memo) == (fitted, memo):
                    return known
                if await self._ours(number, known, deadline):
                    edited = await self._edit(number, _comment_id(known.ref), body, deadline)
                    if edited is not None:
                        return edited
            elif self._memory.bare(snapshot_of(ticket), self._now()):
                return await self._create(number, body, ticket, deadline)
            there = await self.read(ticket, deadline=deadline)
            self._memory.of(number).in_doubt = False
            if there is not None and (there.text, there.memo) == (fitted, memo):
                return there
            edited = None if there is None else await self._edit(number, _comment_id(there.ref), body, deadline)
            return edited or await self._create(number, body, ticket, deadline)

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:
        """Post a comment of its own (T16)."""
        number = self._items.number(ticket.key)
        async with self._memory.lock(number):
            with self._memory.commenting(number, edit=False, now=self._now):
                body = {"text": self._form.plain(text)}
                await self._client.write("POST", self._path(number), body, deadline=deadline)

    async def _ours_in(self, record: Any, deadline: float | None) -> Sticky | None:
        """The record as our comment, if it is one."""
        text = record.get("text") if isinstance(record, dict) else None
        # A comment that is malformed in a way that does not concern us may stay so.
        if not isinstance(text, str) or self._form.read(text) is None:
            return None
        comment: Comment = payloads.read(Comment, record, "a comment")
        if comment.deleted or comment.created_by is None:
            return None
        # Who we are costs a request: asked only once something looks like ours.
        if comment.created_by.to_actor().id != await self._people.my_id(deadline=deadline):
            return None
        return self._sticky(comment)

    async def _ours(self, number: str, known: Sticky, deadline: float) -> bool:
        """Whether the comment behind `known` is really ours; the reference itself says who wrote it."""
        found = _REF.fullmatch(known.ref)
        if found is None:
            return False
        if self._memory.of(number).comment == int(found[1]):
            return True
        # Without an author in it the reference is not one of ours: the search by the last line decides then.
        return found[2] is not None and found[2] == await self._people.my_id(deadline=deadline)

    async def _edit(self, number: str, comment_id: int, body: str, deadline: float) -> Sticky | None:
        """Replace our comment's text; None when the comment is gone. Doing it twice leaves one more revision only."""
        path = self._path(number, f"/{comment_id}")
        try:
            with self._memory.commenting(number, edit=True, now=self._now):
                answer = await self._client.write("PATCH", path, {"text": body}, deadline=deadline)
        except TicketNotFound:
            trace = self._memory.of(number)
            trace.comment = trace.said = None
            return None
        return self._written(number, payloads.read(Comment, answer.data, "a comment"))

    async def _create(self, number: str, body: str, ticket: Ticket, deadline: float) -> Sticky:
        trace = self._memory.of(number)
        try:
            with self._memory.commenting(number, edit=False, now=self._now):
                answer = await self._client.write("POST", self._path(number), {"text": body}, deadline=deadline)
            comment: Comment = payloads.read(Comment, answer.data, "a comment")
        except (OutcomeUnknown, BadAnswer):
            # It may be there: sending it again could make two.
            trace.in_doubt = True
            there = await self.read(ticket, deadline=deadline)
            if there is None:
                raise
            trace.in_doubt = False
            return there
        if comment.created_by is not None:
            self._people.learn(comment.created_by)
        return self._written(number, comment)

    def _written(self, number: str, comment: Comment) -> Sticky:
        trace = self._memory.of(number)
        trace.comment, trace.said, trace.in_doubt = comment.id, None, False
        trace.author = comment.created_by.to_actor().id if comment.created_by else ""
        return self._sticky(comment)

    def _sticky(self, comment: Comment) -> Sticky:
        text, memo = self._form.read(comment.text) or (comment.text, None)
        author = f".{comment.created_by.to_actor().id}" if comment.created_by and comment.created_by.id else ""
        return Sticky(ref=f"{comment.id}{author}", text=text, memo=memo)

    def _path(self, number: str, rest: str = "") -> str:
        kind = "&format=markdown" if self._form.format == "markdown" else ""
        return self._site.path(f"/wit/workItems/{number}/comments{rest}") + f"?api-version={self._version}{kind}"


def _comment_id(ref: str) -> int:
    found = _REF.fullmatch(ref)
    return int(found[1]) if found else 0


def _fence(sticky: Sticky) -> int:
    return sticky.memo.fence if sticky.memo else -1
