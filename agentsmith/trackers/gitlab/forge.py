"""Merge requests on GitLab: the contract of `domain.forge`.

A second merge request for the same branch and target is refused with 409. Whether it is a draft stands in the title,
so the title's own beginning must not look like that; and a line of the text that begins with `/` would be a command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import structlog

from agentsmith.domain.errors import Refused
from agentsmith.domain.forge import (
    EmptyRepository,
    GitCredential,
    NothingToPropose,
    PullRequest,
    RepositoryNotFound,
    WantedPullRequest,
)
from agentsmith.domain.ticket import Ticket
from agentsmith.redaction import excerpt
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.auth import Token
from agentsmith.trackers.gitlab.dialect import DIALECT, message
from agentsmith.trackers.gitlab.paging import onward
from agentsmith.trackers.gitlab.payloads import MergeRequest, Project
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.sticky import harmless
from agentsmith.trackers.http import Answer, spending_for
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.shared.forge import AlreadyThere, HostedForge, OtherFields, StillMissing
from agentsmith.trackers.shared.proposals import PURPOSE, fitted, one_line, plain_mention, unified

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
_MISSING: Final = re.compile(r"(source|target)[_ ]branch\b.*?(does not exist|is invalid|can't be blank)", re.I | re.S)


class GitLabForge(HostedForge[MergeRequest]):
    """The repository of one project; see `domain.forge` for what each method owes."""

    platform: Final = "gitlab"
    display_name = "GitLab"
    refusals = frozenset({400, 409, 422})

    def __init__(self, name: str, site: Site, token: Token, connection: Connection) -> None:
        super().__init__(name, connection.client(site.base_url, DIALECT, token), connection)
        self._site = site
        self._token = token

    @property
    def clone_url(self) -> str:
        """`https://gitlab.com/acme/apps/web.git` (F1)."""
        return self._site.clone_url

    @property
    def pulls(self) -> str:
        """See HostedForge."""
        return self._site.path(rest="/merge_requests")

    async def credential(self) -> GitCredential:
        """The token as a password (F1)."""
        return GitCredential(USERNAME, self._token.token)

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

    async def open_from(self, branch: str, deadline: float | None) -> list[MergeRequest]:
        """See HostedForge."""
        params = {
            "state": "opened",
            "source_branch": branch,
            "order_by": "created_at",
            "sort": "asc",
            "per_page": PAGE,
        }
        found: list[MergeRequest] = []
        # Every page: forks may have so many branches of that name that ours is not on the first one.
        async for answer in self._client.pages(
            self.pulls, params=params, next_page=onward(params), deadline=deadline, missing=RepositoryNotFound
        ):
            if answer.redirected:
                await self._project(deadline)
            found += payloads.read(list[MergeRequest], answer.data, "a list of merge requests")
        return [mr for mr in found if mr.state == "opened" and mr.source_branch == branch and mr.at_home]

    def base_of(self, pull: MergeRequest) -> str:
        """See HostedForge."""
        return pull.target_branch

    # --- writing --------------------------------------------------------------------------------------------------

    def fields(self, wanted: WantedPullRequest) -> Mapping[str, Any]:
        """See HostedForge."""
        return {
            "source_branch": wanted.branch,
            "target_branch": wanted.base,
            "title": title_of(wanted),
            "description": body_of(wanted),
        }

    def made(self, answer: Answer, wanted: WantedPullRequest) -> MergeRequest:  # noqa: ARG002
        """See HostedForge."""
        made: MergeRequest = payloads.read(MergeRequest, answer.data, "a merge request")
        return made

    def refused(
        self,
        answer: Answer,
        wanted: WantedPullRequest,
        fields: Mapping[str, Any],  # noqa: ARG002
    ) -> AlreadyThere | StillMissing | OtherFields:
        """See HostedForge."""
        refusal = excerpt(message(answer.data))
        if _EXISTS in refusal.lower():
            return AlreadyThere(refusal)
        if missing := _MISSING.search(refusal):
            name = wanted.branch if missing[1].lower() == "source" else wanted.base
            return StillMissing(NothingToPropose(f"GitLab: there is no branch {excerpt(name)} in {self._site.project}"))
        raise Refused(f"GitLab: the merge request was not made: {refusal}")

    async def brought_up_to_date(self, there: MergeRequest, wanted: WantedPullRequest, deadline: float) -> MergeRequest:
        """See HostedForge."""
        title, body = title_of(wanted), body_of(wanted)
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

    def shown(self, pull: MergeRequest) -> PullRequest:
        """See HostedForge."""
        return PullRequest(
            number=str(pull.iid),
            url=pull.web_url,
            branch=pull.source_branch,
            base=pull.target_branch,
            title=_bare(pull.title) if pull.is_draft else pull.title,
            body=unified(pull.description or ""),
            draft=pull.is_draft,
        )


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
