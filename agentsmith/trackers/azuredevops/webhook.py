"""Reading Azure DevOps' service hooks: a secret in the request, because nothing is signed; then what happened.

The secret is the password of basic authentication (any user name) or the header `X-Agentsmith-Secret`; both can be set
on a subscription. What a delivery calls `resource.id` is the work item in most events and the number of the update in
`workitem.updated`; the work item is `resource.workItemId` there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final

from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import BadPayload, BadSignature, Incoming, Proof, Remark, TicketEvent, Uninteresting
from agentsmith.trackers.azuredevops import payloads, tags
from agentsmith.trackers.azuredevops.payloads import Identity, as_identity
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.shared.signatures import AlreadyProved, Reader, same_secret
from agentsmith.trackers.shared.untrusted import JsonPart, read_object

HEADER: Final = "x-agentsmith-secret"
_EVENTS: Final = frozenset(
    {"workitem.created", "workitem.updated", "workitem.commented", "workitem.deleted", "workitem.restored"}
)
_TAGS: Final = "System.Tags"


class AzureDevOpsWebhooks(Reader):
    """Verifies and reads the deliveries of one project."""

    telling: Final[frozenset[str]] = frozenset()
    """All that tells what a delivery is stands in its body."""
    largest: Final = 10 * 1024 * 1024
    """Microsoft documents none; a text of a work item has a million characters at most, and comes twice."""

    def __init__(self, site: Site, secrets: Sequence[str]) -> None:
        self._site, self._secrets = site, tuple(secrets)

    def proof(self, head: Incoming, *, now: float) -> Proof:  # noqa: ARG002 - no time is signed
        """See WebhookReader."""
        headers = head.headers
        if self._secrets:  # without one this reader exists only where the configuration says `insecure`
            by_login = same_secret(self._secrets, _password(headers.get("authorization", "")))
            by_header = same_secret(self._secrets, headers.get(HEADER))
            if not by_login and not by_header:
                raise BadSignature("the secret is missing or wrong")
        return AlreadyProved()

    def understand(self, incoming: Incoming) -> TicketEvent | Uninteresting:
        """See WebhookReader."""
        data = read_object(incoming.body)
        delivery, event = data.at("id").text(), data.at("eventType").text()
        if not delivery:
            raise BadPayload("the id does not name the delivery")
        if event not in _EVENTS:
            return Uninteresting(delivery, event, f"{event[:40]} events are not looked at")
        return self._about_an_item(delivery, event, data)

    def _about_an_item(self, delivery: str, event: str, data: JsonPart) -> TicketEvent | Uninteresting:
        resource, containers = data.at("resource"), data.get("resourceContainers")
        container = containers.get("project") if containers is not None else None
        project = container.text_or_nothing("id") if container is not None else ""
        revision = resource.get("revision") or resource
        fields = revision.at("fields")
        if not self._site.ours(fields.at("System.TeamProject").text(), project):
            return Uninteresting(delivery, event, "it is about another project")
        named = (resource.get("workItemId"), revision.get("id"), resource.get("id"))
        # Some updates call their work item 0.
        key = self._site.number(next((str(id_.number()) for id_ in named if id_ is not None and id_.value != 0), ""))
        if key is None:
            raise BadPayload("the work item has no id")
        actor = _actor(resource.get("revisedBy") or fields.get("System.ChangedBy"))
        return TicketEvent(
            id=delivery,
            event=event,
            key=key,
            actor=actor,
            labels=frozenset(tags.split(fields.text_or_nothing(_TAGS))),
            changed=_changed(resource.at("fields")) if event == "workitem.updated" else None,
            remark=_remark(resource, fields, actor) if event == "workitem.commented" else None,
        )


def _password(authorization: str) -> str | None:
    scheme, _, packed = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(packed.strip(), validate=True).decode("utf-8").partition(":")[2]
    except (binascii.Error, ValueError):
        return None


def _changed(fields: JsonPart) -> frozenset[str] | None:
    """The tags that came or went; None where the update was about something else."""
    change = fields.get(_TAGS)
    if change is None:
        return None
    before, after = (
        {tag.casefold(): tag for tag in tags.split(change.text_or_nothing(name))} for name in ("oldValue", "newValue")
    )
    return frozenset({**before, **after}[tag] for tag in before.keys() ^ after.keys())


def _remark(resource: JsonPart, fields: JsonPart, actor: Actor | None) -> Remark:
    reference = resource.get("commentVersionRef")
    comment = reference.get("commentId") if reference is not None else None
    name = str(comment.number()) if comment is not None else f"rev-{resource.at('rev').number()}"
    text = payloads.plain(fields.text_or_nothing("System.History"))
    return Remark(name, actor or Actor("", "somebody"), text)


def _actor(who: JsonPart | None) -> Actor | None:
    """An identity as a record or as `Name <unique name>`; one without an id is known by its unique name alone."""
    if who is None or not who.value:
        return None
    return JsonPart(as_identity(who.value), who.where).shaped(Identity).to_actor()
