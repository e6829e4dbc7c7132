"""Who calls and what they may: tokens, projects in the path, and the rights of their owners."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from agentsmith.simulators.azuredevops.answers import no_item, refuse
from agentsmith.simulators.azuredevops.changes import By
from agentsmith.simulators.azuredevops.state import Project, User, WorkItem, World
from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call

CODE_SCOPES = ("none", "read", "write")


@dataclass(slots=True)
class Credential:
    """A personal access token, or an Entra token where `bearer`. `scope`: read or write work items; `code`: code."""

    token: str
    user: User
    scope: str = "write"
    bearer: bool = False
    code: str = "write"
    expires_at: float | None = None
    revoked: bool = False


class Credentials:
    """All tokens of one organization."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.tokens: dict[str, Credential] = {}

    def of(self, call: Call) -> Credential | None:
        """The credential that a request carries, if it is good now."""
        scheme, _, value = call.headers.get("authorization", "").partition(" ")
        token = value.strip()
        if scheme.lower() == "basic":
            try:
                token = base64.b64decode(token, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return None
        found = self.tokens.get(token)
        # Git sends every token as a password, one of Entra too; the API wants that one as a bearer.
        mixed = found is not None and found.bearer != (scheme.lower() == "bearer") and "_git/" not in call.path
        if found is None or found.revoked or mixed:
            return None
        if found.expires_at is not None and self._clock.now() >= found.expires_at:
            return None
        return found


class Door:
    """Finds what a request names and checks that the caller may have it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.blind: set[str] = set()
        """Folded names of accounts that may not see any work item."""
        self.readers: set[str] = set()
        """Folded names of accounts that may read only."""
        self.deaf: set[str] = set()
        """Folded names of accounts that may not see or make subscriptions."""

    def by(self, call: Call) -> By:
        """On whose behalf a request changes something."""
        return By(self.credential(call).user)

    @staticmethod
    def credential(call: Call) -> Credential:
        """The caller's token."""
        assert isinstance(call.caller, Credential)  # noqa: S101 - admission sees to it
        return call.caller

    def project(self, call: Call) -> Project | None:
        """The project in the path; None where the path names none."""
        name = call.params.get("project")
        if name is None:
            return None
        try:
            return self.world.project(str(name))
        except LookupError:
            message = f"TF200016: The following project does not exist: {name}. Verify that the name is correct."
            raise refuse(404, message, "ProjectDoesNotExistWithNameException") from None

    def item(self, call: Call) -> WorkItem:
        """The work item in the path; 404 also for one that the caller may not see."""
        self.project(call)
        number = int(call.params["number"])
        try:
            item = self.world.item(number)
        except LookupError:
            raise no_item(number) from None
        if self.credential(call).user.name.casefold() in self.blind:
            raise no_item(number)
        return item

    def need_code(self, call: Call, scope: str) -> None:
        """Refuse whoever may not read code, or make pull requests."""
        credential = self.credential(call)
        if CODE_SCOPES.index(credential.code) < CODE_SCOPES.index(scope):
            raise refuse(403, f"The token does not have the scope vso.code_{scope}.", "AccessDeniedException")
        if scope == "write" and credential.user.name.casefold() in self.readers:
            message = "TF401027: You need the Git 'PullRequestContribute' permission to perform this action."
            raise refuse(403, message, "GitNeedsPermissionException")

    def need_hooks(self, call: Call) -> None:
        """Refuse whoever may not look after subscriptions."""
        user = self.credential(call).user
        if user.name.casefold() in self.deaf:
            message = f"TF50309: {user.display} does not have permissions: View subscriptions, Edit subscriptions."
            raise refuse(403, message, "AccessCheckException")

    def need_write(self, call: Call) -> None:
        """Refuse whoever may not change work items."""
        credential = self.credential(call)
        if credential.scope != "write":
            raise refuse(403, "The token does not have the scope vso.work_write.", "AccessDeniedException")
        if credential.user.name.casefold() in self.readers:
            message = f"TF401289: {credential.user.display} does not have permissions to edit work items in this area."
            raise refuse(403, message, "WorkItemUnauthorizedAccessException")
