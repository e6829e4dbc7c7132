"""Finding every open work item with one of some tags, at the price of one request where nothing changed (T2).

A query answers ids only, 20,000 at most, and different releases cut a longer list off in silence or refuse it. So ids
are taken in pages by rising id, each page asked for by its size: no query ever reaches the limit. What the ids stand
for is read in batches of 200. The second look asks what changed since (with an overlap, because the service's own
copies lag), whatever its tags: what lost the tag or was closed is in that answer too, and when nothing changed that
one query is all. A work item that was deleted is in no such answer, so the whole list is read again every `FULL_EVERY`
seconds, and also when so much changed that catching up would cost more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from agentsmith.domain.errors import BadAnswer, ConfigError, Refused
from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.azuredevops import payloads
from agentsmith.trackers.azuredevops.dialect import API_VERSION, message, type_key
from agentsmith.trackers.azuredevops.items import Items
from agentsmith.trackers.azuredevops.payloads import Page, QueryResult, WorkItem
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.azuredevops.states import States
from agentsmith.trackers.http import Answer
from agentsmith.trackers.shared.api import OnProject, ProjectApi

log = structlog.get_logger()

QUERY_PAGE: Final = 10_000
BATCH: Final = 200
FULL_EVERY: Final = 600.0
OVERLAP: Final = timedelta(seconds=120)
_MOST_LABELS: Final = 50
_MOST_KEPT: Final = 20_000
"""A longer list is read anew each time."""
_SMALLEST_PAGE: Final = 100
_MOST_CHANGES: Final = 5
"""So many batches of changes are read before the list is read again instead."""
_WANTED: Final = (
    "System.Id",
    "System.Rev",
    "System.Title",
    "System.State",
    "System.WorkItemType",
    "System.TeamProject",
    "System.Tags",
    "System.Description",
    "System.CommentCount",
    "System.CreatedBy",
    "System.ChangedBy",
    "System.AssignedTo",
    "System.ChangedDate",
)


@dataclass(slots=True)
class KeptList:
    """A list as it was last seen."""

    tickets: dict[str, Ticket]
    as_of: datetime
    """The service's own time when the list was begun."""
    read_at: float
    """When it was last read as a whole, on the boot-time clock."""


@dataclass(slots=True)
class Incomplete:
    """Whether a batch lacked something that the query had named: that is asked again the next time."""

    any: bool = False


