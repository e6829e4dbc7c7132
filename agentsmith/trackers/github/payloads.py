"""GitHub's JSON as far as we read it: strict about what we use, blind to the rest. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.redaction import excerpt
from agentsmith.trackers.github.dialect import message
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.shared import memory
from agentsmith.trackers.shared.shapes import Moment, Record, shaped


class User(Record):
    """A person or a program. `null` stands for somebody who deleted their account."""

    id: int
    login: str
    type: str = "User"

    def to_actor(self) -> Actor:
        """The same as the core sees it."""
        return Actor(id=str(self.id), name=self.login, bot=self.type == "Bot")


def _as_label(value: object) -> object:
    """Labels inside an issue may be plain names."""
    return {"name": value} if isinstance(value, str) else value


class Label(Record):
    """A label; `node_id` is what GraphQL calls it."""

    name: str
    node_id: str = ""


_Label = Annotated[Label, BeforeValidator(_as_label)]


class IssueType(Record):
    """`Bug`, `Task`, or what the organisation made up."""

    name: str


class Issue(Record):
    """An issue, or a pull request where `pull_request` is there."""

    number: int
    title: str
    state: str
    html_url: str
    labels: list[_Label]
    body: str | None = None
    node_id: str = ""
    comments: int = 0
    user: User | None = None
    assignees: list[User] = Field(default_factory=list)
    updated_at: Moment | None = None
    pull_request: dict[str, Any] | None = None
    type: IssueType | None = None


class Comment(Record):
    """A comment on an issue."""

    id: int
    body: str | None = None
    user: User | None = None
    issue_url: str = ""
    created_at: Moment | None = None


class HookConfig(Record):
    """Where a webhook sends what; the secret is shown as stars."""

    url: str = ""
    content_type: str = "form"
    secret: str = ""


class LastResponse(Record):
    """How the last delivery went; None before the first."""

    code: int | None = None


class RepositoryHook(Record):
    """A webhook of a repository."""

    id: int
    active: bool
    events: list[str]
    config: HookConfig
    last_response: LastResponse = LastResponse()


class Delivered(Record):
    """One attempt to deliver something; every further attempt has the same `guid`."""

    id: int
    guid: str
    event: str
    status_code: int

    @property
    def arrived(self) -> bool:
        """Whether it was taken."""
        return 200 <= self.status_code < 300


class Event(Record):
    """One line of an issue's history; only labelled ones carry a label."""

    id: int = 0
    event: str
    created_at: Moment
    actor: User | None = None
    label: _Label | None = None


class Doer(Record):
    """An account as GraphQL shows it: a program without `[bot]` behind its name, and others than both without an id."""

    kind: str = Field(alias="__typename")
    login: str
    id: int | None = Field(None, alias="databaseId")

    def to_actor(self) -> Actor | None:
        """The same as the core sees it, by the name that REST gives it; None without an id: a name proves nothing."""
        bot = self.kind == "Bot"
        name = f"{self.login}[bot]" if bot and not self.login.endswith("[bot]") else self.login
        return None if self.id is None else Actor(id=str(self.id), name=name, bot=bot)


class Line(Record):
    """One line of an issue's timeline; of kinds that were not asked for, only the kind is known."""

    kind: str = Field(alias="__typename")
    id: str = ""
    at: Moment = Field(alias="createdAt")
    actor: Doer | None = None
    label: _Label | None = None


class _PageInfo(Record):
    more: bool = Field(alias="hasPreviousPage")
    start: str | None = Field(None, alias="startCursor")


class Lines(Record):
    """A page of the timeline, oldest first."""

    info: _PageInfo = Field(alias="pageInfo")
    nodes: list[Line]


class IssueHistory(Record):
    """Who last changed the text of an issue, and its timeline."""

    edited_at: Moment | None = Field(None, alias="lastEditedAt")
    editor: Doer | None = None
    lines: Lines = Field(alias="timelineItems")


