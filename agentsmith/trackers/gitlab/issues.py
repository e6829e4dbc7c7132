"""Reading one issue, and writing its labels: add and remove in one request, never a whole set (P3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import structlog

from agentsmith.domain.errors import BadAnswer, TicketNotFound
from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.payloads import Issue, Project, snapshot_of
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.spelling import Spelling
from agentsmith.trackers.http import WITHHELD, Answer
from agentsmith.trackers.shared.api import OnProject, ProjectApi
from agentsmith.trackers.shared.memory import TicketMemory

log = structlog.get_logger()

_MOVED: Final = frozenset({405})
"""What GitLab says to a write under a path that the project no longer has."""


class Issues(OnProject[Site]):
    """The issues of one project."""

    def __init__(self, api: ProjectApi[Site], *, spelling: Spelling, memory: TicketMemory[Any]) -> None:
        super().__init__(api)
        self._spelling = spelling
        self._memory = memory

    def key(self, text: str) -> str:
        """The text as an issue number; what cannot be one names no ticket."""
        iid = self._site.iid(text)
        if iid is None:
            raise TicketNotFound(f"GitLab: {self._site.project} has no issue {text[:40]!r}")
        return iid

    async def read(self, text: str, *, deadline: float | None = None) -> Ticket:
        """The issue as it is now (T1, T3)."""
        iid = self.key(text)
        read_at = self._now()
        answer = await self._client.get(self._site.path(iid), deadline=deadline)
        return self._taken_in(iid, answer, read_at=read_at, verified=False)

    async def learn_project(self) -> None:
        """Learn the project's id, by which its webhooks are known whatever its path is."""
        answer = await self._client.get(self._site.path(), allow=WITHHELD)
        known = answer.status == 200
        self._site.id = str(payloads.read(Project, answer.data, "a project").id) if known else ""

    async def write_labels(self, iid: str, add: Sequence[str], remove: Sequence[str], *, deadline: float) -> Ticket:
        """One PUT that adds and removes; answers the issue as it is then. Until then nobody knows how it is.

        None of the labels holds a comma.
        """
        body: dict[str, Any] = {}
        if add:
            body["add_labels"] = ",".join(add)
        if remove:
            body["remove_labels"] = ",".join(remove)
        self._memory.forget_state(iid)
        # Not repeatable: what may have been carried out is for the caller to look at, perhaps under a newer fence.
        answer = await self._client.write("PUT", self._site.path(iid), body, deadline=deadline, allow=_MOVED)
        if answer.status in _MOVED:
            # Under its old path a project can be read, by a redirect, but not written to.
            await self.read(iid, deadline=deadline)
            self._memory.forget_state(iid)
            answer = await self._client.write("PUT", self._site.path(iid), body, deadline=deadline)
        return self._taken_in(iid, answer, read_at=self._now(), verified=True)

    def ticket(self, issue: Issue) -> Ticket:
        """An issue from a list: a hint, from which no write starts."""
        self._site.learn(issue.web_url)
        return payloads.to_ticket(issue, self._site, self._spelling, self._tracker, read_at=float("-inf"))

    def _taken_in(self, iid: str, answer: Answer, *, read_at: float, verified: bool) -> Ticket:
        issue: Issue = payloads.read(Issue, answer.data, f"issue {iid}")
        if str(issue.iid) != iid:
            raise BadAnswer(f"GitLab: asked for issue {iid}, got {issue.iid}")
        if answer.redirected and issue.project_id is not None and not self._site.called:
            log.warning("the project was moved; put its new path into the configuration", now=issue.web_url)
            self._site.called = str(issue.project_id)
        self._site.learn(issue.web_url)
        ticket = payloads.to_ticket(
            issue, self._site, self._spelling, self._tracker, read_at=read_at, verified=verified
        )
        snapshot = snapshot_of(ticket)
        if snapshot is not None:
            self._memory.remember(snapshot)
        return ticket
