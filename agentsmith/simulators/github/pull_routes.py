"""Pull requests: get, list, open, close. Comments and labels on them go through the issue endpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.github.access import credential_of
from agentsmith.simulators.github.answers import (
    choice,
    custom,
    invalid,
    not_found,
    only_query,
    read_object,
    refuse,
    text_field,
)
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.repository_payload import pull_json
from agentsmith.simulators.github.state import Issue, Pull, Repository, ahead

PULLS = "/repos/{owner}/{repo}/pulls"
PULL = PULLS + "/{number:int}"
LONGEST_TITLE = 256
NO_DRAFTS = "Draft pull requests are not supported in this repository."


class PullRoutes:
    """The endpoints about pull requests as such."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", PULLS, self.list_pulls),
            ("POST", PULLS, self.create),
            ("GET", PULL, self.get),
            ("PATCH", PULL, self.edit),
        ]

    def list_pulls(self, call: Call) -> Response:
        """Pull requests; `head` is `owner:branch`."""
        only_query(call, "state", "head", "base", "sort", "direction", "per_page", "page")
        repository = self.hub.door.repository(call)
        self.hub.door.need(call, repository, "pull_requests", "read", "read")
        state = choice(call, "state", ("open", "closed", "all"))
        head, base = call.query.get("head"), call.query.get("base")
        found = [
            issue
            for issue in repository.issues(call.behind)
            if issue.pull
            and state in ("all", issue.state)
            and head in (None, f"{repository.owner}:{issue.pull.head}")
            and base in (None, issue.pull.base)
        ]
        direction = choice(call, "direction", ("desc", "asc"))
        found.sort(key=lambda issue: issue.number, reverse=direction == "desc")
        render = self.hub.render(call)
        return self.hub.page(call, repository, "pulls", found, lambda i: pull_json(render, repository, i, full=False))

    def create(self, call: Call) -> Response:
        """Open a pull request; a second one for the same branches is 422."""
        repository = self.hub.door.repository(call)
        self.hub.door.need(call, repository, "pull_requests", "write")
        data = read_object(call)
        title = text_field(data, "PullRequest", "title")
        head = text_field(data, "PullRequest", "head").removeprefix(f"{repository.owner}:")
        base = text_field(data, "PullRequest", "base")
        sha, base_sha = repository.ref(f"refs/heads/{head}"), repository.ref(f"refs/heads/{base}")
        if sha is None or base_sha is None:
            raise invalid("PullRequest", "invalid", "base" if sha else "head")
        if len(title) > LONGEST_TITLE:
            raise invalid(
                "PullRequest", "custom", "title", f"title is too long (maximum is {LONGEST_TITLE} characters)"
            )
        body, draft = data.get("body"), data.get("draft", False)
        if body is not None:
            text_field(data, "PullRequest", "body")
        if not isinstance(draft, bool):
            raise refuse(422, f"Invalid request.\n\nFor 'properties/draft', {draft!r} is not a boolean.")
        for issue in repository.issues():
            pull = issue.pull if issue.state == "open" else None
            if pull and (pull.head, pull.base, pull.fork) == (head, base, None):
                raise custom("PullRequest", f"A pull request already exists for {repository.owner}:{head}.")
        if not ahead(repository, base_sha, sha):
            raise custom("PullRequest", f"No commits between {base} and {head}")
        if draft and not repository.drafts:
            raise refuse(422, NO_DRAFTS)
        made = self.hub.changes.open_issue(
            repository, credential_of(call).by, title=title, body=body, pull=Pull(head, base, sha, draft)
        )
        shown = pull_json(self.hub.render(call), repository, made)
        return JSONResponse(shown, 201, {"Location": shown["url"]})

    def get(self, call: Call) -> Response:
        """One pull request."""
        return JSONResponse(pull_json(self.hub.render(call), *self._pull(call)))

    def edit(self, call: Call) -> Response:
        """Change title, body, base or state."""
        repository, issue = self._pull(call)
        self.hub.door.need(call, repository, "pull_requests", "write")
        data, by = read_object(call), credential_of(call).by
        fields: dict[str, Any] = {name: data[name] for name in ("title", "body") if name in data}
        if "title" in fields and len(text_field(data, "PullRequest", "title")) > LONGEST_TITLE:
            raise invalid(
                "PullRequest", "custom", "title", f"title is too long (maximum is {LONGEST_TITLE} characters)"
            )
        if fields.get("body") is not None:
            text_field(data, "PullRequest", "body")
        if "base" in data and issue.pull is not None:
            fields["pull"] = replace(issue.pull, base=text_field(data, "PullRequest", "base"))
        if fields:
            issue = self.hub.changes.edit_issue(repository, issue, by, **fields)
        if "state" in data:
            if data["state"] not in ("open", "closed"):
                raise invalid("PullRequest", "invalid", "state", value=str(data["state"]))
            issue = self.hub.changes.set_state(repository, issue, data["state"], by)
        return JSONResponse(pull_json(self.hub.render(call), repository, issue))

    def _pull(self, call: Call) -> tuple[Repository, Issue]:
        repository, issue = self.hub.door.issue(call)
        self.hub.door.need(call, repository, "pull_requests", "read", "read")
        if issue.pull is None:
            raise not_found()
        return repository, issue
