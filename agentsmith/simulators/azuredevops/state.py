"""What Azure DevOps remembers: people, projects, tags, work items with all their revisions, comments.

A work item is the list of its revisions, and each revision is a value: the `stale_read` fault reads an older one, and
the history that the API shows is the difference between two of them. Nothing here knows HTTP or webhooks.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

CATEGORIES = ("Proposed", "InProgress", "Resolved", "Completed", "Removed")
BASIC = {"New": "Proposed", "Active": "InProgress", "Resolved": "Resolved", "Closed": "Completed", "Removed": "Removed"}
TYPES: Mapping[str, Mapping[str, str]] = {
    "Bug": {name: category for name, category in BASIC.items() if name != "Removed"},
    "Task": {name: category for name, category in BASIC.items() if name != "Resolved"},
    "User Story": BASIC,
    # A process may use a name for another category than the usual one: categories count, not names.
    "Chore": {"To Do": "Proposed", "Closed": "InProgress", "Done": "Completed"},
}
TAGS = "System.Tags"


@dataclass(frozen=True, slots=True)
class User:
    """A person or a program."""

    id: str
    name: str
    display: str
    kind: str = "aad"

    @property
    def descriptor(self) -> str:
        """What the graph calls it; the part before the dot tells people and programs apart."""
        return f"{self.kind}.{self.id.replace('-', '')}"


@dataclass(frozen=True, slots=True)
class Relation:
    """A link to another work item, or (`artifact`) to something else, like a pull request."""

    rel: str
    target: int = 0
    artifact: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a work item."""

    id: int
    text: str
    format: str
    by: User
    at: datetime
    changed_by: User
    changed_at: datetime
    version: int = 1
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Revision:
    """A work item as it was after one change."""

    rev: int
    fields: Mapping[str, Any]
    by: User
    at: datetime
    relations: tuple[Relation, ...] = ()
    comments: tuple[Comment, ...] = ()
    comment: int | None = None
    """The comment that this revision added or changed."""


@dataclass(slots=True)
class WorkItem:
    """A work item; ids are unique in the whole organization."""

    id: int
    project: str
    revisions: list[Revision] = field(default_factory=list)
    deleted: bool = False

    @property
    def now(self) -> Revision:
        """The newest revision."""
        return self.revisions[-1]

    def as_of(self, behind: int = 0) -> Revision:
        """The revision before the last `behind` changes."""
        return self.revisions[max(0, len(self.revisions) - 1 - behind)]


@dataclass(frozen=True, slots=True)
class PullRequest:
    """One version of a pull request; `fork` is the id of another repository where it comes from one."""

    id: int
    title: str
    text: str
    by: User
    at: datetime
    source: str
    target: str
    draft: bool = False
    status: str = "active"
    fork: str | None = None


@dataclass(slots=True)
class GitRepository:
    """A git repository of a project."""

    id: str
    name: str
    default_branch: str = "main"
    empty: bool = False
    """Whether it begins without a commit."""
    seed: Mapping[str, str] = field(default_factory=dict)
    """What the first commit holds, where somebody cares."""
    disabled: bool = False
    versions: dict[int, list[PullRequest]] = field(default_factory=dict)
    """Pull requests by id; the newest version is last."""

    def pull(self, number: int, behind: int = 0) -> PullRequest | None:
        """A pull request as it is, or as it was `behind` versions ago; one that is newer is not there yet."""
        versions = self.versions.get(number, [])
        index = len(versions) - 1 - behind
        return versions[index] if index >= 0 else None

    def pulls(self, behind: int = 0) -> list[PullRequest]:
        """All pull requests by id."""
        found = (self.pull(number, behind) for number in self.versions)
        return [pull for pull in found if pull is not None]

    def artifact(self, project: Project, pull: PullRequest) -> str:
        """What a work item calls a pull request that it is linked to."""
        return f"vstfs:///Git/PullRequestId/{project.id}%2F{self.id}%2F{pull.id}"


@dataclass(slots=True)
class Project:
    """A project with its teams."""

    id: str
    name: str
    tags: dict[str, str] = field(default_factory=dict)
    """The spelling in which each tag was first written, by its folded name."""
    teams: dict[str, set[str]] = field(default_factory=dict)
    """Unique names of the members, folded, by team."""
    admins: set[str] = field(default_factory=set)
    types: dict[str, Mapping[str, str]] = field(default_factory=lambda: dict(TYPES))
    repositories: list[GitRepository] = field(default_factory=list)
    custom_fields: set[str] = field(default_factory=set)
    """Fields that its process has beside those of every project; any other is refused."""

    def repository(self, name: str) -> GitRepository:
        """A repository by name or id; LookupError where there is none."""
        for repository in self.repositories:
            if name.casefold() in (repository.name.casefold(), repository.id):
                return repository
        raise LookupError(f"no repository {name}")

    def category(self, type_: str, state: str) -> str:
        """The category of a state of a type."""
        return self.types[type_][state]


class World:
    """Everything in one organization."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.projects: dict[str, Project] = {}
        self.items: dict[int, WorkItem] = {}
        self.renamed: dict[str, str] = {}
        self.reactions: dict[int, dict[str, set[str]]] = {}
        """Who gave what to a comment, by its id: folded names."""
        self.ids = itertools.count(1)
        self.comment_ids = itertools.count(7001)
        self.pull_ids = itertools.count(1)

    def clear(self) -> None:
        """Nobody and nothing; ids begin again."""
        for known in (self.users, self.projects, self.items, self.renamed, self.reactions):
            known.clear()
        self.ids, self.comment_ids, self.pull_ids = itertools.count(1), itertools.count(7001), itertools.count(1)

    def user(self, name: str, kind: str = "aad") -> User:
        """The account of that unique name, made on first sight; names ignore case."""
        key = name.casefold()
        if key not in self.users:
            guid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"user:{key}"))
            self.users[key] = User(guid, name, name.partition("@")[0].title(), kind)
        return self.users[key]

    def project(self, name: str) -> Project:
        """A project by its present or former name or its id; LookupError where there is none."""
        key = name.casefold()
        key = self.renamed.get(key, key)
        for project in self.projects.values():
            if key in (project.name.casefold(), project.id):
                return project
        raise LookupError(f"no project {name}")

    def item(self, number: int) -> WorkItem:
        """A work item that is there; LookupError otherwise."""
        item = self.items.get(number)
        if item is None or item.deleted:
            raise LookupError(f"no work item {number}")
        return item


def split_tags(text: str | None) -> list[str]:
    """The tags in their order, without repetitions."""
    seen: dict[str, str] = {}
    for part in (text or "").split(";"):
        if name := part.strip():
            seen.setdefault(name.casefold(), name)
    return list(seen.values())


def spelled(project: Project, names: list[str]) -> str:
    """The tags as the field shows them: sorted, each in the spelling in which the project first saw it."""
    shown = [project.tags.setdefault(name.casefold(), name) for name in names]
    return "; ".join(sorted(shown, key=str.casefold))


def changed(revision: Revision, **fields: Any) -> Revision:
    """The next revision."""
    return replace(revision, rev=revision.rev + 1, **fields)
