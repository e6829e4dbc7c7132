"""Pull requests in Azure Repos: the contract of `domain.forge`.

Azure itself sees to it that there is one active pull request per source and target: a second one is refused (409
TF401179). So making one may be repeated after a lost answer, and a refusal is answered by looking for the one that is
there. Lists cut the text after 400 characters, so a pull request that was found is read once more by its id, which
also tells what work items it is linked to.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import httpx
import structlog

from agentsmith.domain.errors import Refused, TrackerError, TrackerUnavailable
from agentsmith.domain.forge import (
    EmptyRepository,
    GitCredential,
    NothingToPropose,
    PullRequest,
    RepositoryNotFound,
    WantedPullRequest,
)
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.trackers.azuredevops import payloads
from agentsmith.trackers.azuredevops.dialect import API_VERSION, JSON_PATCH, message, type_key
from agentsmith.trackers.azuredevops.payloads import ItemRef, PullRequests, Repository
from agentsmith.trackers.azuredevops.payloads import PullRequest as Pull
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.http import Answer, ApiClient, Pace, spending_for
from agentsmith.trackers.http.paging import Page
from agentsmith.trackers.http.redaction import excerpt
from agentsmith.trackers.shared.proposals import LOOKS, PURPOSE, fitted, one_line, plain_mention, unified

log = structlog.get_logger()

USERNAME: Final = "agentsmith"
"""Who git says it is: Azure looks at the password only, but wants some name."""
TITLE_LIMIT: Final = 400
BODY_LIMIT: Final = 4_000
PAGE: Final = 100
CUT: Final = "\n\n… (cut: Azure takes no longer text)"
_HEADS: Final = "refs/heads/"
_REFUSALS: Final = frozenset({400, 409})
_EXISTS: Final = ("TF401179", "GitPullRequestExistsException")
_NO_BRANCH: Final = ("TF401398", "GitPullRequestCannotBeActivated")


class AzureForge:
    """One repository of a project; see `domain.forge` for what each method owes."""

    platform: Final = "azure-devops"

    def __init__(
        self,
        *,
        name: str,
        site: Site,
        repository: str,
        client: ApiClient,
        token: str,
        pace: Pace,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """`http` is closed with the forge."""
        self.name = name
        self._site = site
        self._repository = repository
        self._client = client
        self._token = token
        self._pace = pace
        self._http = http

    @property
    def clone_url(self) -> str:
        """`https://dev.azure.com/acme/Web/_git/Web` (F1)."""
        return self._site.code_url(self._repository)

    async def credential(self) -> GitCredential:
        """The token as a password; one of Entra is good as that, too (F1)."""
        return GitCredential(USERNAME, self._token)

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

    async def find(self, branch: str, *, deadline: float | None = None) -> PullRequest | None:
        """The active pull request from the branch; the oldest where it has several targets (F3)."""
        with spending_for(PURPOSE):
            found = await self._active_from(branch, deadline)
            return None if not found else self._shown(await self._whole(found[0], deadline))

    async def ensure(self, wanted: WantedPullRequest, *, deadline: float) -> PullRequest:
        """Make the pull request, or bring the active one up to date; link it to its work item (F4, F5)."""
        title = one_line(wanted.title, TITLE_LIMIT, otherwise=wanted.branch)
        body = fitted(wanted.body, BODY_LIMIT, CUT)
        item = None if wanted.ticket is None else self._site.neighbour(wanted.ticket.id)
        with spending_for(PURPOSE):
            there = await self._chosen(wanted, deadline)
            if there is None:
                there = await self._made(wanted, title, body, item, deadline)
            after = await self._updated(there, wanted, title, body, deadline)
            if wanted.ticket and item is not None and item not in {linked.id for linked in there.references or ()}:
                await self._link(after, wanted.ticket.id, deadline)
        return self._shown(after)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    # --- looking --------------------------------------------------------------------------------------------------

    async def _active_from(self, branch: str, deadline: float | None) -> list[Pull]:
        """The active pull requests from a branch of this repository, oldest first; their texts may be cut."""
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

    async def _whole(self, pull: Pull, deadline: float | None) -> Pull:
        params = {"includeWorkItemRefs": "true", "api-version": API_VERSION}
        path = self._path(f"/pullrequests/{pull.id}")
        answer = await self._client.get(path, params=params, deadline=deadline, missing=RepositoryNotFound)
        whole: Pull = payloads.read(Pull, answer.data, "a pull request")
        return whole

    async def _chosen(self, wanted: WantedPullRequest, deadline: float) -> Pull | None:
        """The one to bring up to date: that to the wanted base, else whichever there is."""
        found = await self._active_from(wanted.branch, deadline)
        if not found:
            return None
        chosen = next((pull for pull in found if pull.target == f"{_HEADS}{wanted.base}"), found[0])
        return await self._whole(chosen, deadline)

    # --- writing --------------------------------------------------------------------------------------------------

    async def _made(self, wanted: WantedPullRequest, title: str, body: str, item: str | None, deadline: float) -> Pull:
        """A new pull request, or the one that somebody else has just made."""
        fields: dict[str, Any] = {
            "sourceRefName": f"{_HEADS}{wanted.branch}",
            "targetRefName": f"{_HEADS}{wanted.base}",
            "title": title,
            "description": body,
            "isDraft": wanted.draft,
        }
        if item is not None:
            fields["workItemRefs"] = [{"id": item}]
        path = f"{self._path('/pullrequests')}?api-version={API_VERSION}"
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
                made: Pull = payloads.read(Pull, answer.data, "a pull request")
                linked = [ItemRef(id=item)] if item is not None and made.references is None else made.references
                return made.model_copy(update={"references": linked})
            refusal, kind = excerpt(message(answer.data)), type_key(answer.data)
            if _is(_EXISTS, refusal, kind):
                there = await self._chosen(wanted, deadline)
                if there is not None:
                    return there
                problem: Exception = TrackerUnavailable(f"Azure DevOps: {refusal} But it is not shown")
            elif _is(_NO_BRANCH, refusal, kind):
                names = f"{excerpt(wanted.branch)} or {excerpt(wanted.base)}"
                problem = NothingToPropose(f"Azure DevOps: there is no branch {names} in {self._repository}")
            else:
                raise Refused(f"Azure DevOps: the pull request was not made: {refusal or kind or 'no reason'}")
            # What was pushed a moment ago, or made by somebody else, may not be known everywhere yet.
            delay = self._pace.delay(look)
            if look >= LOOKS or self._pace.now() + delay >= deadline:
                raise problem
            await self._pace.sleep(delay)
        raise AssertionError("the last look raises")

    async def _updated(self, there: Pull, wanted: WantedPullRequest, title: str, body: str, deadline: float) -> Pull:
        """The pull request as it should be; what is so already is not written."""
        fields: dict[str, Any] = {}
        if there.title != title:
            fields["title"] = title
        if unified(there.description or "").rstrip() != body:
            fields["description"] = body
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

    def _shown(self, pull: Pull) -> PullRequest:
        return PullRequest(
            number=str(pull.id),
            url=f"{self._site.code_url(self._repository)}/pullrequest/{pull.id}",
            branch=pull.source.removeprefix(_HEADS),
            base=pull.target.removeprefix(_HEADS),
            title=pull.title,
            body=unified(pull.description or ""),
            draft=pull.draft,
        )


def _further(page: Page, answer: Answer) -> Page | None:
    """The next page of pull requests, by number: Azure does not say whether there is one."""
    listed: PullRequests = payloads.read(PullRequests, answer.data, "a list of pull requests")
    seen = int(page.params.get("$skip", "0")) + len(listed.value)
    return Page(page.url, {**page.params, "$skip": str(seen)}) if len(listed.value) >= PAGE else None


def _is(signs: tuple[str, str], refusal: str, kind: str) -> bool:
    code, name = signs
    return kind == name or code in refusal
