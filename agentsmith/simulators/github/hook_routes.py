"""Webhook settings over the API: hooks, their delivery log, and sending one again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.github.access import credential_of
from agentsmith.simulators.github.answers import invalid, not_found, only_query, read_object, refuse
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.payloads import Json, iso
from agentsmith.simulators.github.state import Repository, at_least
from agentsmith.simulators.github.webhooks import Hook, Hooks, hook_json
from agentsmith.simulators.outbox import Delivery

HOOKS = "/repos/{owner}/{repo}/hooks"
HOOK = HOOKS + "/{hook_id:int}"
DELIVERY = HOOK + "/deliveries/{delivery_id:int}"
KEPT = 3 * 24 * 3600.0
"""How long the delivery log remembers."""


class HookRoutes:
    """The endpoints about webhooks; whoever is no admin does not even see that there are any."""

    def __init__(self, hub: Hub, hooks: Hooks) -> None:
        self.hub, self.hooks = hub, hooks

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", HOOKS, self.list_hooks),
            ("POST", HOOKS, self.create),
            ("GET", HOOK, self.get),
            ("PATCH", HOOK, self.edit),
            ("DELETE", HOOK, self.delete),
            ("POST", HOOK + "/pings", self.ping),
            ("GET", HOOK + "/deliveries", self.deliveries),
            ("GET", DELIVERY, self.delivery),
            ("POST", DELIVERY + "/attempts", self.redeliver),
        ]

    def list_hooks(self, call: Call) -> Response:
        """The hooks of a repository."""
        repository = self._admin(call)
        render = self.hub.render(call)
        hooks = self.hooks.of(repository)
        return self.hub.page(call, repository, "hooks", hooks, lambda h: hook_json(render, repository, h))

    def create(self, call: Call) -> Response:
        """Make a hook and ping it; a second one for the same address is refused."""
        repository = self._admin(call)
        data = read_object(call)
        config = data.get("config") or {}
        url = config.get("url")
        if not isinstance(url, str) or not url:
            raise invalid("Hook", "missing_field", "config.url")
        events = [str(event) for event in data.get("events") or ["push"]]
        if any(hook.url == url and set(hook.events) & set(events) for hook in self.hooks.of(repository)):
            raise invalid("Hook", "custom", "url", "Hook already exists on this repository")
        hook = self.hooks.add(url, secret=config.get("secret"), events=events, repository=repository.id)
        hook.content_type = config.get("content_type", "form")
        hook.active = data.get("active", True)
        if hook.active:
            self.hooks.ping(hook, repository, credential_of(call).login)
        shown = hook_json(self.hub.render(call), repository, hook)
        return JSONResponse(shown, 201, {"Location": shown["url"]})

    def get(self, call: Call) -> Response:
        """One hook."""
        repository, hook = self._hook(call)
        return JSONResponse(hook_json(self.hub.render(call), repository, hook))

    def edit(self, call: Call) -> Response:
        """Change a hook. A `config` replaces the old one: a secret that is left out is gone."""
        repository, hook = self._hook(call)
        data = read_object(call)
        if config := data.get("config"):
            hook.url = config.get("url", hook.url)
            hook.content_type = config.get("content_type", "form")
            hook.secret = config.get("secret")
            hook.insecure_ssl = str(config.get("insecure_ssl", "0"))
        if "events" in data:
            hook.events = [str(event) for event in data["events"]]
        hook.events += [e for e in data.get("add_events", []) if e not in hook.events]
        hook.events = [e for e in hook.events if e not in data.get("remove_events", [])]
        hook.active = data.get("active", hook.active)
        hook.updated_at = self.hub.clock.stamp()
        return JSONResponse(hook_json(self.hub.render(call), repository, hook))

    def delete(self, call: Call) -> Response:
        """Remove a hook."""
        _, hook = self._hook(call)
        del self.hooks.hooks[hook.id]
        return Response(status_code=204)

    def ping(self, call: Call) -> Response:
        """Send a ping."""
        repository, hook = self._hook(call)
        self.hooks.ping(hook, repository, credential_of(call).login)
        return Response(status_code=204)

    def deliveries(self, call: Call) -> Response:
        """The log of the last three days, newest first, paged by cursor."""
        only_query(call, "per_page", "cursor", "status", "redelivery")
        repository, hook = self._hook(call)
        found = [d for d in self._log(hook) if _matches(d, call.query.get("status"))]
        size = min(100, int(call.query.get("per_page", 30)))
        cursor = call.query.get("cursor")
        if cursor is not None:
            if not cursor.isdigit():
                raise refuse(400, "Invalid cursor")
            found = [d for d in found if d.id <= int(cursor)]
        headers = {}
        if len(found) > size:
            address = f"{call.base_url}/repositories/{repository.id}/hooks/{hook.id}/deliveries"
            headers["Link"] = f'<{address}?per_page={size}&cursor={found[size].id}>; rel="next"'
        return JSONResponse([_item(d) for d in found[:size]], 200, headers)

    def delivery(self, call: Call) -> Response:
        """One delivery with what was sent and what came back."""
        delivery = self._delivery(call)
        request = {"headers": delivery.headers, "payload": delivery.details["payload"]}
        answer = {"headers": {}, "payload": delivery.answer}
        return JSONResponse({**_item(delivery), "url": delivery.url, "request": request, "response": answer})

    def redeliver(self, call: Call) -> Response:
        """Send a delivery again under its GUID; the answer says only that it will happen."""
        self.hooks.redeliver(self._delivery(call))
        return Response(json.dumps({}), 202, media_type="application/json")

    def _admin(self, call: Call) -> Repository:
        repository = self.hub.door.repository(call)
        allowed = self.hub.door.may(call, "repository_hooks", "read" if call.method == "GET" else "write")
        if not allowed or not at_least(self.hub.door.role(call, repository), "admin"):
            raise not_found()
        return repository

    def _hook(self, call: Call) -> tuple[Repository, Hook]:
        repository = self._admin(call)
        hook = self.hooks.hooks.get(call.params["hook_id"])
        if hook is None or hook.repository != repository.id:
            raise not_found()
        return repository, hook

    def _delivery(self, call: Call) -> Delivery:
        _, hook = self._hook(call)
        found = [d for d in self._log(hook) if d.id == call.params["delivery_id"]]
        if not found:
            raise not_found()
        return found[0]

    def _log(self, hook: Hook) -> list[Delivery]:
        oldest = self.hub.clock.now() - KEPT
        return [d for d in self.hooks.deliveries(hook) if (d.delivered_at or 0) >= oldest]


def _matches(delivery: Delivery, status: Any) -> bool:
    good = 200 <= delivery.status_code < 300
    return status is None or (status == "success") == good


def _item(delivery: Delivery) -> Json:
    moment = datetime.fromtimestamp(int(delivery.delivered_at or 0), UTC)
    return {
        "id": delivery.id,
        "guid": delivery.guid,
        "delivered_at": iso(moment),
        "redelivery": delivery.redelivery,
        "duration": delivery.duration,
        "status": delivery.status,
        "status_code": delivery.status_code,
        "event": delivery.details["event"],
        "action": delivery.details["action"],
        "installation_id": delivery.details["installation"],
        "repository_id": delivery.details["repository"],
        "throttled_at": None,
    }
