"""Which states are open: by their category, never by their name, because every process names its states itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from agentsmith.bounded import Bounded
from agentsmith.domain.errors import BadAnswer, Refused
from agentsmith.trackers.azuredevops import payloads
from agentsmith.trackers.azuredevops.dialect import API_VERSION
from agentsmith.trackers.azuredevops.payloads import ItemType, Page
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.shared.api import OnProject, ProjectApi

log = structlog.get_logger()

CLOSED: Final = frozenset({"completed", "removed"})
KEPT: Final = 300.0
"""Seconds for which categories are believed: an administrator may give a state another one at any time."""
CONFIRM_AFTER: Final = 10.0
"""Seconds after which we ask again before a state counts as unknown, or withdraws a run because it is closed."""
_MOST_PROJECTS: Final = 100

Categories = Mapping[tuple[str, str], bool]
"""Whether it is open, by type and state, both in lower case."""


class States(OnProject[Site]):
    """The categories of all states of a project's work item types: one request, kept for minutes."""

    def __init__(self, api: ProjectApi[Site]) -> None:
        super().__init__(api)
        self._known: Bounded[str, tuple[float, Categories]] = Bounded(_MOST_PROJECTS)
        self._asking = asyncio.Lock()

    async def is_open(
        self, type_: str, state: str, *, project: str | None = None, sure: bool = False, deadline: float | None
    ) -> bool:
        """Whether a work item of that type in that state is open; BadAnswer where the process knows no such state.

        With `sure`, it is not said to be closed by what was kept for longer than a moment.
        """
        where = self._site.project if project is None or self._site.here(project) else project
        wanted = (type_.casefold(), state.casefold())
        async with self._asking:
            known = await self._categories(where, KEPT, deadline)
            if wanted not in known or (sure and not known[wanted]):
                known = await self._categories(where, CONFIRM_AFTER, deadline)
        if wanted not in known:
            raise BadAnswer(f"Azure DevOps: the type {type_[:40]!r} has no state {state[:40]!r} in {where}")
        return known[wanted]

    async def closed_everywhere(self) -> tuple[str, ...]:
        """The names of states that are closed in every type that has them: a query may leave those out."""
        async with self._asking:
            known = await self._categories(self._site.project, KEPT, None)
        names = {state for _, state in known}
        return tuple(sorted(n for n in names if not any(known.get((t, n)) for t, _ in known)))

    async def _categories(self, project: str, kept: float, deadline: float | None) -> Categories:
        """Those of a project, asked for less than `kept` seconds ago."""
        now = self._now()
        known = self._known.get(project)
        if known is None or now - known[0] >= kept:
            known = self._known[project] = (now, await self._ask(project, deadline))
        return known[1]

    async def _ask(self, project: str, deadline: float | None) -> Categories:
        site = self._site if self._site.here(project) else Site(self._site.organization, project, self._site.base_url)
        params = {"api-version": API_VERSION}
        answer = await self._client.get(
            site.path("/wit/workitemtypes"), params=params, deadline=deadline, missing=Refused
        )
        page: Page = payloads.read(Page, answer.data, "a list of work item types")
        found: dict[tuple[str, str], bool] = {}
        for record in page.value:
            try:
                known: ItemType = payloads.read(ItemType, record, "a work item type")
            except BadAnswer as error:
                log.warning("skipped a malformed work item type", error=str(error))
                continue
            for state in known.states:
                found[known.name.casefold(), state.name.casefold()] = state.category.casefold() not in CLOSED
        return found
