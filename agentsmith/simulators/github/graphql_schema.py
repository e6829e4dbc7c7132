"""The part of GitHub's GraphQL schema that the simulator knows, with the resolvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from agentsmith.simulators.frame import Call
from agentsmith.simulators.github.access import Credential
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.payloads import iso
from agentsmith.simulators.github.state import Issue, IssueEvent, Label, Repository, at_least

INTERFACES = {
    "Issue": ("Node", "Labelable"),
    "PullRequest": ("Node", "Labelable"),
    "Label": ("Node",),
    "Repository": ("Node",),
    "User": ("Node", "Actor"),
    "Bot": ("Node", "Actor"),
    "LabeledEvent": ("Node",),
    "UnlabeledEvent": ("Node",),
    "RenamedTitleEvent": ("Node",),
}
TIMELINE = {
    "LABELED_EVENT": ("labeled", "LabeledEvent"),
    "UNLABELED_EVENT": ("unlabeled", "UnlabeledEvent"),
    "RENAMED_TITLE_EVENT": ("renamed", "RenamedTitleEvent"),
}
"""The kinds of lines that the simulator's timeline has, by what a query calls them."""


class Failed(Exception):
    """A field that cannot be had: it becomes null, and `errors` says why."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of the graph with its concrete type."""

    type: str
    value: Any

    @property
    def kinds(self) -> tuple[str, ...]:
        """The type and its interfaces: what a fragment may be on."""
        return (self.type, *INTERFACES.get(self.type, ()))


