"""The GitHub tracker: the contract of `domain.tracker`, put together from its parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from agentsmith.domain.errors import BadAnswer, Refused, TicketNotFound
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Blocker
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.claims import ClaimRefs
from agentsmith.trackers.github.hooks import Hooks
from agentsmith.trackers.github.issues import PAGE_SIZE, Issues
from agentsmith.trackers.github.labels import LabelWriter
from agentsmith.trackers.github.login import Clients
from agentsmith.trackers.github.memory import IssueMemory
from agentsmith.trackers.github.moves import Moves
from agentsmith.trackers.github.payloads import Issue, Label
from agentsmith.trackers.github.people import People
from agentsmith.trackers.github.remarks import IssueRemarks
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.github.sticky import Stickies, form
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.labels import lacking, looks_of
from agentsmith.trackers.shared.tracker import HostedTracker, TrackerParts

_FIRST_WITH_DEPENDENCIES: Final = (3, 19)
"""The Enterprise Server release that can tell what blocks an issue."""


class GitHubTracker(HostedTracker):
    """The issues of one repository."""

    platform: Final = "github"
    needs: Final = (
        'the permission "Issues: Read and write" (a fine-grained token or an app) or the scope repo (a '
        "classic token), and the role Triage or more in the repository"
    )
    needs_to_ask: Final = (
        'the permission "Metadata: Read", for allow.teams also "Members: Read" of the organization (a '
        "fine-grained token or an app), or the scopes repo and read:org (a classic token)"
    )

    def __init__(
        self, name: str, labels: LabelSet, site: Site, clients: Clients, connection: Connection, *, strict: bool = False
    ) -> None:
        """`strict` guards claims by a git ref as well."""
        size = connection.page_size or PAGE_SIZE
        self._api = api = ProjectApi(name, site, clients.client, connection.pace.now, size)
        memory = IssueMemory()
        self._writer = LabelWriter(api.client, site)
        self._issues = Issues(api, writer=self._writer, memory=memory)
        self._hooks = Hooks(api)
        people = People(api, as_app=clients.as_app)
        parts = TrackerParts(
            site=site,
            tickets=self._issues,
            listing=self._issues,
            moves=Moves(
                issues=self._issues,
                writer=self._writer,
                labels=labels,
                memory=memory,
                claims=ClaimRefs(api.client, site) if strict else None,
                now=api.now,
            ),
            stickies=Stickies(api, form=form(labels), issues=self._issues, people=people, memory=memory),
            people=people,
            remarks=IssueRemarks(api),
            hooks=self._hooks,
        )
        super().__init__(name, labels, parts, connection.http)

    def filter_hint(self, status: Status) -> str:
        """A search on the repository's issues page."""
        return f'is:issue label:"{self.labels.label(status)}"'

    async def redeliver_failed(self, tracker: str, public_url: str | None) -> int:
        """What never arrived, sent again by GitHub itself."""
        return await self._hooks.redeliver_failed(tracker, public_url)

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """The issues that this one is marked as blocked by; none on servers too old to know of such links."""
        number = self._issues.key(ticket.key)
        path = self._api.site.path(number, "/dependencies/blocked_by")
        params = {"per_page": str(self._api.page_size)}
        found: list[Blocker] = []
        async for page in self._api.client.pages(path, params=params, allow=frozenset({404})):
            if page.status == 404:
                if _too_old(page.headers):
                    return ()
                raise TicketNotFound(
                    f"GitHub: {self.ticket_id(number)} is not there: {payloads.error_message(page.data)}"
                )
            issues: list[Issue] = payloads.read(list[Issue], page.data, "a list of issues")
            found += [self._blocker(issue) for issue in issues]
        return tuple(found)

    async def ensure_labels(self, *triggers: str) -> tuple[str, ...]:
        """Make the lifecycle labels that the repository lacks, and these; answers those made. One request when none is
        missing.

        Worth calling at start-up: it shows whether the token may write, and teaches the ids that make moves cheaper.
        """
        looks = looks_of(self.labels, triggers)
        missing = await self.missing_labels(*looks)
        for label in missing:
            await self._writer.create(label, *looks[label])
        return missing

    async def missing_labels(self, *names: str) -> tuple[str, ...]:
        """Those of the labels that the repository lacks."""
        there: set[str] = set()
        params = {"per_page": str(PAGE_SIZE)}
        async for page in self._api.client.pages(self._api.site.path(rest="/labels"), params=params, missing=Refused):
            labels: list[Label] = payloads.read(list[Label], page.data, "a list of labels")
            self._writer.learn(labels)
            there |= {label.name for label in labels}
        return lacking(names, there)

    def _blocker(self, issue: Issue) -> Blocker:
        try:
            site = replace(self._api.site, repository="/".join(issue.html_url.split("/")[3:5]))
        except ValueError:
            raise BadAnswer(f"GitHub: issue {issue.number} has no address in a repository") from None
        return Blocker(site.ticket_id(str(issue.number)), issue.html_url, issue.state == "open")


def _too_old(headers: Mapping[str, str]) -> bool:
    """Whether an Enterprise Server says that it is older than the links between issues."""
    version = re.match(r"(\d+)\.(\d+)", headers.get("x-github-enterprise-version", ""))
    return version is not None and (int(version[1]), int(version[2])) < _FIRST_WITH_DEPENDENCIES
