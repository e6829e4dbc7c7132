"""Service hook subscriptions over the API."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.azuredevops.answers import listed, need_version, only_query, read_object, refuse
from agentsmith.simulators.azuredevops.hooks import Hooks, Subscription
from agentsmith.simulators.azuredevops.hub import Hub
from agentsmith.simulators.azuredevops.payloads import Json
from agentsmith.simulators.frame import Call, Handler

SUBSCRIPTIONS = "/hooks/subscriptions"
EVENTS = frozenset({"workitem.created", "workitem.updated", "workitem.commented", "workitem.deleted"})
MASK = "********"


class HookRoutes:
    """The endpoints about subscriptions."""

    def __init__(self, hub: Hub, hooks: Hooks) -> None:
        self.hub, self.hooks = hub, hooks

    def above(self) -> list[tuple[str, str, Handler]]:
        """Method, path below the organization's `_apis`, handler."""
        return [
            ("GET", SUBSCRIPTIONS, self.list_subscriptions),
            ("POST", SUBSCRIPTIONS, self.create),
            ("GET", SUBSCRIPTIONS + "/{subscription}", self.get),
            ("PUT", SUBSCRIPTIONS + "/{subscription}", self.replace),
            ("DELETE", SUBSCRIPTIONS + "/{subscription}", self.delete),
        ]

    def list_subscriptions(self, call: Call) -> Response:
        """All subscriptions."""
        self.hub.door.need_hooks(call)
        only_query(call, "publisherId", "eventType", "consumerId", "consumerActionId")
        wanted = call.query.get("eventType")
        found = [s for s in self.hooks.subscriptions.values() if wanted in (None, s.event)]
        return listed([self._shown(call, subscription) for subscription in found])

    def create(self, call: Call) -> Response:
        """A new subscription."""
        self.hub.door.need_hooks(call)
        need_version(call)
        made = self._read(read_object(call))
        self.hooks.subscriptions[made.id] = made
        return JSONResponse(self._shown(call, made))

    def get(self, call: Call) -> Response:
        """One subscription."""
        self.hub.door.need_hooks(call)
        return JSONResponse(self._shown(call, self._of(call)))

    def replace(self, call: Call) -> Response:
        """Change a subscription; `status` brings one back that was disabled."""
        self.hub.door.need_hooks(call)
        need_version(call)
        old = self._of(call)
        data = read_object(call)
        made = self._read(data)
        made.id, made.status = old.id, str(data.get("status", "enabled"))
        if made.password in ("", MASK):
            made.password = old.password
        self.hooks.subscriptions[old.id] = made
        return JSONResponse(self._shown(call, made))

    def delete(self, call: Call) -> Response:
        """The subscription goes."""
        self.hub.door.need_hooks(call)
        del self.hooks.subscriptions[self._of(call).id]
        return Response(status_code=200)

    def _of(self, call: Call) -> Subscription:
        found = self.hooks.subscriptions.get(str(call.params["subscription"]))
        if found is None:
            raise refuse(404, "The subscription does not exist.", "SubscriptionNotFoundException")
        return found

    def _read(self, data: dict[str, Any]) -> Subscription:
        publisher: dict[str, str] = data.get("publisherInputs") or {}
        consumer: dict[str, str] = data.get("consumerInputs") or {}
        event, url = str(data.get("eventType")), str(consumer.get("url", ""))
        if event not in EVENTS or data.get("consumerId") != "webHooks" or not url.startswith(("http://", "https://")):
            raise refuse(400, "The subscription is not valid.", "SubscriptionInputException")
        try:
            project = self.hub.world.project(str(publisher.get("projectId", "")))
        except LookupError:
            raise refuse(400, "The project does not exist.", "SubscriptionInputException") from None
        lines = [line.partition(":") for line in str(consumer.get("httpHeaders", "")).splitlines() if ":" in line]
        filters = {k: v for k, v in publisher.items() if k in ("workItemType", "tag", "changedFields") and v}
        made = self.hooks.add(event, project.name, url)
        made.username = str(consumer.get("basicAuthUsername", ""))
        made.password = str(consumer.get("basicAuthPassword", ""))
        made.headers = {name.strip(): value.strip() for name, _, value in lines}
        made.filters = filters
        return self.hooks.subscriptions.pop(made.id)

    def _shown(self, call: Call, subscription: Subscription) -> Json:
        root = self.hub.render(call).root
        consumer = {"url": subscription.url}
        if subscription.username or subscription.password:
            consumer |= {"basicAuthUsername": subscription.username, "basicAuthPassword": MASK}
        if subscription.headers:
            consumer["httpHeaders"] = MASK
        return {
            "id": subscription.id,
            "url": f"{root}/_apis{SUBSCRIPTIONS}/{subscription.id}",
            "status": subscription.status,
            "publisherId": "tfs",
            "eventType": subscription.event,
            "resourceVersion": "1.0",
            "consumerId": "webHooks",
            "consumerActionId": "httpRequest",
            "probationRetries": 0,
            "publisherInputs": {
                "projectId": self.hub.world.project(subscription.project).id,
                **subscription.filters,
            },
            "consumerInputs": consumer,
        }
