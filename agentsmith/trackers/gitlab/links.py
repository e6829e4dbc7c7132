"""The issues that an issue is marked as blocked by. Only paid tiers know such links; elsewhere there are none."""

from __future__ import annotations

from agentsmith.domain.errors import BadAnswer
from agentsmith.domain.tracker import Blocker
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.issues import Issues
from agentsmith.trackers.gitlab.payloads import LinkedIssue
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.shared.api import ProjectApi

_WITHHELD = frozenset({403, 404})


class Links:
    """Reads the links between issues."""

    def __init__(self, api: ProjectApi[Site], issues: Issues) -> None:
        self._client, self._site, self._issues = api.client, api.site, issues

    async def blockers(self, iid: str) -> tuple[Blocker, ...]:
        """What blocks the issue; GitLab gives the whole list at once."""
        answer = await self._client.get(self._site.path(iid, "/links"), allow=_WITHHELD)
        if answer.status in _WITHHELD:
            # A tier without links answers like an issue that is not there: only reading the issue tells them apart.
            await self._issues.read(iid)
            return ()
        linked: list[LinkedIssue] = payloads.read(list[LinkedIssue], answer.data, "a list of links")
        return tuple(self._blocker(issue) for issue in linked if issue.link_type == "is_blocked_by")

    def _blocker(self, issue: LinkedIssue) -> Blocker:
        path, hash_, _ = issue.references.full.rpartition("#") if issue.references else ("", "", "")
        if not hash_ or not path:
            raise BadAnswer(f"GitLab: the linked issue {issue.iid} does not say in which project it is")
        return Blocker(self._site.foreign_id(path, str(issue.iid)), issue.web_url, issue.open)
