"""Listening to people on issues: what they comment (T19). Jira has no reactions."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.payloads import Comment
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.jira.texts import Form
from agentsmith.trackers.shared.remarks import readable, told_since

_REF: Final = re.compile(r"[1-9][0-9]{0,17}")


class Voice:
    """Hears what is said on the issues of one project."""

    def __init__(self, client: ApiClient, site: Site, form: Form) -> None:
        self._client, self._site, self._form = client, site, form

    async def remark(self, key: str, ref: str) -> Remark | None:
        """A comment on this issue."""
        if not _REF.fullmatch(ref):
            return None
        answer = await self._client.get(self._site.issue(key, f"/comment/{ref}"), allow=frozenset({404}))
        if answer.status == 404:
            return None
        comment: Comment = payloads.read(Comment, answer.data, "a comment")
        return self.heard(comment)

    def heard(self, comment: Comment) -> Remark:
        """What a comment says."""
        author = comment.author.to_actor() if comment.author else Actor("", "")
        return Remark(comment.id, author, self._form.text(comment.body), comment.created)

    async def remarks(self, records: AsyncIterator[Any], *, since: float) -> tuple[Remark, ...]:
        """What was said since then, of all that the platform tells (T22)."""
        said: list[Remark | None] = []
        async for comment in readable(records, Comment, payloads.read):
            said.append(self.heard(comment))
        return told_since(said, since)
