"""The Azure DevOps tracker: the contract of `domain.tracker`, put together from its parts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from agentsmith.domain.foreign import Foreign
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Blocker
from agentsmith.trackers.azuredevops import links, tags
from agentsmith.trackers.azuredevops.comment_format import CommentFormat, Format
from agentsmith.trackers.azuredevops.hooks import Hooks
from agentsmith.trackers.azuredevops.items import Items
from agentsmith.trackers.azuredevops.listing import BATCH, QUERY_PAGE, Listing
from agentsmith.trackers.azuredevops.memory import ItemMemory
from agentsmith.trackers.azuredevops.moves import Moves
from agentsmith.trackers.azuredevops.people import HISTORY_PAGE, People
from agentsmith.trackers.azuredevops.remarks import ItemRemarks
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.azuredevops.states import States
from agentsmith.trackers.azuredevops.sticky import COMMENTS_VERSION, Stickies
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.tracker import HostedTracker, TrackerParts


@dataclass(frozen=True, slots=True)
class Options:
    """How an Azure DevOps is used, where that is a matter of taste or of its release."""

    teams: frozenset[str] = frozenset()
    """Whose members may write; none named means every team of the project."""
    comment_format: Format = "markdown"
    comments_version: str = COMMENTS_VERSION


class AzureDevOpsTracker(HostedTracker):
    """The work items of one project."""

    platform: Final = "azure-devops"
    needs: Final = (
        'the scope "Work Items (Read & write)", and "Edit work items in this node" and "Create tag '
        'definition" in the project'
    )
    needs_to_ask: Final = 'the scope "Project and Team (Read)"'
    edits_are_kept: Final = True
    """Each edit of a comment is a revision, and a work item has 10,000 of them in its life."""

    def __init__(
        self, name: str, labels: LabelSet, site: Site, client: ApiClient, connection: Connection, options: Options
    ) -> None:
        tags.check(labels)
        size = connection.page_size
        self._api = api = ProjectApi(name, site, client, connection.pace.now, size or BATCH)
        memory, form = ItemMemory(), CommentFormat(labels, options.comment_format)
        self._states = states = States(api)
        people = People(api, teams=options.teams, page_size=size or HISTORY_PAGE)
        items = Items(api, states=states, memory=memory)
        parts = TrackerParts(
            site=site,
            tickets=items,
            listing=Listing(api, items=items, states=states, query_page=size or QUERY_PAGE),
            moves=Moves(items=items, labels=labels, form=form, memory=memory, pace=connection.pace),
            stickies=Stickies(
                api, form=form, items=items, people=people, memory=memory, version=options.comments_version
            ),
            people=people,
            remarks=ItemRemarks(api, version=options.comments_version),
            hooks=Hooks(api),
        )
        super().__init__(name, labels, parts, connection.http)

    def filter_hint(self, status: Status) -> str:
        """A condition for a query; the search box of the work items page takes `t:` with the tag as well."""
        return f"[System.Tags] CONTAINS '{self.labels.label(status)}'"

    def foreign(self, add: Collection[str], remove: Collection[str]) -> Foreign:
        """See HostedTracker."""
        return tags.check_foreign(super().foreign(add, remove))

    @property
    def access_goes_by(self) -> str:
        """Azure DevOps tells nobody's rights."""
        return "membership of the project's teams"

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """The predecessors of the work item."""
        return await links.blockers(self._api, self._states, self._parts.tickets.key(ticket.key))
