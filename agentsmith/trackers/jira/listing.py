"""Finding issues by label. Search answers from an index that lags, so every hit is read by key before it counts.

A hit that the index shows unchanged since we last read it is not read again: an idle poll costs one search. For issues
that we have written ourselves, Cloud is asked not to answer from an old index (`reconcileIssues`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from agentsmith.bounded import Bounded
from agentsmith.domain.errors import BadAnswer, ConfigError, Refused, TicketNotFound
from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.dialect import SEARCH
from agentsmith.trackers.jira.issues import FIELDS, Issues, RecentWrites
from agentsmith.trackers.jira.payloads import Hit
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.shared.api import OnProject, ProjectApi

log = structlog.get_logger()

PAGE_SIZE: Final = 100
_HINTS: Final = ("labels", "status", "updated")
_MOST_PAGES: Final = 1000
_MOST_KNOWN: Final = 20_000


class Listing(OnProject[Site]):
    """The open issues of one project, by label."""

    def __init__(self, api: ProjectApi[Site], *, issues: Issues, recent: RecentWrites) -> None:
        super().__init__(api)
        self._issues = issues
        self._recent = recent
        self._known: Bounded[str, tuple[str, Ticket | None]] = Bounded(_MOST_KNOWN)
        """By number: the index's stamp, and the issue as it was read then; None for a malformed one."""

    async def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open issue that carries one of `labels`, oldest first (T2)."""
        wanted = frozenset(label.casefold() for label in labels)
        if not wanted:
            return
        if not self._site.id:
            await self._issues.learn_project()
        seen: set[str] = set()
        # By its number, because a search for a key that the project no longer has finds nothing (P9).
        async for hits in self._pages(jql(self._site.id or "", *labels)):
            for ticket in await self._read(hits):
                carried = {name.casefold() for name in ticket.labels}
                if ticket.key not in seen and ticket.open and not wanted.isdisjoint(carried):
                    seen.add(ticket.key)
                    yield ticket

    async def _pages(self, query: str) -> AsyncIterator[list[Hit]]:
        pages = self._cloud_pages(query) if self._site.cloud else self._numbered_pages(query)
        count = 0
        async for page in pages:
            yield page
            count += 1
            if count >= _MOST_PAGES:
                raise BadAnswer("Jira: the pages of a search do not end")

    async def _cloud_pages(self, query: str) -> AsyncIterator[list[Hit]]:
        body: dict[str, Any] = {"jql": query, "fields": list(_HINTS), "maxResults": self._page_size}
        if written := self._recent.ids():
            body["reconcileIssues"] = written
        tokens: set[str] = set()
        while True:
            data = await self._search("/search/jql", body)
            yield self._hits(data)
            token = data.get("nextPageToken") if isinstance(data, dict) else None
            if not isinstance(token, str) or not token or data.get("isLast") is True:
                return
            if token in tokens:
                raise BadAnswer("Jira: the pages of a search do not end")
            tokens.add(token)
            body["nextPageToken"] = token

    async def _numbered_pages(self, query: str) -> AsyncIterator[list[Hit]]:
        start = 0
        while True:
            body = {"jql": query, "fields": list(_HINTS), "maxResults": self._page_size, "startAt": start}
            data = await self._search("/search", body)
            yield self._hits(data)
            total = payloads.number(data, "total")
            if total is None:
                raise BadAnswer("Jira: a search result is malformed: it has no total")
            found = len(payloads.listed(data, "issues", "a search result"))
            start += found
            if start >= total or not found:
                return

    async def _search(self, path: str, body: dict[str, Any]) -> Any:
        # A POST that changes nothing: it may be sent again.
        answer = await self._client.write(
            "POST", self._site.api(path), body, repeatable=True, bucket=SEARCH, missing=Refused
        )
        return answer.data

    def _hits(self, data: object) -> list[Hit]:
        found: list[Hit] = []
        for record in payloads.listed(data, "issues", "a search result"):
            try:
                found.append(payloads.read(Hit, record, "an issue in a search result"))
            except BadAnswer as error:
                log.warning("skipped a malformed issue", project=self._site.project, error=str(error))
        return found

    async def _read(self, hits: Sequence[Hit]) -> list[Ticket]:
        """The issues behind the hits, as they are; those that the index shows unchanged from memory."""
        fresh = {str(number) for number in self._recent.ids()}
        known = {hit.id: self._known.get(hit.id) for hit in hits}
        changed = [hit for hit in hits if hit.id in fresh or (known[hit.id] or ("",))[0] != (hit.stamp or None)]
        if changed:
            await self._recognise(hit.key for hit in changed)
            read = await (self._together(changed) if self._site.cloud else self._one_by_one(changed))
            for hit in changed:
                if hit.id in read:
                    self._remember(hit, read[hit.id])
                else:
                    self._known.pop(hit.id, None)  # nobody said in which revision it is not there: asked again
        tickets = (self._known[hit.id][1] for hit in hits if hit.id in self._known)
        return [ticket for ticket in tickets if ticket is not None]

    async def _together(self, hits: Sequence[Hit]) -> dict[str, Ticket | None]:
        """Up to 100 issues in one request that does not go through the index; None for a malformed one."""
        body = {
            "issueIdsOrKeys": [hit.id for hit in hits],
            "fields": list(FIELDS),
            "properties": [self._issues.property],
        }
        path = self._site.api("/issue/bulkfetch")
        answer = await self._client.write("POST", path, body, repeatable=True, bucket=SEARCH, missing=Refused)
        found: dict[str, Ticket | None] = {}
        records = payloads.listed(answer.data, "issues", "a list of issues")
        await self._recognise(record.get("key") for record in records if isinstance(record, dict))
        for record in records:
            id_ = record.get("id") if isinstance(record, dict) else None
            ticket = self._shaped(record, id_)
            if isinstance(id_, str):
                found[id_] = ticket
        return found

    async def _recognise(self, keys: Iterable[object]) -> None:
        """Look at the project again where a key is none of it: the project may be called so now."""
        if any(isinstance(key, str) and self._site.key(key) is None for key in keys):
            await self._issues.learn_project()

    async def _one_by_one(self, hits: Sequence[Hit]) -> dict[str, Ticket | None]:
        found: dict[str, Ticket | None] = {}
        for hit in hits:
            try:
                found[hit.id] = await self._issues.read(hit.key)
            except TicketNotFound:
                continue  # deleted or moved since the index saw it
            except BadAnswer as error:
                found[hit.id] = None
                log.warning("skipped a malformed issue", project=self._site.project, key=hit.key, error=str(error))
        return found

    def _shaped(self, record: object, id_: object) -> Ticket | None:
        try:
            ticket = self._issues.ticket(record, "an issue in a list", read_at=float("-inf"))
        except BadAnswer as error:
            log.warning("skipped a malformed issue", project=self._site.project, id=id_, error=str(error))
            return None
        return ticket if self._site.key(ticket.key) else None

    def _remember(self, hit: Hit, ticket: Ticket | None) -> None:
        # A hint needs no text (T2), and here are as many as there are open tickets.
        self._known[hit.id] = (hit.stamp, replace(ticket, body="") if ticket else None)


def jql(project: str, *labels: str) -> str:
    """The query for a project's open issues with one of the labels; oldest first, so that pages stay where they are.

    The project is its number.
    """
    for label in labels:
        if not label or any(c.isspace() for c in label):
            raise ConfigError(f"Jira cannot search for the label {label!r}: labels hold no spaces there")
    carrying = f"labels in ({', '.join(map(_quoted, labels))})"
    return f"project = {project} AND {carrying} AND statusCategory != Done ORDER BY created ASC, key ASC"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
