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
from agentsmith.trackers.gitlab.payloads import DatedLabels, Project
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.http import Answer
from agentsmith.trackers.shared.api import OnProject, ProjectApi

log = structlog.get_logger()

CHANGED: Final = "the label was changed since, and may have had another name at that time"
CANNOT_TELL: Final = (
    "GitLab does not tell when the label was last changed, for which its GraphQL API is needed (13.9 or newer)"
)
_LABELS: Final = """
      pageInfo { hasNextPage endCursor }
      nodes { id title createdAt updatedAt }
"""
_OF_ISSUE: Final = f"""
query($issue: IssueID!, $size: Int!, $after: String) {{
  issue(id: $issue) {{
    labels(first: $size, after: $after) {{{_LABELS}}}
  }}
}}
"""
_OF_PROJECT: Final = f"""
query($project: ID!, $name: String!, $size: Int!, $after: String) {{
  projects(ids: [$project]) {{
    nodes {{
      labels(searchTerm: $name, includeAncestorGroups: true, first: $size, after: $after) {{{_LABELS}}}
    }}
  }}
}}
"""
_MOST_PAGES: Final = 100
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Dates:
    """What a label is called, and when it was made and last changed; GraphQL tells whole seconds."""

    name: str
    made: datetime
    changed: datetime

    def doubt(self, name: str, at: datetime) -> str:
        """Why it may have had another name than this one then; empty if not. In the same second the change came last.

        It is asked for its name once more, because a replica that lags behind may not know that it was changed.
        """
        changed = self.changed.replace(microsecond=0)
        never = self.changed == self.made and changed <= at
        return "" if self.name == name and (never or changed + _SECOND <= at) else CHANGED


class Renames(OnProject[Site]):
    """Asks when labels were changed; never from a cache, as who did something must not be."""

    def __init__(self, api: ProjectApi[Site]) -> None:
        super().__init__(api)
        self._warned = False

    async def on_issue(self, issue: int) -> dict[int, Dates] | None:
        """The labels of an issue by their numbers; None where GitLab does not tell."""
        return await self._dates(_OF_ISSUE, {"issue": f"gid://gitlab/Issue/{issue}"})

    async def in_project(self, name: str) -> dict[int, Dates]:
        """The labels of the project, and of the groups above it, that are called so or similarly."""
        project = self._site.called or self._site.id or (await self._number())
        return await self._dates(_OF_PROJECT, {"project": f"gid://gitlab/Project/{project}", "name": name}) or {}

    async def _number(self) -> str:
        answer = await self._client.get(self._site.path(), missing=Refused)
        project: Project = payloads.read(Project, answer.data, "a project")
        return str(project.id)

    async def _dates(self, query: str, about: dict[str, str]) -> dict[int, Dates] | None:
        try:
            found = await self._asked(query, about)
        except Refused as error:
            if not self._warned:
                log.warning("nobody counts as having set a trigger: GitLab's GraphQL API is needed", error=str(error))
            self._warned = True
            return None
        self._warned = False
        return found

    async def _asked(self, query: str, about: dict[str, str]) -> dict[int, Dates]:
        found: dict[int, Dates] = {}
        after: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._page(query, {**about, "size": self._page_size, "after": after})
            found |= {label.number: Dates(label.title, label.created_at, label.updated_at) for label in page.nodes}
            after = page.info.end
            if not page.info.more:
                return found
        raise BadAnswer("GitLab: a list of labels does not end")

    async def _page(self, query: str, variables: dict[str, Any]) -> DatedLabels:
        answer = await self._client.write(
            "POST",
            self._site.graphql_url,
            {"query": query, "variables": variables},
            repeatable=True,
            missing=Refused,
        )
        data: Any = answer.data if isinstance(answer.data, dict) else {}
        if data.get("errors"):
            _refused(answer, data["errors"])
        data = data.get("data") or {}
        holders: Any = [data["issue"]] if "issue" in data else (data.get("projects") or {}).get("nodes")
        if not isinstance(holders, list) or len(holders) != 1 or not isinstance(holders[0], dict):
            raise TrackerUnavailable(
                "GitLab: what REST shows is not there yet for GraphQL"
            )  # a replica that lags behind
        page: DatedLabels = payloads.read(DatedLabels, holders[0].get("labels"), "a list of labels")
        return page


def _refused(answer: Answer, errors: object) -> None:
    """An old server does not know what we ask for; whatever else is wrong may pass."""
    said = excerpt(str(errors))
    if "undefinedField" in said or "doesn't exist on type" in said or "isn't a defined input type" in said:
        raise Refused(f"GitLab: {said}")
    raise TrackerUnavailable(f"GitLab: GraphQL answered {answer.status}: {said}")
