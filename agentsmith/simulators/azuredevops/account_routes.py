"""Who the caller is, which resources there are, and a project's types, teams and their members."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.azuredevops.answers import listed, only_query, refuse, whole
from agentsmith.simulators.azuredevops.hub import Hub
from agentsmith.simulators.azuredevops.state import Project
from agentsmith.simulators.frame import Call, Handler

WIT = "5264459e-e5e0-4bd8-b118-0985e68a4ec5"
LOCATIONS: tuple[tuple[str, str, str, str, int, float], ...] = (
    ("72c7ddf8-2cdc-4f60-90cd-ab71c14a399b", "wit", "workItems", "{project}/_apis/{area}/{resource}/{id}", 3, 7.1),
    ("62d3d110-0047-428c-ad3c-4fe872c91c74", "wit", "workItems", "{project}/_apis/{area}/{resource}/${type}", 3, 7.1),
    ("908509b6-4248-4475-a1cd-829139ba419f", "wit", "workItemsBatch", "{project}/_apis/{area}/{resource}", 1, 7.1),
    ("1a9c53f7-f243-4447-b110-35ef023636e4", "wit", "wiql", "{project}/{team}/_apis/{area}/{resource}", 2, 7.1),
    (
        "608aac0a-32e1-4493-a863-b9cf4566d257",
        "wit",
        "comments",
        "{project}/_apis/{area}/workItems/{workItemId}/{resource}/{commentId}",
        4,
        0.0,
    ),
    (
        "6570bf97-d02c-4a91-8d93-3abe9895b1a9",
        "wit",
        "updates",
        "{project}/_apis/{area}/workItems/{id}/{resource}/{updateNumber}",
        3,
        7.1,
    ),
    (
        "a00c85a5-80fa-4565-99c3-bcd2181434bb",
        "wit",
        "revisions",
        "{project}/_apis/{area}/workItems/{id}/{resource}/{revisionNumber}",
        3,
        7.1,
    ),
    (
        "7c8d7a76-4a09-43e8-b5df-bd792f4ac6aa",
        "wit",
        "workItemTypes",
        "{project}/_apis/{area}/{resource}/{type}",
        2,
        7.1,
    ),
    (
        "7c9d7a76-4a09-43e8-b5df-bd792f4ac6aa",
        "wit",
        "states",
        "{project}/_apis/{area}/workItemTypes/{type}/{resource}",
        1,
        7.1,
    ),
    ("603fe2ac-9723-48b9-88ad-09305aa6c6e1", "core", "projects", "_apis/{resource}/{*projectId}", 4, 7.1),
    (
        "d30a3dd1-f8ba-442a-b86a-bd0c0c383e59",
        "core",
        "teams",
        "_apis/projects/{projectId}/{resource}/{*teamId}",
        3,
        7.1,
    ),
    (
        "294c494c-2600-4d7e-b76c-3dd50c3c95be",
        "core",
        "members",
        "_apis/projects/{projectId}/teams/{teamId}/{resource}",
        2,
        7.1,
    ),
    ("e81700f7-3be2-46de-8624-2eb35882fcaa", "Location", "resourceAreas", "_apis/{resource}/{areaId}", 1, 7.1),
    ("00d9565f-ed9c-4a06-9a50-00e7896ccab4", "Location", "connectionData", "_apis/{resource}", 1, 0.0),
    (
        "225f7195-f9c7-4d14-ab28-a83f7ff77e1f",
        "git",
        "repositories",
        "{project}/_apis/{area}/{resource}/{repositoryId}",
        1,
        7.1,
    ),
    (
        "9946fd70-0d40-406e-b686-b4744cbbcc37",
        "git",
        "pullRequests",
        "{project}/_apis/{area}/repositories/{repositoryId}/{resource}/{pullRequestId}",
        1,
        7.1,
    ),
    (
        "01a46dea-7d46-4d40-bc84-319e7c260d99",
        "git",
        "pullRequests",
        "{project}/_apis/{area}/{resource}/{pullRequestId}",
        1,
        7.1,
    ),
    (
        "0a637fcc-5370-4ce8-b0e8-98091f5f9482",
        "git",
        "workitems",
        "{project}/_apis/{area}/repositories/{repositoryId}/pullRequests/{pullRequestId}/{resource}",
        1,
        7.1,
    ),
    (
        "fc50d02a-849f-41fb-8af1-0a5216103269",
        "hooks",
        "subscriptions",
        "_apis/{area}/{resource}/{subscriptionId}",
        1,
        7.1,
    ),
)


class AccountRoutes:
    """The endpoints about the organization, its projects and its people."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path below `_apis`, handler; those of one project."""
        return [
            ("GET", "/wit/workitemtypes", self.types),
            ("GET", "/wit/workitemtypes/{type}/states", self.states),
            ("GET", "/wit/tags", self.tags),
        ]

    def above(self) -> list[tuple[str, str, Handler]]:
        """Those of the organization only."""
        return [
            ("GET", "/connectionData", self.connection),
            ("GET", "/ResourceAreas", self.areas),
            ("OPTIONS", "", self.locations),
            ("GET", "/projects/{project_id}", self.project),
            ("GET", "/projects/{project_id}/teams", self.teams),
            ("GET", "/projects/{project_id}/teams/{team}/members", self.members),
        ]

    def connection(self, call: Call) -> Response:
        """Who the caller is, in the words of connectionData."""
        user = self.hub.door.credential(call).user
        who = {
            "id": user.id,
            "descriptor": f"Microsoft.IdentityModel.Claims.ClaimsIdentity;tenant\\{user.name}",
            "subjectDescriptor": user.descriptor,
            "providerDisplayName": user.display,
            "isActive": True,
            "properties": {"Account": {"$type": "System.String", "$value": user.name}},
            "resourceVersion": 2,
            "metaTypeId": 0,
        }
        return JSONResponse({"authenticatedUser": who, "authorizedUser": who, "instanceId": _guid("instance")})

    def locations(self, call: Call) -> Response:  # noqa: ARG002
        """Every resource, for clients that find their way by it."""
        shown = [
            {
                "id": id_,
                "area": area,
                "resourceName": resource,
                "routeTemplate": route,
                "resourceVersion": preview,
                "minVersion": 1.0,
                "maxVersion": 7.2,
                "releasedVersion": str(released),
            }
            for id_, area, resource, route, preview, released in LOCATIONS
        ]
        return listed(shown)

    def areas(self, call: Call) -> Response:  # noqa: ARG002
        """Empty, as on a Server: everything is under one address."""
        return listed([])

    def types(self, call: Call) -> Response:
        """All work item types of a project with their states."""
        project = self._of_path(call)
        root = f"{self.hub.render(call).root}/{project.id}/_apis/wit/workItemTypes"
        return listed(
            [
                {
                    "name": name,
                    "referenceName": f"Microsoft.VSTS.WorkItemTypes.{name.replace(' ', '')}",
                    "color": "009CCC",
                    "isDisabled": False,
                    "states": _states(project, name),
                    "url": f"{root}/{quote(name)}",
                }
                for name in project.types
            ]
        )

    def states(self, call: Call) -> Response:
        """The states of one type."""
        project = self._of_path(call)
        name = str(call.params["type"])
        if name not in project.types:
            raise refuse(404, f"VS402323: Work item type {name} does not exist.", "WorkItemTypeNotFoundException")
        return listed(_states(project, name))

    def tags(self, call: Call) -> Response:
        """The tags of a project, in the spelling in which each was first written."""
        project = self._of_path(call)
        root = self.hub.render(call).root
        return listed(
            [
                {"id": _guid(f"tag:{name}"), "name": name, "url": f"{root}/{project.id}/_apis/wit/tags/{_guid(name)}"}
                for name in project.tags.values()
            ]
        )

    def project(self, call: Call) -> Response:
        """A project under its present name."""
        project = self._named(call)
        root = self.hub.render(call).root
        return JSONResponse(
            {
                "id": project.id,
                "name": project.name,
                "url": f"{root}/_apis/projects/{project.id}",
                "state": "wellFormed",
                "revision": 1,
                "visibility": "private",
            }
        )

    def teams(self, call: Call) -> Response:
        """The teams of a project."""
        only_query(call, "$top", "$skip", "$mine")
        project = self._named(call)
        shown = [{"id": _guid(f"{project.id}/{team}"), "name": team, "url": ""} for team in project.teams]
        return _page(call, shown)

    def members(self, call: Call) -> Response:
        """The members of a team."""
        only_query(call, "$top", "$skip")
        project, wanted = self._named(call), str(call.params["team"]).casefold()
        render = self.hub.render(call)
        for team, members in project.teams.items():
            if wanted in (team.casefold(), _guid(f"{project.id}/{team}")):
                shown: list[Any] = []
                for name in sorted(members):
                    entry: dict[str, Any] = {"identity": render.user(self.hub.world.user(name))}
                    if name in project.admins:
                        entry["isTeamAdmin"] = True
                    shown.append(entry)
                return _page(call, shown)
        raise refuse(404, f"The team with id {wanted!r} does not exist.", "TeamNotFoundException")

    def _of_path(self, call: Call) -> Project:
        project = self.hub.door.project(call)
        assert project is not None  # noqa: S101 - the route has it in its path
        return project

    def _named(self, call: Call) -> Project:
        call.params["project"] = call.params["project_id"]
        return self._of_path(call)


def _page(call: Call, shown: list[Any]) -> Response:
    skip, top = whole(call, "$skip", 0, 1 << 30), whole(call, "$top", 100, 1 << 30)
    return listed(shown[skip : skip + top])


def _states(project: Project, name: str) -> list[dict[str, str]]:
    return [{"name": state, "color": "b2b2b2", "category": category} for state, category in project.types[name].items()]


def _guid(text: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))
