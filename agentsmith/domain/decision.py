"""One look at a ticket: what is known (`Facts`), what somebody wants (`Wish`), and the one thing to do (`Action`).

`decide` is pure and total. What costs a request or a script is no part of the facts until a decision turns on it: then
the answer is `Need`, whoever looks finds it out, and asks again. docs/decisions.md is the table of all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agentsmith.domain.lifecycle import Edge, Owner, Status, edge, resolve

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


@dataclass(frozen=True, slots=True)
class Need:
    """The decision turns on this; find it out and ask again."""

    fact: Fact


# What is to be done.


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

    reason: str


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
class Wake:
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
    | Wake
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


def decide(facts: Facts, wish: Wish) -> Action | Need:
    """The one thing to do about a ticket with these facts, or what has to be known first."""
    match wish:
        case Repair():
            return FinishIntent() if facts.recorded.decided else _repair(facts)
        case Due() if facts.status is Status.WAITING:
            return Wake(edge(Status.WAITING, Status.PENDING, Owner.HOUSEKEEPING))
        case Due():
            return ForgetDue()
        case Cancel(reason=reason):
            return _cancel(facts, reason)
        case Retry() if facts.recorded is Recorded.RETRY:
            # Decided before, and then whoever had the signal got no further: once is what was asked for.
            return Nothing("it is being retried")
    if facts.recorded.decided:
        return Later("its last outcome is not published yet")
    if isinstance(wish, Retry):
        if facts.leased is None:
            return Need(Fact.LEASE)
        if facts.leased:
            return FollowUp(wish.by, "it is running: it will run once more afterwards")
        if facts.status in AT_REST:
            return _run_again(facts, f"retried by {wish.by or 'a person'}")
    if facts.status in IN_HAND or len(facts.statuses) > 1:
        return _in_hand(facts, labelled=isinstance(wish, Look) and wish.labelled)
    if facts.status is Status.WAITING:
        if facts.wanted_again is None:
            return Need(Fact.WANTED_AGAIN)
        if facts.wanted_again:
            return _run_again(facts, f"{facts.wanted_again} set its trigger again")
    if facts.judged is None:
        return Need(Fact.GATES)
    if facts.judged.passed and facts.status is Status.PENDING:
        return Claim()
    return Park() if facts.judged.changed else TurnAway()


def _run_again(facts: Facts, outcome: str) -> RunAgain:
    return RunAgain(edge(facts.status, Status.PENDING, Owner.PERSON), outcome)


def _in_hand(facts: Facts, *, labelled: bool) -> Action | Need:
    """A ticket that we have in hand: stop it when it is no longer wanted, revive it when nobody has it."""
    if facts.leased is None:
        return Need(Fact.LEASE)
    if facts.leased:
        if not facts.wanted:
            return Stop(facts.withdrawn)
        if labelled and facts.set_again is None:
            return Need(Fact.SET_AGAIN)
        if labelled and facts.set_again:
            by = facts.set_again
            return FollowUp(by, f"it is running: it will run once more, as {by} set its trigger again")
        return Nothing("it is running")
    if facts.queued is None:
        return Need(Fact.QUEUE)
    if facts.queued:
        if facts.wanted:
            return Nothing("it is queued")
        return Unqueue(edge(_shown_in_hand(facts), None, Owner.RUN), facts.withdrawn)
    action = _repair(facts)
    if isinstance(action, Nothing) and action.life is Life.SETTLING:
        # The signal may be all that is known of the ticket: once it is closed, no list shows it any more.
        return Later("Redis lost its memory, and nothing is concluded from that yet", settling=True)
    return action


def _cancel(facts: Facts, reason: str) -> Action | Need:
    if facts.leased is None:
        return Need(Fact.LEASE)
    if facts.queued is None:
        return Need(Fact.QUEUE)
    if facts.queued and not facts.leased:
        # What is queued counts as enqueued, whatever a person made of its label.
        cancelled = edge(Status.ENQUEUED, Status.FAILED, Owner.RUN)
        return Unqueue(cancelled, reason, f"Stopped before it started: {reason}.")
    if facts.leased or facts.status in IN_HAND:
        return StopAsCancelled(reason)
    return Nothing("it is not queued or running")


def _shown_in_hand(facts: Facts) -> Status:
    return facts.status if facts.status in IN_HAND else Status.ENQUEUED


def _repair(facts: Facts) -> Action | Need:
    """A ticket that is not where its label says, or of which nobody knows who has it."""
    if not facts.doubted:
        return Need(Fact.LATE_WRITE)
    if facts.late_write is not None:
        return PutEndBack(facts.late_write)
    if facts.remains is None:
        return Need(Fact.REMAINS)
    left = facts.remains
    if not left.ours:
        return NotOurs()
    leased = Status.IN_PROGRESS if left.life is Life.ALIVE else None
    # An end that we published stands (P4), whatever a late write put beside it.
    status = resolve(facts.statuses, intended=left.ended, leased=leased)
    if len(facts.statuses) > 1:
        return Tidy(keep=status)
    if status not in IN_HAND:
        return Nothing(f"{status.value} needs no recovery", left.life)
    if left.life is not Life.DEAD:
        return Nothing(f"the run is {left.life.value}", left.life)
    if left.queued and (status is Status.ENQUEUED or left.asked):
        # Whoever takes it goes on from either label; to move the ticket meanwhile would be to race with them.
        return Nothing("a request is queued or in flight", left.life)
    return _bring_back(facts, left, status)


def _bring_back(facts: Facts, left: Remains, status: Status) -> Action:
    """A run that is dead, or a request that is lost."""
    if not facts.open or not left.triggered:
        return Withdraw(edge(status, None, Owner.HOUSEKEEPING), facts.withdrawn)
    if left.attempts >= left.max_attempts:
        why = f"given up after {left.attempts} attempts: the run died each time"
        return Fail(edge(status, Status.FAILED, Owner.HOUSEKEEPING), why)
    again = edge(status, Status.PENDING, Owner.HOUSEKEEPING)
    if status is Status.IN_PROGRESS:
        return BackToPending(again, "the run died")
    if left.text_changed or not left.routed:
        # What was vetted is lost with its request, and only the gates can tell whether this text may run (P7); or
        # which pipeline it was for, only others know.
        return BackToPending(again, "its place in the queue was lost")
    return PushAgain()
