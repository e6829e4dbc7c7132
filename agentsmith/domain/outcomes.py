"""What can become of a look at a ticket: a small closed set, each with why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

_RECORDED: Final[Mapping[type, str]] = {NothingToDo: "AlreadyClaimed"}
"""In Redis, `why --json` and the metrics one outcome goes by the name that it had first."""


def recorded_as(outcome: LookOutcome) -> str:
    """The outcome's name where people's programs read it."""
    return _RECORDED.get(type(outcome), type(outcome).__name__)
