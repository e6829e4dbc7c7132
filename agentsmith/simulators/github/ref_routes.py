"""Git refs and commits: creating a ref is GitHub's one true compare-and-set, so it is exact here."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.github.access import credential_of
from agentsmith.simulators.github.answers import not_found, read_object, refuse, text_field
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.payloads import Json, Renderer, iso
from agentsmith.simulators.github.state import Repository, history, new_commit

GIT = "/repos/{owner}/{repo}/git"
REF_NAME = re.compile(r"refs/[^/\s~^:?*\[\\]+/[^\s~^:?*\[\\]+")


class RefRoutes:
    """The endpoints about refs, branches and commits."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", GIT + "/ref/{ref:path}", self.get),
            ("GET", GIT + "/matching-refs/{ref:path}", self.matching),
            ("POST", GIT + "/refs", self.create),
            ("PATCH", GIT + "/refs/{ref:path}", self.update),
            ("DELETE", GIT + "/refs/{ref:path}", self.delete),
            ("GET", GIT + "/commits/{sha}", self.get_commit),
            ("POST", GIT + "/commits", self.create_commit),
            ("GET", "/repos/{owner}/{repo}/branches/{branch:path}", self.branch),
        ]

    def get(self, call: Call) -> Response:
        """One ref; reads may lag behind (`stale_read`), only the 201 of a creation decides."""
        repository = self._readable(call)
        name = f"refs/{call.params['ref']}"
        sha = repository.ref(name, call.behind)
        if sha is None:
            raise not_found()
        return JSONResponse(_ref(self.hub.render(call), repository, name, sha))

    def matching(self, call: Call) -> Response:
        """All refs that begin so."""
        repository = self._readable(call)
        prefix, render = f"refs/{call.params['ref']}", self.hub.render(call)
        names = sorted(name for name in repository.refs if name.startswith(prefix))
        found = [(name, repository.ref(name, call.behind)) for name in names]
        shown = [_ref(render, repository, name, sha) for name, sha in found if sha]
        return self.hub.page(call, repository, f"git/matching-refs/{call.params['ref']}", shown)

    def create(self, call: Call) -> Response:
        """Make a ref: 201 for exactly one caller, 422 for all others."""
        repository = self._writable(call)
        data = read_object(call)
        name, sha = text_field(data, "Reference", "ref"), text_field(data, "Reference", "sha")
        if not repository.commits:
            raise refuse(409, "Git Repository is empty.")
        if not REF_NAME.fullmatch(name):
            raise refuse(422, f"{name} is not a valid ref name.")
        if sha not in repository.commits:
            raise refuse(422, "Object does not exist")
        if repository.ref(name) is not None:
            raise refuse(422, "Reference already exists")
        self.hub.changes.set_ref(repository, name, sha)
        shown = _ref(self.hub.render(call), repository, name, sha)
        return JSONResponse(shown, 201, {"Location": shown["url"]})

    def update(self, call: Call) -> Response:
        """Move a ref forward, or anywhere with `force`."""
        repository = self._writable(call)
        data, name = read_object(call), f"refs/{call.params['ref']}"
        old, sha = repository.ref(name), text_field(data, "Reference", "sha")
        if old is None:
            raise refuse(422, "Reference does not exist")
        if sha not in repository.commits:
            raise refuse(422, "Object does not exist")
        if not data.get("force") and old not in history(repository, sha):
            raise refuse(422, "Update is not a fast forward")
        self.hub.changes.set_ref(repository, name, sha)
        return JSONResponse(_ref(self.hub.render(call), repository, name, sha))

    def delete(self, call: Call) -> Response:
        """Remove a ref; a second time it does not exist."""
        repository = self._writable(call)
        name = f"refs/{call.params['ref']}"
        if repository.ref(name) is None:
            raise refuse(422, "Reference does not exist")
        self.hub.changes.set_ref(repository, name, None)
        return Response(status_code=204)

    def get_commit(self, call: Call) -> Response:
        """One commit; its date is the server's."""
        repository = self._readable(call)
        commit = repository.commits.get(call.params["sha"])
        if commit is None:
            raise not_found()
        return JSONResponse(_commit(self.hub.render(call), repository, call.params["sha"], commit))

    def create_commit(self, call: Call) -> Response:
        """Make a commit that no ref points to yet."""
        repository = self._writable(call)
        data = read_object(call)
        sha = new_commit(
            repository,
            message=text_field(data, "Commit", "message"),
            tree=text_field(data, "Commit", "tree"),
            parents=[str(parent) for parent in data.get("parents") or []],
            at=self.hub.clock.stamp(),
            author=credential_of(call).login,
        )
        shown = _commit(self.hub.render(call), repository, sha, repository.commits[sha])
        return JSONResponse(shown, 201, {"Location": shown["url"]})

    def branch(self, call: Call) -> Response:
        """A branch with the commit at its tip."""
        repository = self._readable(call)
        name = call.params["branch"]
        sha = repository.ref(f"refs/heads/{name}", call.behind)
        if sha is None:
            raise refuse(404, "Branch not found")
        render = self.hub.render(call)
        url = f"{render.repo_url(repository)}/branches/{quote(name, safe='')}"
        checks = {"enforcement_level": "off", "contexts": [], "checks": []}
        return JSONResponse(
            {
                "name": name,
                "commit": _tip(render, repository, sha),
                "_links": {"self": url, "html": f"{render.web}/{repository.full_name}/tree/{name}"},
                "protected": False,
                "protection": {"enabled": False, "required_status_checks": checks},
                "protection_url": f"{url}/protection",
            }
        )

    def _readable(self, call: Call) -> Repository:
        repository = self.hub.door.repository(call)
        self.hub.door.need(call, repository, "contents", "read", "read")
        return repository

    def _writable(self, call: Call) -> Repository:
        repository = self.hub.door.repository(call)
        self.hub.door.need(call, repository, "contents", "write")
        return repository


