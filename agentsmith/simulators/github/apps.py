"""GitHub Apps: the JWT is really checked, and installation tokens expire and have no fixed length."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jwt
from jwt.types import Options
from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.github.access import Credential
from agentsmith.simulators.github.answers import not_found, read_object, refuse
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.payloads import Json, Renderer, iso

MAX_JWT_LIFE = 600
CLOCK_DRIFT = 60
TOKEN_LIFE = 3600.0
DEFAULT_PERMISSIONS = {"contents": "write", "issues": "write", "metadata": "read", "pull_requests": "write"}


@dataclass(frozen=True, slots=True)
class App:
    """A registered App; GitHub keeps the public half of its key."""

    id: int
    slug: str
    client_id: str
    public_key: str
    owner: str

    @property
    def login(self) -> str:
        """The bot that acts for it."""
        return f"{self.slug}[bot]"


@dataclass(slots=True)
class Installation:
    """An App on somebody's repositories."""

    id: int
    app: App
    permissions: Mapping[str, str]
    repositories: frozenset[str] | None
    """Lower-case full names; None: all."""
    suspended: bool = False


def wants_jwt(path: str) -> bool:
    """Whether an endpoint is for Apps themselves, not for their installations."""
    return path == "/app" or path.startswith("/app/") or path.endswith("/installation")


@dataclass(slots=True)
class Apps:
    """All Apps and installations of one GitHub."""

    hub: Hub
    apps: dict[int, App] = field(default_factory=dict)
    installations: dict[int, Installation] = field(default_factory=dict)
    _tokens: itertools.count[int] = field(default_factory=itertools.count)

    def clear(self) -> None:
        """Forget all of them."""
        self.apps.clear()
        self.installations.clear()

    def add(self, slug: str, public_key: str, owner: str) -> App:
        """Register an App."""
        number = self.hub.world.next_id()
        app = App(number, slug, f"Iv23li{number:014d}", public_key, owner)
        self.apps[app.id] = app
        self.hub.world.user(app.login)
        self.hub.apps[app.id] = app_json(Renderer(self.hub.world, "", "", {}), app)
        return app

    def install(
        self, app: App, permissions: Mapping[str, str] | None, repositories: frozenset[str] | None
    ) -> Installation:
        """Install an App; what its tokens may do is what was granted here."""
        granted = dict(DEFAULT_PERMISSIONS if permissions is None else permissions)
        made = Installation(self.hub.world.next_id(), app, granted, repositories)
        self.installations[made.id] = made
        # The permissions of the token are the limit, not a role.
        self.hub.world.roles[app.login.casefold()] = "admin"
        return made

    def of_jwt(self, token: str) -> App:
        """The App that signed a JWT, or a 401 in GitHub's words."""
        try:
            claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
        except jwt.PyJWTError:
            raise refuse(401, "A JSON web token could not be decoded") from None
        issuer = str(claims.get("iss", ""))
        app = next((a for a in self.apps.values() if issuer in (str(a.id), a.client_id)), None)
        if app is None:
            raise refuse(404, "Integration not found")
        lenient: Options = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
        try:
            jwt.decode(token, app.public_key, algorithms=["RS256"], options=lenient)
        except jwt.PyJWTError:
            raise refuse(401, "A JSON web token could not be decoded") from None
        self._check_times(claims)
        return app

    def _check_times(self, claims: dict[str, Any]) -> None:
        now = self.hub.clock.now()
        issued, expires = claims.get("iat"), claims.get("exp")
        if not isinstance(issued, int | float) or issued > now + CLOCK_DRIFT:
            words = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
            raise refuse(401, words)
        if not isinstance(expires, int | float) or expires <= now:
            words = "'Expiration time' claim ('exp') must be a numeric value representing the future time at which"
            raise refuse(401, f"{words} the assertion expires")
        if expires > now + MAX_JWT_LIFE or expires - issued > MAX_JWT_LIFE + CLOCK_DRIFT:
            raise refuse(401, "'Expiration time' claim ('exp') is too far in the future")

    def new_token(
        self, installation: Installation, permissions: Mapping[str, str], repositories: frozenset[str] | None
    ) -> Credential:
        """A token for an hour. Its length changes from one to the next, as GitHub announced."""
        number = next(self._tokens)
        classic = secrets.token_hex(18)
        parts = (secrets.token_urlsafe(n) for n in (27, 180 + 40 * (number % 3), 64))
        token = f"ghs_{installation.app.id}_{'.'.join(parts)}" if number % 2 else f"ghs_{classic}"
        return self.hub.credentials.add(
            Credential(
                token,
                installation.app.login,
                permissions,
                repositories,
                self.hub.clock.now() + TOKEN_LIFE,
                app=installation.app.id,
                installation=installation.id,
            )
        )


