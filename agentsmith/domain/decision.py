"""One look at a ticket: what is known (`Facts`), what somebody wants (`Wish`), and the one thing to do (`Action`).

`decide` is pure and total. What costs a request or a script is no part of the facts until a decision turns on it: then
the answer is `Need`, whoever looks finds it out, and asks again. docs/decisions.md is the table of all of it.
"""

from __future__ import annotations

from agentsmith.domain.actions import (
    Action,
    BackToPending,
    Claim,
    EndWait,
    Fail,
    FinishIntent,
    FollowUp,
    ForgetDue,
    Later,
    Need,
    Nothing,
    NotOurs,
    Park,
    PushAgain,
    PutEndBack,
    RunAgain,
    Stop,
    StopAsCancelled,
    Tidy,
    TurnAway,
    Unqueue,
    Withdraw,
)
from agentsmith.domain.facts import (
    AT_REST,
    IN_HAND,
    Cancel,
    Due,
    Fact,
    Facts,
    Life,
    Look,
    Recorded,
    Remains,
    Repair,
    Retry,
    Wish,
)
from agentsmith.domain.lifecycle import Owner, Status, edge, resolve
from agentsmith.domain.stop import StopReason


def decide(facts: Facts, wish: Wish) -> Action | Need:
    """The one thing to do about a ticket with these facts, or what has to be known first."""
    match wish:
        case Repair():
            return FinishIntent() if facts.recorded.decided else _repair(facts)
        case Due() if facts.status is Status.WAITING:
            return EndWait(edge(Status.WAITING, Status.PENDING, Owner.HOUSEKEEPING))
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
    if facts.status is not Status.PENDING:
        return TurnAway()
    if facts.judged.passed:
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


def _cancel(facts: Facts, reason: StopReason) -> Action | Need:
    if facts.leased is None:
        return Need(Fact.LEASE)
    if facts.queued is None:
        return Need(Fact.QUEUE)
    if facts.queued and not facts.leased:
        # What is queued counts as enqueued, whatever a person made of its label.
        cancelled = edge(Status.ENQUEUED, Status.FAILED, Owner.RUN)
        return Unqueue(cancelled, str(reason), f"Stopped before it started: {reason}.")
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
