"""Processes of different releases share one Redis: each reads what the others write, whatever was added or left out.

The rule for everything that is kept outside of a process: only the fields that name the thing are needed. Every other
one has a default, and whatever is not known is passed over. A field never changes its meaning; another meaning is
another field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.domain.asking import Question
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import TicketId
from agentsmith.intake.deliveries import Kept
from agentsmith.store import DeadLetter, Process, RunLease
from agentsmith.store.presence import read_process
from tests.support.stores import a_request, a_signal, an_edge

TICKET: Final = TicketId("local/tickets#1")


@dataclass(frozen=True)
class Form:
    """One thing that travels between processes, and what it cannot do without."""

    kind: type
    written: Mapping[str, Any]
    read: Callable[[dict[str, Any]], object]
    named_by: frozenset[str]


def _lease() -> dict[str, Any]:
    return {
        "run": "r-1",
        "consumer": "c-1",
        "tracker": "local",
        "key": "1",
        "fence": "7",
        "since": "1000",
        "asked_by": "mona",
        "labelled": "4711 agent-smith",
        "trigger": "agent-smith",
    }


def _intent() -> dict[str, str]:
    intent = Intent(
        TICKET, "local", "1", 7, an_edge(Status.IN_PROGRESS, Status.DONE), "r-1", "succeeded", "ok", trigger="t"
    )
    return {"fence": "7", **intent.to_fields()}


FORMS: Final = {
    "request": Form(
        PipelineRequest,
        json.loads(a_request().to_json()),
        lambda data: PipelineRequest.from_json(json.dumps(data)),
        frozenset({"ticket", "tracker", "key", "pipeline", "run"}),
    ),
    "signal": Form(
        Signal,
        json.loads(a_signal().to_json()),
        lambda data: Signal.from_json(json.dumps(data)),
        frozenset({"ticket", "tracker", "key"}),
    ),
    "memo": Form(
        Memo,
        json.loads(Memo("r-1", 7, 2, "abc", 3.0, follow_up=True, trigger="agent-smith", question="{}").to_line()),
        lambda data: Memo.from_line(json.dumps(data)),
        frozenset({"run", "fence"}),
    ),
    "intent": Form(
        Intent,
        _intent(),
        lambda data: Intent.from_fields(TICKET, {name: str(value) for name, value in data.items()}),
        frozenset({"tracker", "key", "fence", "to"}),
    ),
    "question": Form(
        Question,
        json.loads(Question("Which?", 5.0, 2, 1.5, answered=True).to_json()),
        lambda data: Question.from_json(json.dumps(data)),
        frozenset({"text", "at"}),
    ),
    "lease": Form(
        RunLease,
        _lease(),
        lambda data: RunLease.parse(TICKET, json.dumps(data)),
        frozenset({"run", "consumer", "tracker", "key", "fence"}),
    ),
    "process": Form(
        Process,
        {"name": "c-1", "host": "h", "pid": 1, "roles": ["consumer"], "slots": 2, "started": 1.0, "version": "1"},
        lambda data: read_process(json.dumps(data)),
        frozenset({"name"}),
    ),
    "delivery": Form(
        Kept,
        json.loads(Kept("d-1", 1.0, "issues", "1", {"X-Event": "issues"}, "e30=").to_json()),
        lambda data: Kept.from_json(json.dumps(data)),
        frozenset({"id"}),
    ),
    "dead letter": Form(
        DeadLetter,
        json.loads(DeadLetter("{}", "why", 1.0).to_json()),
        lambda data: DeadLetter.from_json(json.dumps(data)),
        frozenset(),
    ),
}


@pytest.mark.parametrize("name", FORMS)
@given(data=st.data())
def test_any_field_may_be_missing_and_any_may_be_new(name: str, data: st.DataObject) -> None:
    form = FORMS[name]
    optional = sorted(set(form.written) - form.named_by)
    dropped = data.draw(st.sets(st.sampled_from(optional))) if optional else set()
    known = {field.name for field in fields(form.kind)} | {"v", "version", "entry"}
    names = st.text(st.characters(codec="utf-8"), max_size=12).filter(lambda word: word not in known)
    added = data.draw(st.dictionaries(names, st.text(st.characters(codec="utf-8"), max_size=5), max_size=3))
    read = form.read({**{key: value for key, value in form.written.items() if key not in dropped}, **added})
    assert isinstance(read, form.kind)
    whole = form.read(dict(form.written))
    left = {key for key in form.written if key not in dropped} & {field.name for field in fields(form.kind)}
    assert {key: getattr(read, key) for key in left} == {key: getattr(whole, key) for key in left}


@pytest.mark.parametrize("name", FORMS)
def test_every_field_that_has_no_default_names_the_thing(name: str) -> None:
    """A field that somebody adds without one would bury, in an older or newer release, what the other wrote."""
    form = FORMS[name]
    for field in set(form.written) - form.named_by:
        assert isinstance(form.read({key: value for key, value in form.written.items() if key != field}), form.kind)
    assert form.named_by <= set(form.written)


def test_a_signal_of_a_kind_that_we_do_not_know_is_a_look() -> None:
    assert Signal.from_json(json.dumps({**FORMS["signal"].written, "kind": "dance"})) == a_signal()


def test_an_intent_that_leads_where_we_do_not_know_is_left_to_others() -> None:
    assert Intent.from_fields(TICKET, {**FORMS["intent"].written, "to": "somewhere new"}) is None