class Listing(OnProject[Site]):
    """Lists the work items of one project by tag."""

    def __init__(self, api: ProjectApi[Site], *, items: Items, states: States, query_page: int) -> None:
        super().__init__(api)
        self._items = items
        self._states = states
        self._query_page = query_page
        self._kept: dict[frozenset[str], KeptList] = {}

    async def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open work item that carries one of `labels`, oldest first (T2); any error raises (P9)."""
        for label in labels:
            if not label.strip() or set(label) & set(",;"):
                raise ConfigError(f"Azure DevOps cannot search for the tag {label!r}: no tag can be called so")
        wanted = frozenset(label.casefold() for label in labels)
        if not wanted:
            return
        kept = self._kept.get(wanted)
        if kept is not None and self._now() - kept.read_at < FULL_EVERY and await self._catch_up(wanted, kept):
            for ticket in list(kept.tickets.values()):
                yield ticket
            return
        async for ticket in self._all(labels, wanted):
            yield ticket

    async def _all(self, labels: tuple[str, ...], wanted: frozenset[str]) -> AsyncIterator[Ticket]:
        self._kept.pop(wanted, None)
        read_at = self._now()
        where = " OR ".join(f"[System.Tags] CONTAINS {_quoted(label)}" for label in labels)
        where = f"({where})" if len(labels) > 1 else where
        if closed := await self._states.closed_everywhere():
            where += f" AND [System.State] NOT IN ({', '.join(map(_quoted, closed))})"
        found: dict[str, Ticket] = {}
        as_of: datetime | None = None
        incomplete = Incomplete()
        async for ids, at in self._query(where):
            as_of = as_of or at
            async for _, ticket in self._read(ids, incomplete):
                if ticket is not None and ticket.key not in found and _carries(ticket, wanted):
                    found[ticket.key] = ticket
                    yield ticket
        if as_of is not None and not incomplete.any and len(found) <= _MOST_KEPT and len(self._kept) < _MOST_LABELS:
            self._kept[wanted] = KeptList(found, as_of, read_at)

    async def _catch_up(self, wanted: frozenset[str], kept: KeptList) -> bool:
        """Bring a list up to date with whatever changed since; False when reading it again is cheaper.

        The list stays as it was if this fails half-way.
        """
        since = (kept.as_of - OVERLAP).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        changed: dict[str, Ticket | None] = {}
        as_of: datetime | None = None
        incomplete = Incomplete()
        async for ids, at in self._query(f"[System.ChangedDate] >= {_quoted(since)}", precise=True):
            as_of = as_of or at
            if len(changed) + len(ids) > _MOST_CHANGES * BATCH:
                return False
            async for key, ticket in self._read(ids, incomplete):
                changed[key] = ticket
        for key, ticket in changed.items():
            if ticket is not None and _carries(ticket, wanted):
                kept.tickets[key] = ticket
            else:
                kept.tickets.pop(key, None)
        if not incomplete.any:
            kept.as_of = as_of or kept.as_of
        return True

    async def _query(self, where: str, *, precise: bool = False) -> AsyncIterator[tuple[list[int], datetime | None]]:
        """The ids that a condition selects, page by page."""
        last, size = 0, self._query_page
        while True:
            text = (
                "SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project"  # noqa: S608 - all quoted
                f" AND {where} AND [System.Id] > {last} ORDER BY [System.Id]"
            )
            path = self._site.path("/wit/wiql") + f"?api-version={API_VERSION}&$top={size}"
            path += "&timePrecision=true" if precise else ""
            too_many = frozenset({400})
            # A question, although it is sent as POST: asking twice does no harm.
            answer = await self._client.write(
                "POST", path, {"query": text}, repeatable=True, allow=too_many, missing=Refused
            )
            if answer.status == 400:
                if not _too_large(answer) or size <= _SMALLEST_PAGE:
                    raise Refused(f"Azure DevOps: the query was refused: {message(answer.data)[:200]}")
                size = max(_SMALLEST_PAGE, size // 10)
                continue
            result: QueryResult = payloads.read(QueryResult, answer.data, "the result of a query")
            ids = sorted({hit.id for hit in result.work_items if hit.id > last})
            if not ids and result.work_items:
                raise BadAnswer("Azure DevOps: the pages of a query do not end")
            yield ids, result.as_of
            if len(result.work_items) < size:
                return
            last = ids[-1]

    async def _read(self, ids: list[int], incomplete: Incomplete) -> AsyncIterator[tuple[str, Ticket | None]]:
        """What the ids stand for; None for what is closed, gone, elsewhere or malformed."""
        for start in range(0, len(ids), self._page_size):
            some = ids[start : start + self._page_size]
            read_at = self._now()
            body = {"ids": some, "fields": list(_WANTED), "errorPolicy": "omit"}
            path = self._site.path("/wit/workitemsbatch") + f"?api-version={API_VERSION}"
            answer = await self._client.write("POST", path, body, repeatable=True, missing=Refused)
            page: Page = payloads.read(Page, answer.data, "a batch of work items")
            incomplete.any |= sum(record is not None for record in page.value) < len(some)
            missing = set(some)
            for record in page.value:
                ticket = await self._listed(record, read_at)
                if ticket is not None:
                    missing.discard(int(ticket.key))
                    # A hint needs no text (T2), and a kept holds as many as there are open tickets.
                    yield ticket.key, replace(ticket, body="") if ticket.open else None
            for number in missing:
                yield str(number), None

    async def _listed(self, record: Any, read_at: float) -> Ticket | None:
        """One record of a batch; None for a hole, and for a malformed one, which is logged."""
        if record is None:
            return None
        try:
            item: WorkItem = payloads.read(WorkItem, record, "a work item in a batch")
            ticket = await self._items.ticket(item, read_at=read_at)
        except BadAnswer as error:
            number = record.get("id") if isinstance(record, dict) else None
            log.warning("skipped a malformed work item", number=number, error=str(error))
            return None
        return ticket if await self._items.here(item.fields.project) else None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _carries(ticket: Ticket, wanted: frozenset[str]) -> bool:
    return any(label.casefold() in wanted for label in ticket.labels)


def _too_large(answer: Answer) -> bool:
    said = message(answer.data)
    return "QueryResultSizeLimitExceeded" in type_key(answer.data) or "VS402337" in said
