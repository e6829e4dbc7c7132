"""What is known of a run's lease and of its end, as those hold it who took the one and brought about the other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from agentsmith.boottime import boottime
from agentsmith.domain.intent import Intent
from agentsmith.domain.request import Wanted, label_in
from agentsmith.domain.ticket import TicketId


@dataclass(frozen=True, slots=True)
class RunLease:
    """The lease of one run as Redis holds it; `value` is what renewal compares."""

    ticket: TicketId
    tracker: str
    key: str
    run: str
    consumer: str
    fence: int
    since: float
    value: str
    asked_by: str = ""
    """Who asked for this run by hand, without any trigger."""
    labelled: str = ""
    """By which event its trigger was set, and the trigger, as in the request; empty where that is not known."""
    trigger: str = ""
    """The label that started it; empty in a lease of an older release."""

    @property
    def lock_holder(self) -> str:
        """How every token begins under which the run holds its ticket's lock; taken again it has the same name."""
        return f"{self.run}.{self.fence}."

    @property
    def wanted(self) -> Wanted:
        """What keeps the run wanted."""
        return Wanted(self.trigger or label_in(self.labelled), by_hand=bool(self.asked_by))

    @classmethod
    def parse(cls, ticket: TicketId, value: str) -> RunLease:
        """Read the lease from its value in Redis."""
        data = json.loads(value)
        return cls(
            ticket=ticket,
            tracker=data["tracker"],
            key=data["key"],
            run=data["run"],
            consumer=data["consumer"],
            fence=int(data["fence"]),
            since=float(data.get("since", 0)) / 1000,
            value=value,
            asked_by=data.get("asked_by", ""),
            labelled=data.get("labelled", ""),
            trigger=data.get("trigger", ""),
        )


@dataclass(frozen=True, slots=True)
class Acquired:
    """The lease is ours. `attempts` were begun before this one."""

    lease: RunLease
    attempts: int
    deliveries: int
    """How often the request was taken since a run last started or settled, this time included."""
    sent_at: float
    """Boot-time clock, from before the request was sent: the trust window counts from here."""
    request: str
    """What is to be run, whole: its entry in the list may be without the text of its ticket."""

    def clock(self) -> float:
        """The time on the clock that all processes share. Ours may be wrong, and a time that is due would be too.

        The fence tells what that clock showed when the lease was taken.
        """
        return self.lease.fence / 1_000_000 + boottime() - self.sent_at


@dataclass(frozen=True, slots=True)
class Settled:
    """The end of a run, as whoever settled it remembers it."""

    lease: RunLease
    intent: Intent | None
    """What is to be published; None once the ticket shows it."""
    at: float
    """Boot-time clock."""


@dataclass(frozen=True, slots=True)
class NotAcquired:
    """Why not; `count` is how often a poisonous request was taken."""

    word: Literal["superseded", "leased", "poison"]
    count: int = 0
