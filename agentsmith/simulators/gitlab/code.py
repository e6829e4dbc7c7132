"""The code of projects: real git, made on first use, and the door for git clients."""

from __future__ import annotations

import base64
import binascii

from starlette.responses import Response

from agentsmith.simulators.frame import Call
from agentsmith.simulators.git.bare import SEED, BareRepository, GitHome
from agentsmith.simulators.git.smart_http import GitAsked, GitVisit
from agentsmith.simulators.gitlab.access import Credential, Credentials
from agentsmith.simulators.gitlab.state import DEVELOPER, GUEST, REPORTER, Project, World

CHALLENGE = {"WWW-Authenticate": 'Basic realm="GitLab"'}
DENIED = (
    "HTTP Basic: Access denied. If a password was provided for Git authentication, the password was incorrect or "
    "you're required to use a token instead of a password."
)
HIDDEN = "The project you were looking for could not be found or you don't have permission to view it."
NO_PUSH = "You are not allowed to push code to this project."
READING, WRITING = frozenset({"api", "read_repository", "write_repository"}), frozenset({"api", "write_repository"})
OAUTH_USER = "oauth2"


class Code:
    """The git of one GitLab's projects."""

    def __init__(self, home: GitHome) -> None:
        self.home = home

    def of(self, project: Project) -> BareRepository:
        """The project's git, made on first use."""
        found = self.home.get(str(project.id))
        if found is not None:
            return found
        return self.home.make(
            str(project.id),
            default_branch=project.default_branch,
            seed={} if project.empty else project.seed or SEED,
            author="mona",
            at=project.created_at,
        )

    def empty(self, project: Project) -> bool:
        """Whether nobody has committed anything yet."""
        found = self.home.get(str(project.id))
        return project.empty if found is None else not found.heads()


class GitDoor:
    """Lets git clients in, with the tokens of the API."""

    def __init__(self, world: World, credentials: Credentials, code: Code) -> None:
        self.world, self.credentials, self.code = world, credentials, code

    def enter(self, call: Call, asked: GitAsked) -> GitVisit | Response:
        """The visit, or why not: 401 asks for a login, 404 hides, 403 refuses a push."""
        if "bad_credentials" in call.quirks:
            return _text(401, DENIED, CHALLENGE)
        credential: Credential | None = None
        if "authorization" in call.headers:
            credential = self._credential(call)
            if credential is None:
                return _text(401, DENIED, CHALLENGE)
            call.caller, call.caller_name = credential, credential.username
        name = asked.place.strip("/").removesuffix(".git")
        try:
            project = self.world.project(name)
        except LookupError:
            former = self.world.renamed.get(name.casefold())
            if former is None or credential is None:
                return _hidden(credential)
            root = call.base_url.removesuffix("/api/v4")
            target = f"{root}/{self.world.projects[former].path}.git/{asked.action}?{call.query_string}"
            return _text(301, "Moved Permanently", {"Location": target})
        level = project.members.get(credential.username.casefold(), 0) if credential else 0
        if project.private and level < GUEST:
            return _hidden(credential)
        if credential is None:
            return _hidden(None) if asked.push else self._visit(project, None)
        if not credential.scopes & (WRITING if asked.push else READING):
            return _text(403, "insufficient_scope")
        if asked.push and level < DEVELOPER:
            return _text(403, NO_PUSH)
        if project.private and level < REPORTER:
            return _text(403, "You are not allowed to download code from this project.")
        return self._visit(project, credential.username)

    def _visit(self, project: Project, caller: str | None) -> GitVisit:
        return GitVisit(self.code.of(project), caller, lambda: None)

    def _credential(self, call: Call) -> Credential | None:
        """Whose token git sends as the password: of anybody, but an OAuth token only under the name that is for it."""
        scheme, _, packed = call.headers["authorization"].partition(" ")
        try:
            username, _, password = base64.b64decode(packed, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        found = self.credentials.good(password) if scheme.lower() == "basic" and username else None
        return None if found and found.oauth and username != OAUTH_USER else found


def _hidden(credential: Credential | None) -> Response:
    """What is not there, or not for this caller; who has not logged in is asked to."""
    return _text(401, DENIED, CHALLENGE) if credential is None else _text(404, HIDDEN)


def _text(status: int, words: str, headers: dict[str, str] | None = None) -> Response:
    return Response(words, status, headers, media_type="text/plain")
