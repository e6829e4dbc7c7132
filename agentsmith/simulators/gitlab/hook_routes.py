"""Webhook settings over the API: hooks, their delivery log, testing one, and sending a delivery again."""

from __future__ import annotations

import uuid

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.gitlab.access import credential_of
from agentsmith.simulators.gitlab.answers import (
    invalid,
    not_found,
    only_fields,
    only_query,
    page_of,
    read_fields,
    refuse,
)
from agentsmith.simulators.gitlab.hook_payloads import test_payload
from agentsmith.simulators.gitlab.hub import Hub
from agentsmith.simulators.gitlab.payloads import Json
from agentsmith.simulators.gitlab.state import MAINTAINER, Project
from agentsmith.simulators.gitlab.webhooks import EVENTS, Hook, Hooks
from agentsmith.simulators.outbox import Delivery

HOOKS = "/projects/{project:path}/hooks"
HOOK = HOOKS + "/{hook_id:int}"
OTHERS = ("push_events", "tag_push_events", "merge_requests_events", "enable_ssl_verification", "name", "description")


class HookRoutes:
    """The endpoints about webhooks; maintainers only."""

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
            ("POST", HOOK + "/test/{trigger}", self.test),
            ("GET", HOOK + "/events", self.events),
            ("POST", HOOK + "/events/{delivery_id:int}/resend", self.resend),
        ]

    def list_hooks(self, call: Call) -> Response:
        """The hooks of a project."""
        project = self._maintained(call)
        return page_of(call, self.hooks.of(project), self.hooks.to_json, address=self.hub.address(call))

    def create(self, call: Call) -> Response:
        """Make a hook; without any event it listens to pushes only."""
        project = self._maintained(call)
        data = read_fields(call)
        only_fields(call, data, "url", "token", "signing_token", *EVENTS, *OTHERS)
        url = data.get("url")
        if not isinstance(url, str):
            raise invalid("url is missing")
        if not url.startswith(("http://", "https://")):
            raise refuse(422, "Invalid url given")
        events = {name: bool(data[name]) for name in EVENTS if name in data}
        signing = data.get("signing_token")
        hook = self.hooks.add(project, url, token=data.get("token"), signing_token=signing, events=events)
        return JSONResponse(self.hooks.to_json(hook), 201)

    def get(self, call: Call) -> Response:
        """One hook."""
        return JSONResponse(self.hooks.to_json(self._hook(call)[1]))

    def edit(self, call: Call) -> Response:
        """Change a hook; that switches it on again."""
        _, hook = self._hook(call)
        data = read_fields(call)
        only_fields(call, data, "url", "token", "signing_token", *EVENTS, *OTHERS)
        self.hooks.status(hook)
        hook.url = str(data.get("url", hook.url))
        hook.token = data.get("token", hook.token)
        hook.signing_token = data.get("signing_token", hook.signing_token)
        hook.events.update({name: bool(data[name]) for name in EVENTS if name in data})
        hook.enable()
        return JSONResponse(self.hooks.to_json(hook))

    def delete(self, call: Call) -> Response:
        """Remove a hook."""
        del self.hooks.hooks[self._hook(call)[1].id]
        return Response(status_code=204)

    def test(self, call: Call) -> Response:
        """Send what the button "Test" sends, even to a hook that is off."""
        project, hook = self._hook(call)
        issues = project.issues()
        if call.params["trigger"] != "issues_events":
            raise invalid("trigger does not have a valid value")
        if not issues:
            raise refuse(422, "Ensure the project has issues.")
        who = credential_of(call).username
        payload = test_payload(self.hub.render(call), project, issues[0], who)
        self.hooks.post(hook, "Issue Hook", "issue.test", payload, str(uuid.uuid4()))
        return JSONResponse({"message": "201 Created"}, 201)

    def events(self, call: Call) -> Response:
        """The delivery log, newest first."""
        only_query(call, "per_page", "page", "status")
        _, hook = self._hook(call)
        return page_of(call, self.hooks.deliveries(hook), _shown, address=self.hub.address(call))

    def resend(self, call: Call) -> Response:
        """Send a delivery again under its Idempotency-Key."""
        _, hook = self._hook(call)
        for delivery in self.hooks.deliveries(hook):
            if delivery.id == call.params["delivery_id"]:
                self.hooks.resend(hook, delivery)
                return JSONResponse({"response_status": 200}, 201)
        raise not_found()

    def _maintained(self, call: Call) -> Project:
        project = self.hub.door.project(call)
        self.hub.door.need(call, project, MAINTAINER)
        return project

    def _hook(self, call: Call) -> tuple[Project, Hook]:
        project = self._maintained(call)
        hook = self.hooks.hooks.get(call.params["hook_id"])
        if hook is None or hook.project != project.id:
            raise not_found()
        return project, hook


def _shown(delivery: Delivery) -> Json:
    return {
        "id": delivery.id,
        "url": delivery.url,
        "trigger": delivery.event,
        "request_headers": {k: v for k, v in delivery.headers.items() if k != "X-Gitlab-Token"},
        "request_data": delivery.details["payload"],
        "response_headers": {},
        "response_body": delivery.answer,
        "execution_duration": delivery.duration,
        "response_status": str(delivery.status_code or "internal error"),
    }
