"""Which issues block another one.

A link of the type "Blocks" has two ends: the inward issue blocks, the outward one is blocked. Seen from an issue, the
other end stands there: where it says `inwardIssue`, that one blocks us; where it says `outwardIssue`, we block it.
"""

from __future__ import annotations

from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Blocker
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.issues import Issues
from agentsmith.trackers.jira.payloads import Link
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.shared.api import ProjectApi


class Links:
    """Reads links between issues. `kind` is what the site calls the type of link that blocks."""

    def __init__(self, api: ProjectApi[Site], issues: Issues, *, kind: str) -> None:
        self._client, self._site, self._issues = api.client, api.site, issues
        self._kind = kind.casefold()

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """The issues that must be finished before this one."""
        key = self._issues.key(ticket.key)
        answer = await self._client.get(self._site.issue(key), params={"fields": "issuelinks"})
        fields = answer.data.get("fields") if isinstance(answer.data, dict) else None
        found: list[Blocker] = []
        for record in payloads.listed(fields, "issuelinks", f"issue {key}"):
            link: Link = payloads.read(Link, record, "a link")
            if link.inwardIssue is None or link.type.name.casefold() != self._kind:
                continue
            other = link.inwardIssue
            blocker = Blocker(self._site.ticket_id(other.key), self._site.page(other.key), other.fields.status.open)
            found.append(blocker)
        return tuple(found)
