"""What people say on work items, and the reaction that shows it was read (T19, T20, T22)."""

from __future__ import annotations

import re
from typing import Final

from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.azuredevops import payloads
from agentsmith.trackers.azuredevops.dialect import API_VERSION
from agentsmith.trackers.azuredevops.payloads import Comment, Page, Reaction, WorkItem
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.remarks import Remarks

SEEN: Final = "like"
REACTIONS_VERSION: Final = "7.1-preview.1"
_REF: Final = re.compile(r"[1-9][0-9]{0,9}|rev-(?P<rev>[1-9][0-9]{0,9})")
_NOBODY: Final = Actor("", "somebody")


class ItemRemarks(Remarks[Comment]):
    """Reads what is said on the work items of one project."""

    def __init__(self, api: ProjectApi[Site], *, version: str) -> None:
        self._client, self._site, self._version = api.client, api.site, version

    def comment(self, record: object) -> Comment:
        """See Remarks."""
        comment: Comment = payloads.read(Comment, record, "a comment")
        return comment

    async def heard(self, comment: Comment) -> Remark | None:
        """See Remarks."""
        if comment.deleted:
            return None
        author = comment.created_by.to_actor() if comment.created_by else _NOBODY
        return Remark(str(comment.id), author, payloads.plain(comment.text), comment.created_at)

    async def remark(self, key: str, ref: str) -> Remark | None:
        """A comment on this work item, by its id or by the revision that it came with."""
        found = _REF.fullmatch(ref)
        if found is None:
            return None
        return await self._in_revision(key, ref, found["rev"]) if found["rev"] else await self._by_id(key, ref)

    async def _in_revision(self, number: str, ref: str, rev: str) -> Remark | None:
        """Most events name the revision only; it tells which comment it made, but on an old Server."""
        path = self._site.path(f"/wit/workItems/{number}/revisions/{rev}")
        answer = await self._client.get(path, params={"api-version": API_VERSION}, allow=frozenset({404}))
        if answer.status == 404:
            return None
        item: WorkItem = payloads.read(WorkItem, answer.data, "a revision")
        if item.comment is not None:
            return await self._by_id(number, str(item.comment.id))
        author = item.fields.changed_by
        said = payloads.plain(item.fields.history)
        return Remark(ref, author.to_actor() if author else _NOBODY, said, item.fields.changed)

    async def _by_id(self, number: str, ref: str) -> Remark | None:
        params = {"api-version": self._version}
        answer = await self._client.get(self._path(number, f"/{ref}"), params=params, allow=frozenset({404}))
        return None if answer.status == 404 else await self.heard(self.comment(answer.data))

    async def acknowledge(self, key: str, ref: str, *, deadline: float) -> Acknowledged:
        """A thumb up. Giving it twice changes nothing and is not told apart, so it is looked for first."""
        if not ref.isdecimal():
            return Acknowledged.NO_WAY
        path, params = self._path(key, f"/{ref}/reactions"), {"api-version": REACTIONS_VERSION}
        answer = await self._client.get(path, params=params, deadline=deadline)
        page: Page = payloads.read(Page, answer.data, "a list of reactions")
        for record in page.value:
            given: Reaction = payloads.read(Reaction, record, "a reaction")
            if given.type.lower() == SEEN and given.ours:
                return Acknowledged.BEFORE
        where = f"{path}/{SEEN}?api-version={REACTIONS_VERSION}"
        await self._client.write("PUT", where, deadline=deadline, repeatable=True)
        return Acknowledged.NOW

    def _path(self, number: str, rest: str = "") -> str:
        return self._site.path(f"/wit/workItems/{number}/comments{rest}")
