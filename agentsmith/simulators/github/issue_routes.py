"""Issues: get, list, create, edit; events, timeline, reactions and what blocks them."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.github.access import credential_of
from agentsmith.simulators.github.answers import (
    choice,
    custom,
    invalid,
    moment,
    not_found,
    only_query,
    read_object,
    refuse,
    text_field,
)
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.label_routes import names_in
from agentsmith.simulators.github.repository_payload import repository_json
from agentsmith.simulators.github.state import REACTIONS, Issue, Repository

ISSUES = "/repos/{owner}/{repo}/issues"
ISSUE = ISSUES + "/{number:int}"
KNOWN_FIELDS = frozenset({"title", "body", "state", "state_reason", "labels", "assignees", "assignee", "milestone"})


class IssueRoutes:
    """The endpoints about issues themselves."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", ISSUES, self.list_issues),
            ("POST", ISSUES, self.create),
            ("GET", ISSUE, self.get),
            ("PATCH", ISSUE, self.edit),
            ("PUT", f"{ISSUE}/lock", self.lock),
            ("DELETE", f"{ISSUE}/lock", self.unlock),
            ("GET", f"{ISSUE}/events", self.events),
            ("GET", ISSUES + "/events/{event_id:int}", self.event),
            ("GET", f"{ISSUE}/timeline", self.timeline),
            ("GET", f"{ISSUE}/reactions", self.reactions),
            ("POST", f"{ISSUE}/reactions", self.react),
            ("GET", f"{ISSUE}/dependencies/blocked_by", self.blocked_by),
            ("POST", f"{ISSUE}/dependencies/blocked_by", self.block),
            ("GET", f"{ISSUE}/dependencies/blocking", self.blocking),
            ("DELETE", f"{ISSUE}/dependencies/blocked_by/{{issue_id:int}}", self.unblock),
        ]

    def get(self, call: Call) -> Response:
        """One issue."""
        repository, issue = self.hub.door.issue(call)
        return JSONResponse(self.hub.render(call).issue(repository, issue))

    def list_issues(self, call: Call) -> Response:
        """Issues and pull requests; labels are ANDed, and whatever is filtered is paged afterwards."""
        only_query(call, "state", "labels", "since", "sort", "direction", "per_page", "page", "creator", "assignee")
        repository = self.hub.door.repository(call)
        if not repository.has_issues:
            return self.hub.page(call, repository, "issues", [])
        state = choice(call, "state", ("open", "closed", "all"))
        sort = choice(call, "sort", ("created", "updated", "comments"))
        direction = choice(call, "direction", ("desc", "asc"))
        since = moment(call.query.get("since"))
        wanted = [name.strip() for name in call.query.get("labels", "").split(",") if name.strip()]
        if "wrong_filter" in call.quirks:
            wanted = []
        found = [
            issue
            for issue in repository.issues(call.behind)
            if state in ("all", issue.state)
            and (since is None or issue.updated_at >= since)
            and _has_all(repository, issue, wanted)
            and call.query.get("creator", issue.user).casefold() == issue.user.casefold()
            and _assigned(issue, call.query.get("assignee"))
        ]
        keys = {"created": _created, "updated": _updated, "comments": lambda i: (len(i.comments), i.id)}
        found.sort(key=keys[sort], reverse=direction == "desc")
        render = self.hub.render(call)
        return self.hub.page(call, repository, "issues", found, lambda i: render.issue(repository, i))

    def create(self, call: Call) -> Response:
        """Open an issue; labels of somebody without triage are dropped in silence."""
        repository = self.hub.door.repository(call)
        self.hub.door.need(call, repository, "issues", "read")
        if not repository.has_issues:
            raise refuse(410, "Issues has been disabled in this repository.")
        data = read_object(call)
        title = text_field(data, "Issue", "title")
        body = None if data.get("body") is None else text_field(data, "Issue", "body")
        allowed = self.hub.door.may_label(call, repository)
        labels = names_in(data.get("labels") or []) if allowed else []
        assignees = [str(login) for login in data.get("assignees") or []] if allowed else []
        issue = self.hub.changes.open_issue(
            repository, credential_of(call).by, title=title, body=body, labels=labels, assignees=assignees
        )
        shown = self.hub.render(call).issue(repository, issue)
        return JSONResponse(shown, 201, {"Location": shown["url"]})

    def edit(self, call: Call) -> Response:
        """Edit an issue; `labels` replaces the whole set, or is dropped in silence."""
        repository, issue = self.hub.door.issue(call)
        by = credential_of(call).by
        own = issue.user.casefold() == by.login.casefold()
        self.hub.door.need(call, repository, "issues", "read" if own else "triage")
        data = read_object(call)
        if unknown := set(data) - KNOWN_FIELDS:
            raise refuse(422, f"Invalid request.\n\n{', '.join(sorted(unknown))} is not a permitted key.")
        fields: dict[str, Any] = {}
        if "title" in data:
            fields["title"] = text_field(data, "Issue", "title")
        if "body" in data:
            fields["body"] = None if data["body"] is None else text_field(data, "Issue", "body")
        allowed = self.hub.door.may_label(call, repository)
        if "assignees" in data and allowed:
            fields["assignees"] = tuple(str(login) for login in data["assignees"])
        if fields:
            issue = self.hub.changes.edit_issue(repository, issue, by, **fields)
        if isinstance(data.get("labels"), list) and allowed:
            issue = self.hub.changes.replace_labels(repository, issue, names_in(data["labels"]), by)
        if "state" in data:
            if data["state"] not in ("open", "closed"):
                raise invalid("Issue", "invalid", "state", value=str(data["state"]))
            issue = self.hub.changes.set_state(repository, issue, data["state"], by, data.get("state_reason"))
        return JSONResponse(self.hub.render(call).issue(repository, issue))

    def lock(self, call: Call) -> Response:
        """Lock the conversation."""
        return self._set_lock(call, read_object(call).get("lock_reason"), locked=True)

    def unlock(self, call: Call) -> Response:
        """Unlock the conversation."""
        return self._set_lock(call, None, locked=False)

    def _set_lock(self, call: Call, reason: str | None, *, locked: bool) -> Response:
        repository, issue = self.hub.door.issue(call)
        self.hub.door.need(call, repository, "issues", "write")
        self.hub.changes.lock(repository, issue, credential_of(call).by, reason=reason, locked=locked)
        return Response(status_code=204)

    def events(self, call: Call) -> Response:
        """The issue's history, oldest first."""
        repository, issue = self.hub.door.issue(call)
        render = self.hub.render(call)
        tail = f"issues/{issue.number}/events"
        return self.hub.page(call, repository, tail, issue.events, lambda e: render.event(repository, e))

    def event(self, call: Call) -> Response:
        """One line of some issue's history, with the issue."""
        repository = self.hub.door.repository(call)
        render = self.hub.render(call)
        for issue in repository.issues(call.behind):
            for event in issue.events:
                if event.id == call.params["event_id"]:
                    whole = {**render.event(repository, event), "issue": render.issue(repository, issue)}
                    return JSONResponse(whole)
        raise not_found()

    def timeline(self, call: Call) -> Response:
        """History and comments, oldest first."""
        repository, issue = self.hub.door.issue(call)
        lines = self.hub.render(call).timeline(repository, issue)
        return self.hub.page(call, repository, f"issues/{issue.number}/timeline", lines)

    def reactions(self, call: Call) -> Response:
        """Reactions on the issue, of one kind if asked so."""
        repository, issue = self.hub.door.issue(call)
        wanted = call.query.get("content")
        found = [r for r in issue.reactions if wanted in (None, r.content)]
        render = self.hub.render(call)
        return self.hub.page(call, repository, f"issues/{issue.number}/reactions", found, render.reaction)

    def react(self, call: Call) -> Response:
        """Add a reaction: 201 if it is new, 200 if the caller had given it before."""
        repository, issue = self.hub.door.issue(call)
        self.hub.door.need(call, repository, "issues", "read")
        reaction, new = self.hub.changes.react(repository, issue, content_in(call), credential_of(call).by)
        return JSONResponse(self.hub.render(call).reaction(reaction), 201 if new else 200)

    def blocked_by(self, call: Call) -> Response:
        """The issues that this one waits for."""
        repository, issue = self.hub.door.issue(call)
        found = [self.hub.world.issue_by_id(i) for i in issue.blocked_by]
        render = self.hub.render(call)
        shown = [{**render.issue(*pair), "repository": repository_json(render, pair[0])} for pair in found if pair]
        return self.hub.page(call, repository, f"issues/{issue.number}/dependencies/blocked_by", shown)

    def blocking(self, call: Call) -> Response:
        """The issues that wait for this one."""
        repository, issue = self.hub.door.issue(call)
        render = self.hub.render(call)
        shown = [
            render.issue(other, waiting)
            for other in self.hub.world.repositories.values()
            for waiting in other.issues()
            if issue.id in waiting.blocked_by
        ]
        return self.hub.page(call, repository, f"issues/{issue.number}/dependencies/blocking", shown)

    def block(self, call: Call) -> Response:
        """Say that this issue waits for another; the body names it by id, not by number."""
        repository, issue = self.hub.door.issue(call)
        self.hub.door.need(call, repository, "issues", "triage")
        target = self.hub.world.issue_by_id(int(read_object(call).get("issue_id", 0)))
        if target is None:
            raise not_found()
        if target[1].id in issue.blocked_by:
            raise custom("IssueDependency", "Target issue has already been taken")
        self.hub.changes.set_blockers(repository, issue, (*issue.blocked_by, target[1].id))
        return JSONResponse(self.hub.render(call).issue(*target), 201)

    def unblock(self, call: Call) -> Response:
        """Take such a link away."""
        repository, issue = self.hub.door.issue(call)
        self.hub.door.need(call, repository, "issues", "triage")
        gone = call.params["issue_id"]
        target = self.hub.world.issue_by_id(gone)
        if gone not in issue.blocked_by or target is None:
            raise not_found()
        left = tuple(i for i in issue.blocked_by if i != gone)
        self.hub.changes.set_blockers(repository, issue, left)
        return JSONResponse(self.hub.render(call).issue(*target))


def content_in(call: Call) -> str:
    """The reaction a body asks for."""
    content = read_object(call).get("content")
    if content not in REACTIONS:
        raise invalid("Reaction", "invalid", "content", value=str(content))
    return str(content)


def _created(issue: Issue) -> tuple[Any, int]:
    return issue.created_at, issue.id


def _updated(issue: Issue) -> tuple[Any, int]:
    return issue.updated_at, issue.id


def _has_all(repository: Repository, issue: Issue, wanted: list[str]) -> bool:
    present = {label.name.casefold() for label in repository.labels_of(issue)}
    return all(name.casefold() in present for name in wanted)


def _assigned(issue: Issue, wanted: str | None) -> bool:
    if wanted in (None, "*"):
        return wanted is None or bool(issue.assignees)
    return not issue.assignees if wanted == "none" else wanted in issue.assignees
