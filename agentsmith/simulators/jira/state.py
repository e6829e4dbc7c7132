"""What Jira remembers: accounts, projects with their workflows, issues and all that hangs on them.

Issues are values: each change makes a new version and the old ones stay for a while, which is what a lagging search
index and the `stale_read` fault read. Nothing here knows HTTP, permissions or webhooks.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

KEPT_VERSIONS = 100
PERMISSIONS: dict[str, frozenset[str]] = {
    "none": frozenset(),
    "read": frozenset({"BROWSE_PROJECTS"}),
    "triage": frozenset({"BROWSE_PROJECTS", "ADD_COMMENTS", "EDIT_ISSUES"}),
    "write": frozenset({"BROWSE_PROJECTS", "ADD_COMMENTS", "EDIT_ISSUES", "TRANSITION_ISSUES", "LINK_ISSUES"}),
}
PERMISSIONS["admin"] = PERMISSIONS["write"] | {"ADMINISTER_PROJECTS", "DELETE_ISSUES"}
"""What each role of a project may, by Jira's names of permissions."""


@dataclass(frozen=True, slots=True)
class User:
    """An account. `name` is what tests call it, and the username on Data Center."""

    name: str
    account_id: str
    display_name: str
    email: str
    type: str = "atlassian"


@dataclass(frozen=True, slots=True)
class Status:
    """A step of a workflow; `category` is new, indeterminate or done."""

    id: str
    name: str
    category: str


@dataclass(frozen=True, slots=True)
class Transition:
    """A way from one status to another; `source` None: from any."""

    id: str
    name: str
    source: str | None
    to: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment; `body` is a document on Cloud and wiki markup on Data Center."""

    id: str
    author: str
    body: Any
    created: datetime
    updated: datetime
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """One field's change."""

    field: str
    from_: str | None
    from_string: str | None
    to: str | None
    to_string: str | None


@dataclass(frozen=True, slots=True)
class History:
    """What one account changed at one moment."""

    id: str
    author: str
    created: datetime
    items: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Issue:
    """One version of an issue."""

    id: int
    key: str
    summary: str
    description: Any
    creator: str
    created: datetime
    updated: datetime
    status: str
    labels: tuple[str, ...] = ()
    comments: tuple[Comment, ...] = ()
    history: tuple[History, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)
    assignee: str | None = None

    @property
    def project(self) -> str:
        """The key of its project."""
        return self.key.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class Link:
    """A link: the inward issue does it (blocks), the outward one suffers it (is blocked)."""

    id: str
    type: str
    inward: int
    outward: int


LINK_TYPES = {"Blocks": ("is blocked by", "blocks"), "Relates": ("relates to", "relates to")}


@dataclass(slots=True)
class Project:
    """A project with its workflow and the people in it."""

    id: int
    key: str
    name: str
    statuses: dict[str, Status]
    transitions: list[Transition]
    initial: str
    roles: dict[str, str] = field(default_factory=dict)
    """Role by account name."""
    project_roles: dict[str, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)
    """The roles that people can be given by name: who has each, accounts and groups."""
    labels_on_screen: bool = True
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def status_named(self, name: str) -> Status:
        """A status by its name; LookupError where there is none."""
        for status in self.statuses.values():
            if status.name.casefold() == name.casefold():
                return status
        raise LookupError(f"no status {name}")

    def ways_from(self, status: str) -> list[Transition]:
        """The transitions that are open to an issue in a status."""
        return [way for way in self.transitions if way.source in (None, status) and way.to != status]


