"""What people do on GitHub, as plain methods: for tests in this process and, by name, over the control plane.

Every method that changes an issue takes `actor` and `webhook`; with `webhook=False` nobody is told, which is how a
lost delivery looks from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentsmith.simulators.frame import operation
from agentsmith.simulators.github.changes import By
from agentsmith.simulators.github.settings import Settings
from agentsmith.simulators.github.state import Issue, Pull, Repository, new_commit


class People(Settings):
    """The operations on issues."""

    @operation
    def open_issue(
        self,
        repo: str,
        *,
        title: str = "Something to do",
        body: str | None = None,
        labels: Sequence[str] = (),
        actor: str = "mona",
        webhook: bool = True,
    ) -> int:
        """Open an issue; answers its number."""
        by = By(actor, quiet=not webhook)
        opened = self.hub.changes.open_issue(self.repository(repo), by, title=title, body=body, labels=labels)
        return opened.number

    @operation
    def open_pull_request(
        self,
        repo: str,
        *,
        title: str = "Some change",
        body: str | None = None,
        labels: Sequence[str] = (),
        head: str = "topic",
        base: str | None = None,
        fork: str | None = None,
        actor: str = "mona",
        webhook: bool = True,
    ) -> int:
        """Open a pull request, from a fork if one is named, making its branch if there is none; answers its number."""
        repository = self.repository(repo)
        base = base or repository.default_branch
        ref = f"refs/heads/{head}"
        sha = repository.ref(ref)
        if sha is None:
            parents = [parent] if (parent := repository.ref(f"refs/heads/{base}")) else []
            sha = new_commit(repository, message=title, parents=parents, at=self.hub.clock.stamp(), author=actor)
            self.hub.changes.set_ref(repository, ref, sha)
        by = By(actor, quiet=not webhook)
        pull = Pull(head, base, sha, fork=fork)
        made = self.hub.changes.open_issue(repository, by, title=title, body=body, labels=labels, pull=pull)
        return made.number

    @operation
    def edit_pull_request(
        self,
        repo: str,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        base: str | None = None,
        draft: bool | None = None,
        actor: str = "mona",
    ) -> None:
        """Change a pull request."""
        repository, issue = self._issue(repo, number)
        if issue.pull is None:
            raise LookupError(f"{repo}#{number} is no pull request")
        given = {"base": base, "draft": draft}
        pull = replace(issue.pull, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        texts = {name: value for name, value in {"title": title, "body": body}.items() if value is not None}
        self.hub.changes.edit_issue(repository, issue, By(actor), pull=pull, **texts)

    @operation
    def push(
        self,
        repo: str,
        branch: str,
        files: dict[str, str | None],
        *,
        message: str = "Some change",
        actor: str = "mona",
    ) -> str:
        """Push one commit to a branch, made at the default branch if it is not there; answers the commit."""
        repository = self.repository(repo)
        bare, now = self.hub.code.of(repository), self.hub.clock.stamp()
        sha = bare.commit(branch, files, message=message, author=actor, at=now)
        self.hub.code.sync(repository)
        return sha

    @operation
    def branches(self, repo: str) -> dict[str, str]:
        """The branches that git has, with their commits."""
        return self.hub.code.of(self.repository(repo)).heads()

    @operation
    def file(self, repo: str, branch: str, path: str) -> str | None:
        """What a file holds on a branch."""
        return self.hub.code.of(self.repository(repo)).file(branch, path)

    @operation
    def pull_requests(self, repo: str) -> list[dict[str, Any]]:
        """All pull requests, oldest first."""
        return [
            {
                "number": issue.number,
                "state": issue.state,
                "title": issue.title,
                "body": issue.body or "",
                "head": issue.pull.head,
                "base": issue.pull.base,
                "draft": issue.pull.draft,
                "user": issue.user,
            }
            for issue in self.repository(repo).issues()
            if issue.pull
        ]

    @operation
    def add_label(self, repo: str, number: int, label: str, actor: str = "mona", *, webhook: bool = True) -> list[str]:
        """Put a label on an issue; answers all its labels."""
        repository, issue = self._issue(repo, number)
        self.hub.changes.add_labels(repository, issue, [label], By(actor, quiet=not webhook))
        return self.labels(repo, number)

    @operation
    def remove_label(
        self, repo: str, number: int, label: str, actor: str = "mona", *, webhook: bool = True
    ) -> list[str]:
        """Take a label off an issue; answers those left."""
        repository, issue = self._issue(repo, number)
        found = repository.label_named(label)
        if found is not None:
            self.hub.changes.remove_labels(repository, issue, [found.id], By(actor, quiet=not webhook))
        return self.labels(repo, number)

    @operation
    def edit_issue(
        self,
        repo: str,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        actor: str = "mona",
        webhook: bool = True,
    ) -> None:
        """Change title or body."""
        repository, issue = self._issue(repo, number)
        given = {"title": title, "body": body}
        fields = {name: value for name, value in given.items() if value is not None}
        self.hub.changes.edit_issue(repository, issue, By(actor, quiet=not webhook), **fields)

    @operation
    def comment(self, repo: str, number: int, body: str, actor: str = "mona", *, webhook: bool = True) -> int:
        """Write a comment; answers its id."""
        repository, issue = self._issue(repo, number)
        return self.hub.changes.comment(repository, issue, body, By(actor, quiet=not webhook)).id

    @operation
    def edit_comment(self, repo: str, comment_id: int, body: str, actor: str = "mona", *, webhook: bool = True) -> None:
        """Change a comment, whoever wrote it."""
        repository = self.repository(repo)
        if (found := repository.comment(comment_id)) is None:
            raise LookupError(f"no comment {comment_id}")
        self.hub.changes.edit_comment(repository, *found, body, By(actor, quiet=not webhook))

    @operation
    def delete_comment(self, repo: str, comment_id: int, actor: str = "mona", *, webhook: bool = True) -> None:
        """Delete a comment, whoever wrote it."""
        repository = self.repository(repo)
        if (found := repository.comment(comment_id)) is None:
            raise LookupError(f"no comment {comment_id}")
        self.hub.changes.delete_comment(repository, *found, By(actor, quiet=not webhook))

    @operation
    def close_issue(
        self,
        repo: str,
        number: int,
        actor: str = "mona",
        *,
        reason: str = "completed",
        webhook: bool = True,
    ) -> None:
        """Close an issue or pull request."""
        repository, issue = self._issue(repo, number)
        self.hub.changes.set_state(repository, issue, "closed", By(actor, quiet=not webhook), reason)

    @operation
    def reopen_issue(self, repo: str, number: int, actor: str = "mona", *, webhook: bool = True) -> None:
        """Open it again."""
        repository, issue = self._issue(repo, number)
        self.hub.changes.set_state(repository, issue, "open", By(actor, quiet=not webhook))

    @operation
    def delete_issue(self, repo: str, number: int, actor: str = "mona", *, webhook: bool = True) -> None:
        """Delete an issue: from now on it is 410."""
        repository, issue = self._issue(repo, number)
        self.hub.changes.delete_issue(repository, issue, By(actor, quiet=not webhook))

    @operation
    def transfer_issue(self, repo: str, number: int, to: str, actor: str = "mona", *, webhook: bool = True) -> int:
        """Move an issue to another repository: from now on it is 301. Answers its number there."""
        repository, issue = self._issue(repo, number)
        target = self.repository(to)
        by = By(actor, quiet=not webhook)
        return self.hub.changes.transfer_issue(repository, issue, target, by).number

    @operation
    def lock_issue(
        self,
        repo: str,
        number: int,
        actor: str = "mona",
        *,
        reason: str | None = None,
        locked: bool = True,
        webhook: bool = True,
    ) -> None:
        """Lock the conversation, or unlock it."""
        repository, issue = self._issue(repo, number)
        by = By(actor, quiet=not webhook)
        self.hub.changes.lock(repository, issue, by, reason=reason, locked=locked)

    @operation
    def set_blocked_by(self, repo: str, number: int, blockers: Sequence[tuple[str, int]]) -> None:
        """Say which issues (repository, number) this one waits for."""
        repository, issue = self._issue(repo, number)
        ids = tuple(self._issue(*blocker)[1].id for blocker in blockers)
        self.hub.changes.set_blockers(repository, issue, ids)

    @operation
    def labels(self, repo: str, number: int) -> list[str]:
        """The names of the labels on an issue, in order."""
        repository, issue = self._issue(repo, number)
        return [label.name for label in repository.labels_of(issue)]

    @operation
    def comments(self, repo: str, number: int) -> list[dict[str, Any]]:
        """The comments of an issue: id, user, body."""
        _, issue = self._issue(repo, number)
        return [{"id": c.id, "user": c.user, "body": c.body} for c in issue.comments]

    @operation
    def events(self, repo: str, number: int) -> list[dict[str, Any]]:
        """The history of an issue: event, actor, label."""
        _, issue = self._issue(repo, number)
        return [
            {"event": e.event, "actor": e.actor, "label": e.details.get("label", {}).get("name")} for e in issue.events
        ]

    def issue(self, repo: str, number: int) -> Issue:
        """The current version of an issue."""
        return self._issue(repo, number)[1]

    def _issue(self, repo: str, number: int) -> tuple[Repository, Issue]:
        repository = self.repository(repo)
        issue = repository.issue(number)
        if issue is None:
            raise LookupError(f"no issue {repo}#{number}")
        return repository, issue
