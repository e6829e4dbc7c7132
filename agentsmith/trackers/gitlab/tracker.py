"""The GitLab tracker: the contract of `domain.tracker`, put together from its parts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from agentsmith.domain.errors import Refused
from agentsmith.domain.foreign import Foreign, foreign
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Blocker
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.hooks import Hooks
from agentsmith.trackers.gitlab.issues import Issues
from agentsmith.trackers.gitlab.links import Links
from agentsmith.trackers.gitlab.listing import PAGE_SIZE, Listing
from agentsmith.trackers.gitlab.moves import Moves
from agentsmith.trackers.gitlab.paging import onward
from agentsmith.trackers.gitlab.payloads import Label
from agentsmith.trackers.gitlab.people import People
from agentsmith.trackers.gitlab.remarks import IssueRemarks
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.spelling import Spelling
from agentsmith.trackers.gitlab.sticky import Stickies, form
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.labels import lacking, looks_of
from agentsmith.trackers.shared.memory import RememberedTicket, TicketMemory
from agentsmith.trackers.shared.tracker import HostedTracker, TrackerParts

TRUST_READS: Final = 5.0
"""Seconds for which a read stands for the look right before a label write."""


class GitLabTracker(HostedTracker):
    """The issues of one project."""

    platform: Final = "gitlab"
    needs: Final = "the scope api, and the role Planner, Reporter or more in the project"
    needs_to_ask: Final = "the scope api or read_api, and membership of the project and of the groups in allow.teams"

    def __init__(
        self,
        name: str,
        spelling: Spelling,
        site: Site,
        client: ApiClient,
        connection: Connection,
        *,
        trust_reads: float = TRUST_READS,
    ) -> None:
        self._api = api = ProjectApi(name, site, client, connection.pace.now, connection.page_size or PAGE_SIZE)
        self._spelling = spelling
        memory = TicketMemory(RememberedTicket, trust_reads=trust_reads)
        people = People(api, spelling)
        issues = Issues(api, spelling=spelling, memory=memory)
        self._links = Links(api, issues)
        parts = TrackerParts(
            site=site,
            tickets=issues,
            listing=Listing(api, issues=issues, spelling=spelling),
            moves=Moves(issues=issues, spelling=spelling, memory=memory, now=api.now),
            stickies=Stickies(api, form=form(spelling.labels), issues=issues, people=people, memory=memory),
            people=people,
            remarks=IssueRemarks(api, people),
            hooks=Hooks(api),
        )
        super().__init__(name, spelling.labels, parts, connection.http)

    def filter_hint(self, status: Status) -> str:
        """A search on the project's issues page."""
        return f'label:=~"{self._spelling.label(status)}"'

    def foreign(self, add: Collection[str], remove: Collection[str]) -> Foreign:
        """See HostedTracker; what shares a scope with our labels is not foreign either."""
        return foreign(self._spelling.reserved, add, remove)

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """The issues that this one is marked as blocked by; none on tiers that know no such links."""
        return await self._links.blockers(self._parts.tickets.key(ticket.key))

    async def ensure_labels(self, *triggers: str) -> tuple[str, ...]:
        """Make the lifecycle labels that the project lacks, and these; answers those made, as they are spelled there.
        One request when none is missing.

        Worth calling at start-up: it shows whether the token may write, and gives the labels their colours.
        """
        looks = {self._spelling.written(label): look for label, look in looks_of(self.labels, triggers).items()}
        missing = lacking(looks, await self._existing_labels())
        for label in missing:
            color, description = looks[label]
            body = {"name": label, "color": f"#{color}", "description": description}
            # 409: somebody else made it meanwhile, which is as good.
            path, taken = self._api.site.path(rest="/labels"), frozenset({409})
            await self._api.client.write("POST", path, body, repeatable=True, allow=taken, missing=Refused)
        return missing

    async def missing_labels(self, *names: str) -> tuple[str, ...]:
        """Those of the labels that the project lacks, however they are spelled there."""
        missing = lacking(map(self._spelling.written, names), await self._existing_labels())
        return tuple(name for name in names if self._spelling.written(name) in missing)

    async def _existing_labels(self) -> set[str]:
        there: set[str] = set()
        path = self._api.site.path(rest="/labels")
        params = {"per_page": str(PAGE_SIZE)}
        async for page in self._api.client.pages(path, params=params, next_page=onward(params), missing=Refused):
            labels: list[Label] = payloads.read(list[Label], page.data, "a list of labels")
            there |= {label.name for label in labels}
        return there
