"""Reading issues: one by number, and all that carry a label. Pull requests, moved and malformed ones told apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

import structlog

from agentsmith.domain.errors import BadAnswer, ConfigError, Refused, TicketNotFound
from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.labels import LabelWriter
from agentsmith.trackers.github.memory import IssueMemory
from agentsmith.trackers.github.payloads import Issue, Repository, snapshot_of
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import WITHHELD, Answer
from agentsmith.trackers.shared.api import OnProject, ProjectApi

log = structlog.get_logger()

PAGE_SIZE: Final = 100


class Issues(OnProject[Site]):
    """The issues of one repository."""

    def __init__(self, api: ProjectApi[Site], *, writer: LabelWriter, memory: IssueMemory) -> None:
        super().__init__(api)
        self._writer = writer
        self._memory = memory

    def key(self, text: str) -> str:
        """The text as an issue number; what cannot be one names no ticket."""
        number = self._site.number(text)
        if number is None:
            raise TicketNotFound(f"GitHub: {self._site.repository} has no issue {text[:40]!r}")
        return number

    async def read(self, text: str, *, known: Ticket | None = None, deadline: float | None = None) -> Ticket:
        """The issue as it is now: asked for every time, free of charge while unchanged since `known` (T1, T3)."""
        number = self.key(text)
        snapshot = snapshot_of(known) if known else None
        path = self._site.path(number)
        read_at = self._now()
        answer = await self._client.get(path, etag=snapshot.etag if snapshot else None, deadline=deadline)
        if answer.data is None and answer.unchanged and known is not None and snapshot is not None:
            ticket = replace(known, native=replace(snapshot, read_at=read_at))
        else:
            issue: Issue = payloads.read(Issue, answer.data, f"issue {number}")
            await self._check_place(number, issue, answer)
            self._writer.learn(issue.labels)
            ticket = payloads.to_ticket(issue, self._site, self._tracker, etag=answer.etag, read_at=read_at)
        fresh = snapshot_of(ticket)
        if fresh is not None:
            self._memory.remember(fresh)
        return ticket

    async def learn_project(self) -> None:
        """Learn the repository's number, by which its webhooks are known whatever it is called."""
        answer = await self._client.get(self._site.path(), allow=WITHHELD, missing=Refused)
        repository: Repository | None = None
        if answer.status == 200:
            repository = payloads.read(Repository, answer.data, "a repository")
        self._site.id = str(repository.id) if repository is not None and repository.id is not None else ""

    async def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open issue that carries one of `labels` (T2).

        GitHub joins labels by "and" only, so each has a list of its own; one that is unchanged costs no quota.
        """
        seen: set[str] = set()
        for label in labels:
            async for ticket in self._with(label):
                if ticket.key not in seen:
                    seen.add(ticket.key)
                    yield ticket

    async def _with(self, label: str) -> AsyncIterator[Ticket]:
        """Every open issue that carries `label`, oldest first, so that unchanged pages stay unchanged."""
        if "," in label:
            raise ConfigError(f"GitHub cannot search for the label {label!r}: a comma separates labels there")
        wanted = label.casefold()
        params = {
            "state": "open",
            "labels": label,
            "sort": "created",
            "direction": "asc",
            "per_page": str(self._page_size),
        }
        async for page in self._client.pages(self._site.path(rest="/issues"), params=params, missing=Refused):
            records: list[Any] = payloads.read(list[Any], page.data, "a list of issues")
            for record in records:
                issue = self._listed(record)
                # The filter is repeated here because GitHub has been seen to answer with the wrong issues.
                if issue is None or issue.state != "open":
                    continue
                if wanted not in {name.name.casefold() for name in issue.labels}:
                    continue
                yield payloads.to_ticket(issue, self._site, self._tracker, etag=None, read_at=0.0)

    def _listed(self, record: object) -> Issue | None:
        """One record of a list; None for a pull request, and for a malformed one, which is logged."""
        if isinstance(record, dict) and record.get("pull_request") is not None:
            return None
        try:
            issue: Issue = payloads.read(Issue, record, "an issue in a list")
        except BadAnswer as error:
            number = record.get("number") if isinstance(record, dict) else None
            log.warning("skipped a malformed issue", tracker=self._tracker, number=number, error=str(error))
            return None
        self._writer.learn(issue.labels)
        return issue

    async def _check_place(self, number: str, issue: Issue, answer: Answer) -> None:
        """Follow a renamed repository, but not an issue that was transferred: that is another ticket now."""
        here = str(issue.number) == number
        if here and self._site.holds(issue.html_url):
            return
        if not answer.redirected:
            if here:
                return  # an Enterprise Server may show people another host than the one we call
            raise BadAnswer(f"GitHub: asked for issue {number}, got {issue.number}")
        found = await self._client.get(self._site.path(), missing=Refused)
        repository: Repository = payloads.read(Repository, found.data, "a repository")
        if not here or not Site(repository.full_name).holds(issue.html_url):
            raise TicketNotFound(f"GitHub: issue {number} was moved to {issue.html_url[:200]}")
        log.warning("the repository was renamed; put its new name into the configuration", now=repository.full_name)
        self._site.called = repository.full_name
