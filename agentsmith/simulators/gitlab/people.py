"""What people do on GitLab, as plain methods: for tests in this process and, by name, over the control plane.

`project` is always the path or the id, and an unknown one is a LookupError. Every method that changes an issue takes
`actor` and `webhook`; with `webhook=False` nobody is told, which is how a lost delivery looks from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentsmith.simulators.frame import operation
from agentsmith.simulators.gitlab.changes import By
from agentsmith.simulators.gitlab.commands import extract
from agentsmith.simulators.gitlab.quick_actions import carry_out
from agentsmith.simulators.gitlab.settings import Settings
from agentsmith.simulators.gitlab.state import Issue, Note, Project


class People(Settings):
    """The operations on issues."""

    @operation
    def open_issue(
        self,
        project: str,
        *,
        title: str = "Something to do",
        body: str | None = None,
        labels: Sequence[str] = (),
        type: str = "issue",
        actor: str = "mona",
        webhook: bool = True,
    ) -> int:
        """Open an issue, or an incident or task by `type`; answers its number."""
        by = By(actor, quiet=not webhook)
        opened = self.hub.changes.open_issue(
            self.project(project), by, title=title, description=body, labels=labels, type=type
        )
        return opened.iid

    @operation
    def push(
        self,
        project: str,
        branch: str,
        files: dict[str, str | None],
        *,
        message: str = "Some change",
        actor: str = "mona",
    ) -> str:
        """Push one commit to a branch, made at the default branch if it is not there; answers the commit."""
        bare = self.hub.code.of(self.project(project))
        return bare.commit(branch, files, message=message, author=actor, at=self.hub.changes.now())

    @operation
    def branches(self, project: str) -> dict[str, str]:
        """The branches that git has, with their commits."""
        return self.hub.code.of(self.project(project)).heads()

    @operation
    def file(self, project: str, branch: str, path: str) -> str | None:
        """What a file holds on a branch."""
        return self.hub.code.of(self.project(project)).file(branch, path)

    @operation
    def open_merge_request(
        self,
        project: str,
        *,
        source: str = "topic",
        target: str = "main",
        title: str = "Some change",
        body: str | None = None,
        fork: str | None = None,
        actor: str = "mona",
    ) -> int:
        """Open a merge request, from a fork if one is named; answers its number."""
        origin = None if fork is None else self.project(fork).id
        made = self.hub.changes.open_merge_request(
            self.project(project),
            By(actor),
            source=source,
            target=target,
            title=title,
            description=body,
            source_project=origin,
        )
        return made.iid

    @operation
    def edit_merge_request(
        self,
        project: str,
        iid: int,
        *,
        title: str | None = None,
        body: str | None = None,
        target: str | None = None,
        state: str | None = None,
        actor: str = "mona",
    ) -> None:
        """Change a merge request; `state` is opened, closed or merged."""
        where = self.project(project)
        request = where.merge_request(iid)
        if request is None:
            raise LookupError(f"no merge request {project}!{iid}")
        given = {"title": title, "description": body, "target": target, "state": state}
        fields = {name: value for name, value in given.items() if value is not None}
        self.hub.changes.edit_merge_request(where, request, By(actor), **fields)

    @operation
    def merge_requests(self, project: str) -> list[dict[str, Any]]:
        """All merge requests, oldest first."""
        return [
            {
                "number": request.iid,
                "state": request.state,
                "title": request.title,
                "body": request.description or "",
                "head": request.source,
                "base": request.target,
                "draft": request.draft,
                "user": request.author,
            }
            for request in self.project(project).merge_requests()
        ]

    @operation
    def add_label(self, project: str, iid: int, label: str, actor: str = "mona", *, webhook: bool = True) -> list[str]:
        """Put a label on an issue; answers all its labels."""
        where, issue = self._issue(project, iid)
        self.hub.changes.relabel(where, issue, By(actor, quiet=not webhook), add=[label])
        return self.labels(project, iid)

    @operation
    def remove_label(
        self, project: str, iid: int, label: str, actor: str = "mona", *, webhook: bool = True
    ) -> list[str]:
        """Take a label off an issue; answers what is left."""
        where, issue = self._issue(project, iid)
        self.hub.changes.relabel(where, issue, By(actor, quiet=not webhook), remove=[label])
        return self.labels(project, iid)

    @operation
    def edit_label(
        self, project: str, label: str, *, name: str | None = None, color: str | None = None, actor: str = "mona"
    ) -> None:
        """Rename or recolour a label of the project; GitLab notes nowhere who did it."""
        del actor
        where = self.project(project)
        found = where.label_named(label)
        if found is None:
            raise LookupError(f"{project} has no label {label!r}")
        fields = {key: value for key, value in (("name", name), ("color", color)) if value is not None}
        self.hub.changes.edit_label(where, found, **fields)

    @operation
    def edit_issue(
        self,
        project: str,
        iid: int,
        *,
        title: str | None = None,
        body: str | None = None,
        actor: str = "mona",
        webhook: bool = True,
    ) -> None:
        """Change title or description."""
        where, issue = self._issue(project, iid)
        given = {"title": title, "description": body}
        fields = {name: value for name, value in given.items() if value is not None}
        self.hub.changes.edit_issue(where, issue, By(actor, quiet=not webhook), **fields)

    @operation
    def comment(self, project: str, iid: int, body: str, actor: str = "mona", *, webhook: bool = True) -> int:
        """Write a comment, whose commands are carried out; answers its id, or 0 where it held commands only."""
        where, issue = self._issue(project, iid)
        by = By(actor, quiet=not webhook)
        extracted = extract(body)
        note = self.hub.changes.comment(where, issue, extracted.text, by) if extracted.text else None
        carry_out(self.hub.changes, where, iid, extracted.commands, by)
        return note.id if note else 0

    @operation
    def delete_comment(self, project: str, note_id: int) -> None:
        """Delete a comment, whoever wrote it."""
        where, issue, note = self._note(project, note_id)
        self.hub.changes.delete_comment(where, issue, note)

    @operation
    def close_issue(self, project: str, iid: int, actor: str = "mona", *, webhook: bool = True) -> None:
        """Close an issue."""
        where, issue = self._issue(project, iid)
        self.hub.changes.set_state(where, issue, "closed", By(actor, quiet=not webhook))

    @operation
    def reopen_issue(self, project: str, iid: int, actor: str = "mona", *, webhook: bool = True) -> None:
        """Open it again."""
        where, issue = self._issue(project, iid)
        self.hub.changes.set_state(where, issue, "opened", By(actor, quiet=not webhook))

    @operation
    def delete_issue(self, project: str, iid: int) -> None:
        """Delete an issue: from now on it is 404, and GitLab tells nobody."""
        where, issue = self._issue(project, iid)
        self.hub.changes.delete_issue(where, issue)

    @operation
    def move_issue(self, project: str, iid: int, to: str, actor: str = "mona", *, webhook: bool = True) -> int:
        """Move an issue to another project: here it is closed for good. Answers its number there."""
        where, issue = self._issue(project, iid)
        by = By(actor, quiet=not webhook)
        return self.hub.changes.move_issue(where, issue, self.project(to), by).iid

    @operation
    def clone_issue(self, project: str, iid: int, to: str, actor: str = "mona", *, webhook: bool = True) -> int:
        """Copy an issue, to another project or within one, with its history. Answers the copy's number."""
        where, issue = self._issue(project, iid)
        return self.hub.changes.clone_issue(where, issue, self.project(to), By(actor, quiet=not webhook)).iid

    @operation
    def lock_issue(self, project: str, iid: int, *, locked: bool = True) -> None:
        """Lock the discussion to members, or unlock it."""
        where, issue = self._issue(project, iid)
        self.hub.changes.edit_issue(where, issue, By("mona", quiet=True), locked=locked)

    @operation
    def set_blocked_by(self, project: str, iid: int, blockers: Sequence[tuple[str, int]]) -> None:
        """Say which issues (project, number) this one waits for; GitLab allows that on paid tiers only."""
        _, issue = self._issue(project, iid)
        for blocker in blockers:
            self.hub.changes.link(issue, self._issue(*blocker)[1], "is_blocked_by")

    @operation
    def labels(self, project: str, iid: int) -> list[str]:
        """The names of the labels on an issue, in order."""
        where, issue = self._issue(project, iid)
        return [label.name for label in where.labels_of(issue)]

    @operation
    def comments(self, project: str, iid: int) -> list[dict[str, Any]]:
        """The comments of an issue: id, user, body."""
        _, issue = self._issue(project, iid)
        return [{"id": n.id, "user": n.author, "body": n.body} for n in issue.notes if not n.system]

    @operation
    def events(self, project: str, iid: int) -> list[dict[str, Any]]:
        """The label history of an issue: action, actor, label."""
        where, issue = self._issue(project, iid)
        return [
            {
                "event": e.action,
                "actor": e.user,
                "label": where.labels[e.label].name if e.label in where.labels else None,
            }
            for e in issue.events
        ]

    def issue(self, project: str, iid: int) -> Issue:
        """The current version of an issue."""
        return self._issue(project, iid)[1]

    def _issue(self, project: str, iid: int) -> tuple[Project, Issue]:
        where = self.project(project)
        issue = where.issue(iid)
        if issue is None:
            raise LookupError(f"no issue {project}#{iid}")
        return where, issue

    def _note(self, project: str, note_id: int) -> tuple[Project, Issue, Note]:
        where = self.project(project)
        for issue in where.issues():
            for note in issue.notes:
                if note.id == note_id:
                    return where, issue, note
        raise LookupError(f"no comment {note_id}")
