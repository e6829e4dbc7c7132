"""What the conformance suite of forges needs of a platform: a hand on the other side of the wire, and its own git.

A further code host is one subclass of `Host` and one entry in `HOSTS`. The suite talks to the forge under test only
through `domain.forge.Forge`; what people and the network do goes through here, past the forge and its client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import httpx

from agentsmith.domain.forge import Forge
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.simulators import Fault as SimulatorFault
from agentsmith.simulators import Recorded, Running, Simulator, serve
from agentsmith.simulators.azuredevops import AzureDevOpsSimulator
from agentsmith.simulators.github import GitHubSimulator
from agentsmith.simulators.gitlab import GitLabSimulator
from agentsmith.trackers.azuredevops.forge import BODY_LIMIT as AZURE_BODY
from agentsmith.trackers.azuredevops.forge import TITLE_LIMIT as AZURE_TITLE
from agentsmith.trackers.azuredevops.settings import AzureRepository
from agentsmith.trackers.github.forge import BODY_LIMIT as GITHUB_BODY
from agentsmith.trackers.github.forge import TITLE_LIMIT as GITHUB_TITLE
from agentsmith.trackers.github.settings import GitHubRepository
from agentsmith.trackers.gitlab.forge import BODY_LIMIT as GITLAB_BODY
from agentsmith.trackers.gitlab.forge import TITLE_LIMIT as GITLAB_TITLE
from agentsmith.trackers.gitlab.settings import GitLabRepository
from agentsmith.trackers.http import LocalGovernor, Shared
from agentsmith.trackers.http.connection import Connection
from tests.conformance.harness import Fault
from tests.conformance.simulated import FAST, WRITES, Jumping, Watched


@dataclass(frozen=True, slots=True)
class Shown:
    """A pull request as the platform keeps it."""

    number: str
    open: bool
    title: str
    body: str
    head: str
    base: str
    draft: bool
    items: tuple[str, ...] = ()
    """The tickets that it is linked to in the platform's own way."""


