"""What can become of a look at a ticket: a small closed set, each with why."""

from __future__ import annotations

from dataclasses import dataclass

from agentsmith.domain.gates import GateResult


@dataclass(frozen=True, slots=True)
class Asked:
    """A person asks for one run of a pipeline, on the spot: the trigger's gate is skipped, and no other."""

    pipeline: str
    by: str
    consumer: str
    """Who runs it: the request goes straight into its hands."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A request is on the queue and the label says enqueued."""

    run: str
    fence: int
    gates: tuple[GateResult, ...] = ()


@dataclass(frozen=True, slots=True)
class AlreadyClaimed:
    """The ticket is queued, running, parked or finished."""

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
    told: bool = False
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


ClaimOutcome = Claimed | AlreadyClaimed | Rejected | Deferred | Held | WouldClaim
