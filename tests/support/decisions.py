"""Every way in which a decision about a ticket can come about: what is known at once, and each answer to each question.

The walk asks `decide` itself what it needs to know, so a fact that it does not ask for is on no way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from agentsmith.domain.actions import Action, Need
from agentsmith.domain.decision import decide
from agentsmith.domain.facts import (
    IN_HAND,
    Cancel,
    Due,
    Fact,
    Facts,
    Judged,
    Life,
    Look,
    Recorded,
    Remains,
    Repair,
    Retry,
    RunNow,
    Wish,
)
from agentsmith.domain.lifecycle import Status

YES_NO: Final = (True, False)
WISHES: Final[tuple[Wish, ...]] = (
    Look(),
    Look(labelled=True),
    Retry("mona"),
    RunNow("fix-bug", "mona", "consumer-1"),
    Cancel("cancelled by mona"),
    Repair(),
    Due(),
)
LABELS: Final = tuple(frozenset(labels) for size in range(3) for labels in itertools.combinations(Status, size))
"""None, one, and every two: three at once are decided on as two are."""
FEW_LABELS: Final = tuple(labels for labels in LABELS if len(labels) < 2 or labels == {Status.IN_PROGRESS, Status.DONE})
"""One of each kind: none, one, and several."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a decision came about."""

    wish: Wish
    begun: Facts
    answers: tuple[tuple[Fact, Facts], ...]
    """What was asked, and what was known then."""
    facts: Facts
    action: Action


def every_way(labels: tuple[frozenset[Status], ...] = LABELS, wishes: tuple[Wish, ...] = WISHES) -> Iterator[Way]:
    """All of them, for tickets that show these labels."""
    for wish, shown, is_open, recorded in itertools.product(wishes, labels, YES_NO, Recorded):
        begun = Facts(shown, is_open, recorded)
        yield from _ways(wish, begun, begun, ())


def _ways(wish: Wish, begun: Facts, facts: Facts, answers: tuple[tuple[Fact, Facts], ...]) -> Iterator[Way]:
    action = decide(facts, wish)
    if not isinstance(action, Need):
        yield Way(wish, begun, answers, facts, action)
        return
    assert action.fact not in [fact for fact, _ in answers], "it is known by now"
    for known in answers_to(facts, action.fact):
        yield from _ways(wish, begun, known, (*answers, (action.fact, known)))


def answers_to(facts: Facts, fact: Fact) -> Iterator[Facts]:
    """The facts with each answer there is."""
    match fact:
        case Fact.LEASE:
            yield replace(facts, leased=False)
            yield from (replace(facts, leased=True, wanted=wanted) for wanted in _wanted(facts))
        case Fact.QUEUE:
            yield replace(facts, queued=False)
            yield from (replace(facts, queued=True, wanted=wanted) for wanted in _wanted(facts))
        case Fact.LATE_WRITE:
            yield replace(facts, doubted=True)
            ends = {Status.DONE, Status.FAILED} - facts.statuses if facts.statuses & IN_HAND else set()
            yield from (replace(facts, doubted=True, late_write=end) for end in sorted(ends))
        case Fact.REMAINS:
            yield from (replace(facts, remains=remains) for remains in remains_of(facts))
        case Fact.SET_AGAIN:
            yield from (replace(facts, set_again=by) for by in ("", "mona"))
        case Fact.WANTED_AGAIN:
            yield from (replace(facts, wanted_again=by) for by in ("", "mona"))
        case Fact.GATES:
            # One of the gates is that it is pending; a wrong answer about that must not do harm either.
            yield replace(facts, judged=Judged(passed=True))
            yield from (replace(facts, judged=Judged(passed=False, changed=changed)) for changed in YES_NO)


def _wanted(facts: Facts) -> tuple[bool, ...]:
    return YES_NO if facts.open else (False,)


def remains_of(facts: Facts) -> Iterator[Remains]:
    """Everything that can be left of a run."""
    for life, attempts, ended in itertools.product(Life, (0, 3), (None, Status.DONE)):
        for triggered, ours, text_changed, routed in itertools.product(YES_NO, YES_NO, YES_NO, YES_NO):
            for queued, asked in ((False, False), (True, False), (True, True)):
                yield Remains(life, triggered, queued, asked, attempts, 3, ended, ours, text_changed, routed)
