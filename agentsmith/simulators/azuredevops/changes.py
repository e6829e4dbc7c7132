"""The verbs: what can happen to work items. Each makes one revision and tells the service hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from agentsmith.simulators.azuredevops.sanitising import sanitised
from agentsmith.simulators.azuredevops.state import (
    TAGS,
    Comment,
    GitRepository,
    Project,
    PullRequest,
    Relation,
    Revision,
    User,
    WorkItem,
    World,
    changed,
    spelled,
    split_tags,
)
from agentsmith.simulators.clock import Clock

DROPPED = ""
"""A field that is set to this is left out of the work item."""


@dataclass(frozen=True, slots=True)
class By:
    """On whose behalf something changes; `quiet`: no webhook is sent."""

    user: User
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """What a service hook is told about."""

    event: str
    item: WorkItem
    before: Revision | None
    after: Revision
    by: User


class Changes:
    """Changes one organization and notices it."""

    def __init__(self, world: World, clock: Clock, notify: Callable[[Notice], None]) -> None:
        self.world, self.clock, self._notify = world, clock, notify

    @contextmanager
    def rehearsal(self, project: Project) -> Iterator[None]:
        """What is changed meanwhile is forgotten again, and nobody is told of it."""
        notify, tags = self._notify, dict(project.tags)
        items = {item.id: list(item.revisions) for item in self.world.items.values()}
        self._notify = lambda _: None
        try:
            yield
        finally:
            self._notify, project.tags = notify, tags
            for item in list(self.world.items.values()):
                if item.id in items:
                    item.revisions[:] = items[item.id]
                else:
                    del self.world.items[item.id]

    def create(self, project: Project, type_: str, fields: Mapping[str, Any], by: By) -> WorkItem:
        """A new work item in its type's first state."""
        item = WorkItem(next(self.world.ids), project.name)
        given = {
            "System.AreaPath": project.name,
            "System.IterationPath": project.name,
            "System.WorkItemType": type_,
            "System.State": next(iter(project.types[type_])),
            "System.Reason": "New",
            **fields,
        }
        if tags := given.get(TAGS):
            given[TAGS] = spelled(project, split_tags(tags))
        filled = {name: value for name, value in given.items() if value != DROPPED}
        item.revisions.append(Revision(1, filled, by.user, self.clock.stamp()))
        self.world.items[item.id] = item
        self._tell("workitem.created", item, None, by)
        return item

    def update(
        self,
        item: WorkItem,
        by: By,
        fields: Mapping[str, Any],
        *,
        relations: tuple[Relation, ...] | None = None,
        history: str | None = None,
    ) -> Revision:
        """One revision with other fields and links, and a comment where `history` is given."""
        before = item.now
        project = self.world.project(item.project)
        merged = {**before.fields, **fields}
        if TAGS in fields:
            merged[TAGS] = spelled(project, split_tags(fields[TAGS]))
        filled = {name: value for name, value in merged.items() if value != DROPPED}
        links = before.relations if relations is None else relations
        at = self.clock.stamp()
        after = changed(before, fields=filled, by=by.user, at=at, relations=links, comment=None)
        if history:
            made = self._comment(history, "html", by)
            after = replace(after, comments=(*before.comments, made), comment=made.id)
        item.revisions.append(after)
        self._tell("workitem.updated", item, before, by)
        if history:
            self._tell("workitem.commented", item, before, by)
        return after

    def open_pull(
        self,
        repository: GitRepository,
        by: By,
        *,
        source: str,
        target: str,
        title: str,
        text: str = "",
        draft: bool = False,
        fork: str | None = None,
    ) -> PullRequest:
        """A new pull request between two refs."""
        number = next(self.world.pull_ids)
        at = self.clock.stamp()
        made = PullRequest(number, title, text, by.user, at, source, target, draft, fork=fork)
        repository.versions[number] = [made]
        return made

    def edit_pull(self, repository: GitRepository, pull: PullRequest, **fields: Any) -> PullRequest:
        """Another version of a pull request."""
        after = replace(pull, **fields)
        repository.versions[pull.id].append(after)
        return after

    def link_pull(self, project: Project, repository: GitRepository, pull: PullRequest, item: WorkItem, by: By) -> None:
        """Link a pull request to a work item, which is a revision of that."""
        link = Relation("ArtifactLink", artifact=repository.artifact(project, pull))
        if link not in item.now.relations:
            self.update(item, by, {}, relations=(*item.now.relations, link))

    def comment(self, item: WorkItem, text: str, by: By, *, format_: str = "html") -> Comment:
        """A new comment, which is a revision too."""
        made = self._comment(text, format_, by)
        before = item.now
        self._comments(item, by, (*before.comments, made), made.id)
        self._tell("workitem.updated", item, before, by)
        self._tell("workitem.commented", item, before, by)
        return made

    def edit_comment(self, item: WorkItem, comment: Comment, text: str, by: By) -> Comment:
        """Another text for a comment, which is a revision too."""
        text = sanitised(text)
        at = self.clock.stamp()
        edited = replace(comment, text=text, changed_by=by.user, changed_at=at, version=comment.version + 1)
        before = item.now
        self._comments(item, by, _with(before.comments, edited), edited.id)
        self._tell("workitem.updated", item, before, by)
        return edited

    def delete_comment(self, item: WorkItem, comment: Comment, by: By) -> None:
        """The comment is not shown any more."""
        gone = replace(comment, deleted=True, version=comment.version + 1)
        before = item.now
        self._comments(item, by, _with(before.comments, gone), gone.id)
        self._tell("workitem.updated", item, before, by)

    def delete(self, item: WorkItem, by: By) -> None:
        """Into the recycle bin, where the API does not look."""
        item.deleted = True
        self._tell("workitem.deleted", item, item.now, by)

    def _comment(self, text: str, format_: str, by: By) -> Comment:
        at = self.clock.stamp()
        return Comment(next(self.world.comment_ids), sanitised(text), format_, by.user, at, by.user, at)

    def _comments(self, item: WorkItem, by: By, comments: tuple[Comment, ...], touched: int) -> None:
        at = self.clock.stamp()
        item.revisions.append(changed(item.now, by=by.user, at=at, comments=comments, comment=touched))

    def _tell(self, event: str, item: WorkItem, before: Revision | None, by: By) -> None:
        if not by.quiet:
            self._notify(Notice(event, item, before, item.now, by.user))


def _with(comments: tuple[Comment, ...], one: Comment) -> tuple[Comment, ...]:
    return tuple(one if comment.id == one.id else comment for comment in comments)
