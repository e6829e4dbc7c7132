"""Our one comment per work item (T13), by Azure DevOps' API.

It is written through the comments API. As System.History in the patch of the tags a comment can be made, not edited,
so only the first one can travel with a move (see `Items.relabel`). Every comment, new or edited, is a revision of the
work item, and a work item has 10,000 of them in its life, so nothing is written that is there already.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from agentsmith.domain.errors import BadAnswer
from agentsmith.domain.memo import Memo
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.azuredevops import payloads
from agentsmith.trackers.azuredevops.comment_format import CommentFormat
from agentsmith.trackers.azuredevops.items import Items
from agentsmith.trackers.azuredevops.memory import ItemMemory
from agentsmith.trackers.azuredevops.payloads import Comment, CommentPage, Snapshot
from agentsmith.trackers.azuredevops.people import People
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.http import Answer, OutcomeUnknown
from agentsmith.trackers.shared import memory as shared
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.sticky import StickyComments

COMMENTS_VERSION: Final = "7.1-preview.4"
"""The plain version is answered with 400: the API is in preview still."""
_MOST_PAGES: Final = 1000


class Stickies(StickyComments[Site]):
    """Reads and writes our comments on the work items of one project."""

    uncertain = (OutcomeUnknown, BadAnswer)

    def __init__(
        self,
        api: ProjectApi[Site],
        *,
        form: CommentFormat,
        items: Items,
        people: People,
        memory: ItemMemory,
        version: str,
    ) -> None:
        super().__init__(api, key=items.key, people=people, memory=memory)
        self._form = form
        self._item_memory = memory
        self._version = version

    def fit(self, text: str, memo: Memo) -> str:
        """See StickyComments."""
        return self._form.fit(text, memo)

    def just_said(self, snapshot: shared.Snapshot | None) -> Sticky | None:
        """See StickyComments."""
        return self._item_memory.just_said(snapshot) if isinstance(snapshot, Snapshot) else None

    async def records(self, key: str, *, deadline: float | None = None) -> AsyncIterator[Any]:
        """See StickyComments."""
        params = {"api-version": self._version, "$top": str(self._page_size), "order": "asc"}
        seen: set[str] = set()
        while True:
            path = self._site.path(f"/wit/workItems/{key}/comments")
            answer = await self._client.get(path, params=params, deadline=deadline)
            page: CommentPage = payloads.read(CommentPage, answer.data, "a list of comments")
            for record in page.comments:
                yield record
            if not page.continuation:
                return
            if page.continuation in seen or len(seen) >= _MOST_PAGES:
                raise BadAnswer(f"Azure DevOps: the comments of work item {key} do not end")
            seen.add(page.continuation)
            params = {**params, "continuationToken": page.continuation}

    async def recognise(self, record: object, *, deadline: float | None) -> Sticky | None:
        """See StickyComments."""
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
        return self._as_sticky(comment)

    async def create(self, key: str, fitted: str, memo: Memo, *, deadline: float) -> Sticky:
        """See StickyComments."""
        body = {"text": self._form.write(fitted, memo)}
        with self._item_memory.commenting(key, edit=False, now=self._now):
            answer = await self._client.write("POST", self._path(key), body, deadline=deadline)
        return self._written(key, answer)

    async def edit(self, key: str, comment: str, fitted: str, memo: Memo, *, deadline: float) -> Sticky:
        """See StickyComments; doing it twice leaves one more revision only."""
        path, body = self._path(key, f"/{comment}"), {"text": self._form.write(fitted, memo)}
        with self._item_memory.commenting(key, edit=True, now=self._now):
            answer = await self._client.write("PATCH", path, body, deadline=deadline)
        return self._written(key, answer)

    async def post(self, key: str, text: str, *, deadline: float) -> None:
        """See StickyComments."""
        with self._item_memory.commenting(key, edit=False, now=self._now):
            await self._client.write("POST", self._path(key), {"text": self._form.plain(text)}, deadline=deadline)

    def _written(self, key: str, answer: Answer) -> Sticky:
        comment: Comment = payloads.read(Comment, answer.data, "a comment")
        author = comment.created_by.to_actor() if comment.created_by else None
        if author is not None:
            self._people.wrote_it(author)
        self._item_memory.of(key).author = author.id if author else ""
        return self._as_sticky(comment)

    def _as_sticky(self, comment: Comment) -> Sticky:
        text, memo = self._form.read(comment.text) or (comment.text, None)
        author = f".{comment.created_by.to_actor().id}" if comment.created_by and comment.created_by.id else ""
        return Sticky(ref=f"{comment.id}{author}", text=text, memo=memo)

    def _path(self, number: str, rest: str = "") -> str:
        kind = "&format=markdown" if self._form.format == "markdown" else ""
        return self._site.path(f"/wit/workItems/{number}/comments{rest}") + f"?api-version={self._version}{kind}"
