"""Who am I, who is that, what is this project, and what may somebody do in it."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.gitlab.access import credential_of
from agentsmith.simulators.gitlab.answers import not_found, only_query, page_of
from agentsmith.simulators.gitlab.hub import Hub

MEMBERS = "/projects/{project:path}/members"


class AccountRoutes:
    """The endpoints about accounts, members and projects as such; the project itself must be matched last."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", "/user", self.me),
            ("GET", "/users", self.find),
            ("GET", "/users/{user_id:int}", self.user),
            ("GET", "/version", self.version),
            ("GET", "/groups/{group:path}/members/all/{user_id:int}", self.group_member),
            ("GET", MEMBERS + "/all", self.members),
            ("GET", MEMBERS, self.members),
            ("GET", MEMBERS + "/all/{user_id:int}", self.member),
            ("GET", MEMBERS + "/{user_id:int}", self.member),
            ("GET", "/projects/{project:path}", self.project),
        ]

    def me(self, call: Call) -> Response:
        """The user of the token."""
        return JSONResponse(self.hub.render(call).account(self.hub.world.user(credential_of(call).username)))

    def find(self, call: Call) -> Response:
        """Users by name."""
        only_query(call, "username", "per_page", "page")
        wanted = call.query.get("username", "").casefold()
        found = [user for key, user in self.hub.world.users.items() if not wanted or key == wanted]
        return page_of(call, found, self.hub.render(call).account, address=self.hub.address(call))

    def user(self, call: Call) -> Response:
        """Anybody."""
        found = self.hub.world.user_by_id(call.params["user_id"])
        if found is None:
            raise not_found("User")
        return JSONResponse(self.hub.render(call).account(found))

    def version(self, call: Call) -> Response:  # noqa: ARG002 - the shape of every handler
        """Which GitLab this is."""
        return JSONResponse({"version": "18.6.0-ee", "revision": "simulated", "enterprise": True})

    def project(self, call: Call) -> Response:
        """The project itself."""
        return JSONResponse(self.hub.render(call).project(self.hub.door.project(call)))

    def group_member(self, call: Call) -> Response:
        """A member of a group, by inheritance too; 404 for everybody else."""
        group = self.hub.world.groups.get(call.params["group"].casefold())
        if group is None:
            raise not_found("Group")
        user = self.hub.world.user_by_id(call.params["user_id"])
        level = group.get(user.username.casefold(), 0) if user else 0
        if user is None or not level:
            raise not_found()
        return JSONResponse(self.hub.render(call).member(user, level))

    def members(self, call: Call) -> Response:
        """Everybody with a role here."""
        project = self.hub.door.project(call)
        render = self.hub.render(call)
        found = [(self.hub.world.user(name), level) for name, level in project.members.items() if level]
        return page_of(call, found, lambda pair: render.member(*pair), address=self.hub.address(call))

    def member(self, call: Call) -> Response:
        """One member; 404 for whoever has no role."""
        project = self.hub.door.project(call)
        user = self.hub.world.user_by_id(call.params["user_id"])
        level = project.members.get(user.username.casefold(), 0) if user else 0
        if user is None or not level:
            raise not_found()
        return JSONResponse(self.hub.render(call).member(user, level))
