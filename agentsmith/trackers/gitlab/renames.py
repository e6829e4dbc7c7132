"""Whether a label still is what it was when somebody set it.

Label events point at a label by its number and show the name that it has today. So whoever may rename labels rewrites
who set what: a label that a maintainer set long ago becomes the trigger. REST tells nobody when a label was renamed;
GraphQL tells when it was last changed in any way, and that is enough: what was not changed since was not renamed since.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from agentsmith.domain.errors import BadAnswer, Refused, TrackerUnavailable
from agentsmith.redaction import excerpt
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.payloads import DatedLabels
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.http import Answer
from agentsmith.trackers.shared.api import OnProject, ProjectApi

log = structlog.get_logger()

CHANGED: Final = "the label was changed since, and may have had another name when it was set"
CANNOT_TELL: Final = (
    "GitLab does not tell when the label was last changed, for which its GraphQL API is needed (13.9 or newer)"
)
_QUERY: Final = """
query($issue: IssueID!, $size: Int!, $after: String) {
  issue(id: $issue) {
    labels(first: $size, after: $after) {
      pageInfo { hasNextPage endCursor }
      nodes { id createdAt updatedAt }
    }
  }
}
"""
_MOST_PAGES: Final = 100
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Dates:
    """When a label was made and last changed; GraphQL tells whole seconds."""

    made: datetime
    changed: datetime

    def doubt(self, at: datetime) -> str:
        """Why it may have been another label then; empty if it was not. In the same second the change came last."""
        changed = self.changed.replace(microsecond=0)
        never = self.changed == self.made and changed <= at
        return "" if never or changed + _SECOND <= at else CHANGED


class Renames(OnProject[Site]):
    """Asks when labels were changed; never from a cache, as who did something must not be."""

    def __init__(self, api: ProjectApi[Site]) -> None:
        super().__init__(api)
        self._warned = False

    async def dates(self, issue: int) -> dict[int, Dates] | None:
        """The labels of an issue by their numbers; None where GitLab does not tell."""
        try:
            found = await self._asked(issue)
        except Refused as error:
            if not self._warned:
                log.warning("nobody counts as having set a trigger: GitLab's GraphQL API is needed", error=str(error))
            self._warned = True
            return None
        self._warned = False
        return found

    async def _asked(self, issue: int) -> dict[int, Dates]:
        found: dict[int, Dates] = {}
        after: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._page(issue, after)
            found |= {label.number: Dates(label.created_at, label.updated_at) for label in page.nodes}
            after = page.info.end
            if not page.info.more:
                return found
        raise BadAnswer("GitLab: the labels of an issue do not end")

    async def _page(self, issue: int, after: str | None) -> DatedLabels:
        variables = {"issue": f"gid://gitlab/Issue/{issue}", "size": self._page_size, "after": after}
        answer = await self._client.write(
            "POST",
            self._site.graphql_url,
            {"query": _QUERY, "variables": variables},
            repeatable=True,
            missing=Refused,
        )
        data: Any = answer.data if isinstance(answer.data, dict) else {}
        if data.get("errors"):
            _refused(answer, data["errors"])
        issue_data = (data.get("data") or {}).get("issue")
        if issue_data is None:
            raise TrackerUnavailable("GitLab: an issue is not there yet for GraphQL")  # a replica that lags behind
        page: DatedLabels = payloads.read(DatedLabels, issue_data.get("labels"), "the labels of an issue")
        return page


def _refused(answer: Answer, errors: object) -> None:
    """An old server does not know what we ask for; whatever else is wrong may pass."""
    said = excerpt(str(errors))
    if "undefinedField" in said or "doesn't exist on type" in said or "isn't a defined input type" in said:
        raise Refused(f"GitLab: {said}")
    raise TrackerUnavailable(f"GitLab: GraphQL answered {answer.status}: {said}")