class World:
    """Everything on one Jira, with ids that only rise."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.projects: dict[str, Project] = {}
        self.renamed: dict[str, int] = {}
        """Project ids by the keys that they once had."""
        self.versions: dict[int, list[tuple[float, Issue]]] = {}
        """By issue id, with the time from which each version stood; the newest is last."""
        self.keys: dict[str, int] = {}
        """Issue ids by key, former keys of moved issues included."""
        self.links: dict[str, Link] = {}
        self.groups: dict[str, frozenset[str]] = {}
        """Account names by group."""
        self.administrators: set[str] = set()
        """Accounts that may administer Jira itself."""
        self._ids = itertools.count(10001)

    def clear(self) -> None:
        """Nobody and nothing; ids begin again."""
        for known in (self.users, self.projects, self.renamed, self.versions, self.keys, self.links, self.groups):
            known.clear()
        self.administrators.clear()
        self._ids = itertools.count(10001)

    def next_id(self) -> int:
        """A number nobody has had."""
        return next(self._ids)

    def user(self, name: str) -> User:
        """The account of that name, made on first sight."""
        if name not in self.users:
            digest = hashlib.sha256(name.encode()).hexdigest()
            self.users[name] = User(name, f"712020:{digest[:8]}-{digest[8:20]}", name, f"{name}@example.com")
        return self.users[name]

    def user_with(self, account: str) -> User | None:
        """An account by its id, its username or its email."""
        for user in self.users.values():
            if account in (user.account_id, user.name, user.email):
                return user
        return None

    def project(self, key: str) -> Project:
        """A project by its key, a former key or its id; LookupError where there is none."""
        if key in self.projects:
            return self.projects[key]
        for project in self.projects.values():
            if str(project.id) == key or self.renamed.get(key) == project.id:
                return project
        raise LookupError(f"no project {key}")

    def known_projects(self) -> set[str]:
        """Whatever names a project: keys, former keys and ids."""
        return {*self.projects, *self.renamed, *(str(project.id) for project in self.projects.values())}

    def may(self, name: str | None, project: str, permission: str) -> bool:
        """Whether an account has a permission in a project."""
        try:
            role = self.project(project).roles.get(name or "", "none")
        except LookupError:
            return False
        return permission in PERMISSIONS[role]

    def rename(self, project: Project, key: str) -> None:
        """Change a project's key: its issues have theirs changed with it, and none of them counts as updated."""
        self.renamed[project.key] = project.id
        self.projects[key] = self.projects.pop(project.key)
        for versions in self.versions.values():
            if versions[-1][1].project == project.key:
                versions[:] = [
                    (at, replace(issue, key=f"{key}-{issue.key.rpartition('-')[2]}")) for at, issue in versions
                ]
                self.keys[versions[-1][1].key] = versions[-1][1].id
        project.key = key

    def issue(self, key_or_id: str, behind: int = 0) -> Issue | None:
        """An issue by key, former key or id, as it is or as it was `behind` versions ago."""
        known = int(key_or_id) if key_or_id.isascii() and key_or_id.isdecimal() else self.keys.get(key_or_id.upper())
        versions = self.versions.get(known) if known is not None else None
        return versions[max(0, len(versions) - 1 - behind)][1] if versions else None

    def issues(self) -> list[Issue]:
        """All issues as they are, by id."""
        return [versions[-1][1] for _, versions in sorted(self.versions.items())]

    def as_of(self, issue_id: int, moment: float) -> Issue | None:
        """An issue as it was at that time; None where it did not exist."""
        found = [issue for at, issue in self.versions.get(issue_id, []) if at <= moment]
        return found[-1] if found else None

    def save(self, issue: Issue, at: float) -> Issue:
        """Make this the current version."""
        versions = self.versions.setdefault(issue.id, [])
        versions.append((at, issue))
        del versions[:-KEPT_VERSIONS]
        self.keys[issue.key.upper()] = issue.id
        return issue

    def links_of(self, issue: Issue) -> list[Link]:
        """The links at either end of which an issue stands."""
        return [link for link in self.links.values() if issue.id in (link.inward, link.outward)]


def moment(seconds: float) -> datetime:
    """A time as Jira keeps it: to the millisecond."""
    return datetime.fromtimestamp(round(seconds, 3), UTC)
