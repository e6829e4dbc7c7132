"""What people do in Azure DevOps, as plain methods: for tests in this process and, by name, over the control plane.

Every method that changes a work item takes `actor` and `webhook`; with `webhook=False` nobody is told, which is how a
lost delivery looks from outside.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from agentsmith.simulators.azuredevops.access import Credential
from agentsmith.simulators.azuredevops.changes import By
from agentsmith.simulators.azuredevops.hooks import Hooks
from agentsmith.simulators.azuredevops.hub import Hub
from agentsmith.simulators.azuredevops.state import (
    CATEGORIES,
    TAGS,
    GitRepository,
    Project,
    Relation,
    WorkItem,
    split_tags,
)
from agentsmith.simulators.frame import operation

PREDECESSOR = "System.LinkTypes.Dependency-Reverse"
OPEN = CATEGORIES[:3]


class People:
    """The operations."""

    hub: Hub
    hooks: Hooks

    @operation
    def add_project(
        self, name: str, *, team: str | None = None, empty: bool = False, files: dict[str, str] | None = None
    ) -> str:
        """Make a project with one team and one repository that is called like it; answers its id."""
        guid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"project:{name.casefold()}"))
        self.hub.world.projects[guid] = Project(guid, name, teams={team or f"{name} Team": set()})
        self.add_repository(name, name, empty=empty, files=files)
        return guid

    @operation
    def define_field(self, project: str, name: str) -> None:
        """Give the project's process a field of its own, such as `Custom.Team`."""
        self.hub.world.project(project).custom_fields.add(name)

    @operation
    def add_repository(
        self,
        project: str,
        name: str,
        *,
        empty: bool = False,
        default_branch: str = "main",
        files: dict[str, str] | None = None,
        disabled: bool = False,
    ) -> str:
        """Make a git repository, with one commit (of `files`) unless `empty`; answers its id."""
        found = self.hub.world.project(project)
        guid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"repository:{found.id}/{name.casefold()}"))
        found.repositories.append(GitRepository(guid, name, default_branch, empty, files or {}, disabled))
        return guid

    @operation
    def push(
        self,
        project: str,
        branch: str,
        files: dict[str, str | None],
        *,
        repository: str | None = None,
        message: str = "Some change",
        actor: str = "mona@example.com",
    ) -> str:
        """Push one commit to a branch, made at the default branch if it is not there; answers the commit."""
        bare = self.hub.code.of(self.repository(project, repository))
        return bare.commit(branch, files, message=message, author=actor, at=self.hub.clock.stamp())

    @operation
    def branches(self, project: str, repository: str | None = None) -> dict[str, str]:
        """The branches that git has, with their commits."""
        return self.hub.code.of(self.repository(project, repository)).heads()

    @operation
    def file(self, project: str, branch: str, path: str, repository: str | None = None) -> str | None:
        """What a file holds on a branch."""
        return self.hub.code.of(self.repository(project, repository)).file(branch, path)

    @operation
    def open_pull_request(
        self,
        project: str,
        *,
        source: str = "topic",
        target: str = "main",
        title: str = "Some change",
        body: str = "",
        fork: str | None = None,
        repository: str | None = None,
        actor: str = "mona@example.com",
    ) -> int:
        """Open a pull request, from another repository (a fork) if one is named; answers its id."""
        origin = None if fork is None else self.repository(project, fork).id
        made = self.hub.changes.open_pull(
            self.repository(project, repository),
            self._by(actor, False),
            source=f"refs/heads/{source}",
            target=f"refs/heads/{target}",
            title=title,
            text=body,
            fork=origin,
        )
        return made.id

    @operation
    def edit_pull_request(
        self,
        project: str,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        target: str | None = None,
        status: str | None = None,
        repository: str | None = None,
    ) -> None:
        """Change a pull request; `status` is active, abandoned or completed."""
        where = self.repository(project, repository)
        pull = where.pull(number)
        if pull is None:
            raise LookupError(f"no pull request {number}")
        ref = None if target is None else f"refs/heads/{target}"
        given = {"title": title, "text": body, "target": ref, "status": status}
        self.hub.changes.edit_pull(where, pull, **{name: value for name, value in given.items() if value is not None})

    @operation
    def pull_requests(self, project: str, repository: str | None = None) -> list[dict[str, Any]]:
        """All pull requests, oldest first, with the work items that they are linked to."""
        found, where = self.hub.world.project(project), self.repository(project, repository)
        return [
            {
                "number": pull.id,
                "state": pull.status,
                "title": pull.title,
                "body": pull.text,
                "head": pull.source.removeprefix("refs/heads/"),
                "base": pull.target.removeprefix("refs/heads/"),
                "draft": pull.draft,
                "user": pull.by.name,
                "items": [
                    item.id
                    for item in self.hub.world.items.values()
                    if any(link.artifact == where.artifact(found, pull) for link in item.now.relations)
                ],
            }
            for pull in where.pulls()
        ]

    def repository(self, project: str, name: str | None = None) -> GitRepository:
        """A repository of a project; the one that is called like it unless named."""
        found = self.hub.world.project(project)
        return found.repository(name) if name else found.repositories[0]

    @operation
    def rename_project(self, name: str, to: str) -> None:
        """Rename; the old name is still understood."""
        project = self.hub.world.project(name)
        self.hub.world.renamed[project.name.casefold()] = to.casefold()
        for item in self.hub.world.items.values():
            if item.project == project.name:
                item.project = to
        for subscription in self.hooks.subscriptions.values():
            if subscription.project == project.name:
                subscription.project = to
        project.name = to

    @operation
    def add_token(
        self,
        token: str,
        *,
        user: str = "smith-bot@example.com",
        scope: str = "write",
        bearer: bool = False,
        expires_in: float | None = None,
        code: str = "write",
    ) -> str:
        """Make a token known: a personal access token, or one of Entra where `bearer`."""
        ends = None if expires_in is None else self.hub.clock.now() + expires_in
        owner = self.hub.world.user(user, "aadsp" if bearer else "aad")
        self.hub.credentials.tokens[token] = Credential(token, owner, scope, bearer, code, ends)
        return token

    @operation
    def revoke_token(self, token: str) -> None:
        """Refuse a token from now on."""
        self.hub.credentials.tokens[token].revoked = True

    @operation
    def deny_hooks(self, user: str) -> None:
        """Take the right away to see and make subscriptions."""
        self.hub.door.deaf.add(self.hub.world.user(user).name.casefold())

    @operation
    def add_member(self, project: str, user: str, *, team: str | None = None, admin: bool = False) -> None:
        """Put somebody into a team, the first one unless it is named."""
        found = self.hub.world.project(project)
        account = self.hub.world.user(user)
        members = found.teams.setdefault(team or next(iter(found.teams)), set())
        members.add(account.name.casefold())
        if admin:
            found.admins.add(account.name.casefold())

    @operation
    def remove_member(self, project: str, user: str) -> None:
        """Take somebody out of every team."""
        found, name = self.hub.world.project(project), self.hub.world.user(user).name.casefold()
        for members in (*found.teams.values(), found.admins):
            members.discard(name)

    @operation
    def take_rights(self, user: str, *, read: bool = True) -> None:
        """Let somebody only read; with `read=False` not even that: everything is 404 for them."""
        (self.hub.door.readers if read else self.hub.door.blind).add(self.hub.world.user(user).name.casefold())

    @operation
    def open_item(
        self,
        project: str,
        *,
        type: str = "Task",
        title: str = "Something to do",
        body: str = "",
        tags: Sequence[str] = (),
        assigned_to: str = "",
        actor: str = "mona@example.com",
        webhook: bool = True,
    ) -> int:
        """Make a work item; answers its id."""
        fields: dict[str, Any] = {
            "System.Title": title,
            "System.Description": body,
            "System.AssignedTo": assigned_to,
            TAGS: "; ".join(tags),
        }
        return self.hub.changes.create(self.hub.world.project(project), type, fields, self._by(actor, webhook)).id

    @operation
    def add_tag(self, number: int, tag: str, actor: str = "mona@example.com", *, webhook: bool = True) -> list[str]:
        """Put a tag on; answers all of them."""
        tags = [*self.tags(number), tag]
        self.hub.changes.update(self.item(number), self._by(actor, webhook), {TAGS: "; ".join(tags)})
        return self.tags(number)

    @operation
    def remove_tag(self, number: int, tag: str, actor: str = "mona@example.com", *, webhook: bool = True) -> list[str]:
        """Take a tag off; answers those left."""
        left = [name for name in self.tags(number) if name.casefold() != tag.casefold()]
        self.hub.changes.update(self.item(number), self._by(actor, webhook), {TAGS: "; ".join(left)})
        return self.tags(number)

    @operation
    def edit_item(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        actor: str = "mona@example.com",
        webhook: bool = True,
    ) -> None:
        """Change title or description."""
        given = {"System.Title": title, "System.Description": body}
        fields = {name: value for name, value in given.items() if value is not None}
        self.hub.changes.update(self.item(number), self._by(actor, webhook), fields)

    @operation
    def set_state(self, number: int, state: str, actor: str = "mona@example.com", *, webhook: bool = True) -> None:
        """Move it to another state of its type."""
        item = self.item(number)
        self.hub.world.project(item.project).category(str(item.now.fields["System.WorkItemType"]), state)
        self.hub.changes.update(item, self._by(actor, webhook), {"System.State": state})

    @operation
    def close_item(self, number: int, actor: str = "mona@example.com", *, webhook: bool = True) -> None:
        """Move it to the first state of its type that counts as completed."""
        self.set_state(number, self._state(number, ("Completed",)), actor, webhook=webhook)

    @operation
    def reopen_item(self, number: int, actor: str = "mona@example.com", *, webhook: bool = True) -> None:
        """Move it to the first open state of its type."""
        self.set_state(number, self._state(number, OPEN), actor, webhook=webhook)

    @operation
    def comment(self, number: int, text: str, actor: str = "mona@example.com", *, webhook: bool = True) -> int:
        """Write a comment; answers its id."""
        return self.hub.changes.comment(self.item(number), text, self._by(actor, webhook), format_="markdown").id

    @operation
    def delete_comment(
        self, number: int, comment_id: int, actor: str = "mona@example.com", *, webhook: bool = True
    ) -> None:
        """Delete a comment, whoever wrote it."""
        item = self.item(number)
        comment = next(c for c in item.now.comments if c.id == comment_id)
        self.hub.changes.delete_comment(item, comment, self._by(actor, webhook))

    @operation
    def delete_item(self, number: int, actor: str = "mona@example.com", *, webhook: bool = True) -> None:
        """Into the recycle bin: 404 from now on."""
        self.hub.changes.delete(self.item(number), self._by(actor, webhook))

    @operation
    def move_item(self, number: int, project: str, actor: str = "mona@example.com") -> None:
        """Move it to another project; it keeps its id."""
        item = self.item(number)
        item.project = self.hub.world.project(project).name
        self.hub.changes.update(item, self._by(actor, False), {"System.AreaPath": item.project})

    @operation
    def set_predecessors(self, number: int, targets: Sequence[int], actor: str = "mona@example.com") -> None:
        """Say which work items this one waits for."""
        links = tuple(Relation(PREDECESSOR, target) for target in targets)
        self.hub.changes.update(self.item(number), self._by(actor, False), {}, relations=links)

    @operation
    def subscribe(
        self,
        project: str,
        url: str,
        *,
        event: str = "workitem.updated",
        username: str = "",
        password: str = "",
        headers: dict[str, str] | None = None,
        filters: dict[str, str] | None = None,
    ) -> str:
        """Add a service hook as an administrator would; answers its id."""
        name = self.hub.world.project(project).name
        made = self.hooks.add(
            event, name, url, username=username, password=password, headers=headers or {}, filters=filters or {}
        )
        return made.id

    @operation
    def hook_status(self, subscription: str) -> str:
        """enabled, onProbation or disabledBySystem."""
        return self.hooks.subscriptions[subscription].status

    @operation
    def tags(self, number: int) -> list[str]:
        """The tags of a work item, in order."""
        return split_tags(self.item(number).now.fields.get(TAGS))

    @operation
    def comments(self, number: int) -> list[dict[str, Any]]:
        """The comments of a work item: id, user, text."""
        shown = [c for c in self.item(number).now.comments if not c.deleted]
        return [{"id": c.id, "user": c.by.name, "text": c.text} for c in shown]

    def item(self, number: int) -> WorkItem:
        """A work item with all its revisions."""
        return self.hub.world.item(number)

    def _by(self, actor: str, webhook: bool) -> By:
        return By(self.hub.world.user(actor), quiet=not webhook)

    def _state(self, number: int, categories: Sequence[str]) -> str:
        item = self.item(number)
        states = self.hub.world.project(item.project).types[str(item.now.fields["System.WorkItemType"])]
        return next(state for state, category in states.items() if category in categories)
