"""Our one comment per issue (T13), by GitHub's API.

The first line is an HTML comment that people do not see, `<!-- agent-smith:status {memo} -->`; it counts only in a
comment that our own account wrote.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.memo import Memo
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.issues import Issues
from agentsmith.trackers.github.memory import IssueMemory
from agentsmith.trackers.github.payloads import Comment
from agentsmith.trackers.github.people import People
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import Answer
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.marked import MarkedComment
from agentsmith.trackers.shared.sticky import StickyComments

COMMENT_LIMIT: Final = 65_536
CUT: Final = "\n\n… (cut: GitHub takes no longer comment)"


def form(labels: LabelSet) -> MarkedComment:
    """How our comment looks on GitHub."""
    return MarkedComment(labels, COMMENT_LIMIT, CUT, utf16=True)


class Stickies(StickyComments[Site]):
    """Reads and writes our comments on the issues of one repository."""

    def __init__(
        self, api: ProjectApi[Site], *, form: MarkedComment, issues: Issues, people: People, memory: IssueMemory
    ) -> None:
        super().__init__(api, key=issues.key, people=people, memory=memory)
        self._form = form

    def fit(self, text: str, memo: Memo) -> str:
        """See StickyComments."""
        return self._form.fit(text, memo)

    async def records(self, key: str, *, deadline: float | None = None) -> AsyncIterator[Any]:
        """See StickyComments."""
        params = {"per_page": str(self._page_size)}
        async for page in self._client.pages(self._comments(key), params=params, deadline=deadline):
            comments: list[Any] = payloads.read(list[Any], page.data, "a list of comments")
            for record in comments:
                yield record

    async def recognise(self, record: object, *, deadline: float | None) -> Sticky | None:
        """See StickyComments."""
        body = record.get("body") if isinstance(record, dict) else None
        # Who we are costs a request: asked only once something looks like ours.
        if not isinstance(body, str) or self._form.read(body) is None:
            return None
        comment: Comment = payloads.read(Comment, record, "a comment")
        me = await self._people.my_id(deadline=deadline)
        ours = comment.user is not None and str(comment.user.id) == me
        return self._as_sticky(comment) if ours else None

    async def create(self, key: str, fitted: str, memo: Memo, *, deadline: float) -> Sticky:
        """See StickyComments."""
        body = {"body": self._form.head(memo) + fitted}
        answer = await self._client.write("POST", self._comments(key), body, deadline=deadline)
        return self._written(answer)

    async def edit(self, key: str, comment: str, fitted: str, memo: Memo, *, deadline: float) -> Sticky:  # noqa: ARG002
        """See StickyComments; doing it twice does no harm."""
        path, body = self._site.path(rest=f"/issues/comments/{comment}"), {"body": self._form.head(memo) + fitted}
        answer = await self._client.write("PATCH", path, body, deadline=deadline, repeatable=True)
        return self._written(answer)

    async def post(self, key: str, text: str, *, deadline: float) -> None:
        """See StickyComments."""
        try:
            body = {"body": self._form.plain(text)}
            await self._client.write("POST", self._comments(key), body, deadline=deadline)
        finally:
            self._memory.of(key).commented_since = True  # the issue's ETag changed by our own doing

    def _comments(self, key: str) -> str:
        return self._site.path(key, "/comments")

    def _written(self, answer: Answer) -> Sticky:
        comment: Comment = payloads.read(Comment, answer.data, "a comment")
        if comment.user is not None:
            self._people.wrote_it(comment.user.to_actor())
        return self._as_sticky(comment)

    def _as_sticky(self, comment: Comment) -> Sticky:
        return self._form.as_sticky(comment.id, comment.user.id if comment.user else None, comment.body or "")
