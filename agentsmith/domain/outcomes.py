"""What can become of a look at a ticket: a small closed set, each with why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agentsmith.domain.gates import GateResult


@dataclass(frozen=True, slots=True)
class Claimed:
    """A request is on the queue and the label says enqueued."""

    run: str
    fence: int
    gates: tuple[GateResult, ...] = ()


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """Nothing more is to be done: the ticket is queued, running, parked or finished, or what was wanted is done."""

    why: str
    gates: tuple[GateResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A gate is closed; the last of `gates` says which and what to do."""

    gates: tuple[GateResult, ...]


@dataclass(frozen=True, slots=True)
class Deferred:
    """Not now: try again in `wait` seconds."""

    why: str
    wait: float
    gates: tuple[GateResult, ...] = ()
    failed: bool = True
    """Whether something went wrong, so that the next wait is longer; it did not if merely the time had not come."""
    looked: bool = True
    """Whether anything was seen of the ticket that is worth remembering."""
    warned: bool = False
    """Whether people were warned of the reason already, so that it need not be said each time."""


@dataclass(frozen=True, slots=True)
class Held:
    """There is no room in one of `places`: the ticket stays pending, and is looked at again when there is."""

    why: str
    places: tuple[str, ...]
    gates: tuple[GateResult, ...] = ()


@dataclass(frozen=True, slots=True)
class WouldClaim:
    """Every gate that can be looked at without writing is open; a shadow goes no further."""

    why: str
    gates: tuple[GateResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It was taken off the queue before it started."""

    why: str
    gates: tuple[GateResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Stopping:
    """Its run was asked to stop."""

    why: str
    gates: tuple[GateResult, ...] = ()


LookOutcome = Claimed | NothingToDo | Rejected | Deferred | Held | WouldClaim | Cancelled | Stopping


class OutcomeName(StrEnum):
    """What an outcome is called in Redis, in metrics and by `why --json`, which other releases and programs read."""

    CLAIMED = "Claimed"
    NOTHING_TO_DO = "AlreadyClaimed"
    REJECTED = "Rejected"
    DEFERRED = "Deferred"
    HELD = "Held"
    WOULD_CLAIM = "WouldClaim"
    CANCELLED = "Cancelled"
    STOPPING = "Stopping"
    ENDED = "Ended"
    """Of a ticket whose looks are forgotten: only how it ended is known."""


_NAMES: Final[Mapping[type[LookOutcome], OutcomeName]] = {
    Claimed: OutcomeName.CLAIMED,
    NothingToDo: OutcomeName.NOTHING_TO_DO,
    Rejected: OutcomeName.REJECTED,
    Deferred: OutcomeName.DEFERRED,
    Held: OutcomeName.HELD,
    WouldClaim: OutcomeName.WOULD_CLAIM,
    Cancelled: OutcomeName.CANCELLED,
    Stopping: OutcomeName.STOPPING,
}


def recorded_as(outcome: LookOutcome) -> OutcomeName:
    """The outcome's name where people's programs read it."""
    return _NAMES[type(outcome)]
