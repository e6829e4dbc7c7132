"""Every change of state, with the history it leaves and the notice it gives. Who may do it is decided elsewhere.

`notify` is told what happened after the state changed; whoever acts without webhooks passes `quiet=True`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.github.state import (
    AUTO_COLOR,
    Comment,
    Issue,
    IssueEvent,
    Label,
    Pull,
    Reaction,
    Repository,
    World,
    changed,
    new_commit,
)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something happened that a webhook tells."""

    event: str
    action: str
    repository: Repository
    actor: str
    issue: Issue | None = None
    label: Label | None = None
    comment: Comment | None = None
    changes: dict[str, Any] | None = None
    other: tuple[Repository, Issue] | None = None
    """For a transfer: the issue on the other side."""


@dataclass(frozen=True, slots=True)
class By:
    """On whose behalf: a login, perhaps through an App, perhaps without telling anybody."""

    login: str
    app: int | None = None
    quiet: bool = False


class Changes:
    """The verbs. Each answers the new version."""

    def __init__(self, world: World, clock: Clock, notify: Callable[[Notice], None]) -> None:
        self.world, self.clock, self._notify = world, clock, notify

    def open_issue(
        self,
        repository: Repository,
        by: By,
        *,
        title: str,
        body: str | None = None,
        labels: Iterable[str] = (),
        assignees: Iterable[str] = (),
        pull: Pull | None = None,
    ) -> Issue:
        """A new issue or pull request; its labels get their own events and deliveries, as on GitHub."""
        now = self.clock.stamp()
        issue = Issue(
            id=self.world.next_id(),
            number=next(repository.numbers),
            title=title,
            body=body,
            user=self.world.user(by.login).login,
            created_at=now,
            updated_at=now,
            assignees=tuple(assignees),
            app=by.app,
            pull=pull,
        )
        ids = tuple(dict.fromkeys(self.ensure_label(repository, name).id for name in labels))
        events = tuple(self._event("labeled", by, label=_short(repository.labels[i])) for i in ids)
        issue = repository.save(replace(issue, labels=ids, events=events))
        self._tell(by, Notice(_kind(issue), "opened", repository, by.login, issue))
        for label_id in ids:
            label = repository.labels[label_id]
            self._tell(by, Notice(_kind(issue), "labeled", repository, by.login, issue, label))
        return issue

    def ensure_label(self, repository: Repository, name: str) -> Label:
        """The label of that name, made grey if there is none: writing a label on an issue creates it."""
        return repository.label_named(name) or self.create_label(repository, name)

    def create_label(
        self, repository: Repository, name: str, color: str | None = None, description: str | None = None
    ) -> Label:
        """A new label of a repository."""
        label = Label(self.world.next_id(), name, color or AUTO_COLOR, description)
        repository.labels[label.id] = label
        return label

    def add_labels(self, repository: Repository, issue: Issue, names: Iterable[str], by: By) -> Issue:
        """Add labels; those already there change nothing."""
        wanted = dict.fromkeys(self.ensure_label(repository, name).id for name in names)
        return self._relabel(repository, issue, [i for i in wanted if i not in issue.labels], [], by)

    def remove_labels(self, repository: Repository, issue: Issue, ids: Sequence[int], by: By) -> Issue:
        """Take labels off; those not there change nothing."""
        return self._relabel(repository, issue, [], [i for i in ids if i in issue.labels], by)

    def replace_labels(self, repository: Repository, issue: Issue, names: Iterable[str], by: By) -> Issue:
        """Set all labels at once: whatever somebody else added is gone."""
        wanted = list(dict.fromkeys(self.ensure_label(repository, name).id for name in names))
        added = [i for i in wanted if i not in issue.labels]
        return self._relabel(repository, issue, added, [i for i in issue.labels if i not in wanted], by)

    def edit_issue(self, repository: Repository, issue: Issue, by: By, **fields: Any) -> Issue:
        """Change title, body or assignees."""
        before: dict[str, Any] = {k: {"from": getattr(issue, k)} for k in fields if k in ("title", "body")}
        if (title := fields.get("title", issue.title)) != issue.title:
            renamed = self._event("renamed", by, rename={"from": issue.title, "to": title})
            fields["events"] = (*issue.events, renamed)
        if fields.get("body", issue.body) != issue.body:
            fields |= {"edited_at": self.clock.stamp(), "editor": self.world.user(by.login).login}
        after = repository.save(changed(issue, self.clock.stamp(), **fields))
        self._tell(by, Notice(_kind(after), "edited", repository, by.login, after, changes=before))
        return after

    def set_state(self, repository: Repository, issue: Issue, state: str, by: By, reason: str | None = None) -> Issue:
        """Close or reopen; no change, no event."""
        if issue.state == state:
            return issue
        now, event = self.clock.stamp(), "closed" if state == "closed" else "reopened"
        reason = reason or ("completed" if state == "closed" else "reopened")
        after = changed(
            issue,
            now,
            state=state,
            state_reason=None if issue.pull else reason,
            closed_at=now if state == "closed" else None,
            closed_by=by.login if state == "closed" else None,
            events=(*issue.events, self._event(event, by, state_reason=reason)),
        )
        repository.save(after)
        self._tell(by, Notice(_kind(after), event, repository, by.login, after))
        return after

    def lock(self, repository: Repository, issue: Issue, by: By, *, reason: str | None, locked: bool) -> Issue:
        """Lock or unlock the conversation."""
        event = "locked" if locked else "unlocked"
        line = self._event(event, by, lock_reason=reason)
        after = changed(issue, self.clock.stamp(), locked=locked, lock_reason=reason, events=(*issue.events, line))
        repository.save(after)
        self._tell(by, Notice(_kind(after), event, repository, by.login, after))
        return after

    def delete_issue(self, repository: Repository, issue: Issue, by: By) -> None:
        """Remove an issue for good; its number stays known as deleted."""
        repository.forget(issue.number)
        repository.deleted.add(issue.number)
        self._tell(by, Notice("issues", "deleted", repository, by.login, issue))

    def transfer_issue(self, repository: Repository, issue: Issue, target: Repository, by: By) -> Issue:
        """Move an issue to another repository; labels that exist there by name come along."""
        kept = [target.label_named(label.name) for label in repository.labels_of(issue)]
        after = replace(
            issue,
            id=self.world.next_id(),
            number=next(target.numbers),
            labels=tuple(label.id for label in kept if label),
            updated_at=self.clock.stamp(),
            events=(*issue.events, self._event("transferred", by)),
        )
        target.save(after)
        repository.forget(issue.number)
        repository.moved[issue.number] = (target.id, after.number)
        here, there = (repository, issue), (target, after)
        self._tell(by, Notice("issues", "transferred", repository, by.login, issue, other=there))
        self._tell(by, Notice("issues", "opened", target, by.login, after, other=here))
        return after

    def comment(self, repository: Repository, issue: Issue, body: str, by: By) -> Comment:
        """A new comment."""
        now = self.clock.stamp()
        author = self.world.user(by.login).login
        comment = Comment(self.world.next_id(), author, body, now, now, by.app)
        after = repository.save(changed(issue, now, comments=(*issue.comments, comment)))
        self._tell(by, Notice("issue_comment", "created", repository, by.login, after, comment=comment))
        return comment

    def edit_comment(self, repository: Repository, issue: Issue, comment: Comment, body: str, by: By) -> Comment:
        """Change a comment's text in place."""
        now = self.clock.stamp()
        edited = replace(comment, body=body, updated_at=now)
        after = repository.save(_with_comment(changed(issue, now), edited))
        before = {"body": {"from": comment.body}}
        notice = Notice("issue_comment", "edited", repository, by.login, after, comment=edited, changes=before)
        self._tell(by, notice)
        return edited

    def delete_comment(self, repository: Repository, issue: Issue, comment: Comment, by: By) -> None:
        """Remove a comment."""
        left = tuple(c for c in issue.comments if c.id != comment.id)
        after = repository.save(changed(issue, self.clock.stamp(), comments=left))
        self._tell(by, Notice("issue_comment", "deleted", repository, by.login, after, comment=comment))

    def react(
        self, repository: Repository, issue: Issue, content: str, by: By, comment: Comment | None = None
    ) -> tuple[Reaction, bool]:
        """Add a reaction; answers it and whether it is new. Nobody is told: there is no such webhook."""
        given = comment.reactions if comment else issue.reactions
        login = self.world.user(by.login).login
        for reaction in given:
            if (reaction.user, reaction.content) == (login, content):
                return reaction, False
        reaction = Reaction(self.world.next_id(), login, content, self.clock.stamp())
        if comment:
            repository.save(_with_comment(issue, replace(comment, reactions=(*given, reaction))))
        else:
            repository.save(replace(issue, reactions=(*given, reaction)))
        return reaction, True

    def set_blockers(self, repository: Repository, issue: Issue, blockers: tuple[int, ...]) -> Issue:
        """Say which issues (by id) this one waits for."""
        return repository.save(changed(issue, self.clock.stamp(), blocked_by=blockers))

    def set_ref(self, repository: Repository, name: str, sha: str | None) -> None:
        """Point a ref at a commit, or remove it."""
        repository.refs.setdefault(name, []).append(sha)

    def first_commit(self, repository: Repository) -> str:
        """Give a repository its first commit on the default branch."""
        at = self.clock.stamp()
        sha = new_commit(repository, message="Start", parents=[], at=at, author=repository.owner)
        self.set_ref(repository, f"refs/heads/{repository.default_branch}", sha)
        return sha

    def _relabel(self, repository: Repository, issue: Issue, added: list[int], removed: list[int], by: By) -> Issue:
        if not added and not removed:
            return issue
        steps = [("labeled", repository.labels[i]) for i in added]
        steps += [("unlabeled", repository.labels[i]) for i in removed if i in repository.labels]
        events = tuple(self._event(event, by, label=_short(label)) for event, label in steps)
        labels = tuple(i for i in issue.labels if i not in removed) + tuple(added)
        after = changed(issue, self.clock.stamp(), labels=labels, events=(*issue.events, *events))
        repository.save(after)
        for event, label in steps:
            self._tell(by, Notice(_kind(after), event, repository, by.login, after, label))
        return after

    def _event(self, event: str, by: By, **details: Any) -> IssueEvent:
        login = self.world.user(by.login).login
        return IssueEvent(self.world.next_id(), event, login, self.clock.stamp(), by.app, details)

    def _tell(self, by: By, notice: Notice) -> None:
        if not by.quiet:
            self._notify(notice)


def _kind(issue: Issue) -> str:
    return "pull_request" if issue.pull else "issues"


def _short(label: Label) -> dict[str, str]:
    return {"name": label.name, "color": label.color}


def _with_comment(issue: Issue, comment: Comment) -> Issue:
    comments = tuple(comment if c.id == comment.id else c for c in issue.comments)
    return replace(issue, comments=comments)
