"""Jira's JSON as far as we read it, and the ticket that an issue is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

from pydantic import BeforeValidator, Field

from agentsmith.domain.errors import BadAnswer
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.trackers.jira import adf
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.shared import memory
from agentsmith.trackers.shared.shapes import Record, shaped

T = TypeVar("T")

DONE: Final = "done"
"""The category of every status in which an issue counts as closed; status names are anybody's."""


def _moment(value: object) -> object:
    """Jira writes `2019-02-15T19:01:52.971-0800`: no colon in the offset."""
    if not isinstance(value, str):
        raise ValueError("a date should be a text")
    when = datetime.fromisoformat(value)
    if when.tzinfo is None:
        raise ValueError("a date should have a time zone")
    return when


Moment = Annotated[datetime, BeforeValidator(_moment)]


class User(Record):
    """A person or a program. Cloud knows accounts by `accountId`, Data Center by `key` and `name`."""

    accountId: str | None = None
    accountType: str | None = None
    key: str | None = None
    name: str | None = None
    displayName: str = ""

    @property
    def id(self) -> str:
        """What tells accounts apart; nobody can choose it."""
        return self.accountId or self.key or self.name or ""

    def to_actor(self) -> Actor:
        """The same as the core sees it.

        On Cloud everybody chooses their display name, so it must not be what `allow.users` is compared with.
        """
        return Actor(id=self.id, name=self.accountId or self.name or self.id, bot=self.accountType == "app")

    @property
    def shown(self) -> str:
        """What people call the account; for reading only."""
        return self.displayName or self.name or self.id


class StatusCategory(Record):
    """`new`, `indeterminate` or `done`."""

    key: str


class Status(Record):
    """A step of the project's workflow."""

    id: str
    name: str
    statusCategory: StatusCategory

    @property
    def open(self) -> bool:
        """Whether issues in it count as open."""
        return self.statusCategory.key != DONE


class Named(Record):
    """Something that has a name: a type of issue, a component."""

    name: str


class Count(Record):
    """How many there are of something."""

    total: int


class Fields(Record):
    """The fields that we ask for."""

    summary: str
    status: Status
    labels: list[str]
    description: Any = None
    creator: User | None = None
    reporter: User | None = None
    assignee: User | None = None
    updated: Moment | None = None
    comment: Count | None = None
    issuetype: Named | None = None
    components: list[Named] = Field(default_factory=list)


class Issue(Record):
    """An issue."""

    id: str
    key: str
    fields: Fields
    properties: dict[str, Any] = Field(default_factory=dict)


class Project(Record):
    """A project; its key can be changed, its number cannot."""

    id: str
    key: str


class _Relabelled(Record):
    labels: list[str] | None = None
    updated: Moment | None = None
    status: Status | None = None


class Edited(Record):
    """An issue as the answer to an edit shows it: perhaps only the fields that were edited."""

    key: str
    fields: _Relabelled
    properties: dict[str, Any] | None = None


class Hit(Record):
    """An issue in a search result: a hint, perhaps an old one."""

    id: str
    key: str
    fields: dict[str, Any] = Field(default_factory=dict)

    @property
    def stamp(self) -> str:
        """What changes when the issue does, as far as the index knows."""
        return str(self.fields.get("updated", ""))


class Property(Record):
    """A value that is hidden from people."""

    key: str
    value: Any = None


class Comment(Record):
    """A comment; `properties` is None where the answer does not show them."""

    id: str
    body: Any = None
    author: User | None = None
    created: Moment | None = None
    properties: list[Property] | None = None


class AdminHook(Record):
    """A webhook that an administrator made; `isSigned` is told on Cloud only."""

    self_: str = Field(alias="self")
    url: str
    events: list[str]
    enabled: bool = True
    excludeBody: bool = False
    isSigned: bool | None = None


