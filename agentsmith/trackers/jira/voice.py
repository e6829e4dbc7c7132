"""Listening to people on issues: what they comment (T19). Jira has no reactions."""

from __future__ import annotations

import re
from typing import Final

from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.payloads import Comment
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.jira.texts import Form

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
        author = comment.author.to_actor() if comment.author else Actor("", "")
        return Remark(ref, author, self._form.text(comment.body), comment.created)
