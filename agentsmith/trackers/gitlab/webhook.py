"""Reading GitLab's webhooks: a signature where a signing token is set, else the secret as it is; then what happened.

`webhook_secret` may hold both kinds: what begins with `whsec_` is a signing token (Standard Webhooks), anything else is
compared with `X-Gitlab-Token`. Whoever has configured signing tokens only is not content with a bare secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import BadPayload, BadSignature, Incoming, Remark, TicketEvent, Uninteresting
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.spelling import unscoped
from agentsmith.trackers.signatures import read_object, same_secret

SIGNING: Final = "whsec_"
_TOLERANCE: Final = 300.0
"""Seconds that a signed time may be away from ours."""
_EVENTS: Final = frozenset({"Issue Hook", "Confidential Issue Hook", "Note Hook", "Confidential Note Hook"})
_TYPES: Final = frozenset({"issue", "incident", "task", "test case", "ticket"})
"""Work items that the issues API knows; epics and the like share the event, but are no tickets of a project."""
_ACTIONS: Final = frozenset({"open", "update", "close", "reopen"})


class GitLabWebhooks:
    """Verifies and reads the deliveries of one project."""

    telling: Final = frozenset({"idempotency-key", "webhook-id", "x-gitlab-event"})

    def __init__(self, site: Site, secrets: Sequence[str]) -> None:
        self._site = site
        self._keys = tuple(signing_key(secret) for secret in secrets if secret.startswith(SIGNING))
        self._secrets = tuple(secret for secret in secrets if not secret.startswith(SIGNING))

    def read(self, incoming: Incoming, *, now: float) -> TicketEvent | Uninteresting:
        """See WebhookReader."""
        if self._keys or self._secrets:  # without any this reader exists only where the configuration says `insecure`
            self._verify(incoming.headers, incoming.body, now)
        return self.understand(incoming)

    def understand(self, incoming: Incoming) -> TicketEvent | Uninteresting:
        """See WebhookReader."""
        headers = incoming.headers
        # The webhook's UUID is new with every attempt and the event's is shared by all hooks: neither names a delivery.
        delivery = headers.get("idempotency-key") or headers.get("webhook-id", "")
        event = headers.get("x-gitlab-event", "")
        if not delivery or not event:
            raise BadPayload("Idempotency-Key and X-Gitlab-Event must name the delivery")
        data = read_object(incoming.body)
        if event not in _EVENTS:
            return Uninteresting(delivery, event, f"{event} events are not looked at")
        try:
            return self._about_an_issue(delivery, data)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadPayload(f"the {event} payload lacks what GitLab documents: {type(error).__name__}") from None

    def _verify(self, headers: Mapping[str, str], body: bytes, now: float) -> None:
        if self._keys and "webhook-signature" in headers:
            if not self._signed(headers, body, now):
                raise BadSignature("the signature is wrong or too old")
            return
        if not same_secret(self._secrets, headers.get("x-gitlab-token")):
            raise BadSignature("the secret is missing or wrong")

    def _signed(self, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        stamp = headers.get("webhook-timestamp", "")
        if not stamp.isdecimal() or len(stamp) > 12 or abs(now - int(stamp)) > _TOLERANCE:
            return False
        text = f"{headers.get('webhook-id', '')}.{stamp}.".encode("utf-8", "replace") + body
        given = [part.encode("utf-8", "replace") for part in headers["webhook-signature"].split(" ")]
        genuine = False
        for key in self._keys:
            wanted = b"v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest())
            for one in given[:10]:
                genuine |= hmac.compare_digest(wanted, one)
        return genuine

    def _about_an_issue(self, delivery: str, data: dict[str, Any]) -> TicketEvent | Uninteresting:
        kind, attributes = str(data["object_kind"]), data["object_attributes"]
        action = str(attributes.get("action", ""))
        name = f"{kind}.{action or 'test'}"
        if not self._ours(data["project"]):
            return Uninteresting(delivery, name, "it is about another project")
        if kind == "note":
            if attributes["noteable_type"] != "Issue" or attributes.get("system"):
                return Uninteresting(delivery, name, "it is no comment on an issue")
            if action not in ("", "create"):
                return Uninteresting(delivery, name, "only new comments are read")
            issue = data["issue"]
        else:
            if str(attributes.get("type", "Issue")).casefold() not in _TYPES:
                return Uninteresting(delivery, name, f"it is about a work item of type {attributes.get('type')}")
            if action not in _ACTIONS:
                return Uninteresting(delivery, name, "it changes nothing that matters")
            issue = attributes
        actor = _actor(data.get("user"))
        return TicketEvent(
            id=delivery,
            event=name,
            key=str(int(issue["iid"])),
            actor=actor,
            labels=_titles(data.get("labels") if kind != "note" else issue.get("labels")),
            changed=_changed(data.get("changes") or {}),
            remark=_remark(attributes, actor) if kind == "note" else None,
        )

    def _ours(self, project: Mapping[str, Any]) -> bool:
        names = {str(project.get("id", "")), str(project["path_with_namespace"]).lower()}
        return self._site.project.lower() in names or (bool(self._site.called) and self._site.called in names)


def _titles(labels: Any) -> frozenset[str] | None:
    return None if labels is None else frozenset(unscoped(str(label["title"])) for label in labels)


def _changed(changes: Mapping[str, Any]) -> frozenset[str] | None:
    if "labels" not in changes:
        return None
    before = _titles(changes["labels"]["previous"]) or frozenset()
    return before ^ (_titles(changes["labels"]["current"]) or frozenset())


def signing_key(secret: str) -> bytes:
    """What a signing token holds; raises ValueError for what cannot be one."""
    try:
        return base64.b64decode(secret.removeprefix(SIGNING), validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("a signing token is whsec_ and base64; was it copied whole?") from None


def _remark(attributes: Mapping[str, Any], actor: Actor | None) -> Remark:
    author = actor or Actor("", "ghost")
    return Remark(str(int(attributes["id"])), author, str(attributes.get("note") or ""))


def _actor(user: Mapping[str, Any] | None) -> Actor | None:
    # Older servers do not tell the id; whoever has none is nobody that can be checked.
    if user is None or user.get("id") is None:
        return None
    return Actor(str(int(user["id"])), str(user["username"]))
