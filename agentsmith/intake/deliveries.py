"""Webhook deliveries as they are kept for a while, without anything secret, and what each is a hint to do.

A kept delivery was verified when it came. It holds the headers that say what it is, never those that prove it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Final

from agentsmith.domain.conversation import command_in
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.webhook import Incoming, TicketEvent

LARGEST_KEPT: Final = 64 * 1024
"""Bytes of a body; of a larger one only its name is kept."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A delivery that can be fed in again."""

    id: str
    at: float = 0.0
    event: str = ""
    key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    """In base64; empty when it was too large to be kept."""

    @classmethod
    def of(cls, event: TicketEvent, incoming: Incoming, telling: frozenset[str], *, at: float) -> Kept:
        """What is worth keeping of a verified delivery."""
        headers = {name: incoming.headers[name] for name in sorted(telling) if name in incoming.headers}
        body = base64.b64encode(incoming.body).decode() if len(incoming.body) <= LARGEST_KEPT else ""
        return cls(event.id, at, event.event, event.key, headers, body)

    @property
    def incoming(self) -> Incoming:
        """The delivery as its reader takes it."""
        return Incoming(self.headers, base64.b64decode(self.body))

    def to_json(self) -> str:
        """The form in which it is kept."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Kept:
        """Read back what `to_json` wrote, in this release or another."""
        payload = json.loads(text)
        return cls(**{each.name: payload[each.name] for each in fields(cls) if each.name in payload})


def signal_of(event: TicketEvent, tracker: Tracker) -> Signal:
    """The hint that an event is: to obey a comment that looks like a command, else to look at the ticket."""
    ticket, cause = tracker.ticket_id(event.key), f"webhook {event.event}"
    remark = event.remark
    if remark is not None and command_in(remark.text, tracker.labels.prefix) is not None:
        return Signal(tracker.name, event.key, ticket, SignalKind.COMMAND, cause, remark=remark.id)
    put_on = (event.changed or frozenset()) & (event.labels or frozenset())
    labelled = any(tracker.labels.status_of(label) is None for label in put_on)
    return Signal(tracker.name, event.key, ticket, cause=cause, labelled=labelled)
