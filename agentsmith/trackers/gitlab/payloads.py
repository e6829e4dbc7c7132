"""GitLab's JSON as far as we read it, and the ticket that an issue is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

from pydantic import BeforeValidator, Field

from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.spelling import Spelling
from agentsmith.trackers.shared import memory
from agentsmith.trackers.shared.shapes import Moment, Record, shaped

T = TypeVar("T")

GHOST: Final = "ghost"


class User(Record):
    """A person or a program; `null` stands for somebody who is gone. Only the long form tells programs apart."""

    id: int
    username: str
    bot: bool = False

    def to_actor(self) -> Actor:
        """The same as the core sees it."""
        return Actor(id=str(self.id), name=self.username, bot=self.bot)


def _as_name(value: object) -> object:
    """Labels inside an issue are names, or objects where details were asked for."""
    return value.get("name") if isinstance(value, dict) else value


class References(Record):
    """How an issue is named in texts; `full` is `acme/web#12`."""

    full: str


class Issue(Record):
    """An issue; incidents, tasks and other work items are listed among them and told apart by their type."""

    iid: int
    title: str
    state: str
    web_url: str
    labels: list[Annotated[str, BeforeValidator(_as_name)]]
    project_id: int | None = None
    description: str | None = None
    user_notes_count: int | None = None
    author: User | None = None
    assignees: tuple[User, ...] = Field(default=(), strict=False)
    updated_at: Moment | None = None
    moved_to_id: int | None = None
    issue_type: str | None = None
    references: References | None = None

    @property
    def open(self) -> bool:
        """Whether it is open; one that was moved to another project is closed for good."""
        return self.state == "opened" and self.moved_to_id is None


class LinkedIssue(Issue):
    """An issue as another one's links show it."""

    link_type: str


class Note(Record):
    """A comment, or a line that GitLab wrote itself."""

    id: int
    body: str | None = None
    author: User | None = None
    system: bool = False
    created_at: Moment | None = None
    updated_at: Moment | None = None


class Project(Record):
    """A project under its present path; without a default branch it is empty."""

    id: int
    path_with_namespace: str
    default_branch: str | None = None
    empty_repo: bool = False


class MergeRequest(Record):
    """A merge request. Older servers call a draft a work in progress."""

    iid: int
    web_url: str
    title: str
    state: str
    source_branch: str
    target_branch: str
    description: str | None = None
    source_project_id: int | None = None
    target_project_id: int | None = None
    draft: bool | None = None
    work_in_progress: bool | None = None

    @property
    def is_draft(self) -> bool:
        """Whether it cannot be merged yet because somebody said so."""
        return bool(self.work_in_progress if self.draft is None else self.draft)

    @property
    def at_home(self) -> bool:
        """Whether its branch is in the project that it is made for, and not in a fork."""
        return self.source_project_id is not None and self.source_project_id == self.target_project_id


class EventLabel(Record):
    """A label as the history names it: with the name that it has today, whatever it was then."""

    id: int | None = None
    name: str


class LabelEvent(Record):
    """One line of an issue's label history; `label` is null once the label was deleted."""

    id: int
    action: str
    created_at: Moment
    user: User | None = None
    label: EventLabel | None = None
    resource_id: int | None = None
    """The issue by its number in the whole of GitLab."""


class DatedLabel(Record):
    """A label as GraphQL knows it: `gid://gitlab/ProjectLabel/12`."""

    id: str = Field(pattern=r"^gid://gitlab/[A-Za-z]+/[0-9]{1,18}$")
    title: str
    created_at: Moment = Field(alias="createdAt")
    updated_at: Moment = Field(alias="updatedAt")

    @property
    def number(self) -> int:
        """By which label events name it."""
        return int(self.id.rpartition("/")[2])


class PageInfo(Record):
    """Where a list of GraphQL goes on."""

    more: bool = Field(alias="hasNextPage")
    end: str | None = Field(default=None, alias="endCursor")


class DatedLabels(Record):
    """Labels of an issue."""

    info: PageInfo = Field(alias="pageInfo")
    nodes: tuple[DatedLabel, ...] = Field(strict=False)


class MemberRole(Record):
    """A role that somebody made up, on top of one of GitLab's own."""

    name: str


class ProjectHook(Record):
    """A webhook of a project."""

    id: int
    url: str
    issues_events: bool = False
    confidential_issues_events: bool = False
    note_events: bool = False
    confidential_note_events: bool = False
    alert_status: str = "executable"


class Member(Record):
    """What somebody may do in the project, inherited rights included."""

    id: int
    access_level: int
    state: str = "active"
    member_role: MemberRole | None = None


class Label(Record):
    """A label that issues of the project may carry."""

    name: str


def read(shape: type[T] | Any, data: object, what: str) -> T:
    """`data` as `shape`, or BadAnswer."""
    record: T = shaped(shape, data, f"GitLab: {what}")
    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(memory.Snapshot):
    """What an issue showed beside the ticket itself."""

    shown: frozenset[str]
    """The labels as spelled on GitLab."""


def to_ticket(
    issue: Issue, site: Site, spelling: Spelling, tracker: str, *, read_at: float, verified: bool = False
) -> Ticket:
    """The issue as the core sees it."""
    iid = str(issue.iid)
    shown = frozenset(issue.labels)
    updated: datetime | None = issue.updated_at
    stamp = updated.isoformat() if updated else ""
    return Ticket(
        id=site.ticket_id(iid),
        key=iid,
        tracker=tracker,
        title=issue.title,
        body=issue.description or "",
        url=issue.web_url,
        labels=spelling.seen(shown),
        open=issue.open,
        # GitLab has no revision: a date alone would miss changes within one tick, labels alone all others.
        revision=f"{stamp} {issue.state} {' '.join(sorted(shown))}",
        author=issue.author.username if issue.author else GHOST,
        assignees=frozenset(user.username for user in issue.assignees),
        updated_at=updated,
        state=issue.state,
        type=issue.issue_type or "",
        native=Snapshot(key=iid, shown=shown, comments=issue.user_notes_count, read_at=read_at, verified=verified),
    )


def snapshot_of(ticket: Ticket) -> Snapshot | None:
    """What we put into the ticket when we read it; None for a ticket that came some other way."""
    return ticket.native if isinstance(ticket.native, Snapshot) else None
