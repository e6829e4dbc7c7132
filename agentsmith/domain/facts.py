"""The input of `decide`: what somebody wants done about a ticket (`Wish`), and what is known of it (`Facts`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agentsmith.domain.lifecycle import Status, resolve

IN_HAND: Final = frozenset({Status.ENQUEUED, Status.IN_PROGRESS})
AT_REST: Final = frozenset({Status.WAITING, Status.DONE, Status.FAILED})


# What somebody wants.


@dataclass(frozen=True, slots=True)
class Look:
    """Something may have changed: claim it, stop it, or leave it."""

    labelled: bool = False
    """Whether a label of people's was just put on: perhaps the trigger, once more."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A person wants another run."""

    by: str


@dataclass(frozen=True, slots=True)
class RunNow:
    """A person asks for one run of a pipeline, on the spot: the trigger's gate is skipped, and no other."""

    pipeline: str
    by: str
    consumer: str
    """Who runs it: the request goes straight into its hands."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """A person wants it to stop, and to count as failed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Repair:
    """Housekeeping found nobody who has it in hand."""


@dataclass(frozen=True, slots=True)
class Due:
    """The time that it waited for has come."""


Wish = Look | Retry | RunNow | Cancel | Repair | Due


# What is known.


class Recorded(StrEnum):
    """What Redis has of a decision that the ticket does not show yet."""

    NOTHING = "nothing"
    CLAIM = "a claim"
    """Somebody began to claim it, and got no further."""
    OUTCOME = "an outcome"
    RETRY = "a retry"
    """An outcome, too: a person asked for another run."""

    @property
    def decided(self) -> bool:
        """Whether it must be published, whatever happens."""
        return self in (Recorded.OUTCOME, Recorded.RETRY)


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
class Remains:
    """What is left of a run that nobody seems to have in hand."""

    life: Life
    triggered: bool = True
    """Whether the label that it was taken on by is still there."""
    queued: bool = False
    asked: bool = False
    """Whether the queued request was asked for by hand: no trigger would bring it about again."""
    attempts: int = 0
    max_attempts: int = 3
    ended: Status | None = None
    """The final status that we published last, if it was one."""
    ours: bool = True
    """Whether it was taken on here: our triggers route it here, or did so when it was claimed."""
    text_changed: bool = False
    """The ticket's text is not the one that was vetted, or nobody knows any more which one that was."""
    routed: bool = True
    """Whether a trigger of the looker's own is on it: only then does the looker know what to run."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the gates said that reading alone decides."""

    passed: bool
    changed: bool = False
    """Whether somebody who may not start work changed the text after it was asked for."""


class Fact(StrEnum):
    """What is found out only when a decision turns on it."""

    LEASE = "is it leased, and still wanted?"
    QUEUE = "is it queued, and still wanted?"
    LATE_WRITE = "do the labels come from a write that was late?"
    REMAINS = "what is left of its run?"
    SET_AGAIN = "who set the trigger once more?"
    WANTED_AGAIN = "who set the trigger after it was parked?"
    GATES = "what do the gates say?"


@dataclass(frozen=True, slots=True)
class Facts:
    """A ticket that was just read under its lock, and what was found out besides; None is what nobody asked yet."""

    statuses: frozenset[Status]
    open: bool = True
    recorded: Recorded = Recorded.NOTHING
    leased: bool | None = None
    queued: bool | None = None
    wanted: bool = True
    """Whether what is leased or queued is still wanted: its trigger is there, or a person asked for it by hand."""
    late_write: Status | None = None
    """The end that we had published before a late write put the labels there that are on the ticket now."""
    doubted: bool = False
    """Whether that was looked at."""
    remains: Remains | None = None
    set_again: str | None = None
    """Who set the trigger once more, and may; empty for nobody."""
    wanted_again: str | None = None
    judged: Judged | None = None

    @property
    def status(self) -> Status:
        """What its labels say."""
        return resolve(self.statuses)

    @property
    def withdrawn(self) -> str:
        """Why it is no longer wanted, if it is not."""
        return "the trigger was removed" if self.open else "the ticket was closed"
