"""Administrators' webhooks over the API; whoever may not administer Jira is told so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.jira.answers import only, read_object, refuse
from agentsmith.simulators.jira.hub import Hub
from agentsmith.simulators.jira.payloads import Json
from agentsmith.simulators.jira.webhooks import Hook, Hooks

HOOKS = "/rest/webhooks/1.0/webhook"
HOOK = HOOKS + "/{hook:int}"
SECTION = "issue-related-events-section"
KNOWN = ("name", "url", "events", "filters", "excludeBody", "secret", "enabled", "description")
_PROJECT = re.compile(r'project\s*=\s*"?([A-Z][A-Z0-9_]*)"?', re.I)


class HookRoutes:
    """The endpoints about webhooks."""

    def __init__(self, hub: Hub, hooks: Hooks) -> None:
        self.hub, self.hooks = hub, hooks

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", HOOKS, self.list_hooks),
            ("POST", HOOKS, self.create),
            ("GET", HOOK, self.get),
            ("PUT", HOOK, self.edit),
            ("DELETE", HOOK, self.delete),
        ]

    def list_hooks(self, call: Call) -> Response:
        """All of them."""
        self._need_admin(call)
        return JSONResponse([self._shown(call, hook) for hook in self.hooks.hooks.values()])

    def create(self, call: Call) -> Response:
        """A new one."""
        self._need_admin(call)
        data = self._read(call)
        hook = self.hooks.add(
            data["url"], secret=data.get("secret"), events=data["events"], projects=_projects(data.get("filters"))
        )
        hook.enabled = bool(data.get("enabled", True))
        return JSONResponse(self._shown(call, hook), 201)

    def get(self, call: Call) -> Response:
        """One of them."""
        self._need_admin(call)
        return JSONResponse(self._shown(call, self._hook(call)))

    def edit(self, call: Call) -> Response:
        """Change one; a secret that is left out stays."""
        self._need_admin(call)
        hook, data = self._hook(call), self._read(call)
        hook.url, hook.events = data["url"], tuple(data["events"])
        projects = _projects(data.get("filters"))
        hook.projects = None if projects is None else frozenset(projects)
        hook.secret = data.get("secret", hook.secret)
        hook.enabled = bool(data.get("enabled", hook.enabled))
        return JSONResponse(self._shown(call, hook))

    def delete(self, call: Call) -> Response:
        """It goes."""
        self._need_admin(call)
        del self.hooks.hooks[self._hook(call).id]
        return Response(status_code=204)

    def _need_admin(self, call: Call) -> None:
        if self.hub.door.name(call) not in self.hub.world.administrators:
            raise refuse(
                403, "You are not authorized to perform this operation. Administrator privileges are required."
            )

    def _hook(self, call: Call) -> Hook:
        found = self.hooks.hooks.get(call.params["hook"])
        if found is None:
            raise refuse(404, f"A webhook with the id {call.params['hook']} does not exist.")
        return found

    @staticmethod
    def _read(call: Call) -> dict[str, Any]:
        data = read_object(call)
        only(data, KNOWN, call.path)
        url, events = data.get("url"), data.get("events")
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or not isinstance(events, list):
            raise refuse(400, "The webhook is not valid.")
        return data

    def _shown(self, call: Call, hook: Hook) -> Json:
        shown: Json = {
            "name": "simulated",
            "url": hook.url,
            "excludeBody": False,
            "filters": {SECTION: " OR ".join(f"project = {key}" for key in sorted(hook.projects or ()))},
            "events": list(hook.events),
            "enabled": hook.enabled,
            "self": f"{call.base_url}{HOOKS}/{hook.id}",
        }
        if self.hub.cloud:
            shown["isSigned"] = hook.secret is not None
        return shown


def _projects(filters: object) -> Sequence[str] | None:
    jql = filters.get(SECTION, "") if isinstance(filters, dict) else ""
    return [key.upper() for key in _PROJECT.findall(str(jql))] or None
