"""Service hooks: subscriptions, what they send, and how the service punishes a receiver that fails.

408, 502, 503, 504 and a receiver that cannot be reached are tried again, 8 times within three minutes. 410 disables
the subscription at once. Any other error puts it on probation: the event is tried again up to 7 times in 36 hours,
every new event is lost meanwhile, and after the last failure the subscription is disabled.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from agentsmith.simulators.azuredevops.changes import Notice
from agentsmith.simulators.azuredevops.payloads import Json, Renderer, iso
from agentsmith.simulators.azuredevops.state import TAGS, World, split_tags
from agentsmith.simulators.clock import Clock
from agentsmith.simulators.faults import FaultBox
from agentsmith.simulators.outbox import Delivery, Outbox

TRANSIENT = frozenset({408, 502, 503, 504})
QUICK_TRIES = 8
QUICK_DELAY = 20.0
PROBATION_TRIES = 7
PROBATION_DELAY = float(36 * 3600 // PROBATION_TRIES)


@dataclass(slots=True)
class Subscription:
    """A subscription of one project to one kind of event."""

    id: str
    event: str
    project: str
    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    filters: Mapping[str, str] = field(default_factory=dict)
    status: str = "enabled"
    sent: int = 0
    lost: int = 0
    """Events that nobody was told about while the subscription was on probation or disabled."""


class HookOutbox(Outbox):
    """An outbox that hears how each delivery ended."""

    def __init__(self, clock: Clock, faults: FaultBox, *, timeout: float, ended: Callable[[Delivery], None]) -> None:
        super().__init__(clock, faults, timeout=timeout)
        self._ended = ended

    async def _send(self, client: httpx.AsyncClient, delivery: Delivery) -> None:
        await super()._send(client, delivery)
        self._ended(delivery)


class Hooks:
    """All subscriptions of one organization."""

    def __init__(self, clock: Clock, world: World, render: Callable[[], Renderer]) -> None:
        self._clock, self._world, self._render = clock, world, render
        self.outbox: Outbox | None = None
        self.subscriptions: dict[str, Subscription] = {}

    def add(self, event: str, project: str, url: str, **more: Any) -> Subscription:
        """Register a subscription; nothing is sent yet."""
        made = Subscription(str(uuid.uuid4()), event, project, url, **more)
        self.subscriptions[made.id] = made
        return made

    def notify(self, notice: Notice) -> None:
        """Tell every subscription that wants to know; one on probation loses the event."""
        for subscription in self.subscriptions.values():
            if not self._wants(subscription, notice):
                continue
            if subscription.status != "enabled":
                subscription.lost += 1
                continue
            self._post(subscription, notice)

    def ended(self, delivery: Delivery) -> None:
        """Draw the conclusions from how a delivery ended."""
        subscription = self.subscriptions.get(delivery.hook)
        if subscription is None or delivery.status == "lost":
            return
        if delivery.status == "OK":
            if subscription.status == "onProbation":
                subscription.status = "enabled"
        elif delivery.status_code == 410:
            subscription.status = "disabledBySystem"
        elif delivery.status_code in TRANSIENT or delivery.status_code == 0:
            tries = delivery.details.setdefault("quick", 0)
            if tries < QUICK_TRIES:
                self._again(delivery, "quick", QUICK_DELAY)
            else:
                self._on_probation(subscription, delivery)
        else:
            self._on_probation(subscription, delivery)

    def _on_probation(self, subscription: Subscription, delivery: Delivery) -> None:
        subscription.status = "onProbation"
        if delivery.details.setdefault("slow", 0) < PROBATION_TRIES:
            self._again(delivery, "slow", PROBATION_DELAY)
        else:
            subscription.status = "disabledBySystem"

    def _again(self, delivery: Delivery, kind: str, delay: float) -> None:
        assert self.outbox is not None  # noqa: S101 - set by the simulator
        again = self.outbox.send_again(delivery)
        again.details = {**delivery.details, kind: delivery.details.get(kind, 0) + 1}
        again.due = self._clock.now() + delay

    def _wants(self, subscription: Subscription, notice: Notice) -> bool:
        if subscription.event != notice.event or subscription.project.casefold() != notice.item.project.casefold():
            return False
        fields, filters = notice.after.fields, subscription.filters
        if (type_ := filters.get("workItemType")) and type_ != fields["System.WorkItemType"]:
            return False
        if (tag := filters.get("tag")) and tag.casefold() not in [t.casefold() for t in split_tags(fields.get(TAGS))]:
            return False
        watched = filters.get("changedFields")
        if not watched:
            return True
        return watched in self._render().difference(notice.item, notice.before, notice.after)

    def _post(self, subscription: Subscription, notice: Notice) -> None:
        assert self.outbox is not None  # noqa: S101 - set by the simulator
        subscription.sent += 1
        guid = str(uuid.uuid4())
        body = json.dumps(self._payload(subscription, notice, guid)).encode()
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": "VSServices/17.138.32803.2 (w3wp.exe)",
            **subscription.headers,
        }
        if subscription.username or subscription.password:
            login = f"{subscription.username}:{subscription.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        self.outbox.post(Delivery(subscription.id, guid, notice.event, subscription.url, headers, body))

    def _payload(self, subscription: Subscription, notice: Notice, guid: str) -> Json:
        render, item = self._render(), notice.item
        what = f"{notice.after.fields['System.WorkItemType']} #{item.id} ({notice.after.fields.get('System.Title')})"
        verb = {"workitem.updated": "updated", "workitem.created": "created", "workitem.commented": "commented on"}
        text = f"{what} {verb.get(notice.event, 'deleted')} by {notice.by.display}."
        message = {"text": text, "html": text, "markdown": text}
        root = f"{render.root}/"
        project = self._world.project(item.project)
        return {
            "subscriptionId": subscription.id,
            "notificationId": subscription.sent,
            "id": guid,
            "eventType": notice.event,
            "publisherId": "tfs",
            "scope": "all",
            "message": message,
            "detailedMessage": message,
            "resource": self._resource(render, notice),
            "resourceVersion": "1.0",
            "resourceContainers": {
                "collection": {"id": str(uuid.uuid5(uuid.NAMESPACE_URL, root)), "baseUrl": root},
                "account": {"id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{root}account")), "baseUrl": root},
                "project": {"id": project.id, "baseUrl": root},
            },
            "createdDate": iso(self._clock.stamp()),
        }

    def _resource(self, render: Renderer, notice: Notice) -> Json:
        """An update is told by its number and its difference; everything else by the work item as it is."""
        item, after = notice.item, notice.after
        url = f"{render.project_url(item)}/_apis/wit/workItems/{item.id}"
        if notice.event != "workitem.updated":
            return {
                "id": item.id,
                "rev": after.rev,
                "fields": render.fields(item, after, flat=True),
                "_links": render.links(item),
                "url": url,
            }
        index = item.revisions.index(after)
        update = render.update(item, index)
        links = {
            "self": {"href": update["url"]},
            "parent": {"href": url},
            "workItemUpdates": {"href": f"{url}/updates"},
        }
        return {
            **update,
            "fields": {
                **render.difference(item, notice.before, after, flat=True),
                "System.RevisedDate": {"oldValue": iso(after.at), "newValue": update["revisedDate"]},
                "System.AuthorizedDate": {
                    "oldValue": iso(notice.before.at if notice.before else after.at),
                    "newValue": iso(after.at),
                },
            },
            "_links": links,
            "revision": {
                "id": item.id,
                "rev": after.rev,
                "fields": render.fields(item, after, flat=True),
                "url": f"{url}/revisions/{after.rev}",
            },
        }