class RoleActor(Record):
    """Somebody, or a group, that has a role in a project; Cloud and Data Center name them differently."""

    class _Account(Record):
        accountId: str = ""

    class _Group(Record):
        name: str = ""

    type: str = ""
    name: str = ""
    actorUser: _Account | None = None
    actorGroup: _Group | None = None

    @property
    def account(self) -> str:
        """The id, or on Data Center the name, of the account; empty for a group."""
        if self.actorUser is not None:
            return self.actorUser.accountId
        return self.name if self.type == "atlassian-user-role-actor" else ""

    @property
    def group(self) -> str:
        """The name of the group; empty for an account."""
        if self.actorGroup is not None:
            return self.actorGroup.name
        return self.name if self.type == "atlassian-group-role-actor" else ""


class Change(Record):
    """One field's change: for labels, all of them before and after, separated by spaces."""

    field: str
    fromString: str | None = None
    toString: str | None = None

    @property
    def before(self) -> frozenset[str]:
        """The labels before."""
        return frozenset(filter(None, (self.fromString or "").split(" ")))

    @property
    def after(self) -> frozenset[str]:
        """The labels after."""
        return frozenset(filter(None, (self.toString or "").split(" ")))


class History(Record):
    """What one person changed at one moment."""

    id: str = ""
    author: User | None = None
    created: Moment
    items: list[Change]


class Transition(Record):
    """A way from the present status to another."""

    id: str
    name: str = ""
    to: Status


class LinkType(Record):
    """A kind of link, as seen from either end: `inward` is what the outward issue suffers."""

    name: str
    inward: str = ""


class LinkedFields(Record):
    """What a linked issue shows of itself."""

    status: Status


class LinkedIssue(Record):
    """The issue at the other end of a link."""

    key: str
    fields: LinkedFields


class Link(Record):
    """A link, seen from one issue: the other one is `inwardIssue` or `outwardIssue`."""

    type: LinkType
    inwardIssue: LinkedIssue | None = None


def read(shape: type[T] | Any, data: object, what: str) -> T:
    """`data` as `shape`, or BadAnswer."""
    record: T = shaped(shape, data, f"Jira: {what}")
    return record


def listed(data: object, name: str, what: str) -> list[Any]:
    """The list that an answer holds under `name`, or BadAnswer."""
    found = data.get(name) if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise BadAnswer(f"Jira: {what} is malformed: it has no list {name!r}")
    return found


def number(data: object, name: str) -> int | None:
    """A whole number of an answer, if it is there."""
    found = data.get(name) if isinstance(data, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(memory.Snapshot):
    """What an issue showed beside the ticket itself."""

    id: str = ""
    """Jira's number of the issue, which search needs."""
    status: Status | None = None
    """The step of the workflow."""
    creator: Actor | None = None
    claim: Any = None
    """The issue property: whose write the labels were last."""


def to_ticket(issue: Issue, site: Site, tracker: str, *, claim: str, read_at: float) -> Ticket:
    """The issue as the core sees it; `claim` names the issue property that we look at."""
    fields, key = issue.fields, site.key(issue.key) or issue.key
    author = fields.creator or fields.reporter
    labels = frozenset(fields.labels)
    return Ticket(
        id=site.ticket_id(key),
        key=key,
        tracker=tracker,
        title=fields.summary,
        body=adf.to_text(fields.description),
        url=site.page(key),
        labels=labels,
        open=fields.status.open,
        revision=revision(fields.updated, fields.status, labels),
        author=author.shown if author else "",
        assignees=frozenset({fields.assignee.shown} if fields.assignee else ()),
        updated_at=fields.updated,
        state=fields.status.name,
        type=fields.issuetype.name if fields.issuetype else "",
        components=frozenset(component.name for component in fields.components),
        native=Snapshot(
            key=key,
            id=issue.id,
            status=fields.status,
            creator=fields.creator.to_actor() if fields.creator else None,
            claim=issue.properties.get(claim),
            comments=fields.comment.total if fields.comment else None,
            read_at=read_at,
        ),
    )


def revision(updated: datetime | None, status: Status | None, labels: frozenset[str]) -> str:
    """Jira has no revision: a date alone would miss changes within one tick, labels alone all others."""
    return f"{updated.isoformat() if updated else ''} {status.id if status else ''} {' '.join(sorted(labels))}"


def snapshot_of(ticket: Ticket) -> Snapshot | None:
    """What we put into the ticket when we read it; None for a ticket that came some other way."""
    return ticket.native if isinstance(ticket.native, Snapshot) else None
