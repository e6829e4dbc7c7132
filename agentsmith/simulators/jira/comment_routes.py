"""Comments and their properties."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.jira.answers import (
    check_property,
    nothing,
    number,
    only,
    properties_in,
    read_json,
    read_object,
    refuse,
)
from agentsmith.simulators.jira.documents import LIMIT, document, fault_in
from agentsmith.simulators.jira.hub import Hub
from agentsmith.simulators.jira.issue_routes import API, ISSUE, split
from agentsmith.simulators.jira.state import Comment, Issue

COMMENTS = ISSUE + "/comment"
COMMENT = COMMENTS + "/{comment}"
PROPERTY = API + "/comment/{comment}/properties/{property}"


class CommentRoutes:
    """The endpoints about comments."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", COMMENTS, self.on_issue),
            ("POST", COMMENTS, self.create),
            ("GET", COMMENT, self.get),
            ("PUT", COMMENT, self.edit),
            ("DELETE", COMMENT, self.delete),
            ("GET", PROPERTY, self.property),
            ("PUT", PROPERTY, self.set_property),
        ]

    def on_issue(self, call: Call) -> Response:
        """The comments of an issue, oldest first."""
        only(call.query, ("startAt", "maxResults", "orderBy", "expand"), call.path)
        issue = self.hub.door.issue(call)
        start, most = number(call, "startAt", 0), min(5000, number(call, "maxResults", 100))
        shown = self.hub.render(call).comments(issue, start, most, properties=self._expanded(call))
        return JSONResponse(shown)

    def create(self, call: Call) -> Response:
        """Write a comment, with its properties."""
        issue = self.hub.door.issue(call)
        message = f"You do not have the permission to comment on this issue ({issue.key})."
        self.hub.door.need(call, issue, "ADD_COMMENTS", 403, message)
        data = read_object(call)
        only(data, ("body", "properties", "visibility"), "a comment")
        made = self.hub.changes.comment(issue, self._body(call, data), self.hub.by(call), properties_in(data))
        shown = self.hub.render(call).comment(issue, made, properties=self._expanded(call))
        return JSONResponse(shown, 201)

    def get(self, call: Call) -> Response:
        """One comment."""
        issue, comment = self._comment(call)
        return JSONResponse(self.hub.render(call).comment(issue, comment, properties=self._expanded(call)))

    def edit(self, call: Call) -> Response:
        """Replace a comment's text; properties that are named are set, others stay."""
        known = ("notifyUsers", "overrideEditableFlag", "expand") if self.hub.cloud else ("expand",)
        only(call.query, known, call.path)
        issue, comment = self._comment(call)
        self._may_change(call, issue, comment)
        data = read_object(call)
        only(data, ("body", "properties", "visibility"), "a comment")
        body, by = self._body(call, data), self.hub.by(call)
        edited = self.hub.changes.edit_comment(issue, comment, body, by, properties_in(data))
        return JSONResponse(self.hub.render(call).comment(issue, edited, properties=self._expanded(call)))

    def delete(self, call: Call) -> Response:
        """Remove a comment."""
        issue, comment = self._comment(call)
        self._may_change(call, issue, comment)
        self.hub.changes.delete_comment(issue, comment, self.hub.by(call))
        return nothing()

    def property(self, call: Call) -> Response:
        """One property of a comment."""
        _, comment = self._anywhere(call)
        key = call.params["property"]
        if key not in comment.properties:
            raise refuse(404, f"The property with key '{key}' does not exist.")
        return JSONResponse({"key": key, "value": comment.properties[key]})

    def set_property(self, call: Call) -> Response:
        """Set a property of a comment: 201 if it is new, 200 if it was there."""
        issue, comment = self._anywhere(call)
        self._may_change(call, issue, comment)
        key, value = call.params["property"], read_json(call)
        check_property(key, value)
        new = self.hub.changes.set_comment_property(issue, comment, key, value)
        return JSONResponse({}, 201 if new else 200)

    def _comment(self, call: Call) -> tuple[Issue, Comment]:
        issue = self.hub.door.issue(call)
        for comment in issue.comments:
            if comment.id == call.params["comment"]:
                return issue, comment
        raise refuse(404, f"Can not find a comment for the id: {call.params['comment']}.")

    def _anywhere(self, call: Call) -> tuple[Issue, Comment]:
        for issue in self.hub.world.issues():
            if any(c.id == call.params["comment"] for c in issue.comments):
                call.params["key"] = issue.key
                return self._comment(call)
        raise refuse(404, f"Can not find a comment for the id: {call.params['comment']}.")

    def _may_change(self, call: Call, issue: Issue, comment: Comment) -> None:
        who = self.hub.door.name(call)
        if comment.author != who and not self.hub.world.may(who, issue.project, "ADMINISTER_PROJECTS"):
            raise refuse(400, f"You do not have permission to edit comment with id: {comment.id}.")

    def _expanded(self, call: Call) -> bool:
        return "properties" in (split(call.query.get("expand")) or ())

    def _body(self, call: Call, data: dict[str, Any]) -> Any:
        """The text: a document for version 3, markup for version 2; Cloud keeps documents in any case."""
        body = data.get("body")
        if call.params["version"] == "3":
            if fault := fault_in(body):
                raise refuse(400, *([fault] if fault == "INVALID_INPUT" else []), errors={"comment": fault})
            return body
        if not isinstance(body, str) or not body.strip():
            raise refuse(400, errors={"comment": "Comment body can not be empty!"})
        if len(body) > LIMIT:
            fault = "The entered text is too long. It exceeds the allowed limit of 32,767 characters."
            raise refuse(400, errors={"comment": fault})
        return document(body) if self.hub.cloud else body
