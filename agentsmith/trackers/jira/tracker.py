"""The Jira tracker: the contract of `domain.tracker`, put together from its parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from agentsmith.domain.errors import ConfigError
from agentsmith.domain.foreign import Foreign
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Blocker
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.jira.comment_format import CommentFormat
from agentsmith.trackers.jira.hooks import Hooks
from agentsmith.trackers.jira.issues import Issues, RecentWrites
from agentsmith.trackers.jira.links import Links
from agentsmith.trackers.jira.listing import PAGE_SIZE, Listing
from agentsmith.trackers.jira.moves import Moves
from agentsmith.trackers.jira.people import People
from agentsmith.trackers.jira.remarks import IssueRemarks
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.jira.sticky import Stickies
from agentsmith.trackers.jira.workflow import Workflow
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.memory import RememberedTicket, TicketMemory
from agentsmith.trackers.shared.tracker import HostedTracker, TrackerParts

TRUST_READS: Final = 5.0
"""Seconds for which a read stands for the look right before a label write."""
BLOCKS: Final = "Blocks"
_LONGEST_LABEL: Final = 255


@dataclass(frozen=True, slots=True)
class Options:
    """How a Jira is used, where that is a matter of taste or of its administrators."""

    statuses: Mapping[Status, str] = field(default_factory=dict)
    """What of the workflow shows our statuses; any switches status mode on."""
    link_type: str = BLOCKS
    """What the site calls the type of link by which one ticket blocks another."""
    quiet: bool = True
    """Send no mail for our label changes and edited comments, where the account may ask for that."""
    trust_reads: float = TRUST_READS
    secret_in_path: bool = False
    """Whether webhooks carry the secret in their address, because this Jira cannot sign."""


class JiraTracker(HostedTracker):
    """The issues of one project."""

    platform: Final = "jira"
    needs: Final = (
        '"Browse projects", "Edit issues", "Add comments" and "Edit own comments" in the project (a '
        "scoped token has the scopes read:jira-work and write:jira-work)"
    )
    needs_to_ask: Final = (
        '"Administer projects" in the project, for allow.teams also "Browse users and groups" (a scoped token also '
        "has the scope read:jira-user)"
    )

    def __init__(
        self, name: str, labels: LabelSet, site: Site, client: ApiClient, connection: Connection, options: Options
    ) -> None:
        _check(labels)
        api = ProjectApi(name, site, client, connection.pace.now, connection.page_size or PAGE_SIZE)
        memory, recent = TicketMemory(RememberedTicket, trust_reads=options.trust_reads), RecentWrites(api.now)
        issues = Issues(api, labels=labels, memory=memory, recent=recent, quiet=options.quiet)
        people = People(api, issues)
        workflow = Workflow(api, issues=issues, words=options.statuses) if options.statuses else None
        form = CommentFormat(labels, site.cloud)
        self._site = site
        self._links = Links(api, issues, kind=options.link_type)
        parts = TrackerParts(
            site=site,
            tickets=issues,
            listing=Listing(api, issues=issues, recent=recent),
            moves=Moves(
                issues=issues,
                labels=labels,
                memory=memory,
                lock=connection.shared.label_lock,
                workflow=workflow,
                now=api.now,
            ),
            stickies=Stickies(api, form=form, issues=issues, people=people, memory=memory),
            people=people,
            remarks=IssueRemarks(api, form),
            hooks=Hooks(api, secret_in_path=options.secret_in_path),
        )
        super().__init__(name, labels, parts, connection.http)

    def filter_hint(self, status: Status) -> str:
        """A JQL query for the search page."""
        return f'project = "{self._site.named}" AND labels = "{self.labels.label(status)}"'

    def foreign(self, add: Collection[str], remove: Collection[str]) -> Foreign:
        """See HostedTracker."""
        return _check_foreign(super().foreign(add, remove))

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """The issues that this one is linked to as blocked by."""
        return await self._links.blockers(ticket)


def _check_foreign(wanted: Foreign) -> Foreign:
    """The same, if Jira takes these labels; raises ConfigError where it would not."""
    for name in wanted.add:
        if any(c.isspace() for c in name):
            raise ConfigError(f"Jira takes no label {name[:40]!r}: labels hold no spaces there")
    return wanted


def _check(labels: LabelSet) -> None:
    """Raise ConfigError when Jira would refuse or split one of our labels."""
    for prefix in (labels.prefix, *labels.former_prefixes):
        spaced = any(c.isspace() or not c.isprintable() for c in prefix)
        if spaced or len(prefix) > _LONGEST_LABEL - 20:
            raise ConfigError(f"Jira takes no labels that begin with {prefix[:40]!r}: they hold no spaces there")
