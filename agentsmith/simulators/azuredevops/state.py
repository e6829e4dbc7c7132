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
    """A link to another work item."""

    rel: str
    target: int


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

    def clear(self) -> None:
        """Nobody and nothing; ids begin again."""
        for known in (self.users, self.projects, self.items, self.renamed, self.reactions):
            known.clear()
        self.ids, self.comment_ids = itertools.count(1), itertools.count(7001)

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
