"""Pull requests on GitHub: the contract of `domain.forge`.

A second pull request for the same branch and base is refused with 422. Only GraphQL can turn a draft into a pull
request that is ready, and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import structlog

from agentsmith.domain.errors import RateLimited, Refused
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
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.dialect import message, quota
from agentsmith.trackers.github.login import Clients
from agentsmith.trackers.github.payloads import Pull, Repository
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import Answer, spending_for
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.shared.forge import AlreadyThere, HostedForge, OtherFields, StillMissing
from agentsmith.trackers.shared.proposals import PURPOSE, fitted, one_line, plain_mention, unified

log = structlog.get_logger()

USERNAME: Final = "x-access-token"
"""Who git says it is: required with the tokens of an App, and good with every other."""
TITLE_LIMIT: Final = 256
BODY_LIMIT: Final = 65_536
PAGE: Final = "100"
CUT: Final = "\n\n… (cut: GitHub takes no longer text)"
DRAFT: Final = "Draft: "
"""Stands before the title where the repository knows no drafts, as private ones on GitHub's free plan."""
_EXISTS: Final = "a pull request already exists"
_NO_COMMITS: Final = "no commits between"
_NO_DRAFTS: Final = "draft pull requests are not supported"
_TO_DRAFT: Final = "convertPullRequestToDraft"
_TO_READY: Final = "markPullRequestReadyForReview"


