"""What to do about a ticket that is not where its label says: decisions as functions from facts to actions.

Housekeeping gathers the facts under the ticket's lock, asks `decide`, and applies the one action. Nothing
is decided on the label alone: label, lease, queue and intent are looked at together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agentsmith.domain.lifecycle import Status, resolve


class Life(StrEnum):
    """What Redis says about the run of a ticket."""

    ALIVE = "alive"
    SUSPECTED = "suspected"
    """Heartbeat and consumer were both missing in one look; a second look decides."""
    DEAD = "dead"
    """The guard let the lease go, or two looks one renewal interval apart found nothing."""
    SETTLING = "settling"
    """Redis is new or was emptied: nothing may be declared dead yet."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that recovery may look at, read under the ticket's lock."""

    statuses: frozenset[Status]
    open: bool
    triggered: bool
    """Whether the label that it was taken on by is still there."""
    life: Life
    queued: bool
    attempts: int = 0
    max_attempts: int = 3
    intended: Status | None = None
    ours: bool = True
    """Whether it was taken on here: our triggers route it here, or did so when it was claimed."""
    text_changed: bool = False
    """The ticket's text is not the one that was vetted, or nobody knows any more which one that was."""
    asked: bool = False
    """Whether the queued request was asked for by hand: no trigger would bring it about again."""
    routed: bool = True
    """Whether a trigger of the looker's own is on it: only then does the looker know what to run."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing to do, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class NotOurs:
    """Another installation's ticket: it is left alone, whatever its labels say."""


@dataclass(frozen=True, slots=True)
class Tidy:
    """Several lifecycle labels: keep this one."""

    keep: Status


@dataclass(frozen=True, slots=True)
class BackToPending:
    """The run is dead, or its request is lost: claim decides whether it may be tried again."""

    why: str


@dataclass(frozen=True, slots=True)
class PushAgain:
    """The label says enqueued, but nothing is queued or in flight."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Tried often enough."""

    why: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The person took the trigger away or closed the ticket: take our label off."""

    why: str


Action = Leave | NotOurs | Tidy | BackToPending | PushAgain | Fail | Withdraw


def decide(facts: Facts) -> Action:
    """The one thing to do about a ticket with these facts."""
    if not facts.ours:
        return NotOurs()
    leased = Status.IN_PROGRESS if facts.life is Life.ALIVE else None
    status = resolve(facts.statuses, intended=facts.intended, leased=leased)
    if len(facts.statuses) > 1:
        return Tidy(keep=status)
    if status not in (Status.ENQUEUED, Status.IN_PROGRESS):
        return Leave(f"{status.value} needs no recovery")
    if facts.life is not Life.DEAD:
        return Leave(f"the run is {facts.life.value}")
    if facts.queued and (status is Status.ENQUEUED or facts.asked):
        # Whoever takes it goes on from either label; to move the ticket meanwhile would be to race with them.
        return Leave("a request is queued or in flight")
    if not facts.open or not facts.triggered:
        return Withdraw("the ticket was closed" if not facts.open else "the trigger was removed")
    if facts.attempts >= facts.max_attempts:
        return Fail(f"given up after {facts.attempts} attempts: the run died each time")
    if status is Status.IN_PROGRESS:
        return BackToPending("the run died")
    if facts.text_changed:
        # What was vetted is lost with its request; only claim's gates can tell whether this text may run (P7).
        return BackToPending("its place in the queue was lost")
    # Which pipeline it was for, only others know.
    return PushAgain() if facts.routed else BackToPending("its place in the queue was lost")
