"""Who am I, what is left, what is this repository, and what may somebody do in it."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.github.access import credential_of
from agentsmith.simulators.github.answers import not_found, refuse
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.repository_payload import repository_json
from agentsmith.simulators.github.state import at_least

LEGACY_WORDS = {"maintain": "write", "triage": "read"}
"""The older field knows four words only; the finer one is `role_name`."""


class AccountRoutes:
    """The endpoints about accounts, quota and repositories as such."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", "/user", self.me),
            ("GET", "/users/{login}", self.user),
            ("GET", "/rate_limit", self.rate_limit),
            ("GET", "/repos/{owner}/{repo}", self.repository),
            ("GET", "/repos/{owner}/{repo}/collaborators/{login}/permission", self.permission),
            ("GET", "/orgs/{org}/teams/{team}/memberships/{login}", self.membership),
        ]

    def me(self, call: Call) -> Response:
        """The user of the token; an App's installation is no user."""
        credential = credential_of(call)
        if credential.installation is not None:
            raise refuse(403, credential.denial)
        return JSONResponse(self.hub.render(call).account(self.hub.world.user(credential.login)))

    def user(self, call: Call) -> Response:
        """Anybody."""
        found = self.hub.world.users.get(call.params["login"].casefold())
        if found is None:
            raise not_found()
        return JSONResponse(self.hub.render(call).account(found))

    def rate_limit(self, call: Call) -> Response:
        """What is left; asking costs nothing."""
        if self.hub.limits.limit is None:
            raise refuse(404, "Rate limiting is not enabled.")
        return JSONResponse(self.hub.limits.overview(credential_of(call).quota_key))

    def repository(self, call: Call) -> Response:
        """The repository itself, with what the caller may do."""
        repository = self.hub.door.repository(call)
        role = self.hub.door.role(call, repository)
        shown = repository_json(self.hub.render(call), repository, role)
        return JSONResponse({**shown, "subscribers_count": 0, "network_count": 0})

    def membership(self, call: Call) -> Response:
        """Whether somebody is in a team; one that nobody made looks like one that the caller may not see."""
        team, login = f"{call.params['org']}/{call.params['team']}".casefold(), call.params["login"]
        if login.casefold() not in self.hub.world.teams.get(team, ()):
            raise not_found()
        return JSONResponse({"url": f"{call.base_url}{call.path}", "role": "member", "state": "active"})

    def permission(self, call: Call) -> Response:
        """What somebody may do in a repository; only those who can push are told."""
        repository = self.hub.door.repository(call)
        if not at_least(self.hub.door.role(call, repository), "write"):
            raise refuse(403, "Must have push access to view collaborator permission.")
        login = call.params["login"]
        found = self.hub.world.users.get(login.casefold())
        if found is None:
            raise not_found()
        if found.type != "User":
            raise refuse(404, f"{login} is not a user")
        role = self.hub.world.role_of(login, repository)
        word = LEGACY_WORDS.get(role, role)
        rights = repository_json(self.hub.render(call), repository, role)["permissions"]
        shown = {**self.hub.render(call).user(login), "permissions": rights, "role_name": role}
        return JSONResponse({"permission": word, "role_name": role, "user": shown})