@dataclass(frozen=True, slots=True)
class Visit:
    """What a resolver gets besides the object."""

    hub: Hub
    call: Call
    credential: Credential
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its type (None for scalars) and how to get it."""

    type: str | None
    resolve: Callable[[Any, Visit], Any]


@dataclass(frozen=True, slots=True)
class Placed:
    """An issue or a label together with its repository."""

    repository: Repository
    item: Any


def _user(login: str, visit: Visit) -> Thing:
    user = visit.hub.world.user(login)
    return Thing("Bot" if user.type == "Bot" else "User", user)


def _doer(login: str, visit: Visit) -> Thing:
    """Whoever did something: unlike REST, GraphQL calls a program by its bare name."""
    who = _user(login, visit)
    return Thing(who.type, replace(who.value, login=login.removesuffix("[bot]"))) if who.type == "Bot" else who


def _issue(repository: Repository, issue: Issue) -> Thing:
    return Thing("PullRequest" if issue.pull else "Issue", Placed(repository, issue))


def _visible(visit: Visit, repository: Repository) -> bool:
    return visit.hub.door.role(visit.call, repository) != "none"


def _node(_: Any, visit: Visit) -> Thing:
    return node(visit, str(visit.arguments.get("id")))


def node(visit: Visit, node_id: str) -> Thing:
    """Whatever has this global id, if the caller may see it."""
    prefix, _, number = node_id.rpartition("_")
    found: Thing | None = None
    repository: Repository | None = None
    if number.isdigit() and prefix in ("I", "PR"):
        if pair := visit.hub.world.issue_by_id(int(number)):
            repository, found = pair[0], _issue(*pair)
    elif number.isdigit() and prefix == "LA":
        if placed := visit.hub.world.label_by_id(int(number)):
            repository, found = placed[0], Thing("Label", Placed(*placed))
    elif number.isdigit() and prefix == "R" and (repository := visit.hub.world.repositories.get(int(number))):
        found = Thing("Repository", repository)
    if found is None or repository is None or not _visible(visit, repository):
        raise Failed("NOT_FOUND", f"Could not resolve to a node with the global id of '{node_id}'")
    return found


def _repository(_: Any, visit: Visit) -> Thing:
    full_name = f"{visit.arguments.get('owner')}/{visit.arguments.get('name')}"
    try:
        found = visit.hub.world.repository(full_name)
    except LookupError:
        former = visit.hub.world.renamed.get(full_name.casefold())
        # Unlike REST, GraphQL follows a rename by itself.
        found_or_none = None if former is None else visit.hub.world.repositories[former]
    else:
        found_or_none = found
    if found_or_none is None or not _visible(visit, found_or_none):
        raise Failed("NOT_FOUND", f"Could not resolve to a Repository with the name '{full_name}'.")
    return Thing("Repository", found_or_none)


def _numbered(repository: Repository, visit: Visit) -> Thing:
    number = visit.arguments.get("number")
    issue = repository.issue(number, visit.call.behind) if isinstance(number, int) else None
    if issue is None:
        raise Failed("NOT_FOUND", f"Could not resolve to an Issue with the number of {number}.")
    return _issue(repository, issue)


def _connection(things: list[Thing], visit: Visit) -> Thing:
    first = visit.arguments.get("first", visit.arguments.get("last"))
    if not isinstance(first, int) or not 1 <= first <= 100:
        raise Failed("MISSING_PAGINATION_BOUNDARIES", "You must provide a `first` or `last` value of 1 to 100.")
    return Thing("LabelConnection", (things[:first], len(things)))


def _timeline(placed: Placed, visit: Visit) -> Thing:
    """The last lines of the kinds asked for, oldest first; `before` is a cursor of an earlier answer."""
    kinds = visit.arguments.get("itemTypes") or list(TIMELINE)
    if unknown := [kind for kind in kinds if kind not in TIMELINE]:
        raise Failed("UNPROCESSABLE", f"the simulator's timeline has no {unknown[0]}")
    last, before = visit.arguments.get("last"), visit.arguments.get("before")
    if not isinstance(last, int) or not 1 <= last <= 100:
        raise Failed("MISSING_PAGINATION_BOUNDARIES", "You must provide a `first` or `last` value of 1 to 100.")
    names = {TIMELINE[kind][0]: TIMELINE[kind][1] for kind in kinds}
    lines = [event for event in placed.item.events if event.event in names]
    end = len(lines) if before is None else next(i for i, line in enumerate(lines) if _cursor(line) == before)
    start = max(0, end - last)
    shown = [Thing(names[line.event], Placed(placed.repository, line)) for line in lines[start:end]]
    return Thing("IssueTimelineItemsConnection", (shown, start > 0, _cursor(lines[start]) if shown else None))


def _cursor(line: IssueEvent) -> str:
    return f"Y3Vyc29yOnYy{line.id}"


def _labels_of_issue(placed: Placed, visit: Visit) -> Thing:
    labels = placed.repository.labels_of(placed.item)
    return _connection([Thing("Label", Placed(placed.repository, each)) for each in labels], visit)


def _label_named(repository: Repository, visit: Visit) -> Thing | None:
    label = repository.label_named(str(visit.arguments.get("name")))
    return Thing("Label", Placed(repository, label)) if label else None


def _all_labels(repository: Repository, visit: Visit) -> Thing:
    return _connection([Thing("Label", Placed(repository, each)) for each in repository.labels.values()], visit)


def _rate(_: Any, visit: Visit) -> Thing:
    return Thing("RateLimit", visit.hub.limits.bucket(visit.credential.quota_key, "graphql"))


def _relabel(adding: bool) -> Callable[[Any, Visit], Thing]:
    name = "AddLabelsToLabelable" if adding else "RemoveLabelsFromLabelable"

    def run(_: Any, visit: Visit) -> Thing:
        given = visit.arguments.get("input")
        given = given if isinstance(given, dict) else {}
        target = node(visit, str(given.get("labelableId")))
        ids = given.get("labelIds")
        labels = [node(visit, str(each)) for each in (ids if isinstance(ids, list) else [ids])]
        if "Labelable" not in target.kinds or any(label.type != "Label" for label in labels):
            raise Failed("NOT_FOUND", "Could not resolve to a Labelable and its Labels")
        repository, issue = target.value.repository, target.value.item
        silent = "silent_permission_loss" in visit.call.quirks
        if not silent and not visit.hub.door.may_label(visit.call, repository):
            login = visit.credential.login
            raise Failed("FORBIDDEN", f"{login} does not have the correct permissions to execute `{name}`")
        if silent:
            after = issue
        elif adding:
            names = [label.value.item.name for label in labels]
            after = visit.hub.changes.add_labels(repository, issue, names, visit.credential.by)
        else:
            numbers = [label.value.item.id for label in labels]
            after = visit.hub.changes.remove_labels(repository, issue, numbers, visit.credential.by)
        return Thing("LabelsPayload", (_issue(repository, after), given.get("clientMutationId")))

    return run


def _convert(draft: bool) -> Callable[[Any, Visit], Thing]:
    name = "ConvertPullRequestToDraft" if draft else "MarkPullRequestReadyForReview"

    def run(_: Any, visit: Visit) -> Thing:
        given = visit.arguments.get("input")
        given = given if isinstance(given, dict) else {}
        target = node(visit, str(given.get("pullRequestId")))
        if target.type != "PullRequest":
            raise Failed("NOT_FOUND", "Could not resolve to a PullRequest")
        repository, issue = target.value.repository, target.value.item
        door, login = visit.hub.door, visit.credential.login
        if not at_least(door.role(visit.call, repository), "write") or not door.may(
            visit.call, "pull_requests", "write"
        ):
            raise Failed("FORBIDDEN", f"{login} does not have the correct permissions to execute `{name}`")
        if draft and not repository.drafts:
            raise Failed("UNPROCESSABLE", "Draft pull requests are not supported in this repository.")
        if issue.state != "open":
            raise Failed("UNPROCESSABLE", "Pull request is closed")
        if issue.pull.draft is not draft:
            pull = replace(issue.pull, draft=draft)
            issue = visit.hub.changes.edit_issue(repository, issue, visit.credential.by, pull=pull)
        return Thing("PullRequestPayload", (_issue(repository, issue), given.get("clientMutationId")))

    return run


def _scalar(get: Callable[[Any], Any]) -> Field:
    return Field(None, lambda value, _: get(value))


def _issue_item(get: Callable[[Issue], Any]) -> Field:
    return Field(None, lambda placed, _: get(placed.item))


def _label_item(get: Callable[[Label], Any]) -> Field:
    return Field(None, lambda placed, _: get(placed.item))


def _label_of_line(placed: Placed, _: Visit) -> Thing:
    """The label as it was called then."""
    label = placed.item.details["label"]
    return Thing("Label", Placed(placed.repository, Label(0, label["name"], label["color"], None)))


def _url(placed: Placed, visit: Visit) -> str:
    return str(visit.hub.render(visit.call).issue(placed.repository, placed.item)["html_url"])


ISSUE_FIELDS = {
    "id": _issue_item(lambda i: f"{'PR' if i.pull else 'I'}_{i.id}"),
    "databaseId": _issue_item(lambda i: i.id),
    "number": _issue_item(lambda i: i.number),
    "title": _issue_item(lambda i: i.title),
    "body": _issue_item(lambda i: i.body or ""),
    "state": _issue_item(lambda i: i.state.upper()),
    "closed": _issue_item(lambda i: i.state == "closed"),
    "locked": _issue_item(lambda i: i.locked),
    "createdAt": _issue_item(lambda i: iso(i.created_at)),
    "updatedAt": _issue_item(lambda i: iso(i.updated_at)),
    "url": Field(None, _url),
    "author": Field("Actor", lambda placed, visit: _user(placed.item.user, visit)),
    "repository": Field("Repository", lambda placed, _: Thing("Repository", placed.repository)),
    "labels": Field("LabelConnection", _labels_of_issue),
    "lastEditedAt": _issue_item(lambda i: iso(i.edited_at) if i.edited_at else None),
    "editor": Field("Actor", lambda placed, visit: _doer(placed.item.editor, visit) if placed.item.editor else None),
    "timelineItems": Field("IssueTimelineItemsConnection", _timeline),
}
LINE_FIELDS = {
    "id": _scalar(lambda placed: f"EV_{placed.item.id}"),
    "createdAt": _scalar(lambda placed: iso(placed.item.created_at)),
    "actor": Field("Actor", lambda placed, visit: _doer(placed.item.actor, visit)),
}
LABEL_LINE_FIELDS = {**LINE_FIELDS, "label": Field("Label", _label_of_line)}
ACTOR_FIELDS = {
    "login": _scalar(lambda user: user.login),
    "id": _scalar(lambda user: f"U_{user.id}"),
    "databaseId": _scalar(lambda user: user.id),
}
SCHEMA: dict[str, dict[str, Field]] = {
    "Query": {
        "viewer": Field("User", lambda _, visit: _user(visit.credential.login, visit)),
        "repository": Field("Repository", _repository),
        "node": Field("Node", _node),
        "rateLimit": Field("RateLimit", _rate),
    },
    "Mutation": {
        "addLabelsToLabelable": Field("LabelsPayload", _relabel(adding=True)),
        "removeLabelsFromLabelable": Field("LabelsPayload", _relabel(adding=False)),
        "convertPullRequestToDraft": Field("PullRequestPayload", _convert(draft=True)),
        "markPullRequestReadyForReview": Field("PullRequestPayload", _convert(draft=False)),
    },
    "PullRequestPayload": {
        "pullRequest": Field("PullRequest", lambda value, _: value[0]),
        "clientMutationId": _scalar(lambda value: value[1]),
    },
    "LabelsPayload": {
        "labelable": Field("Labelable", lambda value, _: value[0]),
        "clientMutationId": _scalar(lambda value: value[1]),
    },
    "User": ACTOR_FIELDS,
    "Bot": ACTOR_FIELDS,
    "Actor": {"login": ACTOR_FIELDS["login"]},
    "Node": {"id": _scalar(lambda _: None)},
    "Labelable": {"labels": ISSUE_FIELDS["labels"]},
    "Issue": ISSUE_FIELDS,
    "PullRequest": {**ISSUE_FIELDS, "isDraft": _issue_item(lambda i: bool(i.pull and i.pull.draft))},
    "Label": {
        "id": _label_item(lambda label: f"LA_{label.id}"),
        "name": _label_item(lambda label: label.name),
        "color": _label_item(lambda label: label.color),
    },
    "LabelConnection": {
        "nodes": Field("Label", lambda value, _: value[0]),
        "totalCount": _scalar(lambda value: value[1]),
        "pageInfo": Field("PageInfo", lambda value, _: Thing("PageInfo", (len(value[0]) < value[1], False, None))),
    },
    "IssueTimelineItemsConnection": {
        "nodes": Field("IssueTimelineItems", lambda value, _: value[0]),
        "pageInfo": Field("PageInfo", lambda value, _: Thing("PageInfo", (False, value[1], value[2]))),
    },
    "IssueTimelineItems": {},
    "LabeledEvent": LABEL_LINE_FIELDS,
    "UnlabeledEvent": LABEL_LINE_FIELDS,
    "RenamedTitleEvent": {
        **LINE_FIELDS,
        "previousTitle": _scalar(lambda placed: placed.item.details["rename"]["from"]),
        "currentTitle": _scalar(lambda placed: placed.item.details["rename"]["to"]),
    },
    "PageInfo": {
        "hasNextPage": _scalar(lambda value: value[0]),
        "hasPreviousPage": _scalar(lambda value: value[1]),
        "startCursor": _scalar(lambda value: value[2]),
    },
    "Repository": {
        "id": _scalar(lambda repository: f"R_{repository.id}"),
        "databaseId": _scalar(lambda repository: repository.id),
        "name": _scalar(lambda repository: repository.name),
        "nameWithOwner": _scalar(lambda repository: repository.full_name),
        "issue": Field("Issue", _numbered),
        "label": Field("Label", _label_named),
        "labels": Field("LabelConnection", _all_labels),
    },
    "RateLimit": {
        "limit": _scalar(lambda bucket: bucket.limit),
        "remaining": _scalar(lambda bucket: bucket.remaining),
        "used": _scalar(lambda bucket: bucket.used),
        "cost": _scalar(lambda _: 1),
    },
}
