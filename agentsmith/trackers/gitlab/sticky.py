"""Our one comment per issue (T13), by GitLab's API.

A line that begins with `/` in a comment is a command, and GitLab carries it out with our rights: in a new comment as in
an edited one. Texts of others (an error, a log) end up in ours, so no line of ours begins with it: an invisible
character stands before the slash, also inside code blocks, where GitLab's own rules have changed over time.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.memo import Memo
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.dialect import NOTES
from agentsmith.trackers.gitlab.issues import Issues
from agentsmith.trackers.gitlab.paging import onward
from agentsmith.trackers.gitlab.payloads import Note
from agentsmith.trackers.gitlab.people import People
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.http import Answer
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.marked import MarkedComment
from agentsmith.trackers.shared.memory import TicketMemory
from agentsmith.trackers.shared.sticky import StickyComments

COMMENT_LIMIT: Final = 1_000_000
CUT: Final = "\n\n… (cut: GitLab takes no longer comment)"
GUARD: Final = "\u200b"
"""A space of no width."""
_SLASH: Final = re.compile(r"^([^\S\n]*)/", re.M)


def harmless(text: str) -> str:
    """The text without commands: GitLab drops every carriage return before it looks for them, so we do too."""
    return _SLASH.sub(rf"\1{GUARD}/", text.replace("\r", ""))


def form(labels: LabelSet) -> MarkedComment:
    """How our comment looks on GitLab."""
    return MarkedComment(labels, COMMENT_LIMIT, CUT, harmless)


class Stickies(StickyComments[Site]):
    """Reads and writes our comments on the issues of one project."""

    def __init__(
        self, api: ProjectApi[Site], *, form: MarkedComment, issues: Issues, people: People, memory: TicketMemory[Any]
    ) -> None:
        super().__init__(api, key=issues.key, people=people, memory=memory)
        self._form = form

    def fit(self, text: str, memo: Memo) -> str:
        """See StickyComments."""
        return self._form.fit(text, memo)

    async def records(self, key: str, *, deadline: float | None = None) -> AsyncIterator[Any]:
        """See StickyComments."""
        params = {
            "sort": "asc",
            "order_by": "created_at",
            "activity_filter": "only_comments",
            "per_page": str(self._page_size),
        }
        pages = self._client.pages(self._notes(key), params=params, next_page=onward(params), deadline=deadline)
        async for page in pages:
            records: list[Any] = payloads.read(list[Any], page.data, "a list of comments")
            for record in records:
                yield record

    async def recognise(self, record: object, *, deadline: float | None) -> Sticky | None:
        """See StickyComments."""
        body = record.get("body") if isinstance(record, dict) else None
        # A comment that is malformed in a way that does not concern us may stay so.
        if not isinstance(body, str) or self._form.read(body) is None:
            return None
        note: Note = payloads.read(Note, record, "a comment")
        if note.system or note.author is None:
            return None
        ours = str(note.author.id) == await self._people.my_id(deadline=deadline)
        return self._as_sticky(note) if ours else None

    async def create(self, key: str, fitted: str, memo: Memo, *, deadline: float) -> Sticky:
        """See StickyComments."""
        body = {"body": self._form.head(memo) + fitted}
        answer = await self._client.write("POST", self._notes(key), body, deadline=deadline, bucket=NOTES)
        return self._written(answer)

    async def edit(self, key: str, comment: str, fitted: str, memo: Memo, *, deadline: float) -> Sticky:
        """See StickyComments; doing it twice does no harm."""
        path, body = self._notes(key, f"/{comment}"), {"body": self._form.head(memo) + fitted}
        answer = await self._client.write("PUT", path, body, deadline=deadline, repeatable=True, bucket=NOTES)
        return self._written(answer)

    async def post(self, key: str, text: str, *, deadline: float) -> None:
        """See StickyComments."""
        body = {"body": self._form.plain(text)}
        await self._client.write("POST", self._notes(key), body, deadline=deadline, bucket=NOTES)

    def _notes(self, key: str, rest: str = "") -> str:
        return self._site.path(key, f"/notes{rest}")

    def _written(self, answer: Answer) -> Sticky:
        note: Note = payloads.read(Note, answer.data, "a comment")
        if note.author is not None:
            self._people.wrote_it(note.author.to_actor())
        return self._as_sticky(note)

    def _as_sticky(self, note: Note) -> Sticky:
        return self._form.as_sticky(note.id, note.author.id if note.author else None, note.body or "")
