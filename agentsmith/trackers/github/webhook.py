"""Reading GitHub's webhooks: `X-Hub-Signature-256` over the raw body, then what happened to which issue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentsmith.domain.ticket import Actor
from agentsmith.domain.webhook import BadPayload, Incoming, Proof, Remark, TicketEvent, Uninteresting
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.shared.signatures import AlreadyProved, Reader, hub_signature
from agentsmith.trackers.shared.untrusted import JsonPart, read_object

_ISSUE_ACTIONS: Final = frozenset(
    {"opened", "edited", "labeled", "unlabeled", "closed", "reopened", "deleted", "transferred", "assigned"}
)
_LABEL_ACTIONS: Final = frozenset({"labeled", "unlabeled"})


class GitHubWebhooks(Reader):
    """Verifies and reads the deliveries of one repository."""

    telling: Final = frozenset({"x-github-delivery", "x-github-event"})
    largest: Final = 16 * 1024 * 1024
    """GitHub sends up to 25 MB, of pushes; an issue's title, text and labels never come near this."""

    def __init__(self, site: Site, secrets: Sequence[str]) -> None:
        self._site, self._secrets = site, tuple(secrets)

    def proof(self, head: Incoming, *, now: float) -> Proof:  # noqa: ARG002 - no time is signed
        """See WebhookReader."""
        # Without a secret this reader exists only where the configuration says `insecure`.
        return (
            hub_signature(self._secrets, head.headers.get("x-hub-signature-256")) if self._secrets else AlreadyProved()
        )

    def understand(self, incoming: Incoming) -> TicketEvent | Uninteresting:
        """See WebhookReader."""
        headers = incoming.headers
        delivery, event = headers.get("x-github-delivery", ""), headers.get("x-github-event", "")
        if not delivery or not event:
            raise BadPayload("X-GitHub-Delivery and X-GitHub-Event must name the delivery")
        data = read_object(incoming.body)
        if event not in ("issues", "issue_comment"):
            return Uninteresting(delivery, event, f"{event} events are not looked at")
        return self._about_an_issue(delivery, event, data)

    def _about_an_issue(self, delivery: str, event: str, data: JsonPart) -> TicketEvent | Uninteresting:
        action, issue = data.at("action").text(), data.at("issue")
        name = f"{event}.{action}"
        repository = data.at("repository")
        id_ = repository.get("id")
        if not self._site.ours(repository.at("full_name").text(), str(id_.number()) if id_ is not None else ""):
            return Uninteresting(delivery, name, "it is about another repository")
        if issue.get("pull_request") is not None:
            return Uninteresting(delivery, name, "it is about a pull request")
        if event == "issues" and action not in _ISSUE_ACTIONS:
            return Uninteresting(delivery, name, f"{action} changes nothing that matters")
        if event == "issue_comment" and action != "created":
            return Uninteresting(delivery, name, "only new comments are read")
        changed = None
        if event == "issues" and action in _LABEL_ACTIONS:
            changed = frozenset({data.at("label", "name").text()})
        return TicketEvent(
            id=delivery,
            event=name,
            key=str(issue.at("number").number()),
            actor=_actor(data.get("sender")),
            labels=frozenset(label.at("name").text() for label in issue.at("labels").parts()),
            changed=changed,
            remark=_remark(data.at("comment")) if event == "issue_comment" else None,
        )


def _remark(comment: JsonPart) -> Remark:
    author = _actor(comment.get("user")) or Actor("", "ghost")
    return Remark(str(comment.at("id").number()), author, comment.text_or_nothing("body"))


def _actor(user: JsonPart | None) -> Actor | None:
    if user is None:
        return None
    return Actor(str(user.at("id").number()), user.at("login").text(), bot=user.text_or_nothing("type") == "Bot")
