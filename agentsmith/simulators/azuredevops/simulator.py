"""The Azure DevOps simulator: admission, what every answer carries, and all endpoints put together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from typing import ClassVar

from starlette.responses import Response

from agentsmith.simulators.azuredevops.account_routes import AccountRoutes
from agentsmith.simulators.azuredevops.answers import problem, sign_in
from agentsmith.simulators.azuredevops.code import GitDoor
from agentsmith.simulators.azuredevops.comment_routes import CommentRoutes
from agentsmith.simulators.azuredevops.hook_routes import HookRoutes
from agentsmith.simulators.azuredevops.hooks import HookOutbox, Hooks
from agentsmith.simulators.azuredevops.hub import Hub
from agentsmith.simulators.azuredevops.item_routes import ItemRoutes
from agentsmith.simulators.azuredevops.payloads import Renderer
from agentsmith.simulators.azuredevops.people import People
from agentsmith.simulators.azuredevops.pull_routes import PullRoutes
from agentsmith.simulators.azuredevops.query_routes import QueryRoutes
from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call, Endpoint, Simulator
from agentsmith.simulators.git.smart_http import GitAsked, GitVisit

WIT = re.compile(r"(/_apis/wit/)([A-Za-z]+)(.*)$", re.I | re.S)
PULL_PATH = re.compile(r"(?<=/)pullrequests(?=(?:/\d+)?(/[^/]+)?$)", re.I)
BELOW_ITEM = re.compile(r"/\d+/(updates|revisions|comments)\b", re.I)
LIMIT_MESSAGE = (
    "TF400733: The request has been canceled: Request was blocked due to exceeding usage of resource 'Concurrency' in "
    "namespace 'User'. For more information on why your request was blocked, see the topic \"Rate limits\"."
)


class AzureDevOpsSimulator(People, Simulator):
    """One organization in memory, under `/{organization}`; a Server has it under `/tfs/{collection}`.

    Its own kinds of faults, besides those of the frame:
      bad_credentials         a sign-in page: 203, or `status` 200, 302, 401
      rate_limit              429 with TF400733 and `retry_after` if given
      delayed                 the answer, with `retry_after` (default 10) and the limit's headers
      revision_race           a patch is answered with 409 TF26071; nothing is written
      silent_permission_loss  a patch is answered with 200, and the tags are dropped
      add_overwrites          `add` on the tags replaces them, as old Servers were seen to do
    """

    name: ClassVar[str] = "azure-devops"
    quirk_kinds: ClassVar[Mapping[str, tuple[str, str]]] = {
        "bad_credentials": ("", ""),
        "rate_limit": ("", ""),
        "delayed": ("", ""),
        "revision_race": ("PATCH", r"/workitems/\d+$"),
        "silent_permission_loss": ("PATCH", r"/workitems/\d+$"),
        "add_overwrites": ("PATCH", r"/workitems/\d+$"),
    }

    def __init__(
        self,
        *,
        organization: str = "acme",
        server: bool = False,
        query_limit: int = 20_000,
        query_refuses: bool = True,
        most_revisions: int = 10_000,
        clock: Clock | None = None,
        delivery_timeout: float = 10.0,
    ) -> None:
        clock = clock or Clock()
        super().__init__(clock=clock, api_root="/tfs" if server else "", delivery_timeout=delivery_timeout)
        self.organization = organization
        self._limits = {"query": query_limit, "revisions": most_revisions}
        self._query_refuses = query_refuses
        self._answers = itertools.count(1)
        self.hub = Hub(clock, organization, lambda notice: self.hooks.notify(notice), self.git)
        hub = self.hub
        self._git_door = GitDoor(organization, hub.world, hub.credentials, hub.door, hub.code)
        self.hooks = Hooks(clock, self.hub.world, self._renderer)
        self.outbox = HookOutbox(clock, self.faults, timeout=delivery_timeout, ended=self.hooks.ended)
        self.hooks.outbox = self.outbox

    def endpoints(self) -> Sequence[Endpoint]:
        """Every endpoint, inside a project and, where the service has it so, above."""
        hub, account = self.hub, AccountRoutes(self.hub)
        items = ItemRoutes(hub, most_revisions=self._limits["revisions"])
        queries = QueryRoutes(hub, limit=self._limits["query"], refuses=self._query_refuses)
        organization = f"/{self.organization}"
        pulls = PullRoutes(hub)
        groups = (items.table(), CommentRoutes(hub).table(), queries.table())
        inside = [
            Endpoint(m, f"{organization}/{{project}}/_apis{p}", h)
            for g in (*groups, account.table(), pulls.table())
            for m, p, h in g
        ]
        above = (*groups, account.above(), pulls.above(), HookRoutes(hub, self.hooks).above())
        return [*(Endpoint(m, f"{organization}/_apis{p}", h) for g in above for m, p, h in g), *inside]

    def canonical_path(self, path: str) -> str:
        """Case does not matter in the names of resources; this is how the service's description spells them."""
        parts = path.split("/")
        if len(parts) > 1 and parts[1].casefold() == self.organization.casefold():
            parts[1] = self.organization
        path = "/".join(parts)
        path = PULL_PATH.sub(lambda found: "pullRequests" if found[1] else "pullrequests", path)
        found = WIT.search(path)
        if found is None:
            return path.replace("/_apis/resourceAreas", "/_apis/ResourceAreas")
        name, rest = found[2].lower(), found[3]
        if name == "workitems" and BELOW_ITEM.match(rest):
            name = "workItems"
        return path[: found.start()] + found[1].lower() + name + rest

    def clear_state(self) -> None:
        """No projects, no people, no tokens, no subscriptions."""
        self.hub.clear()
        self.hooks.subscriptions.clear()

    def git_door(self, call: Call, asked: GitAsked) -> GitVisit | Response:
        """`/{organization}/{project}/_git/{repository}`, with a token of the API as the password."""
        return self._git_door.enter(call, asked, root=self.api_root)

    def admit(self, call: Call) -> Response | None:
        """Credential first, limits next."""
        if fault := call.quirks.get("bad_credentials"):
            return sign_in(call, fault.status)
        credential = self.hub.credentials.of(call)
        if credential is None and call.method != "OPTIONS":
            return sign_in(call)
        call.caller = credential
        call.caller_name = credential.user.name if credential else None
        if fault := call.quirks.get("rate_limit"):
            headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
            return problem(429, LIMIT_MESSAGE, "RequestBlockedException", headers={**self._usage(0), **headers})
        return None

    def finish(self, call: Call, response: Response) -> Response:
        """The headers that every answer has; a delayed one tells how long to stay away."""
        call.counted = call.caller is not None
        headers = {
            "Date": formatdate(self.clock.now(), usegmt=True),
            "ActivityId": f"sim-{next(self._answers)}",
            "X-VSS-UserData": f"sim:{call.caller_name or ''}",
        }
        if fault := call.quirks.get("delayed"):
            wait = 10 if fault.retry_after is None else fault.retry_after
            headers |= {**self._usage(0), "Retry-After": str(wait), "X-RateLimit-Delay": "2.5"}
        if response.headers.get("content-type") == "application/json":
            headers["Content-Type"] = "application/json; charset=utf-8; api-version=7.1"
        response.headers.update(headers)
        return response

    def _usage(self, left: int) -> dict[str, str]:
        reset = str(int(self.clock.now()) + 300)
        names = {"Resource": "Concurrency", "Limit": "200", "Remaining": str(left), "Reset": reset}
        return {f"X-RateLimit-{name}": value for name, value in names.items()}

    def _renderer(self) -> Renderer:
        return Renderer(self.hub.world, f"{self.api_url}/{self.organization}")