class Host(ABC):
    """One repository, the forge under test, and everybody else who works there."""

    token: ClassVar[str]
    title_limit: ClassVar[int]
    body_limit: ClassVar[int]
    looks_for_commits: ClassVar[bool] = False
    """Whether the platform itself refuses a branch without a commit of its own."""
    lists: ClassVar[str]
    """The path of the list of pull requests, as a regular expression."""
    nothing: ClassVar[Any] = []
    """A list without any, as the platform wraps it."""
    simulator: Simulator

    def __init__(self) -> None:
        self._clock = Jumping()
        self._shared = Shared(governor=LocalGovernor(self._clock))
        self._forges: list[Forge] = []
        self._watched = Watched(lambda method, _: method == "GET")
        self.url = ""
        self.forge: Forge

    @classmethod
    @asynccontextmanager
    async def start(cls) -> AsyncIterator[Host]:
        """A repository with one commit on `main`."""
        host = cls()
        async with serve(host.simulator) as running:
            host.forge = host.another(running, transport=host._watched)
            host.url = running.url
            try:
                yield host
            finally:
                for forge in host._forges:
                    await forge.aclose()
        host.simulator.assert_understood()

    def another(
        self, running: Running | None = None, *, name: str = "web", transport: httpx.AsyncBaseTransport | None = None
    ) -> Forge:
        """Another forge with connections of its own; `name` is `web`, `empty`, `trunk`, or of nothing at all."""
        pool = httpx.AsyncClient(transport=transport or httpx.AsyncHTTPTransport(verify=False))
        made = self.open(self.simulator.api_url if running is None else running.api_url, name, pool)
        self._forges.append(made)
        return made

    @abstractmethod
    def open(self, api: str, name: str, pool: httpx.AsyncClient) -> Forge:
        """A forge for a repository."""

    # --- what people do -------------------------------------------------------------------------------------------

    @abstractmethod
    def push(self, branch: str, files: Mapping[str, str | None] | None = None) -> None:
        """Somebody pushes a commit to a branch, from `main` if it is new."""

    @abstractmethod
    def open_pull(self, branch: str, *, base: str = "main", title: str = "by a person", fork: bool = False) -> str:
        """A person opens a pull request; answers its number."""

    @abstractmethod
    def edit_pull(self, number: str, **fields: str) -> None:
        """A person changes `title`, `body` or `base`."""

    @abstractmethod
    def close_pull(self, number: str) -> None:
        """A person closes it, unmerged."""

    @abstractmethod
    def ticket(self) -> Ticket:
        """A ticket beside the code."""

    @abstractmethod
    def rename(self) -> None:
        """The repository gets another name."""

    # --- what is really there, read past the forge ----------------------------------------------------------------

    @abstractmethod
    def pulls(self) -> list[Shown]:
        """All pull requests, oldest first."""

    @abstractmethod
    def branches(self) -> set[str]:
        """What git has."""

    def writes(self) -> list[Recorded]:
        """What was carried out, whether or not its answer arrived; reads never count."""
        return [r for r in self.simulator.requests if _wrote(r)]

    # --- what goes wrong ------------------------------------------------------------------------------------------

    def between_read_and_write(self, callback: Callable[[], object]) -> None:
        """Call it once, right before the forge's next write leaves."""

        async def call() -> None:
            callback()

        self._watched.before_write = call

    def inject(self, fault: Fault) -> SimulatorFault:
        """Let a fault happen from now on; LOST_ANSWER happens once."""
        faults = {
            Fault.UNAVAILABLE: SimulatorFault("status", status=503, times=None),
            Fault.UNREACHABLE: SimulatorFault("refuse", times=None),
            Fault.RATE_LIMITED: self.limit(),
            Fault.UNAUTHORIZED: SimulatorFault("bad_credentials", times=None),
            Fault.FORBIDDEN: SimulatorFault("status", status=403, body=self.denial(), method=WRITES, times=None),
            Fault.LOST_ANSWER: SimulatorFault("applied_then_lost", method=WRITES),
            Fault.MALFORMED: SimulatorFault("malformed_json", times=None),
        }
        return self.simulator.inject(faults[fault])

    @abstractmethod
    def limit(self) -> SimulatorFault:
        """The platform asks to stay away for two minutes."""

    @abstractmethod
    def denial(self) -> Mapping[str, str]:
        """What the platform says to somebody who may not write."""

    def heal(self) -> None:
        """Disarm everything, and let the time pass that a limit asked for."""
        self.simulator.clear_faults()
        self._clock.ahead += 1000


def _wrote(request: Recorded) -> bool:
    if request.method == "GET":
        return False
    return request.status in range(200, 300) or "applied_then_lost" in request.faults


def _ticket(id_: str, key: str, url: str) -> Ticket:
    return Ticket(TicketId(id_), key, "web", "a ticket", "", url, frozenset(), open=True, revision="1")


