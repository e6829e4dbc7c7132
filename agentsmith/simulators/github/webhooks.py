"""Hooks and what they send: payloads in GitHub's shape, signed over the exact bytes, one delivery per label."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.github.changes import Notice
from agentsmith.simulators.github.payloads import Json, Renderer, iso
from agentsmith.simulators.github.repository_payload import pull_json, repository_json
from agentsmith.simulators.github.state import Issue, Repository
from agentsmith.simulators.outbox import Delivery, Outbox

ZEN = "Whoever asks twice is answered twice."


@dataclass(slots=True)
class Hook:
    """A hook of a repository, or of a GitHub App for every repository it is installed on."""

    id: int
    url: str
    secret: str | None
    events: list[str]
    created_at: datetime
    updated_at: datetime
    repository: int | None = None
    app: int | None = None
    installation: int | None = None
    repositories: frozenset[str] | None = None
    """For an App: lower-case full names of what it is installed on; None: all."""
    content_type: str = "json"
    insecure_ssl: str = "0"
    active: bool = True
    last: Delivery | None = field(default=None, repr=False)

    def covers(self, repository: Repository) -> bool:
        """Whether it hears of what happens there."""
        if self.repository is not None:
            return self.repository == repository.id
        return self.repositories is None or repository.full_name.casefold() in self.repositories

    def wants(self, event: str) -> bool:
        """Whether it is subscribed; a ping always comes."""
        return self.active and (event == "ping" or "*" in self.events or event in self.events)


def signature(secret: str, body: bytes) -> str:
    """What `X-Hub-Signature-256` carries."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Hooks:
    """All hooks of one GitHub, and the way from a notice to deliveries."""

    def __init__(
        self, clock: Clock, outbox: Outbox, render: Callable[[], Renderer], next_id: Callable[[], int]
    ) -> None:
        self._clock, self._outbox, self._render, self._next_id = clock, outbox, render, next_id
        self.hooks: dict[int, Hook] = {}

    def add(
        self,
        url: str,
        *,
        secret: str | None,
        events: list[str],
        repository: int | None = None,
        content_type: str = "json",
    ) -> Hook:
        """Register a hook; nothing is sent yet."""
        now = self._clock.stamp()
        hook = Hook(self._next_id(), url, secret, list(events), now, now, repository)
        hook.content_type = content_type
        self.hooks[hook.id] = hook
        return hook

    def of(self, repository: Repository) -> list[Hook]:
        """The repository's own hooks."""
        return [hook for hook in self.hooks.values() if hook.repository == repository.id]

    def notify(self, notice: Notice) -> None:
        """Tell every subscribed hook; the payload is made once and only if somebody listens."""
        hooks = [hook for hook in self.hooks.values() if hook.covers(notice.repository)]
        listening = [hook for hook in hooks if hook.wants(notice.event)]
        if listening:
            payload = self._payload(notice)
            for hook in listening:
                self._post(hook, notice.event, notice.action, payload, notice.repository.id)

    def ping(self, hook: Hook, repository: Repository, sender: str) -> None:
        """What a new hook gets first."""
        render = self._render()
        payload = {
            "zen": ZEN,
            "hook_id": hook.id,
            "hook": hook_json(render, repository, hook),
            "repository": repository_json(render, repository),
            "sender": render.user(sender),
        }
        self._post(hook, "ping", None, payload, repository.id)

    def deliveries(self, hook: Hook) -> list[Delivery]:
        """The log of one hook, newest first."""
        return [d for d in reversed(self._outbox.log) if d.hook == str(hook.id)]

    def redeliver(self, delivery: Delivery) -> Delivery:
        """Send a logged delivery again under the same GUID."""
        return self._outbox.redeliver(delivery.id)

    def _post(self, hook: Hook, event: str, action: str | None, payload: Json, repository_id: int) -> None:
        if hook.installation is not None:
            node = f"MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9u{hook.installation}"
            payload = {**payload, "installation": {"id": hook.installation, "node_id": node}}
        text = json.dumps(payload, separators=(",", ":"))
        form = hook.content_type == "form"
        body = urlencode({"payload": text}).encode() if form else text.encode()
        guid = str(uuid.uuid4())
        target = "integration" if hook.app is not None else "repository"
        headers = {
            "Accept": "*/*",
            "Content-Type": "application/x-www-form-urlencoded" if form else "application/json",
            "User-Agent": "GitHub-Hookshot/5170a17",
            "X-GitHub-Delivery": guid,
            "X-GitHub-Event": event,
            "X-GitHub-Hook-ID": str(hook.id),
            "X-GitHub-Hook-Installation-Target-ID": str(hook.app or repository_id),
            "X-GitHub-Hook-Installation-Target-Type": target,
        }
        if hook.secret:
            headers["X-Hub-Signature-256"] = signature(hook.secret, body)
        name = f"{event}.{action}" if action else event
        details: dict[str, Any] = {
            "event": event,
            "action": action,
            "repository": repository_id,
            "installation": hook.installation,
            "payload": payload,
        }
        delivery = Delivery(str(hook.id), guid, name, hook.url, headers, body, details=details)
        hook.last = self._outbox.post(delivery)

    def _payload(self, notice: Notice) -> Json:
        render = self._render()
        repository = notice.repository
        payload: Json = {"action": notice.action}
        if notice.issue is not None and notice.event == "pull_request":
            payload["number"] = notice.issue.number
            payload["pull_request"] = pull_json(render, repository, notice.issue)
        elif notice.issue is not None:
            payload["issue"] = _issue(render, repository, notice.issue)
        if notice.changes is not None:
            payload["changes"] = notice.changes
        if notice.other is not None:
            side = "new" if notice.action == "transferred" else "old"
            other, issue = notice.other
            payload["changes"] = {
                f"{side}_issue": _issue(render, other, issue),
                f"{side}_repository": repository_json(render, other),
            }
        if notice.label is not None:
            payload["label"] = render.label(repository, notice.label)
        if notice.comment is not None and notice.issue is not None:
            payload["comment"] = render.comment(repository, notice.issue, notice.comment)
        payload["repository"] = repository_json(render, repository)
        owner = render.user(repository.owner)
        if owner["type"] == "Organization":
            payload["organization"] = _organization(render, owner)
        payload["sender"] = render.user(notice.actor)
        return payload


