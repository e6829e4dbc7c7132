"""Talking with people on issues: their comments, our reactions, and what we say beside our one comment (T16 to T18)."""

from __future__ import annotations

import re
from typing import Final

from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.errors import TicketNotFound
from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.dialect import NOTES, message
from agentsmith.trackers.gitlab.payloads import GHOST, Note
from agentsmith.trackers.gitlab.people import People
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.http.marked import MarkedComment
from agentsmith.trackers.http.memory import Memory

SEEN: Final = "eyes"
_REF: Final = re.compile(r"[1-9][0-9]{0,17}")


class Voice:
    """Hears and speaks on the issues of one project."""

    def __init__(self, *, client: ApiClient, site: Site, form: MarkedComment, people: People, memory: Memory) -> None:
        self._client, self._site, self._form = client, site, form
        self._people, self._memory = people, memory

    async def remark(self, iid: str, ref: str) -> Remark | None:
        """A comment on this issue; what GitLab noted itself is none."""
        if not _REF.fullmatch(ref):
            return None
        answer = await self._client.get(self._path(iid, ref), allow=frozenset({404}))
        if answer.status == 404:
            return None
        note: Note = payloads.read(Note, answer.data, "a comment")
        if note.system:
            return None
        author = await self._people.known(note.author) if note.author else Actor("", GHOST)
        return Remark(ref, author, note.body or "")

    async def acknowledge(self, iid: str, ref: str, *, deadline: float) -> Acknowledged:
        """Two eyes under the comment; GitLab answers 404 where they are there already."""
        path = self._path(iid, ref, "/award_emoji")
        answer = await self._client.write(
            "POST", path, {"name": SEEN}, deadline=deadline, repeatable=True, allow=frozenset({404})
        )
        if answer.status != 404:
            return Acknowledged.NOW
        if "already been taken" in message(answer.data):
            return Acknowledged.BEFORE
        raise TicketNotFound(f"GitLab: comment {ref} is not there any more")

    async def say(self, iid: str, text: str, *, deadline: float) -> None:
        """A comment without the line that makes one ours for ever."""
        async with self._memory.lock(iid):
            body = {"body": self._form.bare(text)}
            await self._client.write("POST", self._site.path(iid, "/notes"), body, deadline=deadline, bucket=NOTES)

    def _path(self, iid: str, ref: str, rest: str = "") -> str:
        return self._site.path(iid, f"/notes/{ref}{rest}")