class OnGitHub(Host):
    token = "github_pat_11FORGE0000_secretsecretsecret"
    title_limit, body_limit = GITHUB_TITLE, GITHUB_BODY
    looks_for_commits = True
    lists = "/pulls$"

    def __init__(self) -> None:
        super().__init__()
        self.simulator = self.hub = GitHubSimulator(rate_limit=1_000_000)
        self.hub.add_repository("acme/web")
        self.hub.add_repository("acme/empty", empty=True)
        self.hub.add_repository("acme/trunk", default_branch="release/trunk")
        self.hub.add_token(self.token, login="agentsmith", permission="write")

    def open(self, api: str, name: str, pool: httpx.AsyncClient) -> Forge:
        settings = GitHubRepository.model_validate(
            {"platform": "github", "repository": f"acme/{name}", "base_url": api, "token": self.token}
        )
        return settings.open("web", Connection(self._shared, FAST, pool))

    def push(self, branch: str, files: Mapping[str, str | None] | None = None) -> None:
        self.hub.push("acme/web", branch, dict(files or {"new.txt": branch}))

    def open_pull(self, branch: str, *, base: str = "main", title: str = "by a person", fork: bool = False) -> str:
        origin = "acme/fork" if fork else None
        return str(self.hub.open_pull_request("acme/web", head=branch, base=base, title=title, fork=origin))

    def edit_pull(self, number: str, **fields: str) -> None:
        changes: dict[str, Any] = dict(fields)
        self.hub.edit_pull_request("acme/web", int(number), **changes)

    def close_pull(self, number: str) -> None:
        self.hub.close_issue("acme/web", int(number))

    def ticket(self) -> Ticket:
        number = self.hub.open_issue("acme/web")
        host = self.url.partition("://")[2]
        return _ticket(f"{host}/acme/web#{number}", str(number), f"{self.url}/acme/web/issues/{number}")

    def rename(self) -> None:
        self.hub.rename_repository("acme/web", "site")

    def pulls(self) -> list[Shown]:
        name = next(r.full_name for r in self.hub.hub.world.repositories.values() if r.name in ("web", "site"))
        return [_shown(pull, opened="open") for pull in self.hub.pull_requests(name)]

    def branches(self) -> set[str]:
        return set(self.hub.branches("acme/web"))

    def limit(self) -> SimulatorFault:
        return SimulatorFault("secondary_limit", retry_after=120, times=None)

    def denial(self) -> Mapping[str, str]:
        return {"message": "Resource not accessible by personal access token"}


class OnGitLab(Host):
    token = "glpat-FORGEsecretsecretsecret"
    title_limit, body_limit = GITLAB_TITLE, GITLAB_BODY
    lists = "/merge_requests$"

    def __init__(self) -> None:
        super().__init__()
        self.simulator = self.lab = GitLabSimulator()
        for name, options in (("web", {}), ("empty", {"empty": True}), ("trunk", {"default_branch": "release/trunk"})):
            self.lab.add_project(f"acme/apps/{name}", **options)
            self.lab.set_access(f"acme/apps/{name}", "agentsmith", "developer")
        self.lab.add_project("gil/web")
        self.lab.add_token(self.token, username="agentsmith")

    def open(self, api: str, name: str, pool: httpx.AsyncClient) -> Forge:
        settings = GitLabRepository.model_validate(
            {"platform": "gitlab", "project": f"acme/apps/{name}", "base_url": api, "token": self.token}
        )
        return settings.open("web", Connection(self._shared, FAST, pool))

    def push(self, branch: str, files: Mapping[str, str | None] | None = None) -> None:
        self.lab.push("acme/apps/web", branch, dict(files or {"new.txt": branch}))

    def open_pull(self, branch: str, *, base: str = "main", title: str = "by a person", fork: bool = False) -> str:
        origin = "gil/web" if fork else None
        return str(self.lab.open_merge_request("acme/apps/web", source=branch, target=base, title=title, fork=origin))

    def edit_pull(self, number: str, **fields: str) -> None:
        names = {"base": "target"}
        changes: dict[str, Any] = {names.get(k, k): v for k, v in fields.items()}
        self.lab.edit_merge_request("acme/apps/web", int(number), **changes)

    def close_pull(self, number: str) -> None:
        self.lab.edit_merge_request("acme/apps/web", int(number), state="closed")

    def ticket(self) -> Ticket:
        iid = self.lab.open_issue("acme/apps/web")
        host = self.url.partition("://")[2]
        return _ticket(f"{host}/acme/apps/web#{iid}", str(iid), f"{self.url}/acme/apps/web/-/issues/{iid}")

    def rename(self) -> None:
        self.lab.rename_project("acme/apps/web", "acme/site")

    def pulls(self) -> list[Shown]:
        path = next(p.path for p in self.lab.hub.world.projects.values() if p.path in ("acme/apps/web", "acme/site"))
        return [_shown(pull, opened="opened") for pull in self.lab.merge_requests(path)]

    def branches(self) -> set[str]:
        return set(self.lab.branches("acme/apps/web"))

    def limit(self) -> SimulatorFault:
        return SimulatorFault("rate_limited", retry_after=120, times=None)

    def denial(self) -> Mapping[str, str]:
        return {"message": "403 Forbidden"}


