"""Merge requests on GitLab: the contract of `domain.forge`.

GitLab itself sees to it that there is one open merge request per branch and target: a second one is refused (409). So
making one may be repeated after a lost answer, and a refusal is answered by looking for the one that is there. Whether
it is a draft stands in the title, so the title's own beginning must not look like that; and a line of the text that
begins with `/` would be a command.
"""

from __future__ import annotations

import re
from typing import Final

import httpx
import structlog

from agentsmith.domain.errors import Refused, TrackerUnavailable
from agentsmith.domain.forge import (
    EmptyRepository,
    GitCredential,
    NothingToPropose,
    PullRequest,
    RepositoryNotFound,
    WantedPullRequest,
)
from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.dialect import message
from agentsmith.trackers.gitlab.paging import onward
from agentsmith.trackers.gitlab.payloads import MergeRequest, Project
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.sticky import harmless
from agentsmith.trackers.http import ApiClient, Pace, spending_for
from agentsmith.trackers.http.redaction import excerpt
from agentsmith.trackers.shared.proposals import LOOKS, PURPOSE, fitted, one_line, plain_mention, unified

log = structlog.get_logger()

USERNAME: Final = "oauth2"
"""Who git says it is: required with OAuth tokens, and good with every access token."""
TITLE_LIMIT: Final = 255
BODY_LIMIT: Final = 1_000_000
PAGE: Final = "100"
CUT: Final = "\n\n… (cut: GitLab takes no longer text)"
DRAFT: Final = "Draft: "
_DRAFTY: Final = re.compile(r"(?:\s*(?:draft:|\[draft\]|\(draft\)|draft\s+-\s|wip:|\[wip\]))+\s*", re.I)
"""Every way in which a title has ever said that it is a draft."""
_EXISTS: Final = "another open merge request already exists"
_REFUSALS: Final = frozenset({400, 409, 422})
_MISSING: Final = re.compile(r"(source|target)[_ ]branch\b.*?(does not exist|is invalid|can't be blank)", re.I | re.S)


