"""Who calls and what they may: tokens, projects that moved, and access levels."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call, Refusal, Unsupported
from agentsmith.simulators.gitlab.answers import forbidden, not_found, problem, refuse
from agentsmith.simulators.gitlab.changes import By
from agentsmith.simulators.gitlab.state import GUEST, PLANNER, Issue, Project, World

READS = frozenset({"GET", "HEAD"})


@dataclass(slots=True)
class Credential:
    """A token: an access token in either header, or (`oauth`) as a bearer only."""

    token: str
    username: str
    scopes: frozenset[str] = frozenset({"api"})
    expires_at: float | None = None
    revoked: bool = False
    oauth: bool = False

    @property
    def by(self) -> By:
        """On whose behalf its changes are made."""
        return By(self.username)


def unauthorized() -> Response:
    """The answer to a token that is missing, wrong or revoked."""
    return problem(401, "401 Unauthorized")


def expired() -> Response:
    """The answer to a token whose time is over."""
    why = "Token is expired. You can either do re-authorization or token refresh."
    return JSONResponse({"error": "invalid_token", "error_description": why}, 401)


def too_narrow() -> Response:
    """The answer to a token without the scope that is needed."""
    why = "The request requires higher privileges than provided by the access token."
    return JSONResponse({"error": "insufficient_scope", "error_description": why, "scope": "api"}, 403)


class Credentials:
    """All tokens of one GitLab."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.tokens: dict[str, Credential] = {}

    def good(self, token: str) -> Credential | None:
        """The token's owner, if it is good now."""
        found = self.tokens.get(token)
        ended = found is None or found.revoked
        if found is None or ended or (found.expires_at is not None and self._clock.now() >= found.expires_at):
            return None
        return found

    def check(self, call: Call) -> Credential | Response:
        """Whoever calls, or why they may not."""
        scheme, _, bearer = call.headers.get("authorization", "").partition(" ")
        bearer = bearer.strip() if scheme.lower() == "bearer" else ""
        private = call.headers.get("private-token", "")
        found = self.tokens.get(private or bearer)
        if found is None or found.revoked or (found.oauth and not bearer):
            return unauthorized()
        if found.expires_at is not None and self._clock.now() >= found.expires_at:
            return expired()
        if "api" not in found.scopes and (call.method not in READS or "read_api" not in found.scopes):
            return too_narrow()
        return found


def credential_of(call: Call) -> Credential:
    """The caller's token."""
    if not isinstance(call.caller, Credential):
        raise Refusal(unauthorized())
    return call.caller


class Door:
    """Finds what a request names and checks that the caller may have it."""

    def __init__(self, world: World) -> None:
        self.world = world

    def level(self, call: Call, project: Project) -> int:
        """The caller's access level; 0 for whoever is no member."""
        return project.members.get(credential_of(call).username.casefold(), 0)

    def project(self, call: Call) -> Project:
        """The project in the path, which must be encoded: 404 out of sight, a redirect under a former path."""
        name = call.params["project"]
        raw = call.raw_path.partition("/projects/")[2].split("/")
        if (named := unquote(raw[0])) != name:
            if "/" in named or named.isdecimal():
                raise Unsupported(f"{call.method} {call.path}")  # an endpoint of a project that is not simulated
            raise not_found()  # `acme/web` without encoding is another address altogether
        former = self.world.renamed.get(name.casefold())
        try:
            project = self.world.project(name)
        except LookupError:
            if former is None:
                raise not_found("Project") from None
            project = self.world.projects[former]
            if self.sees(call, project):
                self._moved(call, former, raw)
        if not self.sees(call, project):
            raise not_found("Project")
        return project

    def issue(self, call: Call, *, missing: str = "") -> tuple[Project, Issue]:
        """The issue in the path."""
        project = self.project(call)
        issue = project.issue(call.params["iid"], call.behind)
        if not project.issues_enabled or issue is None or not self._may_see(call, project, issue):
            raise not_found(missing)
        return project, issue

    def need(self, call: Call, project: Project, level: int) -> None:
        """Refuse with 403 unless the caller's level suffices."""
        if self.level(call, project) < level:
            raise forbidden()

    def may_label(self, call: Call, project: Project) -> bool:
        """Whether label changes by this caller have an effect; without the right they are dropped in silence."""
        return self.level(call, project) >= PLANNER and "silent_permission_loss" not in call.quirks

    def shows(self, call: Call, project: Project, issue: Issue) -> bool:
        """Whether the caller gets to see an issue that was found some other way than by the path."""
        return project.issues_enabled and self.sees(call, project) and self._may_see(call, project, issue)

    def sees(self, call: Call, project: Project) -> bool:
        """Whether the caller gets to see the project."""
        return not project.private or self.level(call, project) >= GUEST

    def _may_see(self, call: Call, project: Project, issue: Issue) -> bool:
        own = issue.author.casefold() == credential_of(call).username.casefold()
        return not issue.confidential or own or self.level(call, project) >= PLANNER

    @staticmethod
    def _moved(call: Call, project_id: int, raw: list[str]) -> None:
        if call.method not in READS:
            raise refuse(405, "Non GET methods are not allowed for moved projects")
        query = f"?{call.query_string}" if call.query_string else ""
        target = "/".join([f"{call.base_url}/projects/{project_id}", *raw[1:]]) + query
        message = f"This resource has been moved permanently to {target}"
        raise Refusal(Response(message, 301, {"Location": target}, media_type="text/html"))
