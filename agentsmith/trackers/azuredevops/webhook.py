"""Reading Azure DevOps' service hooks: a secret in the request, because nothing is signed; then what happened.

The secret is the password of basic authentication (any user name) or the header `X-Agentsmith-Secret`; both can be set
on a subscription. What a delivery calls `resource.id` is the work item in most events and the number of the update in
`workitem.updated`; the work item is `resource.workItemId` there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentsmith.domain.errors import BadAnswer
from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import BadPayload, BadSignature, Incoming, Remark, TicketEvent, Uninteresting
from agentsmith.trackers.azuredevops import payloads, tags
from agentsmith.trackers.azuredevops.payloads import Identity, as_identity
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.signatures import read_object, same_secret

HEADER: Final = "x-agentsmith-secret"
_EVENTS: Final = frozenset(
    {"workitem.created", "workitem.updated", "workitem.commented", "workitem.deleted", "workitem.restored"}
)
_TAGS: Final = "System.Tags"


class AzureDevOpsWebhooks:
    """Verifies and reads the deliveries of one project."""

    telling: Final[frozenset[str]] = frozenset()
    """All that tells what a delivery is stands in its body."""

    def __init__(self, site: Site, secrets: Sequence[str]) -> None:
        self._site, self._secrets = site, tuple(secrets)

    def read(self, incoming: Incoming, *, now: float) -> TicketEvent | Uninteresting:  # noqa: ARG002 - no time is signed
        """See WebhookReader."""
        headers = incoming.headers
        if self._secrets:  # without one this reader exists only where the configuration says `insecure`
            by_login = same_secret(self._secrets, _password(headers.get("authorization", "")))
            by_header = same_secret(self._secrets, headers.get(HEADER))
            if not by_login and not by_header:
                raise BadSignature("the secret is missing or wrong")
        return self.understand(incoming)

    def understand(self, incoming: Incoming) -> TicketEvent | Uninteresting:
        """See WebhookReader."""
        data = read_object(incoming.body)
        delivery, event = data.get("id"), data.get("eventType")
        if not isinstance(delivery, str) or not delivery or not isinstance(event, str):
            raise BadPayload("id and eventType must name the delivery")
        if event not in _EVENTS:
            return Uninteresting(delivery, event, f"{event[:40]} events are not looked at")
        try:
            return self._about_an_item(delivery, event, data["resource"])
        except (KeyError, TypeError, AttributeError, ValueError, BadAnswer) as error:
            raise BadPayload(f"the {event} payload lacks what Azure DevOps documents: {type(error).__name__}") from None

    def _about_an_item(self, delivery: str, event: str, resource: Mapping[str, Any]) -> TicketEvent | Uninteresting:
        revision = resource.get("revision") or resource
        fields: Mapping[str, Any] = revision["fields"]
        if not self._site.here(str(fields["System.TeamProject"])):
            return Uninteresting(delivery, event, "it is about another project")
        key = self._site.number(str(resource.get("workItemId") or revision.get("id") or resource["id"]))
        if key is None:
            raise ValueError("no such id")
        actor = _actor(resource.get("revisedBy") or fields.get("System.ChangedBy"))
        return TicketEvent(
            id=delivery,
            event=event,
            key=key,
            actor=actor,
            labels=frozenset(tags.split(_text(fields.get(_TAGS)))),
            changed=_changed(resource["fields"]) if event == "workitem.updated" else None,
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


def _changed(fields: Mapping[str, Any]) -> frozenset[str] | None:
    """The tags that came or went; None where the update was about something else."""
    if _TAGS not in fields or not isinstance(fields[_TAGS], Mapping):
        return None
    before, after = (
        {tag.casefold(): tag for tag in tags.split(_text(fields[_TAGS].get(name)))} for name in ("oldValue", "newValue")
    )
    return frozenset({**before, **after}[tag] for tag in before.keys() ^ after.keys())


def _remark(resource: Mapping[str, Any], fields: Mapping[str, Any], actor: Actor | None) -> Remark:
    reference = resource.get("commentVersionRef")
    comment = reference.get("commentId") if isinstance(reference, Mapping) else None
    name = str(comment) if isinstance(comment, int) else f"rev-{int(resource['rev'])}"
    text = payloads.plain(_text(fields.get("System.History")))
    return Remark(name, actor or Actor("", "somebody"), text)


def _actor(value: object) -> Actor | None:
    """An identity as a record or as `Name <unique name>`; one without an id is known by its unique name alone."""
    if not value:
        return None
    identity: Identity = payloads.read(Identity, as_identity(value), "an identity")
    return identity.to_actor()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
