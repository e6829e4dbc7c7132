"""Azure DevOps' JSON as far as we read it: strict about what we use, blind to the rest. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

from pydantic import BeforeValidator, Field

from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.trackers.azuredevops import tags
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.shared import memory
from agentsmith.trackers.shared.shapes import Moment, Record, shaped

T = TypeVar("T")

_PROGRAMS: Final = frozenset({"svc", "aadsp", "s2s", "acs", "agg"})
"""How descriptors of service identities and service principals begin."""
_TAG: Final = re.compile(r"<[A-Za-z/!][^<>]*>")
"""Up to the next `<`: a text of a million of them must not be searched to its end for each."""


def read(shape: type[T] | Any, data: object, what: str) -> T:
    """`data` as `shape`; raises BadAnswer that names the first wrong field and shows no value."""
    result: T = shaped(shape, data, f"Azure DevOps: {what}")
    return result


class Identity(Record):
    """A person or a program. `unique_name` is an e-mail address, or DOMAIN\\name on a Server."""

    id: str = ""
    display_name: str = Field("", alias="displayName")
    unique_name: str = Field("", alias="uniqueName")
    descriptor: str = ""

    @property
    def name(self) -> str:
        """The name that only one account has, where there is one."""
        return self.unique_name or self.display_name or self.id

    def to_actor(self) -> Actor:
        """The same as the core sees it."""
        kind = self.descriptor.partition(".")[0].lower()
        return Actor(id=self.id.lower(), name=self.name, bot=kind in _PROGRAMS)


def as_identity(value: object) -> object:
    """Old versions of the API write an identity as `Name <unique name>`."""
    if not isinstance(value, str):
        return value
    text = value.rstrip()
    display, opened, unique = text[:-1].rpartition("<")
    if not opened or not unique or ">" in unique or not text.endswith(">"):
        return {"displayName": value}
    return {"displayName": display.rstrip(), "uniqueName": unique}


_Identity = Annotated[Identity, BeforeValidator(as_identity)]


class Fields(Record):
    """The fields of a work item that matter to us. Azure DevOps leaves empty ones out."""

    title: str = Field(alias="System.Title")
    state: str = Field(alias="System.State")
    type: str = Field(alias="System.WorkItemType")
    project: str = Field(alias="System.TeamProject")
    area: str = Field("", alias="System.AreaPath")
    tags: str = Field("", alias="System.Tags")
    description: str = Field("", alias="System.Description")
    steps: str = Field("", alias="Microsoft.VSTS.TCM.ReproSteps")
    comments: int | None = Field(None, alias="System.CommentCount")
    created_by: _Identity | None = Field(None, alias="System.CreatedBy")
    changed_by: _Identity | None = Field(None, alias="System.ChangedBy")
    assigned_to: _Identity | None = Field(None, alias="System.AssignedTo")
    changed: Moment | None = Field(None, alias="System.ChangedDate")
    history: str = Field("", alias="System.History")


class Relation(Record):
    """A link from one work item to something else."""

    rel: str
    url: str


class CommentRef(Record):
    """The comment that a revision made or changed."""

    id: int = Field(alias="commentId")


class WorkItem(Record):
    """A work item."""

    id: int
    rev: int
    fields: Fields
    comment: CommentRef | None = Field(None, alias="commentVersionRef")
    relations: list[Relation] | None = None


class Linked(Record):
    """A work item that ours is linked to; only what tells whether it is open."""

    class Facts(Record):
        """Its fields."""

        state: str = Field(alias="System.State")
        type: str = Field(alias="System.WorkItemType")
        project: str = Field(alias="System.TeamProject")

    id: int
    fields: Facts


class Reference(Record):
    """A hit of a query."""

    id: int


class QueryResult(Record):
    """What a WIQL query answers: ids, and the time it speaks of."""

    work_items: list[Reference] = Field(alias="workItems")
    as_of: Moment | None = Field(None, alias="asOf")


class Page(Record):
    """A list in Azure DevOps' wrapping."""

    value: list[Any]


class State(Record):
    """A state of a work item type, and what kind of state it is."""

    name: str
    category: str = ""


class ItemType(Record):
    """A work item type with its states."""

    name: str
    states: tuple[State, ...] = Field((), strict=False)


class Comment(Record):
    """A comment on a work item."""

    id: int
    text: str = ""
    format: str = "html"
    created_by: Identity | None = Field(None, alias="createdBy")
    created_at: Moment | None = Field(None, alias="createdDate")
    deleted: bool = Field(False, alias="isDeleted")


class Reaction(Record):
    """How many gave a reaction to a comment, and whether we are among them."""

    type: str
    ours: bool = Field(False, alias="isCurrentUserEngaged")


class ConsumerInputs(Record):
    """Where a subscription sends what it hears of; secrets are shown as stars."""

    url: str = ""
    password: str = Field("", alias="basicAuthPassword")
    headers: str = Field("", alias="httpHeaders")


class PublisherInputs(Record):
    """What a subscription listens to; a filter that is empty is none."""

    project: str = Field("", alias="projectId")
    type: str = Field("", alias="workItemType")
    tag: str = ""
    fields: str = Field("", alias="changedFields")
    area: str = Field("", alias="areaPath")