class AppRoutes:
    """The endpoints that an App calls with its JWT."""

    def __init__(self, hub: Hub, apps: Apps) -> None:
        self.hub, self.apps = hub, apps

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", "/app", self.me),
            ("GET", "/app/installations", self.installations),
            ("GET", "/app/installations/{id:int}", self.installation),
            ("POST", "/app/installations/{id:int}/access_tokens", self.create_token),
            ("GET", "/repos/{owner}/{repo}/installation", self.of_repository),
        ]

    def me(self, call: Call) -> Response:
        """The App itself; its bot's login is the slug with `[bot]`."""
        return JSONResponse(app_json(self.hub.render(call), call.caller))

    def installations(self, call: Call) -> Response:
        """Where the App is installed."""
        mine = [i for i in self.apps.installations.values() if i.app.id == call.caller.id]
        return JSONResponse([self._shown(call, i) for i in mine])

    def installation(self, call: Call) -> Response:
        """One installation."""
        return JSONResponse(self._shown(call, self._own(call)))

    def of_repository(self, call: Call) -> Response:
        """The installation that covers a repository."""
        name = f"{call.params['owner']}/{call.params['repo']}".casefold()
        for each in self.apps.installations.values():
            if each.app.id == call.caller.id and (each.repositories is None or name in each.repositories):
                return JSONResponse(self._shown(call, each))
        raise not_found()

    def create_token(self, call: Call) -> Response:
        """A token for an installation, narrower if the body asks so, never wider."""
        installation = self._own(call)
        if installation.suspended:
            raise refuse(403, "This installation has been suspended")
        data = read_object(call)
        permissions = {**(data.get("permissions") or installation.permissions)}
        if set(permissions) - set(installation.permissions):
            raise refuse(422, "The permissions requested are not granted to this installation.")
        repositories = installation.repositories
        if wanted := data.get("repositories"):
            names = {r.full_name.casefold() for r in self.hub.world.repositories.values() if r.name in wanted}
            repositories = frozenset(names if repositories is None else names & repositories)
        made = self.apps.new_token(installation, permissions, repositories)
        expires = datetime.fromtimestamp(int(made.expires_at or 0), UTC)
        selection = "all" if repositories is None else "selected"
        shown = {"permissions": permissions, "repository_selection": selection}
        return JSONResponse({"token": made.token, "expires_at": iso(expires), **shown}, 201)

    def _own(self, call: Call) -> Installation:
        found = self.apps.installations.get(call.params["id"])
        if found is None or found.app.id != call.caller.id:
            raise not_found()
        return found

    def _shown(self, call: Call, installation: Installation) -> Json:
        app, url = installation.app, f"{call.base_url}/app/installations/{installation.id}"
        return {
            "id": installation.id,
            "app_id": app.id,
            "app_slug": app.slug,
            "client_id": app.client_id,
            "account": self.hub.render(call).user(app.owner),
            "access_tokens_url": f"{url}/access_tokens",
            "repository_selection": "all" if installation.repositories is None else "selected",
            "permissions": dict(installation.permissions),
            "events": ["issues", "issue_comment"],
            "target_type": "Organization",
            "suspended_at": None,
        }


def app_json(render: Renderer, app: App) -> Json:
    """An App as everybody may see it."""
    made = "2024-01-01T00:00:00Z"
    return {
        "id": app.id,
        "slug": app.slug,
        "node_id": f"A_{app.id}",
        "client_id": app.client_id,
        "owner": render.user(app.owner),
        "name": app.slug,
        "description": None,
        "external_url": f"https://{app.slug}.example",
        "html_url": f"https://github.example/apps/{app.slug}",
        "created_at": made,
        "updated_at": made,
        "permissions": dict(DEFAULT_PERMISSIONS),
        "events": ["issues", "issue_comment"],
        "installations_count": 1,
    }
