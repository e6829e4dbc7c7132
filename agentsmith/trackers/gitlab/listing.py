"""Finding every open issue with one of some labels, at the price of one request where nothing changed (T2).

GitLab answers no 304, and joins labels by "and" only, so a list that needs several pages, or several labels, would cost
several requests on every poll. What one page holds is listed afresh each time: that is exact and costs one request. Of
more than that a list is kept, and the next look asks only what was updated since (with an overlap, because database
replicas and clocks lag), whatever its labels and state: what lost the label or was closed is in that answer too.
Deleted issues and renamed labels are in no such answer, so the whole list is read again every `FULL_EVERY` seconds.

Pages are taken by keyset where GitLab can: an issue that loses the label meanwhile then shifts nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from agentsmith.domain.errors import BadAnswer, ConfigError, Refused
from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.issues import Issues
from agentsmith.trackers.gitlab.paging import onward
from agentsmith.trackers.gitlab.payloads import Issue, snapshot_of
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.spelling import Spelling
from agentsmith.trackers.http import Answer
from agentsmith.trackers.http.dialect import http_date
from agentsmith.trackers.shared.api import OnProject, ProjectApi

log = structlog.get_logger()

PAGE_SIZE: Final = 100
FULL_EVERY: Final = 600.0
OVERLAP: Final = 120.0
_MOST_LABELS: Final = 50
_MOST_KEPT: Final = 20_000
"""A longer list is read anew each time."""
_RESERVED: Final = frozenset({"none", "any", "no label"})
"""Words that GitLab takes for "no label" and "some label"."""


@dataclass(slots=True)
class KeptList:
    """A long list as it was last seen."""

    tickets: dict[str, Ticket]
    as_of: float
    """GitLab's own time when the list was begun, in seconds since the epoch."""
    read_at: float
    """When it was last read as a whole, on the boot-time clock."""
    pages: int
    """How many requests it takes to read it as a whole."""


class Listing(OnProject[Site]):
    """Lists the issues of one project by label."""

    def __init__(self, api: ProjectApi[Site], *, issues: Issues, spelling: Spelling) -> None:
        super().__init__(api)
        self._issues = issues
        self._spelling = spelling
        self._keyset = True
        self._kept: dict[frozenset[str], KeptList] = {}

    async def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open issue that carries one of `labels` (T2); any error raises (P9)."""
        for label in labels:
            if "," in label or label.strip().casefold() in _RESERVED:
                raise ConfigError(f"GitLab cannot search for the label {label!r}: it has a meaning of its own there")
        wanted = frozenset(self._spelling.written(label) for label in labels)
        kept = self._kept.get(wanted)
        if kept is not None and self._now() - kept.read_at < FULL_EVERY and await self._catch_up(wanted, kept):
            for ticket in list(kept.tickets.values()):
                yield ticket
            return
        async for ticket in self._all(wanted):
            yield ticket

    async def _all(self, wanted: frozenset[str]) -> AsyncIterator[Ticket]:
        found: dict[str, Ticket] = {}
        read_at, as_of, pages = self._now(), None, 0
        self._kept.pop(wanted, None)
        for label in sorted(wanted):
            params = {"state": "opened", "labels": label, "order_by": "created_at", "sort": "asc"}
            async for answer in self._pages(params):
                as_of = http_date(answer.headers) if pages == 0 else as_of
                pages += 1
                for _, ticket in self._records(answer):
                    if ticket is None or ticket.key in found or not _carries(ticket, wanted):
                        continue
                    found[ticket.key] = ticket
                    yield ticket
        if pages > 1 and as_of is not None and len(found) <= _MOST_KEPT and len(self._kept) < _MOST_LABELS:
            self._kept[wanted] = KeptList(found, as_of, read_at, pages)

    async def _catch_up(self, wanted: frozenset[str], kept: KeptList) -> bool:
        """Bring a list up to date; False when that costs more than reading it again."""
        since = datetime.fromtimestamp(kept.as_of - OVERLAP, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        params = {"state": "all", "updated_after": since, "order_by": "updated_at", "sort": "asc"}
        changes: dict[str, Ticket | None] = {}
        as_of, pages = None, 0
        async for answer in self._pages(params):
            as_of = http_date(answer.headers) if pages == 0 else as_of
            pages += 1
            if pages > kept.pages:
                return False
            changes.update(self._records(answer))
        if as_of is None:
            return False
        for key, ticket in changes.items():
            if ticket is not None and _carries(ticket, wanted):
                kept.tickets[key] = ticket
            else:
                kept.tickets.pop(key, None)
        kept.as_of = as_of
        return True

    async def _pages(self, params: Mapping[str, str]) -> AsyncIterator[Answer]:
        path = self._site.path(rest="/issues")
        sent = {**params, "per_page": str(self._page_size)}
        if self._keyset:
            begun = False
            keyset = {**sent, "pagination": "keyset"}
            pages = self._client.pages(
                path, params=keyset, next_page=onward(keyset), allow=frozenset({405}), missing=Refused
            )
            async for answer in pages:
                if answer.status == 405 and not begun:
                    break
                if answer.status == 405:
                    raise BadAnswer(f"GitLab: GET {path}: keyset pagination was refused half-way")
                begun = True
                yield answer
            else:
                return
            self._keyset = False
            log.info("this GitLab pages issues by number only")
        async for answer in self._client.pages(path, params=sent, next_page=onward(sent), missing=Refused):
            yield answer

    def _records(self, answer: Answer) -> list[tuple[str, Ticket | None]]:
        """The issues of a page by key; None for a malformed one, which is logged."""
        records: list[Any] = payloads.read(list[Any], answer.data, "a list of issues")
        found: list[tuple[str, Ticket | None]] = []
        for record in records:
            try:
                issue: Issue = payloads.read(Issue, record, "an issue in a list")
            except BadAnswer as error:
                iid = record.get("iid") if isinstance(record, dict) else None
                log.warning("skipped a malformed issue", project=self._site.project, iid=iid, error=str(error))
                found.append((str(iid), None))
                continue
            # A hint needs no text (T2), and a kept list holds as many as there are open tickets.
            found.append((str(issue.iid), replace(self._issues.ticket(issue), body="")))
        return found


def _carries(ticket: Ticket, wanted: frozenset[str]) -> bool:
    """Whether an issue belongs on the list, by GitLab's own rule: open, and a label letter by letter."""
    snapshot = snapshot_of(ticket)
    return ticket.open and snapshot is not None and not wanted.isdisjoint(snapshot.shown)
