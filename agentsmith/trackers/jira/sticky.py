"""Our one comment per issue (T13), by Jira's API.

The memo is a comment property, which people do not see and cannot copy; it counts only on a comment that our own
account wrote.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agentsmith.domain.memo import Memo
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.comment_format import CommentFormat
from agentsmith.trackers.jira.dialect import bucket
from agentsmith.trackers.jira.issues import Issues
from agentsmith.trackers.jira.payloads import Comment, Property
from agentsmith.trackers.jira.people import People
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.memory import TicketMemory
from agentsmith.trackers.shared.sticky import StickyComments


class Stickies(StickyComments[Site]):
    """Reads and writes our comments on the issues of one project."""

    def __init__(
        self, api: ProjectApi[Site], *, form: CommentFormat, issues: Issues, people: People, memory: TicketMemory[Any]
    ) -> None:
        super().__init__(api, key=issues.key, people=people, memory=memory)
        self._form = form
        self._issues = issues

    def fit(self, text: str, memo: Memo) -> str:  # noqa: ARG002 - the memo takes no room in the text
        """See StickyComments."""
        return self._form.fit(text)

    async def records(self, key: str, *, deadline: float | None = None) -> AsyncIterator[Any]:
        """See StickyComments."""
        path, start = self._site.issue(key, "/comment"), 0
        while True:
            params = {"startAt": str(start), "maxResults": str(self._page_size), "expand": "properties"}
            answer = await self._client.get(path, params=params, deadline=deadline)
            records: list[Any] = payloads.listed(answer.data, "comments", "a list of comments")
            for record in records:
                yield record
            start += len(records)
            if not records or start >= (payloads.number(answer.data, "total") or 0):
                return

    async def recognise(self, record: object, *, deadline: float | None) -> Sticky | None:
        """See StickyComments; ours by its property and by its author."""
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

    async def create(self, key: str, fitted: str, memo: Memo, *, deadline: float) -> Sticky:
        """See StickyComments."""
        path, body = self._site.issue(key, "/comment"), self._form.body(fitted, memo)
        answer = await self._client.write("POST", path, body, deadline=deadline, bucket=bucket(key))
        return await self._written(key, answer.data, fitted, memo, deadline)

    async def edit(self, key: str, comment: str, fitted: str, memo: Memo, *, deadline: float) -> Sticky:
        """See StickyComments."""
        path, body = self._site.issue(key, f"/comment/{comment}"), self._form.body(fitted, memo)
        if self._site.cloud:
            answer = await self._issues.edit(path, key, body, deadline=deadline, repeatable=True)
        else:  # which knows no `notifyUsers` here
            answer = await self._client.write("PUT", path, body, deadline=deadline, repeatable=True, bucket=bucket(key))
        return await self._written(key, answer.data, fitted, memo, deadline)

    async def post(self, key: str, text: str, *, deadline: float) -> None:
        """See StickyComments."""
        path, body = self._site.issue(key, "/comment"), self._form.plain(self._form.fit(text))
        await self._client.write("POST", path, body, deadline=deadline, bucket=bucket(key))

    async def _written(self, key: str, data: object, fitted: str, memo: Memo, deadline: float) -> Sticky:
        comment: Comment = payloads.read(Comment, data, "a comment")
        if comment.author is not None:
            self._people.wrote_it(comment.author.to_actor())
        self._memory.commented(key, comment.id)  # whatever becomes of the property
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
