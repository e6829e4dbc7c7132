"""What a GitLab holds: plain data, old versions of issues included, so that stale reads can be served."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

KEPT_VERSIONS = 50
AUTO_COLOR = "#6699cc"
LEVELS = {
    "none": 0,
    "minimal": 5,
    "guest": 10,
    "planner": 15,
    "reporter": 20,
    "developer": 30,
    "maintainer": 40,
    "owner": 50,
}
GUEST, PLANNER, REPORTER, DEVELOPER, MAINTAINER, OWNER = 10, 15, 20, 30, 40, 50
DRAFT = re.compile(r"\s*(?:draft:|\[draft\]|\(draft\))", re.I)
"""How the title of a draft begins."""
ISSUE_TYPES = {"issue": "Issue", "incident": "Incident", "test_case": "Test Case", "task": "Task"}


@dataclass(frozen=True, slots=True)
class User:
    """An account; `bot` for the users of project and group access tokens."""

    id: int
    username: str
    bot: bool = False
    state: str = "active"


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a project. Names are told apart letter by letter."""

    id: int
    name: str
    color: str
    description: str | None
    created_at: datetime
    updated_at: datetime
    """When anything about it was changed last: its name, its colour, its description."""

    @property
    def scope(self) -> str | None:
        """What a scoped label shares with its siblings: everything up to the last `::`."""
        key, sign, value = self.name.rpartition("::")
        return key if sign and key and value else None


@dataclass(frozen=True, slots=True)
class Note:
    """A comment, or a line that GitLab wrote itself."""

    id: int
    author: str
    body: str
    created_at: datetime
    updated_at: datetime
    system: bool = False


@dataclass(frozen=True, slots=True)
class LabelEvent:
    """One label that came or went; `label` is found by id, and null once it was deleted."""

    id: int
    user: str
    created_at: datetime
    label: int
    action: str


@dataclass(frozen=True, slots=True)
class Issue:
    """One version of an issue. Labels are ids, so that renaming one renames it everywhere."""

    id: int
    iid: int
    title: str
    description: str | None
    author: str
    created_at: datetime
    updated_at: datetime
    labels: tuple[int, ...] = ()
    state: str = "opened"
    closed_at: datetime | None = None
    closed_by: str | None = None
    assignees: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    events: tuple[LabelEvent, ...] = ()
    type: str = "issue"
    confidential: bool = False
    locked: bool | None = None
    moved_to: int | None = None


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """One version of a merge request; `source_project` is another one's id where it comes from a fork."""

    id: int
    iid: int
    title: str
    description: str | None
    author: str
    created_at: datetime
    updated_at: datetime
    source: str
    target: str
    source_project: int
    state: str = "opened"

    @property
    def draft(self) -> bool:
        """Whether its title says so: there is no other place for it."""
        return bool(DRAFT.match(self.title))


@dataclass(frozen=True, slots=True)
class Link:
    """A relation between two issues, by id; `blocks` reads from source to target."""

    id: int
    source: int
    target: int
    type: str
    created_at: datetime


@dataclass(slots=True)
class Project:
    """A project and everything in it."""

    id: int
    path: str
    """With all groups: `acme/apps/web`."""
    created_at: datetime
    private: bool = False
    issues_enabled: bool = True
    members: dict[str, int] = field(default_factory=dict)
    """Access level by lower-case user name; inherited ones are not told apart."""
    labels: dict[int, Label] = field(default_factory=dict)
    versions: dict[int, list[Issue]] = field(default_factory=dict)
    iids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    default_branch: str = "main"
    empty: bool = False
    """Whether it begins without a commit."""
    seed: Mapping[str, str] = field(default_factory=dict)
    """What the first commit holds, where somebody cares."""
    requests: dict[int, list[MergeRequest]] = field(default_factory=dict)
    """Merge requests by number; the newest version is last."""
    request_iids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def merge_request(self, iid: int, behind: int = 0) -> MergeRequest | None:
        """A merge request as it is, or as it was `behind` versions ago; one that is newer is not there yet."""
        versions = self.requests.get(iid, [])
        index = len(versions) - 1 - behind
        return versions[index] if index >= 0 else None

    def merge_requests(self, behind: int = 0) -> list[MergeRequest]:
        """All merge requests by number."""
        found = (self.merge_request(iid, behind) for iid in self.requests)
        return [request for request in found if request is not None]

    def label_named(self, name: str) -> Label | None:
        """A label by its exact name."""
        return next((label for label in self.labels.values() if label.name == name), None)

    def issue(self, iid: int, behind: int = 0) -> Issue | None:
        """An issue as it is, or as it was `behind` versions ago."""
        versions = self.versions.get(iid)
        return versions[max(0, len(versions) - 1 - behind)] if versions else None

    def issues(self, behind: int = 0) -> list[Issue]:
        """All issues by number."""
        found = (self.issue(iid, behind) for iid in self.versions)
        return [issue for issue in found if issue is not None]

    def save(self, issue: Issue) -> Issue:
        """Make this the current version."""
        versions = self.versions.setdefault(issue.iid, [])
        versions.append(issue)
        del versions[:-KEPT_VERSIONS]
        return issue

    def labels_of(self, issue: Issue) -> list[Label]:
        """The labels on an issue by name; one that was deleted from the project is gone from its issues too."""
        found = [self.labels[i] for i in issue.labels if i in self.labels]
        return sorted(found, key=lambda label: label.name)


class World:
    """Everything on one GitLab, with ids that only rise."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.projects: dict[int, Project] = {}
        self.renamed: dict[str, int] = {}
        """Former paths, lower case."""
        self.links: dict[int, Link] = {}
        self.groups: dict[str, dict[str, int]] = {}
        """Access level by lower-case user name, by the path of the group."""
        self.awards: dict[int, list[tuple[int, str, str]]] = {}
        """Id, emoji and user of what was given to a comment, by its id."""
        self._ids = itertools.count(2001)

    def clear(self) -> None:
        """Nobody and nothing; ids begin again."""
        for known in (self.users, self.projects, self.renamed, self.links, self.groups, self.awards):
            known.clear()
        self._ids = itertools.count(2001)

    def next_id(self) -> int:
        """A number nobody has had."""
        return next(self._ids)

    def user(self, username: str, *, bot: bool = False) -> User:
        """The user of that name, made on first sight."""
        key = username.casefold()
        if key not in self.users:
            self.users[key] = User(self.next_id(), username, bot)
        return self.users[key]

    def user_by_id(self, user_id: int) -> User | None:
        """A user by id."""
        return next((user for user in self.users.values() if user.id == user_id), None)

    def project(self, name: str | int) -> Project:
        """A project by id or present path; LookupError where there is none."""
        for project in self.projects.values():
            if str(project.id) == str(name) or project.path.casefold() == str(name).casefold():
                return project
        raise LookupError(f"no project {name}")

    def issue_by_id(self, issue_id: int) -> tuple[Project, Issue] | None:
        """An issue by its database id, wherever it is."""
        for project in self.projects.values():
            for issue in project.issues():
                if issue.id == issue_id:
                    return project, issue
        return None


def changed(issue: Issue, at: datetime, **fields: Any) -> Issue:
    """A new version of an issue, touched at that moment."""
    return replace(issue, updated_at=at, **fields)
