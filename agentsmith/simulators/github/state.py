"""What GitHub remembers: users, repositories, labels, issues and all that hangs on them.

Issues are values: each change makes a new version and the old ones stay for a while, which is what the `stale_read`
fault reads. Nothing here knows HTTP, permissions or webhooks.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

AUTO_COLOR = "ededed"
ROLES = ("none", "read", "triage", "write", "maintain", "admin")
REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")
KEPT_VERSIONS = 50


@dataclass(frozen=True, slots=True)
class User:
    """A person, a bot or an organization."""

    id: int
    login: str
    type: str = "User"


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a repository; issues refer to it by id, so that renaming reaches all of them."""

    id: int
    name: str
    color: str = AUTO_COLOR
    description: str | None = None
    default: bool = False


@dataclass(frozen=True, slots=True)
class Reaction:
    """One emoji by one user."""

    id: int
    user: str
    content: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on an issue. `app` is the id of the GitHub App that wrote it, if one did."""

    id: int
    user: str
    body: str
    created_at: datetime
    updated_at: datetime
    app: int | None = None
    reactions: tuple[Reaction, ...] = ()


@dataclass(frozen=True, slots=True)
class IssueEvent:
    """One line of an issue's history."""

    id: int
    event: str
    actor: str
    created_at: datetime
    app: int | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pull:
    """What makes an issue a pull request."""

    head: str
    base: str
    head_sha: str
    draft: bool = False
    merged_at: datetime | None = None
    fork: str | None = None
    """The full name of the repository that `head` is in, where that is another one."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One version of an issue or pull request."""

    id: int
    number: int
    title: str
    body: str | None
    user: str
    created_at: datetime
    updated_at: datetime
    labels: tuple[int, ...] = ()
    comments: tuple[Comment, ...] = ()
    events: tuple[IssueEvent, ...] = ()
    reactions: tuple[Reaction, ...] = ()
    assignees: tuple[str, ...] = ()
    blocked_by: tuple[int, ...] = ()
    state: str = "open"
    state_reason: str | None = None
    closed_at: datetime | None = None
    closed_by: str | None = None
    locked: bool = False
    lock_reason: str | None = None
    app: int | None = None
    pull: Pull | None = None
    edited_at: datetime | None = None
    """When the body was last changed; only GraphQL tells, and by whom."""
    editor: str | None = None


@dataclass(slots=True)
class Repository:
    """A repository with its issues, labels, refs and collaborators."""

    id: int
    owner: str
    name: str
    created_at: datetime
    private: bool = False
    has_issues: bool = True
    default_branch: str = "main"
    labels: dict[int, Label] = field(default_factory=dict)
    versions: dict[int, list[Issue]] = field(default_factory=dict)
    """By number; the newest version is last."""
    deleted: set[int] = field(default_factory=set)
    moved: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Transferred issues: number here → (repository id, number there)."""
    refs: dict[str, list[str | None]] = field(default_factory=dict)
    """By full name; the newest value is last, None where it was deleted."""
    commits: dict[str, dict[str, Any]] = field(default_factory=dict)
    pushed: set[str] = field(default_factory=set)
    """The refs that git has, by full name; the others were made through the API alone."""
    seed: Mapping[str, str] = field(default_factory=dict)
    """What the first commit holds, where somebody cares."""
    drafts: bool = True
    """Whether there are draft pull requests; private repositories on the free plan have none."""
    collaborators: dict[str, str] = field(default_factory=dict)
    """Role by lower-case login."""
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    open_issues: int = 0
    """How many there are: every webhook tells it, so it is not counted each time."""
    issue_numbers: dict[int, int] = field(default_factory=dict)
    """The number of an issue by its id."""
    comment_numbers: dict[int, int] = field(default_factory=dict)
    """The number of the issue that a comment stands on, by the comment's id."""

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner}/{self.name}"

    def label_named(self, name: str) -> Label | None:
        """Labels are found whatever their case."""
        folded = name.casefold()
        return next((label for label in self.labels.values() if label.name.casefold() == folded), None)

    def issue(self, number: int, behind: int = 0) -> Issue | None:
        """An issue as it is, or as it was `behind` versions ago."""
        versions = self.versions.get(number)
        return versions[max(0, len(versions) - 1 - behind)] if versions else None

    def issues(self, behind: int = 0) -> list[Issue]:
        """All issues by number, transferred and deleted ones left out."""
        found = (self.issue(number, behind) for number in self.versions)
        return [issue for issue in found if issue is not None]

    def save(self, issue: Issue) -> Issue:
        """Make this the current version."""
        before = self.issue(issue.number)
        self.open_issues += (issue.state == "open") - (before is not None and before.state == "open")
        self.issue_numbers[issue.id] = issue.number
        self.comment_numbers.update((comment.id, issue.number) for comment in issue.comments)
        versions = self.versions.setdefault(issue.number, [])
        versions.append(issue)
        del versions[:-KEPT_VERSIONS]
        return issue

    def forget(self, number: int) -> None:
        """Let an issue be here no longer."""
        last = self.versions.pop(number)[-1]
        self.open_issues -= last.state == "open"

    def labels_of(self, issue: Issue) -> list[Label]:
        """The labels on an issue; one that was deleted from the repository is gone from its issues too."""
        return [self.labels[i] for i in issue.labels if i in self.labels]

    def ref(self, name: str, behind: int = 0) -> str | None:
        """The commit a ref points to, now or `behind` changes ago."""
        values = self.refs.get(name)
        if not values:
            return None
        index = len(values) - 1 - behind
        return values[index] if index >= 0 else None

    def comment(self, comment_id: int, behind: int = 0) -> tuple[Issue, Comment] | None:
        """A comment by id, with the issue it stands on."""
        issue = self.issue(self.comment_numbers.get(comment_id, 0), behind)
        if issue is None:
            return None
        return next(((issue, comment) for comment in issue.comments if comment.id == comment_id), None)


