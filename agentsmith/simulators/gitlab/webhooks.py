"""Project hooks: which there are, how deliveries are authenticated, and when a failing hook is switched off.

After 4 failures in a row a hook rests for a minute, which doubles with each further failure up to a day; after 40 it is
off for good. A success, or somebody who edits or tests it, starts afresh. A secret travels as it is
(`X-Gitlab-Token`), or a signing token signs as Standard Webhooks describe.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.gitlab.changes import Notice
from agentsmith.simulators.gitlab.hook_payloads import payload_of
from agentsmith.simulators.gitlab.payloads import Json, Renderer, iso
from agentsmith.simulators.gitlab.state import Project
from agentsmith.simulators.outbox import Delivery, Outbox

RESTS_AFTER, OFF_AFTER = 4, 40
FIRST_REST, LONGEST_REST = 60.0, 86_400.0
EVENTS = ("issues_events", "note_events", "confidential_issues_events", "confidential_note_events")
NAMES = {"issue": "Issue Hook", "note": "Note Hook"}
SIGNING = "whsec_"


@dataclass(slots=True)
class Hook:
    """A hook of a project."""

    id: int
    project: int
    url: str
    token: str | None
    signing_token: str | None
    events: dict[str, bool]
    created_at: datetime
    failures: int = 0
    disabled_until: float | None = None
    seen: set[int] = field(default_factory=set)
    """Deliveries whose result was counted."""

    def wants(self, notice: Notice) -> bool:
        """Whether it is subscribed to this."""
        kind = "issues_events" if notice.kind == "issue" else "note_events"
        return self.events[f"confidential_{kind}" if notice.issue.confidential else kind]

    def status(self, now: float) -> str:
        """`executable`, `temporarily_disabled` or `disabled`."""
        if self.failures >= OFF_AFTER:
            return "disabled"
        resting = self.disabled_until is not None and now <= self.disabled_until and self.failures >= RESTS_AFTER
        return "temporarily_disabled" if resting else "executable"

    def enable(self) -> None:
        """Forget all failures."""
        self.failures, self.disabled_until = 0, None

    def count(self, delivery: Delivery) -> None:
        """Take a result in; redirects count as good, as GitLab has it."""
        if delivery.id in self.seen or delivery.delivered_at is None or delivery.status == "lost":
            return
        self.seen.add(delivery.id)
        if 200 <= delivery.status_code < 400:
            self.enable()
            return
        self.failures += 1
        if self.failures >= RESTS_AFTER:
            rest = min(FIRST_REST * 2.0 ** (self.failures - RESTS_AFTER), LONGEST_REST)
            self.disabled_until = delivery.delivered_at + rest


def signature(signing_token: str, delivery: str, timestamp: str, body: bytes) -> str:
    """What `webhook-signature` carries."""
    key = base64.b64decode(signing_token.removeprefix(SIGNING))
    signed = hmac.new(key, f"{delivery}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


class Hooks:
    """All hooks of one GitLab, and the way from a notice to deliveries."""

    def __init__(
        self, clock: Clock, outbox: Outbox, render: Callable[[], Renderer], next_id: Callable[[], int]
    ) -> None:
        self._clock, self._outbox, self._render, self._next_id = clock, outbox, render, next_id
        self.hooks: dict[int, Hook] = {}
        self.withheld = 0
        """How many deliveries were not made because their hook was off."""

    def add(
        self, project: Project, url: str, *, token: str | None, signing_token: str | None, events: dict[str, bool]
    ) -> Hook:
        """Register a hook; GitLab sends nothing yet."""
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        wanted = {name: events.get(name, False) for name in EVENTS}
        hook = Hook(self._next_id(), project.id, url, token, signing_token, wanted, now)
        self.hooks[hook.id] = hook
        return hook

    def of(self, project: Project) -> list[Hook]:
        """The project's hooks."""
        return [hook for hook in self.hooks.values() if hook.project == project.id]

    def status(self, hook: Hook) -> str:
        """Whether it is on, after all results so far."""
        for delivery in sorted(self._outbox.log, key=lambda d: (d.delivered_at or 0.0, d.id)):
            if delivery.hook == str(hook.id):
                hook.count(delivery)
        return hook.status(self._clock.now())

    def notify(self, notice: Notice) -> None:
        """Tell every subscribed hook that is on; one event has one UUID for all of them."""
        listening = [hook for hook in self.of(notice.project) if hook.wants(notice)]
        if not listening:
            return
        payload, event_uuid = payload_of(self._render(), notice), str(uuid.uuid4())
        prefix = "Confidential " if notice.issue.confidential else ""
        for hook in listening:
            if self.status(hook) != "executable":
                self.withheld += 1
                continue
            name = f"{notice.kind}.{notice.action}"
            self.post(hook, f"{prefix}{NAMES[notice.kind]}", name, payload, event_uuid)

    def post(
        self, hook: Hook, header: str, name: str, payload: Json, event_uuid: str, key: str | None = None
    ) -> Delivery:
        """Send a payload; `key` is that of an earlier attempt."""
        body = json.dumps(payload, separators=(",", ":")).encode()
        key = key or str(uuid.uuid4())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "GitLab/18.6.0-ee",
            "Idempotency-Key": key,
            "X-Gitlab-Event": header,
            "X-Gitlab-Webhook-UUID": str(uuid.uuid4()),
            "X-Gitlab-Instance": self._render().web,
            "X-Gitlab-Event-UUID": event_uuid,
        }
        if hook.token:
            headers["X-Gitlab-Token"] = hook.token
        if hook.signing_token:
            stamp = str(int(self._clock.now()))
            signed = signature(hook.signing_token, key, stamp, body)
            headers |= {"webhook-id": key, "webhook-timestamp": stamp, "webhook-signature": signed}
        details = {"payload": payload, "header": header, "event_uuid": event_uuid}
        return self._outbox.post(Delivery(str(hook.id), key, name, hook.url, headers, body, details=details))

    def deliveries(self, hook: Hook) -> list[Delivery]:
        """The log of one hook, newest first."""
        return [d for d in reversed(self._outbox.log) if d.hook == str(hook.id)]

    def resend(self, hook: Hook, old: Delivery) -> Delivery:
        """Send a logged delivery again: same key, new attempt."""
        details = old.details
        return self.post(hook, details["header"], old.event, details["payload"], details["event_uuid"], old.guid)

    def to_json(self, hook: Hook) -> Json:
        """A hook as the API shows it: secrets never come back."""
        status = self.status(hook)
        until = None if hook.disabled_until is None else iso(datetime.fromtimestamp(hook.disabled_until, UTC))
        return {
            "id": hook.id,
            "url": hook.url,
            "name": None,
            "description": None,
            "created_at": iso(hook.created_at),
            "push_events": False,
            "tag_push_events": False,
            "merge_requests_events": False,
            "repository_update_events": False,
            "enable_ssl_verification": True,
            "alert_status": status,
            "disabled_until": until if status == "temporarily_disabled" else None,
            "url_variables": [],
            "project_id": hook.project,
            **hook.events,
        }
