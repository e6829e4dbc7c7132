"""The names under which outcomes of looks are kept and counted, which other releases and people's programs read."""

from __future__ import annotations

import pytest

from agentsmith.domain.gates import Gate, GateResult
from agentsmith.domain.outcomes import (
    Cancelled,
    Claimed,
    Deferred,
    Held,
    LookOutcome,
    NothingToDo,
    OutcomeName,
    Rejected,
    Stopping,
    WouldClaim,
    recorded_as,
)
from agentsmith.store.looks import PastLook
from agentsmith.tickets.explain import summary

SHUT = GateResult(Gate.TRIGGER, False, "it has no trigger", "")
NAMES: dict[str, LookOutcome] = {
    "Claimed": Claimed("run-1", 7),
    "AlreadyClaimed": NothingToDo("it is queued"),
    "Rejected": Rejected((SHUT,)),
    "Deferred": Deferred("the tracker failed", 1.0),
    "Held": Held("2 of 2 run", ("all",)),
    "WouldClaim": WouldClaim("a shadow writes nothing"),
    "Cancelled": Cancelled("cancelled by mona"),
    "Stopping": Stopping("cancelled by mona"),
}


@pytest.mark.parametrize("name", NAMES)
def test_an_outcome_is_kept_under_the_name_that_it_always_had(name: str) -> None:
    assert str(recorded_as(NAMES[name])) == name


def test_there_is_no_other() -> None:
    assert {type(outcome) for outcome in NAMES.values()} == set(LookOutcome.__args__)
    assert {str(name) for name in OutcomeName} == {*NAMES, "Ended"}


@pytest.mark.parametrize("name", OutcomeName)
def test_P10_each_is_told_in_words(name: OutcomeName) -> None:
    told = summary(PastLook(1.0, 2.0, "a poll", str(name), "", ()))
    assert told
    assert str(name) not in told


def test_a_name_that_only_another_release_knows_is_told_as_it_is() -> None:
    assert summary(PastLook(1.0, 2.0, "a poll", "Admitted", "there was room", ())) == "Admitted: there was room"
