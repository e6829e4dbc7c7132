"""The code of repositories: real git, and what the API knows of it.

A repository gets its git on first use, because most tests need none. After a push, refs and commits of the API are
brought up to date; refs that were made through the API alone stay beside them.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace

from starlette.responses import Response

from agentsmith.simulators.frame import Call
from agentsmith.simulators.git.bare import SEED, BareRepository, GitHome
from agentsmith.simulators.git.smart_http import GitAsked, GitVisit
from agentsmith.simulators.github.access import Credential, Credentials, Door
from agentsmith.simulators.github.changes import Changes
from agentsmith.simulators.github.state import Repository, at_least, changed

CHALLENGE = {"WWW-Authenticate": 'Basic realm="GitHub"'}
BAD_TOKEN = "Invalid username or token. Password authentication is not supported for Git operations."  # noqa: S105
APP_USER = "x-access-token"
HEADS = "refs/heads/"


class Code:
    """The git of one GitHub's repositories."""

    def __init__(self, changes: Changes, home: GitHome) -> None:
        self.changes, self.home = changes, home

    def of(self, repository: Repository) -> BareRepository:
        """The repository's git, made on first use."""
        found = self.home.get(str(repository.id))
        if found is not None:
            return found
        seed = repository.seed or SEED
        made = self.home.make(
            str(repository.id),
            default_branch=repository.default_branch,
            seed=seed if repository.ref(HEADS + repository.default_branch) else {},
            author=repository.owner,
            at=repository.created_at,
        )
        self.sync(repository)
        return made

    def sync(self, repository: Repository) -> None:
        """Let the API know what was pushed."""
        bare = self.home.get(str(repository.id))
        if bare is None:
            return
        for commit in bare.commits():
            repository.commits.setdefault(
                commit.sha,
                {
                    "message": commit.message,
                    "parents": list(commit.parents),
                    "at": commit.at,
                    "author": commit.author,
                    "tree": commit.tree,
                },
            )
        heads = {HEADS + name: sha for name, sha in bare.heads().items()}
        for name in repository.pushed - heads.keys():
            self.changes.set_ref(repository, name, None)
        for name, sha in heads.items():
            if repository.ref(name) != sha:
                self.changes.set_ref(repository, name, sha)
        repository.pushed = set(heads)
        for issue in repository.issues():
            tip = heads.get(HEADS + issue.pull.head) if issue.pull and issue.state == "open" else None
            if issue.pull and tip not in (None, issue.pull.head_sha):
                pull = replace(issue.pull, head_sha=str(tip))
                repository.save(changed(issue, self.changes.clock.stamp(), pull=pull))


class GitDoor:
    """Lets git clients in, with the tokens of the API."""

    def __init__(self, door: Door, credentials: Credentials, code: Code) -> None:
        self.door, self.credentials, self.code = door, credentials, code

    def enter(self, call: Call, asked: GitAsked) -> GitVisit | Response:
        """The visit, or why not: 401 asks for a login, 404 hides, 403 refuses a push."""
        name, world = asked.place.strip("/").removesuffix(".git"), self.door.world
        if "bad_credentials" in call.quirks:
            return _text(401, BAD_TOKEN, CHALLENGE)
        if "authorization" in call.headers:
            credential = self._credential(call)
            if credential is None:
                return _text(401, BAD_TOKEN, CHALLENGE)
            call.caller, call.caller_name = credential, credential.login
        former = world.renamed.get(name.casefold())
        try:
            repository = world.repository(name)
        except LookupError:
            if former is None:
                return self._hidden(call)
            repository = world.repositories[former]
            target = f"{call.base_url}/{repository.full_name}.git/{asked.action}?{call.query_string}"
            return _text(301, "Moved Permanently", {"Location": target})
        role = self.door.role(call, repository) if call.caller else ("none" if repository.private else "read")
        if role == "none" or (asked.push and call.caller is None):
            return self._hidden(call)
        if asked.push and not (at_least(role, "write") and self.door.may(call, "contents", "write")):
            return _text(403, f"Permission to {repository.full_name}.git denied to {call.caller_name}.")
        if call.caller is not None and repository.private and not self.door.may(call, "contents", "read"):
            return self._hidden(call)
        return GitVisit(self.code.of(repository), call.caller_name, lambda: self.code.sync(repository))

    def _credential(self, call: Call) -> Credential | None:
        """Whose token git sends: as the password of anybody, or alone; an App's only under the name that is for it."""
        scheme, _, packed = call.headers["authorization"].partition(" ")
        try:
            username, _, password = base64.b64decode(packed, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        token = username if password in ("", "x-oauth-basic") else password
        found = self.credentials.get(token) if scheme.lower() == "basic" else None
        return None if found and found.installation and username != APP_USER else found

    @staticmethod
    def _hidden(call: Call) -> Response:
        """What is not there, or not for this caller; who has not logged in is asked to."""
        if call.caller is None:
            return _text(401, "No anonymous write access.", CHALLENGE)
        return _text(404, "Repository not found.")


def _text(status: int, words: str, headers: dict[str, str] | None = None) -> Response:
    return Response(words, status, headers, media_type="text/plain")
