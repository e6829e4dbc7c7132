"""Comments on issues."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.github.access import credential_of
from agentsmith.simulators.github.answers import (
    MAX_BODY,
    choice,
    invalid,
    moment,
    not_found,
    only_query,
    read_object,
    refuse,
)
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.issue_routes import content_in
from agentsmith.simulators.github.state import Comment, Issue, Repository, at_least

ON_ISSUE = "/repos/{owner}/{repo}/issues/{number:int}/comments"
ALL = "/repos/{owner}/{repo}/issues/comments"
ONE = ALL + "/{comment_id:int}"


class CommentRoutes:
    """The endpoints about comments."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", ON_ISSUE, self.on_issue),
            ("POST", ON_ISSUE, self.create),
            ("GET", ALL, self.everywhere),
            ("GET", ONE, self.get),
            ("PATCH", ONE, self.edit),
            ("DELETE", ONE, self.delete),
            ("POST", f"{ONE}/reactions", self.react),
            ("GET", f"{ONE}/reactions", self.reactions),
        ]

    def on_issue(self, call: Call) -> Response:
        """The comments of an issue by rising id."""
        only_query(call, "since", "per_page", "page")
        repository, issue = self.hub.door.issue(call)
        since = moment(call.query.get("since"))
        found = [c for c in issue.comments if since is None or c.updated_at >= since]
        render = self.hub.render(call)
        tail = f"issues/{issue.number}/comments"
        return self.hub.page(call, repository, tail, found, lambda c: render.comment(repository, issue, c))

    def everywhere(self, call: Call) -> Response:
        """The comments of a whole repository."""
        only_query(call, "sort", "direction", "since", "per_page", "page")
        repository = self.hub.door.repository(call)
        since = moment(call.query.get("since"))
        sort = choice(call, "sort", ("created", "updated"))
        pairs = [
            (issue, comment)
            for issue in repository.issues(call.behind)
            for comment in issue.comments
            if since is None or comment.updated_at >= since
        ]
        pairs.sort(key=lambda pair: (pair[1].updated_at if sort == "updated" else 0, pair[1].id))
        if call.query.get("direction") == "desc":
            pairs.reverse()
        render = self.hub.render(call)
        return self.hub.page(call, repository, "issues/comments", pairs, lambda pair: render.comment(repository, *pair))

    def create(self, call: Call) -> Response:
        """Write a comment; on a locked issue only those with write access may."""
        repository, issue = self.hub.door.issue(call)
        self.hub.door.need(call, repository, "issues", "read")
        if issue.locked and not at_least(self.hub.door.role(call, repository), "write"):
            raise refuse(403, "Unable to create comment because issue is locked.")
        comment = self.hub.changes.comment(repository, issue, _body(call), credential_of(call).by)
        shown = self.hub.render(call).comment(repository, issue, comment)
        return JSONResponse(shown, 201, {"Location": shown["url"]})

    def get(self, call: Call) -> Response:
        """One comment."""
        repository, issue, comment = self._found(call)
        return JSONResponse(self.hub.render(call).comment(repository, issue, comment))

    def edit(self, call: Call) -> Response:
        """Change a comment's text in place."""
        repository, issue, comment = self._own(call)
        edited = self.hub.changes.edit_comment(repository, issue, comment, _body(call), credential_of(call).by)
        return JSONResponse(self.hub.render(call).comment(repository, issue, edited))

    def delete(self, call: Call) -> Response:
        """Delete a comment."""
        repository, issue, comment = self._own(call)
        self.hub.changes.delete_comment(repository, issue, comment, credential_of(call).by)
        return Response(status_code=204)

    def react(self, call: Call) -> Response:
        """Add a reaction: 201 if it is new, 200 if the caller had given it before."""
        repository, issue, comment = self._found(call)
        by = credential_of(call).by
        reaction, new = self.hub.changes.react(repository, issue, content_in(call), by, comment)
        return JSONResponse(self.hub.render(call).reaction(reaction), 201 if new else 200)

    def reactions(self, call: Call) -> Response:
        """Reactions on a comment."""
        repository, _, comment = self._found(call)
        tail = f"issues/comments/{comment.id}/reactions"
        return self.hub.page(call, repository, tail, comment.reactions, self.hub.render(call).reaction)

    def _found(self, call: Call) -> tuple[Repository, Issue, Comment]:
        repository = self.hub.door.repository(call)
        found = repository.comment(call.params["comment_id"], call.behind)
        if found is None:
            raise not_found()
        return repository, *found

    def _own(self, call: Call) -> tuple[Repository, Issue, Comment]:
        """A comment that the caller wrote, or anybody's for those with write access."""
        repository, issue, comment = self._found(call)
        own = comment.user.casefold() == credential_of(call).login.casefold()
        self.hub.door.need(call, repository, "issues", "read" if own else "write")
        return repository, issue, comment


def _body(call: Call) -> str:
    body = read_object(call).get("body")
    if not isinstance(body, str):
        raise invalid("IssueComment", "missing_field", "body")
    if not body.strip():
        raise invalid("IssueComment", "unprocessable", "data", "Body cannot be blank")
    if len(body) > MAX_BODY:
        message = f"Body is too long (maximum is {MAX_BODY} characters)"
        raise invalid("IssueComment", "unprocessable", "data", message)
    return body
