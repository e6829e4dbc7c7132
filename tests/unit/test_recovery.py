"""Recovery decisions over every combination of facts: nothing is done to a run that may be alive."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from agentsmith.domain.lifecycle import EDGES, Owner, Status
from agentsmith.domain.recovery import (
    Action,
    BackToPending,
    Facts,
    Fail,
    Leave,
    Life,
    NotOurs,
    PushAgain,
    Tidy,
    Withdraw,
    decide,
)

IN_HAND = (Status.ENQUEUED, Status.IN_PROGRESS)
YES_NO = (True, False)


def label_sets() -> Iterator[frozenset[Status]]:
    for size in range(len(Status) + 1):
        yield from map(frozenset, itertools.combinations(Status, size))


def everything() -> Iterator[Facts]:
    """Every combination of facts there is, attempts below, at and above the limit."""
    intents = (None, *Status)
    for labels, life, attempts, intended in itertools.product(label_sets(), Life, (0, 2, 3, 4), intents):
        for is_open, triggered, queued in itertools.product(YES_NO, YES_NO, YES_NO):
            yield Facts(labels, is_open, triggered, life, queued, attempts, 3, intended)


def with_text_changed() -> Iterator[Facts]:
    for labels, life, attempts in itertools.product(label_sets(), Life, (0, 3)):
        for is_open, triggered, queued in itertools.product(YES_NO, YES_NO, YES_NO):
            yield Facts(labels, is_open, triggered, life, queued, attempts, 3, text_changed=True)


@cache
def decisions() -> list[tuple[Facts, Action]]:
    """What is decided on everything; reckoned when the first test asks, not by everybody who collects tests."""
    return [(facts, decide(facts)) for facts in everything()]


def where(*kinds: type[Action]) -> list[tuple[Facts, Action]]:
    found = [(facts, action) for facts, action in decisions() if isinstance(action, kinds)]
    assert found, "the property would hold for nothing"
    return found


def test_every_action_is_taken_somewhere() -> None:
    assert {type(action) for _, action in decisions()} == {Leave, Tidy, BackToPending, PushAgain, Fail, Withdraw}


def test_another_installations_ticket_is_left_alone_whatever_it_shows() -> None:
    for facts in everything():
        assert decide(replace(facts, ours=False)) == NotOurs()


def test_P7_a_changed_text_is_never_pushed_past_the_gates_and_changes_nothing_else() -> None:
    sent_back = 0
    for facts in with_text_changed():
        action, else_ = decide(facts), decide(replace(facts, text_changed=False))
        if isinstance(else_, PushAgain):
            assert isinstance(action, BackToPending), facts
            sent_back += 1
        else:
            assert action == else_, facts
    assert sent_back


def test_only_a_dead_run_is_moved() -> None:
    for facts, action in where(BackToPending, PushAgain, Fail, Withdraw):
        assert facts.life is Life.DEAD, (facts, action)


def test_only_a_ticket_that_we_have_in_hand_is_moved() -> None:
    for facts, action in where(BackToPending, PushAgain, Fail, Withdraw):
        (status,) = facts.statuses
        assert status in IN_HAND, (facts, action)


def test_a_final_status_is_left_alone() -> None:
    for facts, action in decisions():
        if facts.statuses in ({Status.DONE}, {Status.FAILED}):
            assert isinstance(action, Leave), facts


def test_a_waiting_or_pending_ticket_needs_no_recovery() -> None:
    for facts, action in decisions():
        if facts.statuses in (set(), {Status.PENDING}, {Status.WAITING}):
            assert isinstance(action, Leave), facts


def test_several_labels_are_tidied_first_and_one_never() -> None:
    for facts, action in decisions():
        assert isinstance(action, Tidy) == (len(facts.statuses) > 1), facts


def test_the_label_that_is_kept_is_on_the_ticket() -> None:
    for facts, action in where(Tidy):
        assert isinstance(action, Tidy)
        assert action.keep in facts.statuses
        if facts.intended in facts.statuses:
            assert action.keep is facts.intended
        elif facts.life is Life.ALIVE and Status.IN_PROGRESS in facts.statuses:
            assert action.keep is Status.IN_PROGRESS
        else:
            assert action.keep is max(facts.statuses, key=lambda s: s.rank), facts


def test_a_final_label_is_tidied_away_only_for_an_intent_or_a_live_run() -> None:
    for facts, action in where(Tidy):
        assert isinstance(action, Tidy)
        if any(s.final for s in facts.statuses) and not action.keep.final:
            assert facts.intended is action.keep or (facts.life is Life.ALIVE and action.keep is Status.IN_PROGRESS)


def test_nothing_queued_or_in_flight_is_pushed_again() -> None:
    for facts, _ in where(PushAgain):
        assert facts.statuses == {Status.ENQUEUED}
        assert not facts.queued
        assert facts.open
        assert facts.triggered
        assert facts.attempts < facts.max_attempts


def test_a_queued_request_is_left_to_its_consumer() -> None:
    for facts, action in decisions():
        if facts.statuses == {Status.ENQUEUED} and facts.queued:
            assert isinstance(action, Leave), facts


def test_a_queued_request_that_no_trigger_would_bring_about_again_is_left_whatever_the_label_says() -> None:
    for facts, _ in decisions():
        if len(facts.statuses) == 1 and facts.queued:
            assert isinstance(decide(replace(facts, asked=True)), Leave), facts


def test_a_withdrawn_ticket_is_never_run_again() -> None:
    for facts, action in where(BackToPending, PushAgain, Fail):
        assert facts.open, (facts, action)
        assert facts.triggered, (facts, action)
    for facts, _ in where(Withdraw):
        assert not (facts.open and facts.triggered)


def test_attempts_used_up_fail_and_others_do_not() -> None:
    for facts, action in where(BackToPending, PushAgain, Fail):
        assert isinstance(action, Fail) == (facts.attempts >= facts.max_attempts), facts


def test_every_dead_run_is_moved() -> None:
    for facts, action in decisions():
        if facts.life is Life.DEAD and facts.statuses == {Status.IN_PROGRESS}:
            assert not isinstance(action, Leave), facts
        if facts.life is Life.DEAD and facts.statuses == {Status.ENQUEUED} and not facts.queued:
            assert not isinstance(action, Leave), facts


def test_every_move_is_an_edge_of_housekeeping() -> None:
    legal = {(e.source, e.to) for e in EDGES if e.owner is Owner.HOUSEKEEPING}
    assert (Status.ENQUEUED, Status.PENDING) in legal, "BackToPending, where the text was changed"
    targets = {BackToPending: Status.PENDING, PushAgain: Status.ENQUEUED, Fail: Status.FAILED, Withdraw: None}
    for facts, action in where(BackToPending, PushAgain, Fail, Withdraw):
        (source,) = facts.statuses
        assert (source, targets[type(action)]) in legal, (facts, action)


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        (Facts(frozenset({Status.IN_PROGRESS}), True, True, Life.DEAD, False), BackToPending("the run died")),
        (Facts(frozenset({Status.ENQUEUED}), True, True, Life.DEAD, False), PushAgain()),
        (
            Facts(frozenset({Status.ENQUEUED}), True, True, Life.DEAD, False, routed=False),
            BackToPending("its place in the queue was lost"),
        ),
        (Facts(frozenset({Status.ENQUEUED}), False, True, Life.DEAD, False), Withdraw("the ticket was closed")),
        (Facts(frozenset({Status.ENQUEUED}), True, False, Life.DEAD, False), Withdraw("the trigger was removed")),
        (
            Facts(frozenset({Status.IN_PROGRESS}), True, True, Life.DEAD, False, attempts=3),
            Fail("given up after 3 attempts: the run died each time"),
        ),
        (Facts(frozenset({Status.IN_PROGRESS}), True, True, Life.SUSPECTED, False), Leave("the run is suspected")),
        (Facts(frozenset(), True, True, Life.DEAD, False), Leave("pending needs no recovery")),
    ],
)
def test_what_is_done_and_why(facts: Facts, action: Action) -> None:
    assert decide(facts) == action
