"""Reading GitLab's webhooks: a signature where a signing token is set, else the secret as it is; then what happened.

`webhook_secret` may hold both kinds: what begins with `whsec_` is a signing token (Standard Webhooks), anything else is
compared with `X-Gitlab-Token`. Whoever has configured signing tokens only is not content with a bare secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import BadPayload, BadSignature, Incoming, Proof, Remark, TicketEvent, Uninteresting
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.spelling import unscoped
from agentsmith.trackers.shared.signatures import AlreadyProved, Reader, SignatureProof, same_secret
from agentsmith.trackers.shared.untrusted import JsonPart, read_object

SIGNING: Final = "whsec_"
_SHORTEST_KEY: Final = 24
"""Bytes, as Standard Webhooks demands."""
_TOLERANCE: Final = 300.0
"""Seconds that a signed time may be away from ours."""
_EVENTS: Final = frozenset({"Issue Hook", "Confidential Issue Hook", "Note Hook", "Confidential Note Hook"})
_TYPES: Final = frozenset({"issue", "incident", "task", "test case", "ticket"})
"""Work items that the issues API knows; epics and the like share the event, but are no tickets of a project."""
_ACTIONS: Final = frozenset({"open", "update", "close", "reopen"})


class GitLabWebhooks(Reader):
    """Verifies and reads the deliveries of one project."""

    telling: Final = frozenset({"idempotency-key", "webhook-id", "x-gitlab-event"})
    largest: Final = 16 * 1024 * 1024
    """GitLab sends up to 25 MB; an issue's text has a million characters at most, and may come three times."""

    def __init__(self, site: Site, secrets: Sequence[str]) -> None:
        self._site = site
        self._keys = tuple(signing_key(secret) for secret in secrets if secret.startswith(SIGNING))
        self._secrets = tuple(secret for secret in secrets if not secret.startswith(SIGNING))

    def proof(self, head: Incoming, *, now: float) -> Proof:
        """See WebhookReader."""
        headers = head.headers
        if not self._keys and not self._secrets:  # only where the configuration says `insecure`
            return AlreadyProved()
        if self._keys and "webhook-signature" in headers:
            return self._signed(headers, now)
        if not same_secret(self._secrets, headers.get("x-gitlab-token")):
            raise BadSignature("the secret is missing or wrong")
        return AlreadyProved()

    def understand(self, incoming: Incoming) -> TicketEvent | Uninteresting:
        """See WebhookReader."""
        headers = incoming.headers
        # The webhook's UUID is new with every attempt and the event's is shared by all hooks: neither names a delivery.
        delivery = headers.get("idempotency-key") or headers.get("webhook-id")
        # Older servers name none; the same body is the same delivery.
        delivery = delivery or hashlib.sha256(incoming.body).hexdigest()
        event = headers.get("x-gitlab-event", "")
        if not event:
            raise BadPayload("X-Gitlab-Event must name the event")
        data = read_object(incoming.body)
        if event not in _EVENTS:
            return Uninteresting(delivery, event, f"{event} events are not looked at")
        return self._about_an_issue(delivery, data)

    def _signed(self, headers: Mapping[str, str], now: float) -> Proof:
        stamp = headers.get("webhook-timestamp", "")
        if not stamp.isdecimal() or len(stamp) > 12 or abs(now - int(stamp)) > _TOLERANCE:
            raise BadSignature("the signature is wrong or too old")
        before = f"{headers.get('webhook-id', '')}.{stamp}.".encode("utf-8", "replace")
        given = headers["webhook-signature"].split(" ")[:10]
        return SignatureProof(
            self._keys, given, written=lambda digest: b"v1," + base64.b64encode(digest), before=before
        )

    def _about_an_issue(self, delivery: str, data: JsonPart) -> TicketEvent | Uninteresting:
        kind, attributes = data.at("object_kind").text(), data.at("object_attributes")
        action = attributes.text_or_nothing("action")
        name = f"{kind}.{action or 'test'}"
        if not self._ours(data.at("project")):
            return Uninteresting(delivery, name, "it is about another project")
        if kind == "note":
            system = attributes.get("system")
            if attributes.at("noteable_type").text() != "Issue" or (system is not None and system.value is not False):
                return Uninteresting(delivery, name, "it is no comment on an issue")
            if action not in ("", "create"):
                return Uninteresting(delivery, name, "only new comments are read")
            issue = data.at("issue")
            labels = issue.get("labels")
        else:
            type_ = attributes.text_or_nothing("type") or "Issue"
            if type_.casefold() not in _TYPES:
                return Uninteresting(delivery, name, f"it is about a work item of type {type_}")
            if action not in _ACTIONS:
                return Uninteresting(delivery, name, "it changes nothing that matters")
            issue = attributes
            labels = data.get("labels")
        actor = _actor(data.get("user"))
        return TicketEvent(
            id=delivery,
            event=name,
            key=str(issue.at("iid").number()),
            actor=actor,
            labels=None if labels is None else _titles(labels),
            changed=_changed(data.get("changes")),
            remark=_remark(attributes, actor) if kind == "note" else None,
        )

    def _ours(self, project: JsonPart) -> bool:
        id_ = project.get("id")
        path = project.at("path_with_namespace").text()
        return self._site.ours(path, str(id_.number()) if id_ is not None else "")


def _titles(labels: JsonPart | None) -> frozenset[str]:
    return (
        frozenset(unscoped(label.at("title").text()) for label in labels.parts()) if labels is not None else frozenset()
    )


def _changed(changes: JsonPart | None) -> frozenset[str] | None:
    labels = changes.get("labels") if changes is not None else None
    return None if labels is None else _titles(labels.get("previous")) ^ _titles(labels.get("current"))


def signing_key(secret: str) -> bytes:
    """What a signing token holds; raises ValueError for what cannot be one."""
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING), validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("a signing token is whsec_ and base64; was it copied whole?") from None
    if len(key) < _SHORTEST_KEY:
        raise ValueError(
            f"a signing token holds at least {_SHORTEST_KEY} bytes, this one {len(key)}: with so few anybody can sign; "
            "copy it whole from the webhook's page, or let GitLab make another"
        )
    return key


def _remark(attributes: JsonPart, actor: Actor | None) -> Remark:
    author = actor or Actor("", "ghost")
    return Remark(str(attributes.at("id").number()), author, attributes.text_or_nothing("note"))


def _actor(user: JsonPart | None) -> Actor | None:
    # Older servers do not tell the id; whoever has none is nobody that can be checked.
    id_ = user.get("id") if user is not None else None
    return Actor(str(id_.number()), user.at("username").text()) if user is not None and id_ is not None else None