class GitLabForge:
    """The repository of one project; see `domain.forge` for what each method owes."""

    platform: Final = "gitlab"

    def __init__(
        self,
        *,
        name: str,
        site: Site,
        client: ApiClient,
        token: str,
        pace: Pace,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """`http` is closed with the forge."""
        self.name = name
        self._site = site
        self._client = client
        self._token = token
        self._pace = pace
        self._http = http

    @property
    def clone_url(self) -> str:
        """`https://gitlab.com/acme/apps/web.git` (F1)."""
        return self._site.clone_url

    async def credential(self) -> GitCredential:
        """The token as a password (F1)."""
        return GitCredential(USERNAME, self._token)

    async def default_branch(self, *, deadline: float | None = None) -> str:
        """The project's own; an empty one has none (F2)."""
        with spending_for(PURPOSE):
            project = await self._project(deadline)
        if project.default_branch is None or project.empty_repo:
            raise EmptyRepository(f"GitLab: {self._site.project} has no commit yet")
        return project.default_branch

    def mention(self, ticket: Ticket) -> str:
        """`Closes #12`; merging closes the issue then (F5)."""
        reference = self._site.reference(ticket.id)
        return plain_mention(ticket) if reference is None else f"Closes {reference}"

    async def find(self, branch: str, *, deadline: float | None = None) -> PullRequest | None:
        """The open merge request from the branch; the oldest where it has several targets (F3)."""
        with spending_for(PURPOSE):
            found = await self._open_from(branch, deadline)
        return None if not found else _shown(found[0])

    async def ensure(self, wanted: WantedPullRequest, *, deadline: float) -> PullRequest:
        """Make the merge request, or bring the open one up to date (F4)."""
        title, body = title_of(wanted), body_of(wanted)
        with spending_for(PURPOSE):
            there = await self._chosen(wanted, deadline)
            if there is None:
                there = await self._made(wanted, title, body, deadline)
            return _shown(await self._updated(there, wanted, title, body, deadline))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    # --- looking --------------------------------------------------------------------------------------------------

    async def _project(self, deadline: float | None) -> Project:
        answer = await self._client.get(self._site.path(), deadline=deadline, missing=RepositoryNotFound)
        project: Project = payloads.read(Project, answer.data, "a project")
        if answer.redirected and not self._site.called:
            # Under its old path a project can be read, by a redirect, but not written to.
            log.warning(
                "the project was moved; put its new path into the configuration", now=project.path_with_namespace
            )
            self._site.called = str(project.id)
        return project

    async def _open_from(self, branch: str, deadline: float | None) -> list[MergeRequest]:
        """The open merge requests from a branch of this project, oldest first."""
        params = {
            "state": "opened",
            "source_branch": branch,
            "order_by": "created_at",
            "sort": "asc",
            "per_page": PAGE,
        }
        path = self._site.path(rest="/merge_requests")
        found: list[MergeRequest] = []
        # Every page: forks may have so many branches of that name that ours is not on the first one.
        async for answer in self._client.pages(
            path, params=params, next_page=onward(params), deadline=deadline, missing=RepositoryNotFound
        ):
            if answer.redirected:
                await self._project(deadline)
            found += payloads.read(list[MergeRequest], answer.data, "a list of merge requests")
        return [mr for mr in found if mr.state == "opened" and mr.source_branch == branch and mr.at_home]

    async def _chosen(self, wanted: WantedPullRequest, deadline: float) -> MergeRequest | None:
        """The one to bring up to date: that to the wanted base, else whichever there is."""
        found = await self._open_from(wanted.branch, deadline)
        return next((mr for mr in found if mr.target_branch == wanted.base), found[0] if found else None)

    # --- writing --------------------------------------------------------------------------------------------------

    async def _made(self, wanted: WantedPullRequest, title: str, body: str, deadline: float) -> MergeRequest:
        """A new merge request, or the one that somebody else has just made."""
        path = self._site.path(rest="/merge_requests")
        fields = {
            "source_branch": wanted.branch,
            "target_branch": wanted.base,
            "title": title,
            "description": body,
        }
        for look in range(1, LOOKS + 1):
            # Repeatable: a second one for the same branches is refused, and the first is found then.
            answer = await self._client.write(
                "POST",
                path,
                fields,
                deadline=deadline,
                repeatable=True,
                allow=_REFUSALS,
                missing=RepositoryNotFound,
            )
            if answer.status not in _REFUSALS:
                made: MergeRequest = payloads.read(MergeRequest, answer.data, "a merge request")
                return made
            refusal = excerpt(message(answer.data))
            if _EXISTS in refusal.lower():
                there = await self._chosen(wanted, deadline)
                if there is not None:
                    return there
                problem: Exception = TrackerUnavailable(f"GitLab: {refusal}, but it is not shown")
            elif missing := _MISSING.search(refusal):
                name = wanted.branch if missing[1].lower() == "source" else wanted.base
                problem = NothingToPropose(f"GitLab: there is no branch {excerpt(name)} in {self._site.project}")
            else:
                raise Refused(f"GitLab: the merge request was not made: {refusal}")
            # What was pushed a moment ago, or made by somebody else, may not be known everywhere yet.
            delay = self._pace.delay(look)
            if look >= LOOKS or self._pace.now() + delay >= deadline:
                raise problem
            await self._pace.sleep(delay)
        raise AssertionError("the last look raises")

    async def _updated(
        self, there: MergeRequest, wanted: WantedPullRequest, title: str, body: str, deadline: float
    ) -> MergeRequest:
        """The merge request as it should be; what is so already is not written."""
        fields: dict[str, str] = {}
        if there.title != title or there.is_draft != wanted.draft:
            fields["title"] = title
        if unified(there.description or "").rstrip() != body:
            fields["description"] = body
        if not fields:
            return there
        path = self._site.path(rest=f"/merge_requests/{there.iid}")
        answer = await self._client.write(
            "PUT", path, fields, deadline=deadline, repeatable=True, missing=RepositoryNotFound
        )
        after: MergeRequest = payloads.read(MergeRequest, answer.data, "a merge request")
        return after


def title_of(wanted: WantedPullRequest) -> str:
    """The title with what makes it a draft, or without anything that would."""
    prefix = DRAFT if wanted.draft else ""
    bare = _bare(one_line(wanted.title, TITLE_LIMIT - len(prefix), otherwise=wanted.branch))
    return prefix + (bare or wanted.branch)


def body_of(wanted: WantedPullRequest) -> str:
    """The text without commands, cut to the limit."""
    return fitted(harmless(wanted.body[: 2 * BODY_LIMIT]), BODY_LIMIT, CUT)


def _bare(title: str) -> str:
    """The title behind everything that makes it a draft."""
    found = _DRAFTY.match(title)
    return title[found.end() :] if found else title


def _shown(mr: MergeRequest) -> PullRequest:
    return PullRequest(
        number=str(mr.iid),
        url=mr.web_url,
        branch=mr.source_branch,
        base=mr.target_branch,
        title=_bare(mr.title) if mr.is_draft else mr.title,
        body=unified(mr.description or ""),
        draft=mr.is_draft,
    )
