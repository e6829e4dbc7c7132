"""Listening to people on issues: what they comment, and the reaction that shows it was read (T19, T20)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.payloads import Comment
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.shared.remarks import readable, told_since

SEEN: Final = "eyes"


class Voice:
    """Hears what is said on the issues of one repository."""

    def __init__(self, client: ApiClient, site: Site) -> None:
        self._client, self._site = client, site

    async def remark(self, number: str, ref: str) -> Remark | None:
        """A comment on this very issue; None for any other."""
        if self._site.number(ref) is None:
            return None
        answer = await self._client.get(self._path(ref), allow=frozenset({404}))
        if answer.status == 404:
            return None
        comment: Comment = payloads.read(Comment, answer.data, "a comment")
        return self.heard(comment) if comment.issue_url.rpartition("/")[2] == number else None

    @staticmethod
    def heard(comment: Comment) -> Remark:
        """What a comment says."""
        author = comment.user.to_actor() if comment.user else Actor("", "ghost")
        return Remark(str(comment.id), author, comment.body or "", comment.created_at)

    async def remarks(self, records: AsyncIterator[Any], *, since: float) -> tuple[Remark, ...]:
        """What was said since then, of all that the platform tells (T22)."""
        said: list[Remark | None] = []
        async for comment in readable(records, Comment, payloads.read):
            said.append(self.heard(comment))
        return told_since(said, since)

    async def acknowledge(self, ref: str, *, deadline: float) -> Acknowledged:
        """Two eyes under the comment; GitHub tells whether they were there."""
        path, body = self._path(ref, "/reactions"), {"content": SEEN}
        answer = await self._client.write("POST", path, body, deadline=deadline, repeatable=True)
        return Acknowledged.NOW if answer.status == 201 else Acknowledged.BEFORE

    def _path(self, ref: str, rest: str = "") -> str:
        return self._site.path(rest=f"/issues/comments/{ref}{rest}")
