"""What people say on issues (T19, T22). Jira has no reactions."""

from __future__ import annotations

import re
from typing import Final

from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.comment_format import CommentFormat
from agentsmith.trackers.jira.payloads import Comment
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.remarks import Remarks

_REF: Final = re.compile(r"[1-9][0-9]{0,17}")


class IssueRemarks(Remarks[Comment]):
    """Reads what is said on the issues of one project."""

    def __init__(self, api: ProjectApi[Site], form: CommentFormat) -> None:
        self._client, self._site, self._form = api.client, api.site, form

    def comment(self, record: object) -> Comment:
        """See Remarks."""
        comment: Comment = payloads.read(Comment, record, "a comment")
        return comment

    async def heard(self, comment: Comment) -> Remark:
        """See Remarks."""
        author = comment.author.to_actor() if comment.author else Actor("", "")
        return Remark(comment.id, author, self._form.text(comment.body), comment.created)

    async def remark(self, key: str, ref: str) -> Remark | None:
        """See Remarks."""
        if not _REF.fullmatch(ref):
            return None
        answer = await self._client.get(self._site.issue(key, f"/comment/{ref}"), allow=frozenset({404}))
        return None if answer.status == 404 else await self.heard(self.comment(answer.data))