class Permission(Record):
    """What a user may do in a repository: the old coarse word, and the name of the role."""

    permission: str
    role_name: str = ""
    user: User | None = None


class Membership(Record):
    """Whether somebody is in a team: `active`, or only invited."""

    state: str


class App(Record):
    """A GitHub App, as it sees itself."""

    slug: str


class InstallationToken(Record):
    """A token for one installation of an App."""

    token: Annotated[str, Field(min_length=1)]
    expires_at: Moment


class Repository(Record):
    """A repository under its present name; its number stays."""

    id: int | None = None
    full_name: str
    default_branch: str = "main"


class _Side(Record):
    """One end of a pull request; `repo` is null where a fork was deleted."""

    ref: str
    repo: Repository | None = None


class Pull(Record):
    """A pull request; `node_id` is what GraphQL calls it."""

    number: int
    html_url: str
    title: str
    state: str
    head: _Side
    base: _Side
    node_id: str = ""
    body: str | None = None
    draft: bool = False


class _Sha(Record):
    sha: str


class GitRef(Record):
    """A git ref and what it points to."""

    ref: str
    object: _Sha


class _Stamp(Record):
    date: Moment


class Commit(Record):
    """A git commit; `committer` carries GitHub's own date."""

    sha: str
    committer: _Stamp | None = None


class _Content(Record):
    tree: _Sha


class _Tip(Record):
    sha: str
    commit: _Content


class Branch(Record):
    """A branch and the tree at its tip."""

    commit: _Tip


T = TypeVar("T")


def error_message(data: object) -> str:
    """GitHub's own words in an error body, short."""
    return excerpt(message(data))


def read(shape: type[T] | Any, data: object, what: str) -> T:
    """`data` as `shape`; raises BadAnswer that names the first wrong field and shows no value."""
    record: T = shaped(shape, data, f"GitHub: {what}")
    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(memory.Snapshot):
    """What an issue showed beside the ticket itself."""

    node_id: str = ""
    label_ids: Mapping[str, str] = field(default_factory=dict)
    """GraphQL ids of the labels on the ticket, by name."""
    etag: str | None = None


def snapshot_of(ticket: Ticket) -> Snapshot | None:
    """What we put into the ticket when we read it; None for a ticket that came some other way."""
    return ticket.native if isinstance(ticket.native, Snapshot) else None


def _revision(issue: Issue, names: frozenset[str], assignees: frozenset[str]) -> str:
    """The same whether the ticket was read or listed: a list gives no ETag, and its texts are not kept."""
    stamp = issue.updated_at.isoformat() if issue.updated_at else ""
    rest = json.dumps([issue.state, issue.title, sorted(names), sorted(assignees)])
    return f"{stamp} {hashlib.sha256(rest.encode()).hexdigest()[:16]}"


def to_ticket(issue: Issue, site: Site, tracker: str, *, etag: str | None, read_at: float) -> Ticket:
    """The issue as the core sees it."""
    number = str(issue.number)
    names = frozenset(label.name for label in issue.labels)
    updated: datetime | None = issue.updated_at
    assignees = frozenset(user.login for user in issue.assignees)
    return Ticket(
        id=site.ticket_id(number),
        key=number,
        tracker=tracker,
        title=issue.title,
        body=issue.body or "",
        url=issue.html_url,
        labels=names,
        open=issue.state == "open",
        revision=_revision(issue, names, assignees),
        author=issue.user.login if issue.user else "ghost",
        assignees=assignees,
        updated_at=updated,
        pull_request=issue.pull_request is not None,
        state=issue.state,
        type=issue.type.name if issue.type else "",
        native=Snapshot(
            key=number,
            comments=issue.comments,
            read_at=read_at,
            node_id=issue.node_id,
            label_ids={label.name: label.node_id for label in issue.labels if label.node_id},
            etag=etag,
        ),
    )
