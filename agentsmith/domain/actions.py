"""What can be done about a ticket: the closed set of answers of `decision.decide`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agentsmith.domain.facts import Fact, Life
from agentsmith.domain.lifecycle import Edge, Status
from agentsmith.domain.stop import StopReason


@dataclass(frozen=True, slots=True)
class Need:
    """The decision turns on this; find it out and ask again."""

    fact: Fact


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do, and why."""

    why: str
    life: Life | None = None
    """What was seen of its run, if somebody looked."""


@dataclass(frozen=True, slots=True)
class NotOurs:
    """Another installation's ticket: it is left alone, whatever its labels say."""


@dataclass(frozen=True, slots=True)
class Later:
    """Not now; `settling` says that it is only a matter of time."""

    why: str
    settling: bool = False


@dataclass(frozen=True, slots=True)
class FinishIntent:
    """What was decided is not published yet: do that first."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """It runs: have it run once more afterwards."""

    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """It runs, and is no longer wanted."""

    why: str


@dataclass(frozen=True, slots=True)
class StopAsCancelled:
    """It may be running: ask its run to stop, and to count as failed."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class Unqueue:
    """Take its request off the queue and move it; a consumer may be faster."""

    edge: Edge
    outcome: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class RunAgain:
    """A person wants another run: make it pending, and a signal will claim it."""

    edge: Edge
    outcome: str


@dataclass(frozen=True, slots=True)
class EndWait:
    """What it waited for has come."""

    edge: Edge


@dataclass(frozen=True, slots=True)
class ForgetDue:
    """It no longer waits."""


@dataclass(frozen=True, slots=True)
class Tidy:
    """Several lifecycle labels: keep this one, and look again."""

    keep: Status


@dataclass(frozen=True, slots=True)
class PutEndBack:
    """A late write took its end off: show that again."""

    keep: Status


@dataclass(frozen=True, slots=True)
class BackToPending:
    """The run is dead, or its request is lost: the gates decide whether it may be tried again."""

    edge: Edge
    why: str


@dataclass(frozen=True, slots=True)
class PushAgain:
    """The label says enqueued, but nothing is queued or in flight."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Tried often enough."""

    edge: Edge
    why: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The person took the trigger away or closed the ticket, and nobody runs it: take our label off."""

    edge: Edge
    why: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Every gate that reading decides is open: take it on, if there is room and it is not claimed too often."""


@dataclass(frozen=True, slots=True)
class Park:
    """Its text is not what was vetted: a person has to look at it."""


@dataclass(frozen=True, slots=True)
class TurnAway:
    """A gate is closed."""


Action = (
    Nothing
    | NotOurs
    | Later
    | FinishIntent
    | FollowUp
    | Stop
    | StopAsCancelled
    | Unqueue
    | RunAgain
    | EndWait
    | ForgetDue
    | Tidy
    | PutEndBack
    | BackToPending
    | PushAgain
    | Fail
    | Withdraw
    | Claim
    | Park
    | TurnAway
)
