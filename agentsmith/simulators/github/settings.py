"""What owners and admins of repositories set up, as plain methods; the control plane offers them by name."""

from __future__ import annotations

from collections.abc import Sequence

from agentsmith.simulators.frame import operation
from agentsmith.simulators.github.access import Credential
from agentsmith.simulators.github.apps import Apps
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.state import ROLES, Repository
from agentsmith.simulators.github.webhooks import Hooks


class Settings:
    """The operations; `repo` is always `owner/name`, and an unknown one is a LookupError."""

    hub: Hub
    hooks: Hooks
    apps: Apps

    def repository(self, repo: str) -> Repository:
        """A repository's state."""
        return self.hub.world.repository(repo)

    @operation
    def add_repository(
        self,
        repo: str,
        *,
        private: bool = False,
        empty: bool = False,
        default_branch: str = "main",
        owner_type: str = "Organization",
        files: dict[str, str] | None = None,
        drafts: bool = True,
    ) -> str:
        """Make a repository, with one commit (of `files`) unless `empty`; answers its full name."""
        owner, _, name = repo.partition("/")
        if not owner or not name or "/" in name:
            raise ValueError(f"a repository is called owner/name, not {repo!r}")
        world = self.hub.world
        world.user(owner, owner_type)
        made = Repository(
            world.next_id(),
            owner,
            name,
            self.hub.clock.stamp(),
            private,
            default_branch=default_branch,
            seed=files or {},
            drafts=drafts,
        )
        world.repositories[made.id] = made
        if not empty:
            self.hub.changes.first_commit(made)
        return made.full_name

    @operation
    def add_token(
        self,
        token: str,
        *,
        login: str = "smith-bot",
        permission: str | None = "write",
        permissions: dict[str, str] | None = None,
        repositories: Sequence[str] | None = None,
        expires_in: float | None = None,
    ) -> str:
        """Make a token known. `permission` is its user's role wherever a repository says nothing else;
        `permissions` (area → read, write) make it fine-grained; `repositories` limit what it sees."""
        self.hub.world.user(login)
        if permission is not None:
            self.hub.world.roles[login.casefold()] = _role(permission)
        self.hub.credentials.add(
            Credential(
                token,
                login,
                permissions,
                None if repositories is None else frozenset(name.casefold() for name in repositories),
                None if expires_in is None else self.hub.clock.now() + expires_in,
            )
        )
        return token

    @operation
    def revoke_token(self, token: str) -> None:
        """Refuse a token from now on."""
        self.hub.credentials.revoke(token)

    @operation
    def set_permission(self, repo: str, login: str, permission: str) -> None:
        """Give somebody a role in one repository: none, read, triage, write, maintain, admin."""
        self.hub.world.user(login)
        self.repository(repo).collaborators[login.casefold()] = _role(permission)

    @operation
    def rename_repository(self, repo: str, name: str) -> str:
        """Rename within the owner: the old name redirects. Answers the new full name."""
        repository = self.repository(repo)
        self.hub.world.renamed[repository.full_name.casefold()] = repository.id
        repository.name = name
        return repository.full_name

    @operation
    def disable_issues(self, repo: str) -> None:
        """Switch the issues of a repository off: they are 410."""
        self.repository(repo).has_issues = False

    @operation
    def exhaust_quota(self, login: str, *, reset_in: float | None = None, resource: str = "core") -> None:
        """Use up the hourly quota of a user's tokens."""
        self.hub.limits.exhaust(f"user {login.casefold()}", resource, reset_in)

    @operation
    def register_webhook(
        self,
        repo: str,
        url: str,
        *,
        secret: str | None = None,
        events: Sequence[str] = ("*",),
        content_type: str = "json",
        ping: bool = False,
    ) -> int:
        """Add a hook as an admin would in the settings; answers its id."""
        repository = self.repository(repo)
        hook = self.hooks.add(
            url, secret=secret, events=list(events), repository=repository.id, content_type=content_type
        )
        if ping:
            self.hooks.ping(hook, repository, repository.owner)
        return hook.id

    @operation
    def add_team(self, organization: str, slug: str, members: Sequence[str]) -> None:
        """Make a team of an organization, or give it other members."""
        self.hub.world.teams[f"{organization}/{slug}".casefold()] = frozenset(m.casefold() for m in members)

    @operation
    def add_app(self, slug: str, public_key: str, *, owner: str = "acme") -> dict[str, str | int]:
        """Register a GitHub App by the public half of its key (PEM); answers its ids."""
        app = self.apps.add(slug, public_key, owner)
        return {"id": app.id, "client_id": app.client_id, "login": app.login}

    @operation
    def install_app(
        self,
        app_id: int,
        *,
        permissions: dict[str, str] | None = None,
        repositories: Sequence[str] | None = None,
        webhook_url: str | None = None,
        webhook_secret: str | None = None,
    ) -> int:
        """Install an App on all or some repositories, with its webhook if given; answers the installation."""
        app = self.apps.apps[app_id]
        names = None if repositories is None else frozenset(name.casefold() for name in repositories)
        made = self.apps.install(app, permissions, names)
        if webhook_url is not None:
            hook = self.hooks.add(webhook_url, secret=webhook_secret, events=["*"])
            hook.app, hook.installation, hook.repositories = app.id, made.id, names
        return made.id

    @operation
    def suspend_installation(self, installation: int) -> None:
        """No new tokens for it."""
        self.apps.installations[installation].suspended = True


def _role(permission: str) -> str:
    if permission not in ROLES:
        raise ValueError(f"a permission is one of {', '.join(ROLES)}, not {permission!r}")
    return permission
