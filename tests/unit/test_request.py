"""The request on the queue: read back as it was written, or refused with a reason, never anything else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.domain.request import VERSION, MalformedRequest, NewerRequest, PinnedText, PipelineRequest, text_hash
from agentsmith.domain.signal import MalformedSignal, Signal, SignalKind
from agentsmith.domain.ticket import TicketId
from tests.support.stores import a_request, a_signal

texts = st.text(min_size=1)  # hypothesis leaves out lone surrogates here
any_text = st.text(st.characters())  # and lets them in here
whole = st.integers(-(2**62), 2**62)
requests = st.builds(
    PipelineRequest,
    ticket=texts.map(TicketId),
    tracker=texts,
    key=texts,
    pipeline=texts,
    run=texts,
    fence=whole,
    attempt=whole,
    delivery=whole,
    pinned=st.builds(PinnedText.of, any_text, any_text),
    enqueued_at=st.floats(allow_nan=False, allow_infinity=False),
    wake_reason=st.none() | texts,
    priority=whole,
    workspace=st.none() | texts,
    trace=st.none() | texts,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)


def read_or_refuse(text: str | bytes) -> PipelineRequest | None:
    try:
        request = PipelineRequest.from_json(text)
    except MalformedRequest:
        return None
    assert PipelineRequest.from_json(request.to_json()) == request
    return request


@given(requests)
def test_a_request_is_read_back_as_it_was_written(request: PipelineRequest) -> None:
    assert PipelineRequest.from_json(request.to_json()) == request
    assert PipelineRequest.from_json(request.to_json().encode()) == request


def test_the_wire_form_is_versioned_plain_and_always_the_same() -> None:
    text = a_request().to_json()
    assert json.loads(text)["version"] == VERSION == 1
    assert text.isascii()
    assert "\n" not in text
    assert replace(a_request()).to_json() == text, "the index compares it byte by byte"


@given(st.text() | any_text | st.binary() | json_values.map(json.dumps))
def test_any_text_is_a_request_or_malformed(text: str | bytes) -> None:
    read_or_refuse(text)


@given(st.data())
def test_a_request_with_any_field_changed_is_a_request_or_malformed(data: st.DataObject) -> None:
    fields = json.loads(a_request().to_json())
    name = data.draw(st.sampled_from([*fields, "surplus", "pinned.title", "pinned.surplus"]))
    place, _, inner = name.partition(".")
    target = fields[place] if inner else fields
    if data.draw(st.booleans()):
        target[inner or place] = data.draw(json_values)
    else:
        target.pop(inner or place, None)
    read_or_refuse(json.dumps(fields))


def changed(**changes: Any) -> str:
    fields = {**json.loads(a_request().to_json()), **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("1" * 5000, "not JSON"),
        ("null", "not a JSON object but NoneType"),
        ("[]", "not a JSON object but list"),
        ('"text"', "not a JSON object but str"),
        ("{}", "ticket must be"),
        (changed(version=2), "version 2 is newer than this release"),
        (changed(ticket=...), "ticket must be"),
        (changed(ticket=""), "ticket must be"),
        (changed(ticket=12), "ticket must be"),
        (changed(ticket="\ud800"), "ticket is not valid Unicode"),
        (changed(run=None), "run must be"),
    ],
)
def test_a_malformed_request_says_what_is_wrong(text: str | bytes, why: str) -> None:
    with pytest.raises(MalformedRequest, match=why):
        PipelineRequest.from_json(text)


def test_a_request_of_a_newer_release_is_not_taken_for_rubbish() -> None:
    with pytest.raises(NewerRequest):
        PipelineRequest.from_json(changed(version=2))


def test_what_a_newer_release_added_is_passed_on() -> None:
    read = PipelineRequest.from_json(changed(colour="red", shape={"edges": 3}))
    assert read == a_request()
    again = json.loads(read.again(run="r-2", fence=8, wake_reason=None).to_json())
    assert (again["colour"], again["shape"], again["run"]) == ("red", {"edges": 3}, "r-2")


@pytest.mark.parametrize("name", ["fence", "priority", "wake_reason", "workspace", "enqueued_at", "pinned", "trigger"])
@pytest.mark.parametrize("value", [1.5, True, {"more": "m"}, "a\udcff", [], float("inf")])
def test_a_field_that_is_not_what_we_know_counts_as_missing(name: str, value: object) -> None:
    if (name, value) != ("enqueued_at", 1.5):
        assert PipelineRequest.from_json(changed(**{name: value})) == PipelineRequest.from_json(changed(**{name: ...}))


def test_what_has_a_default_may_be_left_out() -> None:
    text = changed(wake_reason=..., priority=..., workspace=..., trace=...)
    assert PipelineRequest.from_json(text) == a_request()


def test_the_same_work_under_a_new_run() -> None:
    again = a_request(priority=3).again(run="r2", fence=7, wake_reason="given back")
    assert (again.run, again.fence, again.wake_reason, again.priority) == ("r2", 7, "given back", 3)
    assert again.pinned == a_request().pinned


@given(st.tuples(any_text, any_text), st.tuples(any_text, any_text))
def test_the_hash_tells_one_text_from_another(one: tuple[str, str], other: tuple[str, str]) -> None:
    if "\0" not in "".join(one + other):
        assert (text_hash(*one) == text_hash(*other)) == (one == other)


# Signals share the rule.


@given(st.sampled_from(SignalKind), texts, any_text, st.integers(0, 99))
def test_a_signal_is_read_back_as_it_was_written(kind: SignalKind, key: str, by: str, tries: int) -> None:
    signal = a_signal(kind=kind, key=key, by=by, tries=tries)
    assert Signal.from_json(signal.to_json()) == signal
    assert signal.again().tries == tries + 1
    assert signal.again().topic == signal.topic


@given(st.data())
def test_any_text_is_a_signal_or_malformed(data: st.DataObject) -> None:
    fields = json.loads(a_signal().to_json())
    fields[data.draw(st.sampled_from([*fields, "surplus"]))] = data.draw(json_values)
    text = data.draw(any_text | json_values.map(json.dumps) | st.just(json.dumps(fields)))
    try:
        signal = Signal.from_json(text)
    except MalformedSignal:
        return
    assert Signal.from_json(signal.to_json()) == signal
    assert signal.again().topic.encode()


@pytest.mark.parametrize("change", [{"tries": "2"}, {"tries": None}, {"by": 5}, {"ticket": None}, {"ticket": "\ud800"}])
def test_a_signal_with_a_wrong_field_is_malformed(change: dict[str, Any]) -> None:
    with pytest.raises(MalformedSignal):
        Signal.from_json(json.dumps({**json.loads(a_signal().to_json()), **change}))
