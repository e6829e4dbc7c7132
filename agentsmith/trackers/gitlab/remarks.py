"""What people say on issues, and the reaction that shows it was read (T19, T20, T22)."""

from __future__ import annotations

import re
from typing import Final

from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.errors import TicketNotFound
from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.dialect import message
from agentsmith.trackers.gitlab.payloads import GHOST, Note
from agentsmith.trackers.gitlab.people import People
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.remarks import Remarks

SEEN: Final = "eyes"
_REF: Final = re.compile(r"[1-9][0-9]{0,17}")


class IssueRemarks(Remarks[Note]):
    """Reads what is said on the issues of one project."""

    def __init__(self, api: ProjectApi[Site], people: People) -> None:
        self._client, self._site, self._people = api.client, api.site, people

    def comment(self, record: object) -> Note:
        """See Remarks."""
        note: Note = payloads.read(Note, record, "a comment")
        return note

    async def heard(self, comment: Note) -> Remark | None:
        """See Remarks; what GitLab noted itself is nobody's word."""
        if comment.system:
            return None
        author = await self._people.known(comment.author) if comment.author else Actor("", GHOST)
        return Remark(str(comment.id), author, comment.body or "", comment.created_at)

    async def remark(self, key: str, ref: str) -> Remark | None:
        """See Remarks."""
        if not _REF.fullmatch(ref):
            return None
        answer = await self._client.get(self._path(key, ref), allow=frozenset({404}))
        return None if answer.status == 404 else await self.heard(self.comment(answer.data))

    async def acknowledge(self, key: str, ref: str, *, deadline: float) -> Acknowledged:
        """Two eyes under the comment; GitLab answers 404 where they are there already."""
        path = self._path(key, ref, "/award_emoji")
        answer = await self._client.write(
            "POST", path, {"name": SEEN}, deadline=deadline, repeatable=True, allow=frozenset({404})
        )
        if answer.status != 404:
            return Acknowledged.NOW
        if "already been taken" in message(answer.data):
            return Acknowledged.BEFORE
        raise TicketNotFound(f"GitLab: comment {ref} is not there any more")

    def _path(self, iid: str, ref: str, rest: str = "") -> str:
        return self._site.path(iid, f"/notes/{ref}{rest}")