class GitHubForge(HostedForge[Pull]):
    """One repository; see `domain.forge` for what each method owes."""

    platform: Final = "github"
    display_name = "GitHub"
    refusals = frozenset({422})

    def __init__(self, name: str, site: Site, clients: Clients, connection: Connection) -> None:
        super().__init__(name, clients.client, connection)
        self._site = site
        self._credential = clients.credential
        self._drafts = True

    @property
    def clone_url(self) -> str:
        """`https://github.com/acme/web.git` (F1)."""
        return self._site.clone_url

    @property
    def pulls(self) -> str:
        """See HostedForge."""
        return self._site.path(rest="/pulls")

    async def credential(self) -> GitCredential:
        """The token as a password (F1)."""
        return GitCredential(USERNAME, await self._credential.fresh())

    async def default_branch(self, *, deadline: float | None = None) -> str:
        """The repository's own; GitHub names one for an empty repository too, so it is looked for (F2)."""
        with spending_for(PURPOSE):
            repository = await self._repository(deadline)
            path = self._site.path(rest=f"/branches/{quote(repository.default_branch)}")
            answer = await self._client.get(path, deadline=deadline, allow=frozenset({404}), missing=RepositoryNotFound)
        if answer.status == 404:
            raise EmptyRepository(f"GitHub: {self._site.repository} has no commit on {repository.default_branch} yet")
        return repository.default_branch

    def mention(self, ticket: Ticket) -> str:
        """`Closes #12`; merging closes the issue then (F5)."""
        reference = self._site.reference(ticket.id)
        return plain_mention(ticket) if reference is None else f"Closes {reference}"

    # --- looking --------------------------------------------------------------------------------------------------

    async def _repository(self, deadline: float | None) -> Repository:
        answer = await self._client.get(self._site.path(), deadline=deadline, missing=RepositoryNotFound)
        repository: Repository = payloads.read(Repository, answer.data, "a repository")
        if answer.redirected:
            # Reads are led on to a renamed repository, writes are not.
            log.warning("the repository was renamed; put its new name into the configuration", now=repository.full_name)
            self._site.called = repository.full_name
        return repository

    async def open_from(self, branch: str, deadline: float | None) -> list[Pull]:
        """See HostedForge."""
        owner = (self._site.called or self._site.repository).partition("/")[0]
        params = {
            "state": "open",
            "head": f"{owner}:{branch}",
            "sort": "created",
            "direction": "asc",
            "per_page": PAGE,
        }
        pulls: list[Pull] = []
        async for answer in self._client.pages(
            self.pulls, params=params, deadline=deadline, missing=RepositoryNotFound
        ):
            if answer.redirected:
                await self._repository(deadline)
            pulls += payloads.read(list[Pull], answer.data, "a list of pull requests")
        # A fork of the same owner may have a branch of that name too.
        ours = {self._site.repository.casefold(), self._site.called.casefold()}
        return [
            pull
            for pull in pulls
            if pull.state == "open"
            and pull.head.ref == branch
            and pull.head.repo is not None
            and pull.head.repo.full_name.casefold() in ours
        ]

    def base_of(self, pull: Pull) -> str:
        """See HostedForge."""
        return pull.base.ref

    # --- writing --------------------------------------------------------------------------------------------------

    def fields(self, wanted: WantedPullRequest) -> Mapping[str, Any]:
        """See HostedForge."""
        return {
            "title": self._title(wanted),
            "head": wanted.branch,
            "base": wanted.base,
            "body": _body(wanted),
            "draft": wanted.draft and self._drafts,
        }

    def made(self, answer: Answer, wanted: WantedPullRequest) -> Pull:  # noqa: ARG002
        """See HostedForge."""
        pull: Pull = payloads.read(Pull, answer.data, "a pull request")
        return pull

    def refused(
        self, answer: Answer, wanted: WantedPullRequest, fields: Mapping[str, Any]
    ) -> AlreadyThere | StillMissing | OtherFields:
        """See HostedForge."""
        refusal = payloads.error_message(answer.data)
        if _EXISTS in refusal.lower():
            return AlreadyThere(refusal)
        if _NO_DRAFTS in refusal.lower() and fields["draft"]:
            self._without_drafts(refusal)
            return OtherFields()
        if _NO_COMMITS in refusal.lower():
            raise NothingToPropose(f"GitHub: {refusal}")
        if field := _missing_branch(answer.data):
            name = wanted.branch if field == "head" else wanted.base
            return StillMissing(
                NothingToPropose(f"GitHub: there is no branch {excerpt(name)} in {self._site.repository}")
            )
        raise Refused(f"GitHub: the pull request was not made: {refusal}")

    async def brought_up_to_date(self, there: Pull, wanted: WantedPullRequest, deadline: float) -> Pull:
        """See HostedForge."""
        if wanted.draft and not there.draft and self._drafts:
            there = await self._converted(there, draft=True, deadline=deadline)
        fields: dict[str, str] = {}
        if there.title != self._title(wanted):
            fields["title"] = self._title(wanted)
        if unified(there.body or "").rstrip() != _body(wanted):
            fields["body"] = _body(wanted)
        if fields:
            path = self._site.path(rest=f"/pulls/{there.number}")
            answer = await self._client.write(
                "PATCH", path, fields, deadline=deadline, repeatable=True, missing=RepositoryNotFound
            )
            there = payloads.read(Pull, answer.data, "a pull request")
        if there.draft and not wanted.draft:
            there = await self._converted(there, draft=False, deadline=deadline)
        return there

    async def _converted(self, there: Pull, *, draft: bool, deadline: float) -> Pull:
        """Make it a draft, or ready; only GraphQL can."""
        name = _TO_DRAFT if draft else _TO_READY
        query = f"mutation($id: ID!) {{ {name}(input: {{pullRequestId: $id}}) {{ pullRequest {{ isDraft }} }} }}"
        body = {"query": query, "variables": {"id": there.node_id}}
        answer = await self._client.write(
            "POST",
            self._site.graphql_url,
            body,
            deadline=deadline,
            repeatable=True,
            bucket="graphql",
            missing=Refused,
        )
        if refusal := _graphql_refusal(answer):
            if draft and _NO_DRAFTS in refusal.lower():
                self._without_drafts(refusal)
                return there
            raise Refused(f"GitHub: pull request {there.number} could not be made {_state(draft)}: {refusal}")
        return there.model_copy(update={"draft": draft})

    def _title(self, wanted: WantedPullRequest) -> str:
        prefix = DRAFT if wanted.draft and not self._drafts else ""
        return prefix + one_line(wanted.title, TITLE_LIMIT - len(prefix), otherwise=wanted.branch)

    def _without_drafts(self, refusal: str) -> None:
        log.warning("drafts are shown by their title only", repository=self._site.repository, reason=refusal)
        self._drafts = False

    def shown(self, pull: Pull) -> PullRequest:
        """See HostedForge."""
        return PullRequest(
            number=str(pull.number),
            url=pull.html_url,
            branch=pull.head.ref,
            base=pull.base.ref,
            title=pull.title,
            body=unified(pull.body or ""),
            draft=pull.draft,
        )


def _body(wanted: WantedPullRequest) -> str:
    return fitted(wanted.body, BODY_LIMIT, CUT)


def _state(draft: bool) -> str:
    return "a draft" if draft else "ready for review"


def _missing_branch(data: object) -> str | None:
    """`head` or `base`, whichever of the two GitHub says is not there."""
    errors = data.get("errors") if isinstance(data, dict) else None
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict) and error.get("code") == "invalid" and error.get("field") in ("head", "base"):
            return str(error["field"])
    return None


def _graphql_refusal(answer: Answer) -> str:
    """GitHub's words, if a mutation was refused (which GraphQL answers with 200); empty if it was carried out."""
    data: Mapping[str, Any] = answer.data if isinstance(answer.data, dict) else {}
    errors = [error for error in data.get("errors") or () if isinstance(error, dict)]
    said = excerpt("; ".join(str(error.get("message", "")) for error in errors) or message(data))
    if any(error.get("type") == "RATE_LIMITED" for error in errors):
        left = quota(answer.headers)
        raise RateLimited(f"GitHub: {said}", retry_at=left.reset if left else None)
    return said or ("no reason was given" if errors else "")
