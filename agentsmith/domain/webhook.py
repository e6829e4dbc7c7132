"""The webhook contract: how a platform's delivery is verified and what it says. A delivery is only a hint.

W1  Before the body is read, `proof` checks what the headers alone can prove and refuses what they lack; the proof of a
    signed body is fed the raw bytes as they come, and compared in constant time before anything is parsed.
W2  Reading raises BadSignature, BadPayload or nothing at all, for any headers and any bytes.
W3  A delivery that is authentic but says nothing about a ticket of this project is Uninteresting, with the reason.
W4  `id` is the platform's own stable name of the delivery, the same when it is sent again.
W5  Several secrets may be valid at once, for rotation.
W6  `understand` reads a delivery that was verified before, from its body and the headers named in `telling`, none of
    which holds a secret: what may be kept, and fed in again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agentsmith.domain.errors import AgentSmithError
from agentsmith.domain.ticket import Actor


class BadSignature(AgentSmithError):
    """The delivery is not known to come from the platform; the message does not tell what was expected."""


class BadPayload(AgentSmithError):
    """The delivery is authentic, but is not what the platform documents."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as it arrived. Header names are lower-case; `peer` is the address it came from."""

    headers: Mapping[str, str]
    body: bytes
    peer: str = ""
    path_secret: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment that somebody wrote on a ticket."""

    id: str
    author: Actor
    text: str
    at: datetime | None = None
    """When it was written, where it was read from the tracker and not from a webhook."""


@dataclass(frozen=True, slots=True)
class TicketEvent:
    """Something happened to a ticket of this project."""

    id: str
    event: str
    key: str
    actor: Actor | None = None
    labels: frozenset[str] | None = None
    """Every label after the event, where the payload tells."""
    changed: frozenset[str] | None = None
    """The labels that the event added or removed; None when it was about something else, or does not tell."""
    remark: Remark | None = None


@dataclass(frozen=True, slots=True)
class Uninteresting:
    """Authentic, but nothing to look at."""

    id: str
    event: str
    reason: str


class Proof(Protocol):
    """Whether a delivery is authentic, while its body comes in."""

    def feed(self, chunk: bytes) -> None:
        """Take a piece of the body, in order."""

    def check(self) -> None:
        """Raise BadSignature unless all that was fed is what the platform sent."""


class WebhookReader(Protocol):
    """Verifies and reads one tracker's deliveries (W1 to W6)."""

    @property
    def largest(self) -> int:
        """Bytes: the platform sends no larger body."""

    @property
    def telling(self) -> frozenset[str]:
        """The headers, in small letters, that say what a delivery is."""

    def understand(self, incoming: Incoming) -> TicketEvent | Uninteresting:
        """What a delivery says that is known to be authentic (W6)."""

    def proof(self, head: Incoming, *, now: float) -> Proof:
        """The proof of a delivery whose body has not come yet; BadSignature where its headers show that it is none.

        `now` is seconds since the epoch, for platforms that sign a time.
        """

    def read(self, incoming: Incoming, *, now: float) -> TicketEvent | Uninteresting:
        """What a whole delivery says, once it is proved."""
