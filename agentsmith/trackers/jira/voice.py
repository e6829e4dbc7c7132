"""Talking with people on issues: their comments and further words of ours. Jira has no reactions (T16 to T18)."""

from __future__ import annotations

import re
from typing import Final

from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.http.memory import Memory
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.dialect import bucket
from agentsmith.trackers.jira.payloads import Comment
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.jira.texts import Form

_REF: Final = re.compile(r"[1-9][0-9]{0,17}")


class Voice:
    """Hears and speaks on the issues of one project."""

    def __init__(self, *, client: ApiClient, site: Site, form: Form, memory: Memory) -> None:
        self._client, self._site, self._form, self._memory = client, site, form, memory

    async def remark(self, key: str, ref: str) -> Remark | None:
        """A comment on this issue."""
        if not _REF.fullmatch(ref):
            return None
        answer = await self._client.get(self._site.issue(key, f"/comment/{ref}"), allow=frozenset({404}))
        if answer.status == 404:
            return None
        comment: Comment = payloads.read(Comment, answer.data, "a comment")
        author = comment.author.to_actor() if comment.author else Actor("", "")
        return Remark(ref, author, self._form.text(comment.body))

    async def say(self, key: str, text: str, *, deadline: float) -> None:
        """A comment without the property that makes one ours for ever."""
        async with self._memory.lock(key):
            body = self._form.bare(text)
            path = self._site.issue(key, "/comment")
            await self._client.write("POST", path, body, deadline=deadline, bucket=bucket(key))
