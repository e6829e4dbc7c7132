"""Who calls and what they may: credentials, repositories that moved, and the permissions of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import Response

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call, Refusal
from agentsmith.simulators.github.answers import not_found, problem, refuse
from agentsmith.simulators.github.changes import By
from agentsmith.simulators.github.state import Issue, Repository, World, at_least

LEVELS = ("none", "read", "write", "admin")


@dataclass(slots=True)
class Credential:
    """A token. `permissions` are those of a fine-grained token or an App; None leaves it to the role."""

    token: str
    login: str
    permissions: Mapping[str, str] | None = None
    repositories: frozenset[str] | None = None
    """Lower-case full names; None: all."""
    expires_at: float | None = None
    revoked: bool = False
    app: int | None = None
    installation: int | None = None

    @property
    def quota_key(self) -> str:
        """Whose quota it spends: a user's tokens share one, and so do an installation's."""
        return f"installation {self.installation}" if self.installation else f"user {self.login.casefold()}"

    @property
    def by(self) -> By:
        """On whose behalf its changes are made."""
        return By(self.login, self.app)

    @property
    def denial(self) -> str:
        """How GitHub words that the token lacks a permission."""
        kind = "integration" if self.installation else "personal access token"
        return f"Resource not accessible by {kind}"


class Credentials:
    """All tokens of one GitHub."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[str, Credential] = {}

    def add(self, credential: Credential) -> Credential:
        """Make a token known."""
        self._tokens[credential.token] = credential
        return credential

    def get(self, token: str) -> Credential | None:
        """The credential, if it is good now."""
        found = self._tokens.get(token)
        if found is None or found.revoked:
            return None
        if found.expires_at is not None and self._clock.now() >= found.expires_at:
            return None
        return found

    def revoke(self, token: str) -> None:
        """From now on the token is refused."""
        self._tokens[token].revoked = True

    def clear(self) -> None:
        """Forget all tokens."""
        self._tokens.clear()


def token_in(call: Call) -> str | None:
    """The token in `Authorization`, in any of the forms GitHub takes."""
    scheme, _, value = call.headers.get("authorization", "").partition(" ")
    return value.strip() or None if scheme.lower() in ("bearer", "token") else None


def credential_of(call: Call) -> Credential:
    """The caller as a token; an App's JWT is none."""
    if not isinstance(call.caller, Credential):
        raise refuse(401, "Requires authentication")
    return call.caller


def moved(call: Call, location: str, status: int = 301) -> Refusal:
    """A redirect as GitHub words it."""
    words = "Moved Permanently" if status == 301 else "Temporary Redirect"
    query = f"?{call.query_string}" if call.query_string else ""
    target = location + query
    return Refusal(problem(status, words, headers={"Location": target}, url=target))


class Door:
    """Finds what a request names and checks that the caller may have it."""

    def __init__(self, world: World) -> None:
        self.world = world

    def role(self, call: Call, repository: Repository) -> str:
        """What the caller may do in a repository."""
        credential = credential_of(call)
        allowed = credential.repositories
        if allowed is not None and repository.full_name.casefold() not in allowed:
            return "none"
        return self.world.role_of(credential.login, repository)

    def repository(self, call: Call) -> Repository:
        """The repository in the path: 404 where the caller may not see it, a redirect where it was renamed."""
        full_name = f"{call.params['owner']}/{call.params['repo']}"
        former = self.world.renamed.get(full_name.casefold())
        try:
            repository = self.world.repository(full_name)
        except LookupError:
            if former is None:
                raise not_found() from None
            repository = self.world.repositories[former]
            if self.role(call, repository) != "none":
                rest = call.raw_path.partition("/repos/")[2].split("/")[2:]
                address = "/".join([f"{call.base_url}/repositories/{former}", *rest])
                # A client may not turn a POST into a GET, which a 301 would allow it to.
                raise moved(call, address, 301 if call.method == "GET" else 307) from None
        if self.role(call, repository) == "none":
            raise not_found()
        return repository

    def issue(self, call: Call) -> tuple[Repository, Issue]:
        """The issue in the path: 404, 410 where it was deleted, 301 where it was transferred."""
        repository = self.repository(call)
        number = call.params["number"]
        if not repository.has_issues:
            raise refuse(410, "Issues are disabled for this repo")
        if number in repository.moved:
            target, there = repository.moved[number]
            rest = call.raw_path.partition(f"/issues/{number}")[2]
            raise moved(call, f"{call.base_url}/repositories/{target}/issues/{there}{rest}")
        if number in repository.deleted:
            raise refuse(410, "This issue was deleted")
        issue = repository.issue(number, call.behind)
        if issue is None:
            raise not_found()
        return repository, issue

    def may(self, call: Call, area: str, level: str) -> bool:
        """Whether a fine-grained token or an App has a permission; other tokens have what their role has."""
        permissions = credential_of(call).permissions
        return permissions is None or LEVELS.index(permissions.get(area, "none")) >= LEVELS.index(level)

    def need(self, call: Call, repository: Repository, area: str, role: str, level: str = "write") -> None:
        """Refuse with 403 unless both the token's permission and the caller's role suffice."""
        if not self.may(call, area, level) or not at_least(self.role(call, repository), role):
            raise refuse(403, credential_of(call).denial)

    def may_label(self, call: Call, repository: Repository) -> bool:
        """Whether label changes by this caller have an effect."""
        able = at_least(self.role(call, repository), "triage") and self.may(call, "issues", "write")
        return able and "silent_permission_loss" not in call.quirks


def bad_credentials() -> Response:
    """The answer to a token that is wrong, expired or revoked."""
    return problem(401, "Bad credentials")
