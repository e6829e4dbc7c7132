"""What is decided about a ticket, on every way there is: one action, along a legal edge, and nothing to a live run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

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
from agentsmith.domain.facts import AT_REST, IN_HAND, Cancel, Due, Fact, Life, Look, Recorded, Repair, Retry, RunNow
from agentsmith.domain.lifecycle import EDGES, Owner, Status
from tests.repo.decisions_page import PAGE, page
from tests.support.decisions import Way, every_way

BRINGING_BACK = (BackToPending, PushAgain, Fail, Withdraw)
MOVING = (Unqueue, RunAgain, EndWait, BackToPending, Fail, Withdraw)


@cache
def ways() -> list[Way]:
    """All of them; reckoned when the first test asks, not by everybody who collects tests."""
    return list(every_way())


def where(*kinds: type[Action]) -> list[Way]:
    found = [way for way in ways() if isinstance(way.action, kinds)]
    assert found, "the property would hold for nothing"
    return found


def test_every_action_is_taken_somewhere() -> None:
    taken = {type(way.action) for way in ways()}
    assert taken == set(Action.__args__)


def test_every_question_is_asked_somewhere_and_no_fact_is_asked_in_vain() -> None:
    """A fact that some way asks for changes what is done on at least one of them, or says why nothing is."""
    asked = {fact for way in ways() for fact, _ in way.answers}
    assert asked == set(Fact)
    by_start: dict[object, set[Action]] = {}
    for way in ways():
        by_start.setdefault((way.wish, way.begun), set()).add(way.action)
    for way in ways():
        if way.answers and not isinstance(way.action, TurnAway):
            assert len(by_start[way.wish, way.begun]) > 1, way


def test_every_move_is_a_legal_edge_from_what_the_ticket_shows() -> None:
    for way in where(*MOVING):
        edge = way.action.edge  # type: ignore[union-attr]  # those that move have one
        assert edge in EDGES, way
        if not isinstance(way.action, Unqueue):
            assert edge.source is way.facts.status, way


def test_P10_every_decision_says_why() -> None:
    """In its own words, by its edge, or by the gates, which were asked then."""
    silent = FinishIntent | ForgetDue | NotOurs | PushAgain | PutEndBack | StopAsCancelled | Tidy  # their name says it
    for way in ways():
        if isinstance(way.action, Claim | Park | TurnAway):
            assert way.facts.judged is not None, way
        elif not isinstance(way.action, silent):
            texts = [getattr(way.action, name, "") for name in ("why", "outcome")]
            assert any(texts) or way.action.edge.why, way  # type: ignore[union-attr]  # those without a text move


def test_what_is_moved_from_pending_shows_pending() -> None:
    for way in where(Claim, Park):
        assert way.facts.status is Status.PENDING, way


def test_P4_only_a_person_has_a_final_status_left() -> None:
    for way in where(*MOVING):
        edge = way.action.edge  # type: ignore[union-attr]  # those that move have one
        if edge.source.final:
            assert edge.owner is Owner.PERSON, way
            assert isinstance(way.wish, Retry), way


def test_P2_what_was_decided_is_finished_before_anything_else_is_begun() -> None:
    for way in ways():
        if way.begun.recorded.decided and not isinstance(way.wish, Cancel | Due):
            retried = isinstance(way.wish, Retry) and way.begun.recorded is Recorded.RETRY
            assert isinstance(way.action, FinishIntent | Later) or (retried and isinstance(way.action, Nothing)), way
    for way in where(FinishIntent):
        assert isinstance(way.wish, Repair)


def test_P1_nothing_is_claimed_that_is_in_hand() -> None:
    for way in where(Claim):
        assert not way.facts.statuses & IN_HAND, way
        assert len(way.facts.statuses) < 2, way
        assert way.facts.status is Status.PENDING, way
        assert way.facts.judged is not None
        assert way.facts.judged.passed


def test_P7_nothing_runs_past_the_gates() -> None:
    for way in ways():
        if way.facts.judged is not None and not way.facts.judged.passed:
            assert isinstance(way.action, Park | TurnAway), way


def test_P7_a_changed_text_is_never_pushed_past_the_gates() -> None:
    for way in where(PushAgain):
        assert way.facts.remains is not None
        assert not way.facts.remains.text_changed, way
        assert way.facts.remains.routed, way


def test_only_a_dead_run_is_brought_back() -> None:
    for way in where(*BRINGING_BACK):
        assert way.facts.remains is not None
        assert way.facts.remains.life is Life.DEAD, way
        assert way.facts.remains.ours, way


def test_only_a_ticket_that_we_have_in_hand_is_brought_back() -> None:
    for way in where(*BRINGING_BACK):
        (status,) = way.facts.statuses
        assert status in IN_HAND, way


def test_every_dead_run_of_ours_is_brought_back() -> None:
    for way in ways():
        left = way.facts.remains
        if left is None or left.life is not Life.DEAD or not left.ours or isinstance(way.action, Tidy):
            continue
        if way.facts.statuses == {Status.IN_PROGRESS} and not (left.queued and left.asked):
            assert isinstance(way.action, BRINGING_BACK), way
        if way.facts.statuses == {Status.ENQUEUED} and not left.queued:
            assert isinstance(way.action, BRINGING_BACK), way


def test_another_installations_ticket_is_left_alone_whatever_it_shows() -> None:
    for way in ways():
        if way.facts.remains is not None:
            assert isinstance(way.action, NotOurs) == (not way.facts.remains.ours), way


def test_a_queued_request_is_left_to_its_consumer() -> None:
    for way in where(PushAgain):
        assert way.facts.remains is not None
        assert not way.facts.remains.queued, way


def test_a_withdrawn_ticket_is_never_run_again_by_itself() -> None:
    for way in where(BackToPending, PushAgain, Fail):
        assert way.facts.open, way
        assert way.facts.remains is not None
        assert way.facts.remains.triggered, way
    for way in where(Stop):
        assert not way.facts.wanted, way
    for way in where(Unqueue):
        assert isinstance(way.wish, Cancel) or not way.facts.wanted, way


def test_attempts_used_up_fail_and_others_do_not() -> None:
    for way in where(BackToPending, PushAgain, Fail):
        left = way.facts.remains
        assert left is not None
        assert isinstance(way.action, Fail) == (left.attempts >= left.max_attempts), way


def test_the_label_that_is_kept_is_on_the_ticket_and_an_end_that_we_published_wins() -> None:
    for way in where(Tidy):
        left, keep = way.facts.remains, way.action.keep  # type: ignore[union-attr]  # as asked for
        assert left is not None
        assert keep in way.facts.statuses, way
        assert len(way.facts.statuses) > 1, way
        if left.ended in way.facts.statuses:
            assert keep is left.ended, way
        elif left.life is Life.ALIVE and Status.IN_PROGRESS in way.facts.statuses:
            assert keep is Status.IN_PROGRESS, way
        else:
            assert keep is max(way.facts.statuses, key=lambda status: status.rank), way


def test_a_late_write_never_undoes_an_end() -> None:
    for way in where(PutEndBack):
        assert way.facts.late_write is way.action.keep  # type: ignore[union-attr]  # as asked for
        assert way.action.keep.final  # type: ignore[union-attr]  # as asked for


def test_an_empty_redis_proves_nothing() -> None:
    for way in ways():
        if way.facts.remains is not None and way.facts.remains.life is Life.SETTLING:
            assert isinstance(way.action, Nothing | Later | Tidy | NotOurs), way
            if not isinstance(way.wish, Repair) and isinstance(way.action, Later):
                assert way.action.settling


def test_a_person_is_heard() -> None:
    for way in ways():
        if isinstance(way.wish, Retry) and not way.begun.recorded.decided:
            if way.facts.leased:
                assert isinstance(way.action, FollowUp), way
            elif way.facts.status in AT_REST and not way.facts.remains:
                assert isinstance(way.action, RunAgain), way
        if isinstance(way.wish, Cancel) and (way.facts.leased or way.facts.queued):
            assert isinstance(way.action, StopAsCancelled | Unqueue), way


def test_a_time_that_has_come_wakes_who_waits_and_nobody_else() -> None:
    for way in ways():
        if isinstance(way.wish, Due):
            waits = way.facts.status is Status.WAITING
            assert isinstance(way.action, EndWait if waits else ForgetDue), way


def test_whoever_only_looks_asks_no_more_than_it_turns_on() -> None:
    """A request to the tracker that nothing turns on would count against its quota."""
    for way in ways():
        asked = [fact for fact, _ in way.answers]
        if Fact.GATES in asked:
            assert not way.facts.statuses & IN_HAND, way
        if Fact.SET_AGAIN in asked:
            assert way.facts.leased, way
            assert way.wish == Look(labelled=True), way
        if Fact.WANTED_AGAIN in asked:
            assert way.facts.status is Status.WAITING, way
        if isinstance(way.wish, RunNow | Look) and way.facts.leased:
            assert Fact.REMAINS not in asked, way


def test_the_page_is_what_is_decided() -> None:
    assert Path(PAGE).read_text() == page(), "write it with: make docs"
