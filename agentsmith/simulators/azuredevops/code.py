"""The code of projects: real git, made on first use, and the door for git clients."""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.responses import Response

from agentsmith.simulators.azuredevops.access import CODE_SCOPES, Credential, Credentials, Door
from agentsmith.simulators.azuredevops.state import GitRepository, Project, World
from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call
from agentsmith.simulators.git.bare import SEED, BareRepository, GitHome
from agentsmith.simulators.git.smart_http import GitAsked, GitVisit

_PLACE = re.compile(r"/([^/]+)/([^/]+)/_git/([^/]+)")


class Code:
    """The git of one organization's repositories."""

    def __init__(self, home: GitHome, clock: Clock) -> None:
        self.home, self.clock = home, clock

    def of(self, repository: GitRepository) -> BareRepository:
        """The repository's git, made on first use."""
        found = self.home.get(repository.id)
        if found is not None:
            return found
        return self.home.make(
            repository.id,
            default_branch=repository.default_branch,
            seed={} if repository.empty else repository.seed or SEED,
            author="mona@example.com",
            at=self.clock.stamp(),
        )

    def empty(self, repository: GitRepository) -> bool:
        """Whether nobody has committed anything yet."""
        found = self.home.get(repository.id)
        return repository.empty if found is None else not found.heads()


class GitDoor:
    """Lets git clients in, with the tokens of the API."""

    def __init__(self, organization: str, world: World, credentials: Credentials, door: Door, code: Code) -> None:
        self.organization, self.world, self.credentials = organization, world, credentials
        self.door, self.code = door, code

    def enter(self, call: Call, asked: GitAsked, *, root: str) -> GitVisit | Response:
        """The visit, or why not: 401 asks for a login (git gets no sign-in page), 404 hides, 403 refuses a push."""
        credential = None if "bad_credentials" in call.quirks else self.credentials.of(call)
        if credential is None:
            realm = f"{call.base_url}/{quote(self.organization)}"
            challenge = f'Bearer authorization_uri="https://login.example/{quote(self.organization)}"'
            headers = {"WWW-Authenticate": f'{challenge}, Basic realm="{realm}", TFS-Federated'}
            return _text(
                401, "TF400813: Resource not available for anonymous access. Client authentication required.", headers
            )
        call.caller, call.caller_name = credential, credential.user.name
        found = self._found(asked.place.removeprefix(root))
        if found is None or credential.user.name.casefold() in self.door.blind:
            name = asked.place.rpartition("/")[2]
            words = f"TF401019: The Git repository with name or identifier {name} does not exist or you do not have "
            return _text(404, f"{words}permissions for the operation you are attempting.")
        if refusal := self._refusal(credential, push=asked.push):
            return _text(403, refusal)
        return GitVisit(self.code.of(found), call.caller_name, lambda: None)

    def _refusal(self, credential: Credential, *, push: bool) -> str:
        if CODE_SCOPES.index(credential.code) < CODE_SCOPES.index("write" if push else "read"):
            return "TF400813: The token does not have the scope that is needed for code."
        if push and credential.user.name.casefold() in self.door.readers:
            return "TF401027: You need the Git 'GenericContribute' permission to perform this action."
        return ""

    def _found(self, place: str) -> GitRepository | None:
        parts = _PLACE.fullmatch(place)
        if parts is None or parts[1].casefold() != self.organization.casefold():
            return None
        try:
            project: Project = self.world.project(parts[2])
            return project.repository(parts[3])
        except LookupError:
            return None


def _text(status: int, words: str, headers: dict[str, str] | None = None) -> Response:
    return Response(words, status, headers, media_type="text/plain")
