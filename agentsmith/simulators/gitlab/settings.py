"""What owners of projects set up, as plain methods; the control plane offers them by name."""

from __future__ import annotations

from collections.abc import Sequence

from agentsmith.simulators.frame import operation
from agentsmith.simulators.gitlab.access import Credential
from agentsmith.simulators.gitlab.hub import Hub
from agentsmith.simulators.gitlab.state import LEVELS, Project
from agentsmith.simulators.gitlab.webhooks import EVENTS, Hooks


class Settings:
    """The operations on projects, tokens, members and hooks."""

    hub: Hub
    hooks: Hooks

    def project(self, project: str) -> Project:
        """A project's state."""
        return self.hub.world.project(project)

    @operation
    def add_project(
        self,
        path: str,
        *,
        private: bool = False,
        empty: bool = False,
        default_branch: str = "main",
        files: dict[str, str] | None = None,
    ) -> int:
        """Make a project with all its groups, with one commit (of `files`) unless `empty`; answers its id."""
        if "/" not in path:
            raise ValueError(f"a project is called group/name, not {path!r}")
        made = Project(
            self.hub.world.next_id(),
            path,
            self.hub.changes.now(),
            private,
            default_branch=default_branch,
            empty=empty,
            seed=files or {},
        )
        self.hub.world.projects[made.id] = made
        return made.id

    @operation
    def add_token(
        self,
        token: str,
        *,
        username: str = "smith-bot",
        bot: bool = True,
        scopes: Sequence[str] = ("api",),
        expires_in: float | None = None,
        oauth: bool = False,
    ) -> int:
        """Make a token known; answers its user's id. What that user may do is said by `set_access`."""
        expires = None if expires_in is None else self.hub.clock.now() + expires_in
        made = Credential(token, username, frozenset(scopes), expires, oauth=oauth)
        self.hub.credentials.tokens[token] = made
        return self.hub.world.user(username, bot=bot).id

    @operation
    def revoke_token(self, token: str) -> None:
        """Refuse a token from now on."""
        self.hub.credentials.tokens[token].revoked = True

    @operation
    def set_access(self, project: str, username: str, level: str | int) -> None:
        """Give somebody a role: none, guest, planner, reporter, developer, maintainer, owner, or a number."""
        if isinstance(level, str) and level not in LEVELS:
            raise ValueError(f"a level is one of {', '.join(LEVELS)}, not {level!r}")
        self.hub.world.user(username)
        self.project(project).members[username.casefold()] = LEVELS[level] if isinstance(level, str) else level

    @operation
    def add_group(self, path: str, members: dict[str, str]) -> None:
        """Make a group, or give it other members: level by user name."""
        self.hub.world.groups[path.casefold()] = {
            self.hub.world.user(name).username.casefold(): LEVELS[level] for name, level in members.items()
        }

    @operation
    def rename_project(self, project: str, path: str) -> None:
        """Give a project another path: reads under the old one are redirected, writes are refused."""
        where = self.project(project)
        self.hub.world.renamed[where.path.casefold()] = where.id
        where.path = path

    @operation
    def disable_issues(self, project: str) -> None:
        """Switch the issues of a project off: they are 404, and the list is empty."""
        self.project(project).issues_enabled = False

    @operation
    def delete_label(self, project: str, name: str) -> None:
        """Delete a label of the project: it is off every issue at once, and no issue counts as updated."""
        where = self.project(project)
        label = where.label_named(name)
        if label is None:
            raise LookupError(f"no label {name}")
        del where.labels[label.id]

    @operation
    def register_webhook(
        self,
        project: str,
        url: str,
        *,
        token: str | None = None,
        signing_token: str | None = None,
        events: Sequence[str] = EVENTS,
    ) -> int:
        """Add a hook as a maintainer would in the settings; answers its id."""
        wanted = {name: name in events for name in EVENTS}
        hook = self.hooks.add(self.project(project), url, token=token, signing_token=signing_token, events=wanted)
        return hook.id

    @operation
    def hook_status(self, hook: int) -> str:
        """`executable`, `temporarily_disabled` or `disabled`."""
        return self.hooks.status(self.hooks.hooks[hook])
