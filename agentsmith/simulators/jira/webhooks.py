"""Hooks and what they send: payloads in Jira's shape, signed over the exact bytes, tried again as Jira does.

An administrator's webhook with a secret is signed in `X-Hub-Signature`. A delivery that fails with 408, 409, 425, 429,
a server error or a time-out is sent again, up to five times, minutes apart, under the same identifier.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.jira.changes import Notice
from agentsmith.simulators.jira.payloads import Json, Renderer
from agentsmith.simulators.outbox import Delivery, Outbox

RETRIED = frozenset({408, 409, 425, 429})
TRIES = 5
APART = 600.0
"""Simulated seconds between two tries; Jira waits 5 to 15 minutes."""
KINDS = {
    "jira:issue_created": "issue_created",
    "jira:issue_updated": "issue_updated",
    "jira:issue_deleted": "issue_deleted",
}


@dataclass(slots=True)
class Hook:
    """A webhook that an administrator registered."""

    id: int
    url: str
    secret: str | None
    events: tuple[str, ...]
    projects: frozenset[str] | None
    """Keys of the projects that its filter lets through; None: all."""
    enabled: bool = True

    def wants(self, event: str, project: str) -> bool:
        """Whether it is told."""
        heard = "*" in self.events or event in self.events
        return self.enabled and heard and (self.projects is None or project in self.projects)


def signature(secret: str, body: bytes) -> str:
    """What `X-Hub-Signature` carries."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class RetryingOutbox(Outbox):
    """An outbox that sends again what failed."""

    async def _send(self, client: httpx.AsyncClient, delivery: Delivery) -> None:
        await super()._send(client, delivery)
        tries = int(delivery.details.get("retry", 0))
        failed = delivery.status_code == 0 or delivery.status_code >= 500 or delivery.status_code in RETRIED
        if not failed or tries >= TRIES or delivery.delivered_at is None:
            return
        again = replace(
            delivery,
            id=0,
            redelivery=True,
            due=delivery.delivered_at + APART,
            delivered_at=None,
            status="pending",
            status_code=0,
            headers={**delivery.headers, "X-Atlassian-Webhook-Retry": str(tries + 1)},
            details={**delivery.details, "retry": tries + 1},
        )
        self.log.append(self._number(again))
        self._waiting.append(again)


class Hooks:
    """All hooks of one Jira, and the way from a notice to deliveries."""

    def __init__(
        self, clock: Clock, outbox: Outbox, render: Callable[[], Renderer], next_id: Callable[[], int], *, cloud: bool
    ) -> None:
        self._clock, self._outbox, self._render, self._next_id = clock, outbox, render, next_id
        self._cloud = cloud
        self.hooks: dict[int, Hook] = {}

    def add(self, url: str, *, secret: str | None, events: Sequence[str], projects: Sequence[str] | None) -> Hook:
        """Register a hook; nothing is sent yet."""
        keys = None if projects is None else frozenset(projects)
        hook = Hook(self._next_id(), url, secret, tuple(events), keys)
        self.hooks[hook.id] = hook
        return hook

    def notify(self, notice: Notice) -> None:
        """Tell every hook that wants to know; the payload is made once and only if somebody listens."""
        for event, payload in self._payloads(notice) if self.hooks else []:
            for hook in self.hooks.values():
                if hook.wants(event, notice.issue.project):
                    self._post(hook, event, payload)

    def _post(self, hook: Hook, event: str, payload: Json) -> None:
        body = json.dumps(payload, separators=(",", ":")).encode()
        guid = str(uuid.uuid4())
        headers = {
            "Content-Type": "application/json; charset=UTF-8",
            "User-Agent": "Atlassian Webhook HTTP Client",
            "X-Atlassian-Webhook-Identifier": guid,
        }
        if self._cloud:
            headers["X-Atlassian-Webhook-Flow"] = "Primary"
        if hook.secret:
            headers["X-Hub-Signature"] = signature(hook.secret, body)
        details: dict[str, Any] = {"retry": 0, "payload": payload}
        self._outbox.post(Delivery(str(hook.id), guid, event, hook.url, headers, body, details=details))

    def _payloads(self, notice: Notice) -> list[tuple[str, Json]]:
        render = self._render()
        user = self._actor(render, notice.actor)
        now = int(self._clock.now() * 1000)
        issue = self._issue(render, notice)
        if notice.comment is None:
            payload: Json = {
                "timestamp": now,
                "webhookEvent": notice.event,
                "issue_event_type_name": self._kind(notice),
                "user": user,
                "issue": issue,
            }
            if notice.history is not None:
                payload["changelog"] = {"id": notice.history.id, "items": render.changes(notice.history)}
            return [(notice.event, payload)]
        comment = render.comment(notice.issue, notice.comment)
        short = {k: issue["fields"][k] for k in ("summary", "issuetype", "project", "assignee", "priority", "status")}
        commented: Json = {"timestamp": now, "webhookEvent": notice.event, "comment": comment}
        commented["issue"] = {**issue, "fields": short}
        if self._cloud:
            return [(notice.event, commented)]
        # Data Center tells of a comment twice: as such, and as an update of the issue.
        kind = {"comment_created": "issue_commented", "comment_updated": "issue_comment_edited"}
        update = {
            "timestamp": now,
            "webhookEvent": "jira:issue_updated",
            "issue_event_type_name": kind.get(notice.event, "issue_comment_deleted"),
            "user": user,
            "issue": issue,
            "comment": comment,
        }
        return [(notice.event, commented), ("jira:issue_updated", update)]

    def _kind(self, notice: Notice) -> str:
        fields = {change.field for change in notice.history.items} if notice.history else set()
        return "issue_generic" if "status" in fields else KINDS[notice.event]

    def _issue(self, render: Renderer, notice: Notice) -> Json:
        shown = render.issue(notice.issue, None)
        del shown["expand"]
        return shown

    def _actor(self, render: Renderer, name: str) -> Json:
        return render.user(name) or {}
