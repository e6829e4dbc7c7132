"""What people say on issues, and the reaction that shows it was read (T19, T20, T22)."""

from __future__ import annotations

from typing import Final

from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.payloads import Comment
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.remarks import Remarks

SEEN: Final = "eyes"


class IssueRemarks(Remarks[Comment]):
    """Reads what is said on the issues of one repository."""

    def __init__(self, api: ProjectApi[Site]) -> None:
        self._client, self._site = api.client, api.site

    def comment(self, record: object) -> Comment:
        """See Remarks."""
        comment: Comment = payloads.read(Comment, record, "a comment")
        return comment

    async def heard(self, comment: Comment) -> Remark:
        """See Remarks."""
        author = comment.user.to_actor() if comment.user else Actor("", "ghost")
        return Remark(str(comment.id), author, comment.body or "", comment.created_at)

    async def remark(self, key: str, ref: str) -> Remark | None:
        """A comment on this very issue; None for any other."""
        if self._site.number(ref) is None:
            return None
        answer = await self._client.get(self._path(ref), allow=frozenset({404}))
        if answer.status == 404:
            return None
        comment = self.comment(answer.data)
        return await self.heard(comment) if comment.issue_url.rpartition("/")[2] == key else None

    async def acknowledge(self, key: str, ref: str, *, deadline: float) -> Acknowledged:  # noqa: ARG002
        """Two eyes under the comment; GitHub tells whether they were there."""
        path, body = self._path(ref, "/reactions"), {"content": SEEN}
        answer = await self._client.write("POST", path, body, deadline=deadline, repeatable=True)
        return Acknowledged.NOW if answer.status == 201 else Acknowledged.BEFORE

    def _path(self, ref: str, rest: str = "") -> str:
        return self._site.path(rest=f"/issues/comments/{ref}{rest}")
