"""Every change of state, with the history it leaves and the notice it gives. Who may do it is decided elsewhere.

`notify` is told what happened after the state changed; whoever acts without webhooks passes `quiet=True`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.jira.state import Change, Comment, History, Issue, Link, Project, World, moment


@dataclass(frozen=True, slots=True)
class Notice:
    """Something happened that a webhook tells."""

    event: str
    actor: str
    issue: Issue
    history: History | None = None
    comment: Comment | None = None


@dataclass(frozen=True, slots=True)
class By:
    """On whose behalf, perhaps without telling anybody."""

    name: str
    quiet: bool = False


class Changes:
    """The verbs. Each answers the new version."""

    def __init__(self, world: World, clock: Clock, notify: Callable[[Notice], None]) -> None:
        self.world, self.clock, self._notify = world, clock, notify

    def open_issue(
        self, project: Project, by: By, *, summary: str, description: Any = None, labels: Iterable[str] = ()
    ) -> Issue:
        """A new issue. Its labels leave no line in the history: it had them from the beginning."""
        now = moment(self.clock.now())
        self.world.user(by.name)
        key = f"{project.key}-{next(project.numbers)}"
        names = tuple(sorted(dict.fromkeys(labels)))
        issue = Issue(self.world.next_id(), key, summary, description, by.name, now, now, project.initial, labels=names)
        self.world.save(issue, self.clock.now())
        history = History(str(self.world.next_id()), by.name, now, (Change("summary", None, None, None, summary),))
        self._tell(by, Notice("jira:issue_created", by.name, issue, history=history))
        return issue

    def relabel(
        self,
        issue: Issue,
        by: By,
        *,
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
        properties: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Issue:
        """Labels, properties and texts in one edit: one version, one line of history, one notice."""
        names = [name for name in issue.labels if name not in set(remove)]
        names += [name for name in dict.fromkeys(add) if name not in names]
        return self.set_labels(issue, by, names, properties=properties, fields=fields)

    def set_labels(
        self,
        issue: Issue,
        by: By,
        names: Iterable[str],
        *,
        properties: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Issue:
        """The same with the whole set given."""
        after, items = tuple(sorted(names)), []
        if set(after) != set(issue.labels):
            items.append(Change("labels", None, " ".join(sorted(issue.labels)), None, " ".join(after)))
        else:
            after = issue.labels
        changed = {name: value for name, value in (fields or {}).items() if getattr(issue, name) != value}
        items += [Change(name, None, _shown(getattr(issue, name)), None, _shown(v)) for name, v in changed.items()]
        held = {**issue.properties, **(properties or {})}
        return self._edited(issue, by, items, labels=after, properties=held, **changed)

    def transition(
        self, issue: Issue, by: By, to: str, *, properties: Mapping[str, Any] | None = None, labels: Any = None
    ) -> Issue:
        """Move an issue to another status."""
        statuses = self.world.project(issue.project).statuses
        old, new = statuses[issue.status], statuses[to]
        items = [Change("status", old.id, old.name, new.id, new.name)]
        if labels is not None and set(labels) != set(issue.labels):
            items.append(Change("labels", None, " ".join(sorted(issue.labels)), None, " ".join(sorted(labels))))
        held = {**issue.properties, **(properties or {})}
        names = issue.labels if labels is None else tuple(sorted(labels))
        return self._edited(issue, by, items, status=to, properties=held, labels=names)

    def set_property(self, issue: Issue, key: str, value: Any) -> bool:
        """Set a property; answers whether it is new. Leaves no history and tells nobody."""
        new = key not in issue.properties
        self._save(replace(issue, properties={**issue.properties, key: value}))
        return new

    def drop_property(self, issue: Issue, key: str) -> None:
        """Take a property away."""
        left = {name: value for name, value in issue.properties.items() if name != key}
        self._save(replace(issue, properties=left))

    def comment(self, issue: Issue, body: Any, by: By, properties: Mapping[str, Any] | None = None) -> Comment:
        """A new comment."""
        self.world.user(by.name)
        after = self._touched(issue)
        made = Comment(str(self.world.next_id()), by.name, body, after.updated, after.updated, dict(properties or {}))
        after = self._save(replace(after, comments=(*issue.comments, made)))
        self._tell(by, Notice("comment_created", by.name, after, comment=made))
        return made

    def edit_comment(
        self, issue: Issue, comment: Comment, body: Any, by: By, properties: Mapping[str, Any] | None = None
    ) -> Comment:
        """Change a comment in place."""
        after = self._touched(issue)
        held = {**comment.properties, **(properties or {})}
        edited = replace(comment, body=body, updated=after.updated, properties=held)
        after = self._save(_with_comment(after, edited))
        self._tell(by, Notice("comment_updated", by.name, after, comment=edited))
        return edited

    def delete_comment(self, issue: Issue, comment: Comment, by: By) -> None:
        """Remove a comment."""
        left = tuple(c for c in issue.comments if c.id != comment.id)
        after = self._save(replace(self._touched(issue), comments=left))
        self._tell(by, Notice("comment_deleted", by.name, after, comment=comment))

    def set_comment_property(self, issue: Issue, comment: Comment, key: str, value: Any) -> bool:
        """Set a comment's property; answers whether it is new."""
        new = key not in comment.properties
        held = {**comment.properties, key: value}
        self._save(_with_comment(issue, replace(comment, properties=held)))
        return new

    def delete_issue(self, issue: Issue, by: By) -> None:
        """Remove an issue for good."""
        del self.world.versions[issue.id]
        self._tell(by, Notice("jira:issue_deleted", by.name, issue))

    def move_issue(self, issue: Issue, target: Project, by: By) -> Issue:
        """Move an issue to another project: it gets another key, and the old one leads to it."""
        key = f"{target.key}-{next(target.numbers)}"
        items = [Change("Key", None, issue.key, None, key)]
        return self._edited(issue, by, items, key=key, status=target.initial)

    def link(self, kind: str, inward: Issue, outward: Issue) -> Link:
        """Say that `inward` does something (blocks) to `outward`."""
        made = Link(str(self.world.next_id()), kind, inward.id, outward.id)
        self.world.links[made.id] = made
        return made

    def _edited(self, issue: Issue, by: By, items: list[Change], **fields: Any) -> Issue:
        if not items:
            return self._save(replace(issue, **fields)) if _differs(issue, fields) else issue
        self.world.user(by.name)
        after = replace(self._touched(issue), **fields)
        history = History(str(self.world.next_id()), by.name, after.updated, tuple(items))
        after = self._save(replace(after, history=(*issue.history, history)))
        self._tell(by, Notice("jira:issue_updated", by.name, after, history=history))
        return after

    def _touched(self, issue: Issue) -> Issue:
        """The issue with a new date, which is always later than the last."""
        return replace(issue, updated=max(moment(self.clock.now()), issue.updated + timedelta(milliseconds=1)))

    def _save(self, issue: Issue) -> Issue:
        return self.world.save(issue, self.clock.now())

    def _tell(self, by: By, notice: Notice) -> None:
        if not by.quiet:
            self._notify(notice)


def _differs(issue: Issue, fields: Mapping[str, Any]) -> bool:
    return any(getattr(issue, name) != value for name, value in fields.items())


def _shown(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else "(document)"


def _with_comment(issue: Issue, comment: Comment) -> Issue:
    return replace(issue, comments=tuple(comment if c.id == comment.id else c for c in issue.comments))
