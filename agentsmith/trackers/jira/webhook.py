"""Reading Jira's webhooks: `X-Hub-Signature` over the raw body, then what happened to which issue.

Older Data Centers cannot sign. For them the secret may stand in the address that the hook calls, but addresses end up
in the logs of proxies: it counts only together with a list of the addresses that such a delivery may come from.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from typing import Final

from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import Incoming, Proof, Remark, TicketEvent, Uninteresting
from agentsmith.trackers.jira import adf
from agentsmith.trackers.jira.payloads import User
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.shared.signatures import AlreadyProved, Reader, hub_signature, same_secret
from agentsmith.trackers.shared.untrusted import JsonPart, read_object

_ISSUE_EVENTS: Final = frozenset({"jira:issue_created", "jira:issue_updated", "jira:issue_deleted"})
_REMARK: Final = "comment_created"
_REMARKED: Final = "issue_commented"
"""What Data Center calls an update of the issue that is a comment; old ones send no other word of it."""
_IDENTIFIER: Final = "x-atlassian-webhook-identifier"


class JiraWebhooks(Reader):
    """Verifies and reads the deliveries about one project."""

    telling: Final = frozenset({_IDENTIFIER})
    largest: Final = 5 * 1024 * 1024
    """Atlassian documents none; a text of an issue has 32,767 characters unless an administrator allows more."""

    def __init__(self, site: Site, secrets: Sequence[str], addresses: Sequence[str] = ()) -> None:
        self._site, self._secrets = site, tuple(secrets)
        self._networks = tuple(ipaddress.ip_network(address, strict=False) for address in addresses)

    def proof(self, head: Incoming, *, now: float) -> Proof:  # noqa: ARG002 - no time is signed
        """See WebhookReader."""
        # Without a secret this reader exists only where the configuration says `insecure`.
        if not self._secrets or self._called_in_secret(head):
            return AlreadyProved()
        return hub_signature(self._secrets, head.headers.get("x-hub-signature"))

    def _called_in_secret(self, incoming: Incoming) -> bool:
        knows = same_secret(self._secrets, incoming.path_secret)
        try:
            peer = ipaddress.ip_address(incoming.peer)
        except ValueError:
            return False
        # An IPv4 address may come in IPv6 clothing.
        mapped = getattr(peer, "ipv4_mapped", None) or peer
        return knows and any(mapped in network for network in self._networks)

    def understand(self, incoming: Incoming) -> TicketEvent | Uninteresting:
        """See WebhookReader."""
        data = read_object(incoming.body)
        # Old Data Centers send no identifier; the same body is the same delivery.
        delivery = incoming.headers.get(_IDENTIFIER) or hashlib.sha256(incoming.body).hexdigest()
        event = data.at("webhookEvent").text()
        if event not in _ISSUE_EVENTS and event != _REMARK:
            return Uninteresting(delivery, event[:100], "such events are not looked at")
        return self._about_an_issue(delivery, event, data)

    def _about_an_issue(self, delivery: str, event: str, data: JsonPart) -> TicketEvent | Uninteresting:
        issue = data.at("issue")
        fields = issue.get("fields")
        project = fields.get("project") if fields is not None else None
        number = project.get("id") if project is not None else None
        key = self._site.key_in(str(number.number()) if number is not None else "", issue.at("key").text())
        if key is None:
            return Uninteresting(delivery, event, "it is about another project")
        labels = fields.get("labels") if fields is not None else None
        shown = frozenset(label.text() for label in labels.parts()) if labels is not None else None
        is_remark = event == _REMARK or data.text_or_nothing("issue_event_type_name") == _REMARKED
        remark = self._remark(data.at("comment")) if is_remark else None
        actor = remark.author if remark else _actor(data.get("user"))
        changed = _changed(data.get("changelog"))
        if event == "jira:issue_created" and shown:
            changed = shown
        return TicketEvent(delivery, event, key, actor, labels=shown, changed=changed, remark=remark)

    def _remark(self, comment: JsonPart) -> Remark:
        author = _actor(comment.get("author")) or Actor("", "")
        body = comment.get("body")
        return Remark(str(comment.at("id").number()), author, adf.to_text(body.value) if body is not None else "")


def _changed(changelog: JsonPart | None) -> frozenset[str] | None:
    """The labels that were added or removed; None when it was about something else."""
    items = changelog.get("items") if changelog is not None else None
    found: set[str] = set()
    about_labels = False
    for item in items.parts() if items is not None else ():
        if item.at("field").text() == "labels":
            about_labels = True
            found |= set(item.text_or_nothing("fromString").split()) ^ set(item.text_or_nothing("toString").split())
    return frozenset(found) if about_labels else None


def _actor(who: JsonPart | None) -> Actor | None:
    user = who.shaped(User) if who is not None else None
    return user.to_actor() if user is not None and user.id else None
