"""Accounts, permissions, links, projects and the server itself."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.jira.access import unauthorized
from agentsmith.simulators.jira.answers import number, only, read_object, refuse
from agentsmith.simulators.jira.hub import Hub
from agentsmith.simulators.jira.issue_routes import API, split
from agentsmith.simulators.jira.payloads import stamp
from agentsmith.simulators.jira.state import LINK_TYPES, PERMISSIONS, moment

ROLE_IDS = 10100
"""Roles are numbered from here, in the order of their names."""


class AccountRoutes:
    """Everything that is about no single issue."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", API + "/myself", self.myself),
            ("GET", API + "/mypermissions", self.my_permissions),
            ("GET", API + "/user/permission/search", self.permitted),
            ("GET", API + "/serverInfo", self.server),
            ("GET", API + "/project/{project}", self.project),
            ("GET", API + "/project/{project}/role", self.roles),
            ("GET", API + "/project/{project}/role/{role:int}", self.role),
            ("GET", API + "/user/groups", self.groups),
            ("GET", API + "/user", self.user),
            ("GET", API + "/field", self.fields),
            ("GET", API + "/label", self.labels),
            ("GET", API + "/issueLinkType", self.link_types),
            ("POST", API + "/issueLink", self.link),
        ]

    def myself(self, call: Call) -> Response:
        """Who the credential belongs to."""
        name = self.hub.door.name(call)
        if name is None:
            return unauthorized()
        return JSONResponse(self.hub.render(call).myself(self.hub.world.user(name)))

    def my_permissions(self, call: Call) -> Response:
        """What the caller may in a project."""
        key, who = call.query.get("projectKey", ""), self.hub.door.name(call)
        names = split(call.query.get("permissions")) or sorted(PERMISSIONS["admin"])
        have = {name: self.hub.world.may(who, key, name) for name in names}
        shown = {n: {"id": "0", "key": n, "name": n, "type": "PROJECT", "havePermission": h} for n, h in have.items()}
        return JSONResponse({"permissions": shown})

    def permitted(self, call: Call) -> Response:
        """Accounts that have all of some permissions; only who administers the project may ask."""
        known = ("permissions", "projectKey", "accountId", "username", "query", "startAt", "maxResults", "issueKey")
        only(call.query, known, call.path)
        world, key = self.hub.world, call.query.get("projectKey", "")
        if not world.may(self.hub.door.name(call), key, "ADMINISTER_PROJECTS"):
            raise refuse(403, "You do not have permission to browse users with these permissions.")
        wanted = split(call.query.get("permissions")) or []
        if unknown := set(wanted) - PERMISSIONS["admin"]:
            raise refuse(400, f"Permission '{sorted(unknown)[0]}' does not exist.")
        account, prefix = call.query.get("accountId"), call.query.get("username")
        found = [
            user
            for user in world.users.values()
            if account in (None, user.account_id)
            and user.name.startswith(prefix or "")
            and all(world.may(user.name, key, permission) for permission in wanted)
        ]
        most = number(call, "maxResults", 50)
        return JSONResponse([self.hub.render(call).user(user.name) for user in found[:most]])

    def server(self, call: Call) -> Response:
        """What kind of Jira this is."""
        cloud = self.hub.cloud
        return JSONResponse(
            {
                "baseUrl": call.base_url,
                "version": "1001.0.0-SNAPSHOT" if cloud else "10.3.0",
                "versionNumbers": [1001, 0, 0] if cloud else [10, 3, 0],
                "deploymentType": "Cloud" if cloud else "Server",
                "buildNumber": 100_290,
                "buildDate": "2026-01-01T00:00:00.000+0000",
                "serverTime": stamp(moment(self.hub.clock.now())),
                "scmInfo": "0" * 40,
                "serverTitle": "Jira",
            }
        )

    def project(self, call: Call) -> Response:
        """One project."""
        key = call.params["project"]
        if not self.hub.world.may(self.hub.door.name(call), key, "BROWSE_PROJECTS"):
            raise refuse(404, f"No project could be found with key '{key}'.")
        return JSONResponse(self.hub.render(call).project(self.hub.world.project(key)))

    def roles(self, call: Call) -> Response:
        """The roles of a project, each with the address that tells who has it."""
        project, names = self._roles(call)
        root = self.hub.render(call).api
        addresses = {n: f"{root}/project/{project}/role/{ROLE_IDS + i}" for i, n in enumerate(names)}
        return JSONResponse(addresses)

    def role(self, call: Call) -> Response:
        """Who has a role: people by themselves, and groups."""
        project, names = self._roles(call)
        index = call.params["role"] - ROLE_IDS
        if not 0 <= index < len(names):
            raise refuse(404, "The role does not exist.")
        users, groups = self.hub.world.project(project).project_roles[names[index]]
        world, cloud = self.hub.world, self.hub.cloud
        actors = [
            {
                "displayName": world.user(name).display_name,
                "type": "atlassian-user-role-actor",
                **({"actorUser": {"accountId": world.user(name).account_id}} if cloud else {"name": name}),
            }
            for name in sorted(users)
        ]
        actors += [
            {
                "displayName": name,
                "type": "atlassian-group-role-actor",
                **({"actorGroup": {"name": name, "displayName": name}} if cloud else {"name": name}),
            }
            for name in sorted(groups)
        ]
        return JSONResponse({"name": names[index], "id": call.params["role"], "actors": actors})

    def _roles(self, call: Call) -> tuple[str, list[str]]:
        key = call.params["project"]
        if not self.hub.world.may(self.hub.door.name(call), key, "ADMINISTER_PROJECTS"):
            raise refuse(401, "You do not have permission to see the roles of the project.")
        return key, sorted(self.hub.world.project(key).project_roles)

    def groups(self, call: Call) -> Response:
        """The groups of an account, on Cloud."""
        if not self.hub.cloud:
            raise refuse(404, "There is no such resource.")
        user = self.hub.world.user_with(call.query.get("accountId", ""))
        if user is None:
            raise refuse(404, "The user does not exist.")
        return JSONResponse([{"name": name} for name in self._groups_of(user.name)])

    def user(self, call: Call) -> Response:
        """An account, with its groups where they are asked for; as Data Center does."""
        user = self.hub.world.user_with(call.query.get("username") or call.query.get("accountId", ""))
        if user is None:
            raise refuse(404, "The user does not exist.")
        items = [{"name": name} for name in self._groups_of(user.name)]
        shown = self.hub.render(call).user(user.name) or {}
        return JSONResponse({**shown, "groups": {"size": len(items), "items": items}})

    def _groups_of(self, name: str) -> list[str]:
        return sorted(group for group, members in self.hub.world.groups.items() if name in members)

    def fields(self, call: Call) -> Response:  # noqa: ARG002 - the shape of every handler
        """The fields of issues."""
        names = ("summary", "description", "labels", "status", "comment", "issuelinks", "created", "updated")
        shown = [
            {"id": n, "key": n, "name": n.title(), "custom": False, "clauseNames": [n], "schema": {"system": n}}
            for n in names
        ]
        return JSONResponse(shown)

    def labels(self, call: Call) -> Response:
        """Every label in use, in pages."""
        names = sorted({name for issue in self.hub.world.issues() for name in issue.labels})
        start, most = number(call, "startAt", 0), number(call, "maxResults", 1000)
        page = {"startAt": start, "maxResults": most, "total": len(names), "isLast": start + most >= len(names)}
        return JSONResponse({**page, "values": names[start : start + most]})

    def link_types(self, call: Call) -> Response:
        """The kinds of links."""
        render = self.hub.render(call)
        return JSONResponse({"issueLinkTypes": [render.link_type(name) for name in LINK_TYPES]})

    def link(self, call: Call) -> Response:
        """Link two issues: the inward one blocks the outward one."""
        data = read_object(call)
        kind = (data.get("type") or {}).get("name")
        if kind not in LINK_TYPES:
            raise refuse(404, f"No issue link type with name '{kind}' found.")
        inward = self.hub.door.issue(call, (data.get("inwardIssue") or {}).get("key", ""))
        outward = self.hub.door.issue(call, (data.get("outwardIssue") or {}).get("key", ""))
        self.hub.door.need(call, inward, "LINK_ISSUES", 401, "No Link Issue Permission for issue")
        self.hub.changes.link(kind, inward, outward)
        return Response(status_code=201)
