"""Our one comment per issue: how it is written, how it is recognised, and how it stays one (T13).

The memo is a comment property, which people do not see and cannot copy; it counts only on a comment that our own
account wrote. A comment that may or may not have been made is looked for, never sent twice.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from agentsmith.domain.errors import TicketNotFound
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.http import ApiClient, OutcomeUnknown
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.dialect import bucket
from agentsmith.trackers.jira.issues import Issues
from agentsmith.trackers.jira.payloads import Comment, Property, snapshot_of
from agentsmith.trackers.jira.people import People
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.jira.texts import Form
from agentsmith.trackers.shared.memory import Memory

_REF: Final = re.compile(r"([0-9]{1,18})(?:@(.{1,200}))?")


class Stickies:
    """Reads and writes our comments on the issues of one project."""

    def __init__(
        self,
        *,
        client: ApiClient,
        site: Site,
        form: Form,
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
        key = self._issues.key(ticket.key)
        found: Sticky | None = None
        async for record in self.records(ticket, deadline=deadline):
            sticky = await self._recognised(record, deadline)
            # Two of ours can only come from a lost answer; the one that the newest run wrote is the one.
            if sticky is not None and (found is None or _fence(sticky) > _fence(found)):
                found = sticky
        if found is not None:
            self._memory.of(key).comment = _comment_id(found.ref)
        return found

    async def records(self, ticket: Ticket, *, deadline: float | None = None) -> AsyncIterator[Any]:
        """Every comment on the issue, as Jira tells it."""
        path, start = self._site.issue(self._issues.key(ticket.key), "/comment"), 0
        while True:
            params = {"startAt": str(start), "maxResults": str(self._page_size), "expand": "properties"}
            answer = await self._client.get(path, params=params, deadline=deadline)
            records: list[Any] = payloads.listed(answer.data, "comments", "a list of comments")
            for record in records:
                yield record
            start += len(records)
            if not records or start >= (payloads.number(answer.data, "total") or 0):
                return

    async def write(self, ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float) -> Sticky:
        """Make our comment or edit it in place; what stands there already is not written again."""
        key = self._issues.key(ticket.key)
        async with self._memory.lock(key):
            fitted = self._form.fit(text)
            if known is not None:
                if (known.text, known.memo) == (fitted, memo):
                    return known
                if await self._ours(key, known, deadline):
                    edited = await self._edit(key, _comment_id(known.ref), fitted, memo, deadline)
                    if edited is not None:
                        return edited
            elif self._memory.bare(snapshot_of(ticket), self._now()):
                return await self._create(key, fitted, memo, ticket, deadline)
            there = await self.read(ticket, deadline=deadline)
            self._memory.of(key).in_doubt = False
            if there is not None and (there.text, there.memo) == (fitted, memo):
                return there
            if there is not None:
                edited = await self._edit(key, _comment_id(there.ref), fitted, memo, deadline)
                if edited is not None:
                    return edited
            return await self._create(key, fitted, memo, ticket, deadline)

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:
        """Post a comment of its own (T16)."""
        key = self._issues.key(ticket.key)
        async with self._memory.lock(key):
            path, body = self._site.issue(key, "/comment"), self._form.plain(self._form.fit(text))
            await self._client.write("POST", path, body, deadline=deadline, bucket=bucket(key))

    async def _recognised(self, record: object, deadline: float | None) -> Sticky | None:
        """The sticky that a comment is, if it is ours in both ways: by its property and by its author."""
        properties = record.get("properties") if isinstance(record, dict) else None
        if isinstance(properties, list) and not any(self._form.is_ours(p) for p in properties):
            return None  # who we are costs a request: asked only once something looks like ours
        if not isinstance(record, dict) or not isinstance(record.get("author"), dict):
            return None
        comment: Comment = payloads.read(Comment, record, "a comment")
        if comment.author is None or comment.author.id != await self._people.my_id(deadline=deadline):
            return None
        value = await self._value(comment, deadline)
        return None if value is None else self._sticky(comment, self._form.text(comment.body), self._form.memo(value))

    async def _value(self, comment: Comment, deadline: float | None) -> object:
        """What our property of the comment holds; asked for where the list did not show it."""
        if comment.properties is not None:
            return next((p.value for p in comment.properties if p.key in self._form.properties), None)
        path = self._site.api(f"/comment/{comment.id}/properties/{self._form.properties[0]}")
        answer = await self._client.get(path, deadline=deadline, allow=frozenset({404}))
        if answer.status == 404:
            return None
        held: Property = payloads.read(Property, answer.data, "a property")
        return held.value

    async def _ours(self, key: str, known: Sticky, deadline: float) -> bool:
        """Whether the comment behind `known` is really ours; the reference itself says who wrote it."""
        found = _REF.fullmatch(known.ref)
        if found is None:
            return False
        if self._memory.of(key).comment == found[1]:
            return True
        # Without an author in it the reference is not one of ours: the search by property decides then.
        return found[2] is not None and found[2] == await self._people.my_id(deadline=deadline)

    async def _edit(self, key: str, id_: str, fitted: str, memo: Memo, deadline: float) -> Sticky | None:
        """Replace our comment's text and memo; None when the comment is gone."""
        path = self._site.issue(key, f"/comment/{id_}")
        try:
            body = self._form.body(fitted, memo)
            if self._site.cloud:
                answer = await self._issues.edit(path, key, {}, body, deadline=deadline, repeatable=True)
            else:  # which knows no `notifyUsers` here
                answer = await self._client.write(
                    "PUT", path, body, deadline=deadline, repeatable=True, bucket=bucket(key)
                )
        except TicketNotFound:
            self._memory.of(key).comment = None
            return None
        return await self._written(key, answer.data, fitted, memo, deadline)

    async def _create(self, key: str, fitted: str, memo: Memo, ticket: Ticket, deadline: float) -> Sticky:
        trace = self._memory.of(key)
        trace.in_doubt = True  # until an answer says otherwise; a garbled answer or a cancelled call says nothing
        try:
            path = self._site.issue(key, "/comment")
            body = self._form.body(fitted, memo)
            answer = await self._client.write("POST", path, body, deadline=deadline, bucket=bucket(key))
        except OutcomeUnknown:
            there = await self.read(ticket, deadline=deadline)
            if there is None:
                raise
            trace.in_doubt = False
            return there
        return await self._written(key, answer.data, fitted, memo, deadline)

    async def _written(self, key: str, data: object, fitted: str, memo: Memo, deadline: float) -> Sticky:
        comment: Comment = payloads.read(Comment, data, "a comment")
        if comment.author is not None:
            self._people.learn(comment.author)
        trace = self._memory.of(key)
        trace.comment, trace.in_doubt = comment.id, False
        if not self._site.cloud and not any(self._form.is_ours(p.model_dump()) for p in comment.properties or ()):
            # Cloud documents that a comment's properties are written with it; of Data Center we only know the long way.
            path = self._site.api(f"/comment/{comment.id}/properties/{self._form.properties[0]}")
            value = self._form.value(memo)
            await self._client.write("PUT", path, value, deadline=deadline, repeatable=True, bucket=bucket(key))
        return self._sticky(comment, fitted, memo)

    @staticmethod
    def _sticky(comment: Comment, text: str, memo: Memo | None) -> Sticky:
        author = f"@{comment.author.id}" if comment.author and comment.author.id else ""
        return Sticky(ref=f"{comment.id}{author}", text=text, memo=memo)


def _comment_id(ref: str) -> str:
    found = _REF.fullmatch(ref)
    return found[1] if found else "0"


def _fence(sticky: Sticky) -> int:
    return sticky.memo.fence if sticky.memo else -1