def hook_json(render: Renderer, repository: Repository, hook: Hook) -> Json:
    """A hook as the API shows it: the secret never comes back."""
    url = f"{render.repo_url(repository)}/hooks/{hook.id}"
    config = {"content_type": hook.content_type, "insecure_ssl": hook.insecure_ssl, "url": hook.url}
    if hook.secret:
        config["secret"] = "********"  # noqa: S105 - that is how GitHub hides it
    sent = hook.last if hook.last and hook.last.delivered_at is not None else None
    code = sent.status_code if sent else None
    return {
        "type": "Repository",
        "id": hook.id,
        "name": "web",
        "active": hook.active,
        "events": hook.events,
        "config": config,
        "updated_at": iso(hook.updated_at),
        "created_at": iso(hook.created_at),
        "url": url,
        "test_url": f"{url}/test",
        "ping_url": f"{url}/pings",
        "deliveries_url": f"{url}/deliveries",
        "last_response": {
            "code": code,
            "status": "unused" if sent is None else "active",
            "message": sent.status if sent else None,
        },
    }


def _issue(render: Renderer, repository: Repository, issue: Issue) -> Json:
    """An issue as webhooks show it: their published schemas are closed, and know no `closed_by`."""
    shown = render.issue(repository, issue)
    del shown["closed_by"]
    return {"draft": False, **shown}


def _organization(render: Renderer, owner: Json) -> Json:
    login = owner["login"]
    url = f"{render.api}/orgs/{login}"
    same = {name: owner[name] for name in ("login", "id", "node_id", "avatar_url")}
    tails = ("repos", "events", "hooks", "issues")
    more = {f"{tail}_url": f"{url}/{tail}" for tail in tails}
    people = {"members_url": f"{url}/members{{/member}}", "public_members_url": f"{url}/public_members{{/member}}"}
    return {**same, "url": url, **more, **people, "description": None}
