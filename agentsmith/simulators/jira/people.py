"""What people do on Jira, as plain methods: for tests in this process and, by name, over the control plane.

Every method that changes an issue takes `actor` and `webhook`; with `webhook=False` nobody is told, which is how a
lost delivery looks from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentsmith.simulators.frame import operation
from agentsmith.simulators.jira.access import Credential
from agentsmith.simulators.jira.changes import By
from agentsmith.simulators.jira.documents import document, plain
from agentsmith.simulators.jira.hub import Hub
from agentsmith.simulators.jira.state import PERMISSIONS, Issue, Project, Status, Transition
from agentsmith.simulators.jira.webhooks import Hooks

STATUSES = (("To Do", "new"), ("In Progress", "indeterminate"), ("Done", "done"))


class People:
    """The operations; an unknown project or issue is a LookupError."""

    hub: Hub
    hooks: Hooks

    # --- what administrators set up ---------------------------------------------------------------------------------

    @operation
    def add_project(self, key: str, *, name: str = "", statuses: Sequence[Sequence[str]] = STATUSES) -> str:
        """Make a project; its workflow leads from every status (name, category) to every other one."""
        world = self.hub.world
        made = [Status(str(world.next_id()), name_, category) for name_, category in statuses]
        ways = [
            Transition(str(world.next_id()), f"{source.name} to {to.name}", source.id, to.id)
            for source in made
            for to in made
            if source is not to
        ]
        project = Project(world.next_id(), key, name or key, {s.id: s for s in made}, ways, made[0].id)
        world.projects[key] = project
        return key

    @operation
    def rename_project(self, key: str, to: str) -> None:
        """Change a project's key: the old keys lead to it and its issues, but search finds nothing under them."""
        self.hub.world.rename(self.hub.world.project(key), to)

    @operation
    def set_transitions(self, key: str, ways: Sequence[Sequence[str | None]]) -> dict[str, str]:
        """Replace a workflow's transitions by (from or None for any, to) pairs of names; answers their ids."""
        project, world = self.hub.world.project(key), self.hub.world
        project.transitions = [
            Transition(
                str(world.next_id()),
                f"to {to}",
                None if source is None else project.status_named(source).id,
                project.status_named(str(to)).id,
            )
            for source, to in ways
        ]
        return {
            f"{source or 'any'} to {to}": way.id for (source, to), way in zip(ways, project.transitions, strict=True)
        }

    @operation
    def add_user(
        self,
        name: str,
        *,
        account_id: str | None = None,
        display_name: str | None = None,
        email: str | None = None,
        type: str = "atlassian",
    ) -> str:
        """Make an account, or change it; answers its id. `type` is atlassian, app or customer."""
        user = replace(self.hub.world.user(name), type=type)
        user = replace(user, account_id=account_id or user.account_id, email=email or user.email)
        self.hub.world.users[name] = replace(user, display_name=display_name or user.display_name)
        return self.hub.world.users[name].account_id

    @operation
    def add_token(self, token: str, *, user: str = "smith-bot", expires_in: float | None = None) -> str:
        """Make a token known; answers the email that belongs to it on Cloud."""
        expires = None if expires_in is None else self.hub.clock.now() + expires_in
        self.hub.door.credentials[token] = Credential(token, user, expires)
        return self.hub.world.user(user).email

    @operation
    def revoke_token(self, token: str) -> None:
        """Refuse a token from now on."""
        self.hub.door.credentials.pop(token, None)

    @operation
    def set_role(self, key: str, user: str, role: str) -> None:
        """Give somebody a role in a project: none, read, triage, write, admin."""
        if role not in PERMISSIONS:
            raise ValueError(f"a role is one of {', '.join(PERMISSIONS)}, not {role!r}")
        self.hub.world.user(user)
        self.hub.world.project(key).roles[user] = role

    @operation
    def make_administrator(self, user: str) -> None:
        """Let somebody administer Jira itself, webhooks included."""
        self.hub.world.administrators.add(self.hub.world.user(user).name)

    @operation
    def add_group(self, name: str, members: Sequence[str]) -> None:
        """Make a group, or give it other members."""
        self.hub.world.groups[name] = frozenset(self.hub.world.user(member).name for member in members)

    @operation
    def set_project_role(self, key: str, role: str, users: Sequence[str] = (), groups: Sequence[str] = ()) -> None:
        """Say who has a role of a project (`Developers`); what it allows is another matter, see `set_role`."""
        names = frozenset(self.hub.world.user(user).name for user in users)
        self.hub.world.project(key).project_roles[role] = (names, frozenset(groups))

    @operation
    def hide_labels(self, key: str) -> None:
        """Take the labels off the project's edit screen."""
        self.hub.world.project(key).labels_on_screen = False

    @operation
    def set_index_lag(self, seconds: float) -> None:
        """Let search see everything that much later (in simulated time)."""
        self.hub.index_lag = seconds

    @operation
    def refresh_index(self) -> None:
        """Let search see everything as it is now."""
        self.hub.refreshed_at = self.hub.clock.now()

    @operation
    def register_webhook(
        self,
        url: str,
        *,
        secret: str | None = None,
        events: Sequence[str] = ("*",),
        projects: Sequence[str] | None = None,
    ) -> int:
        """Add a hook as an administrator would; answers its id."""
        return self.hooks.add(url, secret=secret, events=events, projects=projects).id

    # --- what people do ---------------------------------------------------------------------------------------------

    @operation
    def open_issue(
        self,
        key: str,
        *,
        summary: str = "Something to do",
        description: str | None = None,
        labels: Sequence[str] = (),
        actor: str = "mona",
        webhook: bool = True,
    ) -> str:
        """Open an issue in a project; answers its key."""
        by, text = By(actor, quiet=not webhook), None if description is None else self._text(description)
        project = self.hub.world.project(key)
        return self.hub.changes.open_issue(project, by, summary=summary, description=text, labels=labels).key

    @operation
    def add_label(self, key: str, label: str, actor: str = "mona", *, webhook: bool = True) -> None:
        """Put a label on an issue."""
        self.hub.changes.relabel(self.issue(key), By(actor, quiet=not webhook), add=[label])

    @operation
    def remove_label(self, key: str, label: str, actor: str = "mona", *, webhook: bool = True) -> None:
        """Take a label off an issue."""
        self.hub.changes.relabel(self.issue(key), By(actor, quiet=not webhook), remove=[label])

    @operation
    def edit_issue(
        self,
        key: str,
        *,
        summary: str | None = None,
        description: str | None = None,
        actor: str = "mona",
        webhook: bool = True,
    ) -> None:
        """Change an issue's texts."""
        fields: dict[str, Any] = {} if summary is None else {"summary": summary}
        if description is not None:
            fields["description"] = self._text(description)
        self.hub.changes.relabel(self.issue(key), By(actor, quiet=not webhook), fields=fields)

    @operation
    def transition(self, key: str, status: str, actor: str = "mona", *, webhook: bool = True) -> None:
        """Move an issue to a status, whatever the workflow says."""
        issue = self.issue(key)
        to = self.hub.world.project(issue.project).status_named(status)
        self.hub.changes.transition(issue, By(actor, quiet=not webhook), to.id)

    @operation
    def comment(self, key: str, text: str, actor: str = "mona", *, webhook: bool = True) -> str:
        """Write a comment; answers its id."""
        return self.hub.changes.comment(self.issue(key), self._text(text), By(actor, quiet=not webhook)).id

    @operation
    def delete_comment(self, key: str, comment_id: str, actor: str = "mona") -> None:
        """Remove a comment."""
        issue = self.issue(key)
        found = [c for c in issue.comments if c.id == comment_id]
        self.hub.changes.delete_comment(issue, found[0], By(actor))

    @operation
    def delete_issue(self, key: str, actor: str = "mona", *, webhook: bool = True) -> None:
        """Remove an issue for good."""
        self.hub.changes.delete_issue(self.issue(key), By(actor, quiet=not webhook))

    @operation
    def move_issue(self, key: str, project: str, actor: str = "mona") -> str:
        """Move an issue to another project; answers its new key."""
        return self.hub.changes.move_issue(self.issue(key), self.hub.world.project(project), By(actor)).key

    @operation
    def block(self, blocker: str, blocked: str) -> None:
        """Say that one issue blocks another."""
        self.hub.changes.link("Blocks", self.issue(blocker), self.issue(blocked))

    @operation
    def set_property(self, key: str, name: str, value: Any) -> None:
        """Set an issue property, as another program would."""
        self.hub.changes.set_property(self.issue(key), name, value)

    # --- what is there ----------------------------------------------------------------------------------------------

    def issue(self, key: str) -> Issue:
        """An issue's state."""
        found = self.hub.world.issue(key)
        if found is None:
            raise LookupError(f"no issue {key}")
        return found

    @operation
    def labels(self, key: str) -> list[str]:
        """The labels on an issue."""
        return list(self.issue(key).labels)

    @operation
    def comments(self, key: str) -> list[dict[str, Any]]:
        """The comments on an issue, as text, with their properties."""
        return [
            {"id": c.id, "author": c.author, "body": plain(c.body), "properties": c.properties}
            for c in self.issue(key).comments
        ]

    def label_history(self, key: str) -> list[frozenset[str]]:
        """Every label set that somebody could have seen, oldest first."""
        return [frozenset(issue.labels) for _, issue in self.hub.world.versions[self.issue(key).id]]

    @operation
    def status(self, key: str) -> str:
        """The name of the status that an issue is in."""
        issue = self.issue(key)
        return self.hub.world.project(issue.project).statuses[issue.status].name

    def _text(self, text: str) -> Any:
        return document(text) if self.hub.cloud else text