class World:
    """Everything on one GitHub, with ids that only rise."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.repositories: dict[int, Repository] = {}
        self.renamed: dict[str, int] = {}
        """Former full names, lower case."""
        self.roles: dict[str, str] = {}
        """Role of a login in every repository that does not say otherwise."""
        self.teams: dict[str, frozenset[str]] = {}
        """Logins by `organization/team`, all in small letters."""
        self._ids = itertools.count(1001)

    def clear(self) -> None:
        """Nobody and nothing; ids begin again."""
        for known in (self.users, self.repositories, self.renamed, self.roles, self.teams):
            known.clear()
        self._ids = itertools.count(1001)

    def next_id(self) -> int:
        """A number nobody has had."""
        return next(self._ids)

    def user(self, login: str, type: str = "User") -> User:
        """The user of that login, made on first sight; logins ignore case."""
        key = login.casefold()
        if key not in self.users:
            kind = "Bot" if login.endswith("[bot]") else type
            self.users[key] = User(self.next_id(), login, kind)
        return self.users[key]

    def repository(self, full_name: str) -> Repository:
        """A repository by its present name; LookupError where there is none."""
        folded = full_name.casefold()
        for repository in self.repositories.values():
            if repository.full_name.casefold() == folded:
                return repository
        raise LookupError(f"no repository {full_name}")

    def role_of(self, login: str, repository: Repository) -> str:
        """What a user may do: own entry, then the everywhere role, then what visitors may."""
        key = login.casefold()
        if key in repository.collaborators:
            return repository.collaborators[key]
        if key == repository.owner.casefold():
            return "admin"
        return self.roles.get(key, "none" if repository.private else "read")

    def issue_by_id(self, issue_id: int) -> tuple[Repository, Issue] | None:
        """An issue by its database id, wherever it is."""
        for repository in self.repositories.values():
            issue = repository.issue(repository.issue_numbers.get(issue_id, 0))
            if issue is not None and issue.id == issue_id:
                return repository, issue
        return None

    def label_by_id(self, label_id: int) -> tuple[Repository, Label] | None:
        """A label by its database id, wherever it is."""
        for repository in self.repositories.values():
            if label_id in repository.labels:
                return repository, repository.labels[label_id]
        return None


def at_least(role: str, needed: str) -> bool:
    """Whether a role includes another."""
    return ROLES.index(role) >= ROLES.index(needed)


def new_commit(
    repository: Repository, *, message: str, parents: list[str], at: datetime, author: str, tree: str = ""
) -> str:
    """Add a commit and answer its sha; the same content at the same second is the same commit, as in git."""
    text = "\n".join([tree, *parents, message, author, at.isoformat()])
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    tree = tree or hashlib.sha1(f"tree {text}".encode(), usedforsecurity=False).hexdigest()
    repository.commits[sha] = {
        "message": message,
        "parents": parents,
        "at": at,
        "author": author,
        "tree": tree,
    }
    return sha


def history(repository: Repository, sha: str) -> set[str]:
    """A commit and everything before it."""
    waiting, seen = [sha], set[str]()
    while waiting:
        current = waiting.pop()
        if current not in seen and current in repository.commits:
            seen.add(current)
            waiting += repository.commits[current]["parents"]
    return seen


def ahead(repository: Repository, base: str, head: str) -> bool:
    """Whether `head` has a commit that `base` lacks."""
    return not history(repository, head) <= history(repository, base)


def changed(issue: Issue, at: datetime, **fields: Any) -> Issue:
    """A new version of an issue, touched at that moment."""
    return replace(issue, updated_at=at, **fields)
