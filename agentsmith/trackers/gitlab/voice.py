"""Listening to people on issues: what they comment, and the reaction that shows it was read (T19, T20)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.errors import TicketNotFound
from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.dialect import message
from agentsmith.trackers.gitlab.payloads import GHOST, Note
from agentsmith.trackers.gitlab.people import People
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.shared.remarks import readable, told_since

SEEN: Final = "eyes"
_REF: Final = re.compile(r"[1-9][0-9]{0,17}")


class Voice:
    """Hears what is said on the issues of one project."""

    def __init__(self, client: ApiClient, site: Site, people: People) -> None:
        self._client, self._site, self._people = client, site, people

    async def remark(self, iid: str, ref: str) -> Remark | None:
        """A comment on this issue; what GitLab noted itself is none."""
        if not _REF.fullmatch(ref):
            return None
        answer = await self._client.get(self._path(iid, ref), allow=frozenset({404}))
        if answer.status == 404:
            return None
        note: Note = payloads.read(Note, answer.data, "a comment")
        return await self.heard(note)

    async def heard(self, note: Note) -> Remark | None:
        """What a comment says."""
        if note.system:
            return None
        author = await self._people.known(note.author) if note.author else Actor("", GHOST)
        return Remark(str(note.id), author, note.body or "", note.created_at)

    async def remarks(self, records: AsyncIterator[Any], *, since: float) -> tuple[Remark, ...]:
        """What was said since then, of all that the platform tells (T22)."""
        said: list[Remark | None] = []
        async for comment in readable(records, Note, payloads.read):
            said.append(await self.heard(comment))
        return told_since(said, since)

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

    def _path(self, iid: str, ref: str, rest: str = "") -> str:
        return self._site.path(iid, f"/notes/{ref}{rest}")
