"""Who enters, and what they may see and do."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call
from agentsmith.simulators.jira.answers import no_issue, refuse
from agentsmith.simulators.jira.state import Issue, World

FAILED = {"X-Seraph-LoginReason": "AUTHENTICATED_FAILED"}


@dataclass(frozen=True, slots=True)
class Credential:
    """A token of an account."""

    token: str
    user: str
    expires: float | None = None


def unauthorized() -> Response:
    """What a wrong or expired token gets."""
    body = {"message": "Client must be authenticated to access this resource.", "status-code": 401}
    return JSONResponse(body, 401, {**FAILED, "WWW-Authenticate": 'OAuth realm="https%3A%2F%2Fjira"'})


class Door:
    """Checks credentials and permissions on one Jira."""

    def __init__(self, world: World, clock: Clock, *, cloud: bool) -> None:
        self.world, self.clock, self.cloud = world, clock, cloud
        self.credentials: dict[str, Credential] = {}

    def admit(self, call: Call) -> Response | None:
        """Recognise the caller; an answer here ends the call."""
        if "anonymous" in call.quirks:
            return None
        credential = self._credential(call)
        if credential is None or "bad_credentials" in call.quirks:
            return None if call.path.endswith("/serverInfo") else unauthorized()
        call.caller, call.caller_name = credential, credential.user
        return None

    def name(self, call: Call) -> str | None:
        """The account that calls; None for a stranger."""
        return call.caller.user if isinstance(call.caller, Credential) else None

    def issue(self, call: Call, key: Any = None) -> Issue:
        """The issue that a call names, if the caller may see it."""
        issue = self.world.issue(str(key if key is not None else call.params["key"]), call.behind)
        if issue is None or not self.world.may(self.name(call), issue.project, "BROWSE_PROJECTS"):
            raise no_issue()
        return issue

    def need(self, call: Call, issue: Issue, permission: str, status: int, message: str) -> None:
        """Refuse a caller who lacks a permission in the issue's project."""
        if not self.world.may(self.name(call), issue.project, permission):
            raise refuse(status, message)

    def _credential(self, call: Call) -> Credential | None:
        scheme, _, value = call.headers.get("authorization", "").partition(" ")
        email = None
        if scheme.lower() == "basic" and self.cloud:  # which Data Center has switched off by default
            try:
                email, _, value = base64.b64decode(value, validate=True).decode().partition(":")
            except (binascii.Error, ValueError):
                return None
        elif scheme.lower() != "bearer" or self.cloud:
            return None
        found = self.credentials.get(value)
        if found is None or (found.expires is not None and found.expires <= self.clock.now()):
            return None
        return found if email is None or self.world.user(found.user).email == email else None