def _ref(render: Renderer, repository: Repository, name: str, sha: str) -> Json:
    git = f"{render.repo_url(repository)}/git"
    target = {"sha": sha, "type": "commit", "url": f"{git}/commits/{sha}"}
    return {"ref": name, "node_id": f"REF_{name}", "url": f"{git}/{name}", "object": target}


def _tip(render: Renderer, repository: Repository, sha: str) -> Json:
    """A commit as GitHub shows it: git's own, and what GitHub knows of it."""
    own = repository.commits[sha]
    commit, commits = _commit(render, repository, sha, own), f"{render.repo_url(repository)}/commits"
    known = own["author"].casefold() in render.world.users
    parents = [
        {
            "sha": parent,
            "url": f"{commits}/{parent}",
            "html_url": f"{render.web}/{repository.full_name}/commit/{parent}",
        }
        for parent in own["parents"]
    ]
    kept = ("url", "author", "committer", "message", "tree", "verification")
    return {
        "sha": sha,
        "node_id": commit["node_id"],
        "commit": {**{name: commit[name] for name in kept}, "comment_count": 0},
        "url": f"{commits}/{sha}",
        "html_url": commit["html_url"],
        "comments_url": f"{commits}/{sha}/comments",
        "author": render.user(own["author"]) if known else None,
        "committer": render.user(own["author"]) if known else None,
        "parents": parents,
    }


def _commit(render: Renderer, repository: Repository, sha: str, commit: dict[str, Any]) -> Json:
    git = f"{render.repo_url(repository)}/git"
    who = {"name": commit["author"], "email": f"{commit['author']}@simulator.example", "date": iso(commit["at"])}
    return {
        "sha": sha,
        "node_id": f"C_{sha}",
        "url": f"{git}/commits/{sha}",
        "html_url": f"{render.web}/{repository.full_name}/commit/{sha}",
        "author": who,
        "committer": who,
        "message": commit["message"],
        "tree": {"sha": commit["tree"], "url": f"{git}/trees/{commit['tree']}"},
        "parents": [{"sha": p, "url": f"{git}/commits/{p}"} for p in commit["parents"]],
        "verification": {
            "verified": False,
            "reason": "unsigned",
            "signature": None,
            "payload": None,
            "verified_at": None,
        },
    }