class OnAzure(Host):
    token = "forgeforgeforgeforgesecretsecretsecretforgeforge5252"
    title_limit, body_limit = AZURE_TITLE, AZURE_BODY
    lists, nothing = "/pullrequests$", {"count": 0, "value": []}

    def __init__(self) -> None:
        super().__init__()
        self.simulator = self.azure = AzureDevOpsSimulator()
        self.azure.add_project("Fabrikam Fiber")
        self.azure.add_repository("Fabrikam Fiber", "empty", empty=True)
        self.azure.add_repository("Fabrikam Fiber", "trunk", default_branch="release/trunk")
        self.azure.add_repository("Fabrikam Fiber", "fork")
        self.azure.add_token(self.token, user="agentsmith")

    def open(self, api: str, name: str, pool: httpx.AsyncClient) -> Forge:
        settings = AzureRepository.model_validate(
            {
                "platform": "azure-devops",
                "organization": "acme",
                "project": "Fabrikam Fiber",
                "base_url": api,
                "token": self.token,
                "repository": "Fabrikam Fiber" if name == "web" else name,
            }
        )
        return settings.open("web", Connection(self._shared, FAST, pool))

    def push(self, branch: str, files: Mapping[str, str | None] | None = None) -> None:
        self.azure.push("Fabrikam Fiber", branch, dict(files or {"new.txt": branch}))

    def open_pull(self, branch: str, *, base: str = "main", title: str = "by a person", fork: bool = False) -> str:
        origin = "fork" if fork else None
        return str(self.azure.open_pull_request("Fabrikam Fiber", source=branch, target=base, title=title, fork=origin))

    def edit_pull(self, number: str, **fields: str) -> None:
        names = {"base": "target"}
        changes: dict[str, Any] = {names.get(k, k): v for k, v in fields.items()}
        self.azure.edit_pull_request("Fabrikam Fiber", int(number), **changes)

    def close_pull(self, number: str) -> None:
        self.azure.edit_pull_request("Fabrikam Fiber", int(number), status="abandoned")

    def ticket(self) -> Ticket:
        number = self.azure.open_item("Fabrikam Fiber")
        root = f"{self.url.partition('://')[2]}/acme/fabrikam%20fiber"
        return _ticket(f"{root}#{number}", str(number), f"{self.url}/acme/Fabrikam%20Fiber/_workitems/edit/{number}")

    def rename(self) -> None:
        self.azure.rename_project("Fabrikam Fiber", "Fabrikam")

    def pulls(self) -> list[Shown]:
        return [_shown(pull, opened="active") for pull in self.azure.pull_requests("Fabrikam Fiber")]

    def branches(self) -> set[str]:
        return set(self.azure.branches("Fabrikam Fiber"))

    def limit(self) -> SimulatorFault:
        return SimulatorFault("rate_limit", retry_after=120, times=None)

    def denial(self) -> Mapping[str, str]:
        return {"message": "TF401027: You need the permission.", "typeKey": "GitNeedsPermissionException"}


def _shown(pull: Mapping[str, Any], *, opened: str) -> Shown:
    return Shown(
        number=str(pull["number"]),
        open=pull["state"] == opened,
        title=pull["title"],
        body=pull["body"],
        head=pull["head"],
        base=pull["base"],
        draft=pull["draft"],
        items=tuple(map(str, pull.get("items", ()))),
    )


HOSTS: Final[Mapping[str, type[Host]]] = {"azure-devops": OnAzure, "github": OnGitHub, "gitlab": OnGitLab}
