"""Repositories and pull requests: get, list, open, edit, and the work items that they are linked to."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.azuredevops.answers import listed, need_version, only_query, read_object, refuse, whole
from agentsmith.simulators.azuredevops.hub import Hub
from agentsmith.simulators.azuredevops.state import GitRepository, Project, PullRequest
from agentsmith.simulators.frame import Call, Handler

REPOSITORY = "/git/repositories/{repository}"
PULLS = REPOSITORY + "/pullrequests"
PULL = PULLS + "/{pull:int}"
LONGEST_TITLE, LONGEST_TEXT, SHOWN_IN_LISTS = 400, 4_000, 400
HEADS = "refs/heads/"
STATUSES = ("active", "abandoned", "completed", "all", "notSet")
CRITERIA = tuple(
    f"searchCriteria.{name}" for name in ("status", "sourceRefName", "targetRefName", "repositoryId", "includeLinks")
)


class PullRoutes:
    """The endpoints about code; all of them inside a project."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path below `_apis`, handler."""
        return [
            ("GET", "/git/repositories", self.repositories),
            ("GET", REPOSITORY, self.repository),
            ("GET", PULLS, self.list_pulls),
            ("POST", PULLS, self.create),
            ("GET", PULL, self.get),
            ("PATCH", PULL, self.edit),
            ("GET", REPOSITORY + "/pullRequests/{pull:int}/workitems", self.items),
        ]

    def above(self) -> list[tuple[str, str, Handler]]:
        """Those of the organization: ids of pull requests are its own."""
        return [("GET", "/git/pullrequests/{pull:int}", self.by_id)]

    def repositories(self, call: Call) -> Response:
        """The repositories of a project."""
        only_query(call, "includeLinks", "includeAllUrls", "includeHidden")
        project = self._project(call)
        self.hub.door.need_code(call, "read")
        return listed([self._shown(call, project, each) for each in project.repositories])

    def repository(self, call: Call) -> Response:
        """One repository, by name or id; without a default branch it is empty."""
        need_version(call)
        project, repository = self._repository(call)
        return JSONResponse(self._shown(call, project, repository))

    def list_pulls(self, call: Call) -> Response:
        """Pull requests by filter, newest first; their texts are cut."""
        only_query(call, *CRITERIA, "$top", "$skip", "maxCommentLength")
        need_version(call)
        project, repository = self._repository(call)
        status = call.query.get("searchCriteria.status", "active")
        if status not in STATUSES:
            raise refuse(400, f"The value {status!r} is not valid for status.", "ArgumentException")
        source, target = (call.query.get(f"searchCriteria.{name}RefName") for name in ("source", "target"))
        found = [
            pull
            for pull in repository.pulls(call.behind)
            if status in ("all", pull.status) and source in (None, pull.source) and target in (None, pull.target)
        ]
        found.sort(key=lambda pull: pull.id, reverse=True)
        skip, top = whole(call, "$skip", 0, 1 << 30), whole(call, "$top", 101, 1000)
        render = self.hub.render(call)
        shown = [self.hub.pull_json(render, project, repository, pull) for pull in found[skip : skip + top]]
        for each in shown:
            each["description"] = each["description"][:SHOWN_IN_LISTS]
        return listed(shown)

    def create(self, call: Call) -> Response:
        """Open a pull request; a second one for the same branches is 409. One without any change is let through."""
        only_query(call, "supportsIterations")
        need_version(call)
        project, repository = self._repository(call)
        self.hub.door.need_code(call, "write")
        data = read_object(call)
        title, text = _texts(data)
        source, target = str(data.get("sourceRefName")), str(data.get("targetRefName"))
        heads = self.hub.code.of(repository).heads()
        if not all(name.startswith(HEADS) and name.removeprefix(HEADS) in heads for name in (source, target)):
            message = (
                "TF401398: The pull request cannot be activated because the source and/or the target branch no longer "
                "exists, or the requested refs are not branches"
            )
            raise refuse(400, message, "GitPullRequestCannotBeActivated")
        for other in repository.pulls():
            same = (other.source, other.target, other.fork) == (source, target, None)
            if other.status == "active" and same:
                message = "TF401179: An active pull request for the source and target branch already exists."
                raise refuse(409, message, "GitPullRequestExistsException")
        items = [self._item(reference) for reference in data.get("workItemRefs") or []]
        made = self.hub.changes.open_pull(
            repository,
            self.hub.door.by(call),
            source=source,
            target=target,
            title=title or "",
            text=text or "",
            draft=bool(data.get("isDraft")),
        )
        for item in items:
            self.hub.changes.link_pull(project, repository, made, self.hub.world.item(item), self.hub.door.by(call))
        return JSONResponse(self.hub.pull_json(self.hub.render(call), project, repository, made), 201)

    def get(self, call: Call) -> Response:
        """One pull request, with its whole text."""
        only_query(call, "includeCommits", "includeWorkItemRefs", "maxCommentLength", "$top", "$skip")
        project, repository, pull = self._pull(call)
        shown = self.hub.pull_json(self.hub.render(call), project, repository, pull)
        if call.query.get("includeWorkItemRefs", "").lower() == "true":
            shown["workItemRefs"] = self._references(call, project, repository, pull)
        return JSONResponse(shown)

    def by_id(self, call: Call) -> Response:
        """The same for who knows neither project nor repository."""
        for project in self.hub.world.projects.values():
            for repository in project.repositories:
                pull = repository.pull(call.params["pull"], call.behind)
                if pull is not None:
                    self.hub.door.need_code(call, "read")
                    return JSONResponse(self.hub.pull_json(self.hub.render(call), project, repository, pull))
        raise _no_pull()

    def edit(self, call: Call) -> Response:
        """Change title, text, draft state, target or status."""
        need_version(call)
        project, repository, pull = self._pull(call)
        self.hub.door.need_code(call, "write")
        data = read_object(call)
        title, text = _texts(data, required=False)
        given = {"title": title, "text": text, "draft": data.get("isDraft"), "target": data.get("targetRefName")}
        fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if "status" in data:
            if data["status"] not in ("active", "abandoned", "completed"):
                raise refuse(400, "The status is not one that a pull request can be given.", "ArgumentException")
            fields["status"] = data["status"]
        after = self.hub.changes.edit_pull(repository, pull, **fields)
        return JSONResponse(self.hub.pull_json(self.hub.render(call), project, repository, after))

    def items(self, call: Call) -> Response:
        """The work items that a pull request is linked to."""
        project, repository, pull = self._pull(call)
        return listed(self._references(call, project, repository, pull))

    def _references(self, call: Call, project: Project, repository: GitRepository, pull: PullRequest) -> list[Any]:
        artifact = repository.artifact(project, pull)
        root = self.hub.render(call).root
        return [
            {"id": str(item.id), "url": f"{root}/_apis/wit/workItems/{item.id}"}
            for item in self.hub.world.items.values()
            if any(link.artifact == artifact for link in item.now.relations)
        ]

    def _item(self, reference: Any) -> int:
        try:
            number = int(reference["id"])
            self.hub.world.item(number)
        except (LookupError, TypeError, ValueError):
            message = "TF401232: The work item does not exist, or you do not have permissions to read it."
            raise refuse(404, message, "WorkItemUnauthorizedAccessException") from None
        return number

    def _project(self, call: Call) -> Project:
        project = self.hub.door.project(call)
        assert project is not None  # noqa: S101 - the route has it in its path
        return project

    def _repository(self, call: Call) -> tuple[Project, GitRepository]:
        project = self._project(call)
        self.hub.door.need_code(call, "read")
        name = str(call.params["repository"])
        try:
            repository = project.repository(name)
        except LookupError:
            message = (
                f"TF401019: The Git repository with name or identifier {name} does not exist or you do not have "
                "permissions for the operation you are attempting."
            )
            raise refuse(404, message, "GitRepositoryNotFoundException") from None
        return project, repository

    def _pull(self, call: Call) -> tuple[Project, GitRepository, PullRequest]:
        project, repository = self._repository(call)
        pull = repository.pull(call.params["pull"], call.behind)
        if pull is None:
            raise _no_pull()
        return project, repository, pull

    def _shown(self, call: Call, project: Project, repository: GitRepository) -> dict[str, Any]:
        empty = self.hub.code.empty(repository)
        return self.hub.render(call).repository(project, repository, empty=empty)


def _no_pull() -> Exception:
    message = "TF401180: The requested pull request was not found."
    return refuse(404, message, "GitPullRequestNotFoundException")


def _texts(data: dict[str, Any], *, required: bool = True) -> tuple[str | None, str | None]:
    """Title and text, within their limits."""
    title, text = data.get("title"), data.get("description")
    if title is None and required:
        raise refuse(400, "Value cannot be null. Parameter name: title", "ArgumentNullException")
    for value, name, longest in ((title, "title", LONGEST_TITLE), (text, "description", LONGEST_TEXT)):
        if value is not None and len(str(value).encode("utf-16-le")) // 2 > longest:
            words = f"A {name} for a pull request must not be longer than {longest} characters."
            raise refuse(400, f"Invalid argument value.\r\nParameter name: {words}", "InvalidArgumentValueException")
    return title, text