class Subscription(Record):
    """A service hook: one kind of event, sent to one address."""

    id: str
    status: str = "enabled"
    event: str = Field(alias="eventType")
    consumer: ConsumerInputs = Field(alias="consumerInputs")
    publisher: PublisherInputs = Field(alias="publisherInputs")

    @property
    def narrowed(self) -> bool:
        """Whether it hears of some work items only."""
        return bool(self.publisher.type or self.publisher.tag or self.publisher.fields or self.publisher.area)


class CommentPage(Record):
    """Some comments, and how to get more."""

    comments: list[Any]
    continuation: str | None = Field(None, alias="continuationToken")


class Change(Record):
    """How one field changed."""

    old: Any = Field(None, alias="oldValue")
    new: Any = Field(None, alias="newValue")


class Update(Record):
    """One step in a work item's history."""

    id: int
    revised_by: Identity | None = Field(None, alias="revisedBy")
    fields: Mapping[str, Change] = {}


class Team(Record):
    """A team of a project."""

    id: str
    name: str = ""


class Member(Record):
    """Somebody in a team."""

    identity: Identity
    admin: bool = Field(False, alias="isTeamAdmin")


class Value(Record):
    """A property of an identity."""

    text: str = Field("", alias="$value")


class Self(Record):
    """Who we are; connectionData spells an identity in a way of its own."""

    id: str
    display_name: str = Field("", alias="providerDisplayName")
    descriptor: str = Field("", alias="subjectDescriptor")
    properties: Mapping[str, Any] = {}

    def to_actor(self) -> Actor:
        """The same as the core sees it."""
        account = self.properties.get("Account")
        unique = read(Value, account, "an account").text if isinstance(account, dict) else ""
        known = Identity.model_construct(
            id=self.id, display_name=self.display_name, unique_name=unique, descriptor=self.descriptor
        )
        return known.to_actor()


class Connection(Record):
    """What connectionData answers."""

    user: Self = Field(alias="authenticatedUser")


class Project(Record):
    """A project under its present name."""

    id: str
    name: str


class Repository(Record):
    """A git repository; one without a default branch is empty."""

    id: str
    name: str = ""
    default_branch: str | None = Field(None, alias="defaultBranch")
    disabled: bool = Field(False, alias="isDisabled")
    project: Project | None = None


class ItemRef(Record):
    """What a pull request is linked to."""

    id: str


class PullRequest(Record):
    """A pull request. In lists the text is cut after 400 characters, and no references are shown."""

    id: int = Field(alias="pullRequestId")
    status: str
    title: str
    source: str = Field(alias="sourceRefName")
    target: str = Field(alias="targetRefName")
    repository: Repository
    description: str | None = None
    draft: bool = Field(False, alias="isDraft")
    fork: dict[str, Any] | None = Field(None, alias="forkSource")
    references: list[ItemRef] | None = Field(None, alias="workItemRefs")


class PullRequests(Record):
    """A list of them, in the wrapping that all lists have."""

    value: list[PullRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(memory.Snapshot):
    """What a work item showed beside the ticket itself."""

    rev: int
    tags: tuple[str, ...]
    """In their order and spelling: a patch writes all of them."""
    changed_by: str = ""
    """The account that made this revision."""


def snapshot_of(ticket: Ticket) -> Snapshot | None:
    """What we put into the ticket when we read it; None for a ticket that came some other way."""
    return ticket.native if isinstance(ticket.native, Snapshot) else None


def to_ticket(item: WorkItem, site: Site, tracker: str, *, open_: bool, read_at: float, verified: bool) -> Ticket:
    """The work item as the core sees it."""
    number, fields = str(item.id), item.fields
    shown = tags.split(fields.tags)
    updated: datetime | None = fields.changed
    return Ticket(
        id=site.ticket_id(number),
        key=number,
        tracker=tracker,
        title=fields.title,
        body=plain(fields.description or fields.steps),
        url=site.web_url(number),
        labels=frozenset(shown),
        open=open_,
        revision=str(item.rev),
        author=fields.created_by.name if fields.created_by else "",
        assignees=frozenset({fields.assigned_to.name} if fields.assigned_to else ()),
        updated_at=updated,
        state=fields.state,
        type=fields.type,
        components=frozenset({fields.area} if fields.area else ()),
        native=Snapshot(
            key=number,
            comments=fields.comments,
            read_at=read_at,
            verified=verified,
            rev=item.rev,
            tags=shown,
            changed_by=fields.changed_by.to_actor().id if fields.changed_by else "",
        ),
    )


def plain(text: str) -> str:
    """A description as text: it is HTML where it was written in the old editor, and Markdown in the new one."""
    if not _LOOKS_LIKE_HTML.match(text):
        return text
    lines = _BREAK.sub("\n", text)
    return html.unescape(_TAG.sub("", lines)).replace("\xa0", " ").strip("\n")


_LOOKS_LIKE_HTML: Final = re.compile(r"\s*<(?:div|p|span|ul|ol|table|br|h[1-6]|b|i|pre|a|img)\b[^>]*>", re.I)
_BREAK: Final = re.compile(r"<br\s*/?>|</(?:p|div|li|tr|h[1-6])>", re.I)
