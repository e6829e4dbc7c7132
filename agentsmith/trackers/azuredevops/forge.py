"""Pull requests in Azure Repos: the contract of `domain.forge`.

A second pull request for the same source and target is refused with 409 (TF401179). Lists cut the text after 400
characters, so a pull request that was found is read once more by its id, which also tells what work items it is linked
to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import structlog

from agentsmith.domain.errors import Refused, TrackerError
from agentsmith.domain.forge import (
    EmptyRepository,
    GitCredential,
    NothingToPropose,
    PullRequest,
    RepositoryNotFound,
    WantedPullRequest,
)
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.redaction import excerpt
from agentsmith.trackers.azuredevops import payloads
from agentsmith.trackers.azuredevops.auth import Token
from agentsmith.trackers.azuredevops.dialect import API_VERSION, AZURE_DEVOPS, JSON_PATCH, message, type_key
from agentsmith.trackers.azuredevops.payloads import ItemRef, PullRequests, Repository
from agentsmith.trackers.azuredevops.payloads import PullRequest as Pull
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.http import Answer, spending_for
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.http.paging import Page
from agentsmith.trackers.shared.forge import AlreadyThere, HostedForge, OtherFields, StillMissing
from agentsmith.trackers.shared.proposals import PURPOSE, fitted, one_line, plain_mention, unified

log = structlog.get_logger()

USERNAME: Final = "agentsmith"
"""Who git says it is: Azure looks at the password only, but wants some name."""
TITLE_LIMIT: Final = 400
BODY_LIMIT: Final = 4_000
PAGE: Final = 100
CUT: Final = "\n\n… (cut: Azure takes no longer text)"
_HEADS: Final = "refs/heads/"
_EXISTS: Final = ("TF401179", "GitPullRequestExistsException")
_NO_BRANCH: Final = ("TF401398", "GitPullRequestCannotBeActivated")


class AzureForge(HostedForge[Pull]):
    """One repository of a project; see `domain.forge` for what each method owes."""

    platform: Final = "azure-devops"
    display_name = "Azure DevOps"
    refusals = frozenset({400, 409})

    def __init__(self, name: str, site: Site, repository: str, token: Token, connection: Connection) -> None:
        super().__init__(name, connection.client(site.base_url, AZURE_DEVOPS, token), connection)
        self._site = site
        self._repository = repository
        self._token = token

    @property
    def clone_url(self) -> str:
        """`https://dev.azure.com/acme/Web/_git/Web` (F1)."""
        return self._site.code_url(self._repository)

    @property
    def pulls(self) -> str:
        """See HostedForge."""
        return f"{self._path('/pullrequests')}?api-version={API_VERSION}"

    async def credential(self) -> GitCredential:
        """The token as a password; one of Entra is good as that, too (F1)."""
        return GitCredential(USERNAME, self._token.token)

    async def default_branch(self, *, deadline: float | None = None) -> str:
        """The repository's own; an empty one has none (F2)."""
        with spending_for(PURPOSE):
            params = {"api-version": API_VERSION}
            answer = await self._client.get(self._path(), params=params, deadline=deadline, missing=RepositoryNotFound)
        repository: Repository = payloads.read(Repository, answer.data, "a repository")
        if repository.disabled:
            raise RepositoryNotFound(f"Azure DevOps: the repository {self._repository} is disabled")
        if repository.default_branch is None:
            raise EmptyRepository(f"Azure DevOps: the repository {self._repository} has no commit yet")
        return repository.default_branch.removeprefix(_HEADS)

    def mention(self, ticket: Ticket) -> str:
        """`Related work items: #12`; ids are the organization's, so the project does not matter (F5)."""
        number = self._site.neighbour(ticket.id)
        return plain_mention(ticket) if number is None else f"Related work items: #{number}"

    # --- looking --------------------------------------------------------------------------------------------------

    async def open_from(self, branch: str, deadline: float | None) -> list[Pull]:
        """See HostedForge; their texts may be cut."""
        params = {
            "searchCriteria.status": "active",
            "searchCriteria.sourceRefName": f"{_HEADS}{branch}",
            "$top": str(PAGE),
            "api-version": API_VERSION,
        }
        found: list[Pull] = []
        async for answer in self._client.pages(
            self._path("/pullrequests"),
            params=params,
            next_page=_further,
            deadline=deadline,
            missing=RepositoryNotFound,
        ):
            listed: PullRequests = payloads.read(PullRequests, answer.data, "a list of pull requests")
            found += listed.value
        ours = [
            pull
            for pull in found
            if pull.status == "active" and pull.source == f"{_HEADS}{branch}" and pull.fork is None
        ]
        return sorted(ours, key=lambda pull: pull.id)

    async def whole(self, pull: Pull, deadline: float | None) -> Pull:
        """See HostedForge."""
        params = {"includeWorkItemRefs": "true", "api-version": API_VERSION}
        path = self._path(f"/pullrequests/{pull.id}")
        answer = await self._client.get(path, params=params, deadline=deadline, missing=RepositoryNotFound)
        whole: Pull = payloads.read(Pull, answer.data, "a pull request")
        return whole

    def base_of(self, pull: Pull) -> str:
        """See HostedForge."""
        return pull.target.removeprefix(_HEADS)

    # --- writing --------------------------------------------------------------------------------------------------

    def fields(self, wanted: WantedPullRequest) -> Mapping[str, Any]:
        """See HostedForge; linked to its work item (F5)."""
        fields: dict[str, Any] = {
            "sourceRefName": f"{_HEADS}{wanted.branch}",
            "targetRefName": f"{_HEADS}{wanted.base}",
            "title": _title(wanted),
            "description": _body(wanted),
            "isDraft": wanted.draft,
        }
        if (item := self._item(wanted)) is not None:
            fields["workItemRefs"] = [{"id": item}]
        return fields

    def made(self, answer: Answer, wanted: WantedPullRequest) -> Pull:
        """See HostedForge."""
        made: Pull = payloads.read(Pull, answer.data, "a pull request")
        item = self._item(wanted)
        linked = [ItemRef(id=item)] if item is not None and made.references is None else made.references
        return made.model_copy(update={"references": linked})

    def refused(
        self,
        answer: Answer,
        wanted: WantedPullRequest,
        fields: Mapping[str, Any],  # noqa: ARG002
    ) -> AlreadyThere | StillMissing | OtherFields:
        """See HostedForge."""
        refusal, kind = excerpt(message(answer.data)), type_key(answer.data)
        if _is(_EXISTS, refusal, kind):
            return AlreadyThere(refusal)
        if _is(_NO_BRANCH, refusal, kind):
            names = f"{excerpt(wanted.branch)} or {excerpt(wanted.base)}"
            return StillMissing(NothingToPropose(f"Azure DevOps: there is no branch {names} in {self._repository}"))
        raise Refused(f"Azure DevOps: the pull request was not made: {refusal or kind or 'no reason'}")

    async def brought_up_to_date(self, there: Pull, wanted: WantedPullRequest, deadline: float) -> Pull:
        """See HostedForge; linked to its work item, too (F5)."""
        after = await self._updated(there, wanted, deadline)
        item = self._item(wanted)
        if wanted.ticket and item is not None and item not in {linked.id for linked in there.references or ()}:
            await self._link(after, wanted.ticket.id, deadline)
        return after

    async def _updated(self, there: Pull, wanted: WantedPullRequest, deadline: float) -> Pull:
        fields: dict[str, Any] = {}
        if there.title != _title(wanted):
            fields["title"] = _title(wanted)
        if unified(there.description or "").rstrip() != _body(wanted):
            fields["description"] = _body(wanted)
        if there.draft != wanted.draft:
            fields["isDraft"] = wanted.draft
        if not fields:
            return there
        path = f"{self._path(f'/pullrequests/{there.id}')}?api-version={API_VERSION}"
        answer = await self._client.write(
            "PATCH", path, fields, deadline=deadline, repeatable=True, missing=RepositoryNotFound
        )
        after: Pull = payloads.read(Pull, answer.data, "a pull request")
        return after

    def _item(self, wanted: WantedPullRequest) -> str | None:
        """The id of the work item that it is for, if that is one of this organization."""
        return None if wanted.ticket is None else self._site.neighbour(wanted.ticket.id)

    async def _link(self, pull: Pull, ticket: TicketId, deadline: float) -> None:
        """Link a pull request that somebody else made to the work item; a link that is refused fails nothing."""
        if pull.repository.project is None:
            return
        parts = (pull.repository.project.id, pull.repository.id, str(pull.id))
        link = {
            "rel": "ArtifactLink",
            "url": f"vstfs:///Git/PullRequestId/{'%2F'.join(parts)}",
            "attributes": {"name": "Pull Request"},
        }
        path = f"{self._site.neighbour_path(ticket)}?api-version={API_VERSION}"
        patch = [{"op": "add", "path": "/relations/-", "value": link}]
        try:
            await self._client.write("PATCH", path, patch, content_type=JSON_PATCH, deadline=deadline, missing=Refused)
        except TrackerError as error:
            log.warning("a pull request was not linked to its work item", ticket=ticket, error=str(error))

    def _path(self, rest: str = "") -> str:
        return self._site.path(f"/git/repositories/{quote(self._repository, safe='')}{rest}")

    def shown(self, pull: Pull) -> PullRequest:
        """See HostedForge."""
        return PullRequest(
            number=str(pull.id),
            url=f"{self._site.code_url(self._repository)}/pullrequest/{pull.id}",
            branch=pull.source.removeprefix(_HEADS),
            base=pull.target.removeprefix(_HEADS),
            title=pull.title,
            body=unified(pull.description or ""),
            draft=pull.draft,
        )


def _title(wanted: WantedPullRequest) -> str:
    return one_line(wanted.title, TITLE_LIMIT, otherwise=wanted.branch)


def _body(wanted: WantedPullRequest) -> str:
    return fitted(wanted.body, BODY_LIMIT, CUT)


def _further(page: Page, answer: Answer) -> Page | None:
    """The next page of pull requests, by number: Azure does not say whether there is one."""
    listed: PullRequests = payloads.read(PullRequests, answer.data, "a list of pull requests")
    seen = int(page.params.get("$skip", "0")) + len(listed.value)
    return Page(page.url, {**page.params, "$skip": str(seen)}) if len(listed.value) >= PAGE else None


def _is(signs: tuple[str, str], refusal: str, kind: str) -> bool:
    code, name = signs
    return kind == name or code in refusal
