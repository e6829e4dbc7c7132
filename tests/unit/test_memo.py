"""The machine-read line of the comment: read back as it was written, fit for an HTML comment, else not a memo."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.domain.memo import VERSION, Memo

any_text = st.text(st.characters())
memos = st.builds(
    Memo,
    run=any_text,
    fence=st.integers(0, 2**53),
    attempt=st.integers(0, 99),
    text=any_text,
    due=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    follow_up=st.booleans(),
    trigger=any_text,
)


@given(memos)
def test_a_memo_is_read_back_as_it_was_written(memo: Memo) -> None:
    assert Memo.from_line(memo.to_line()) == memo


@given(memos)
def test_a_memo_fits_into_an_html_comment(memo: Memo) -> None:
    line = memo.to_line()
    assert "--" not in line
    assert "\n" not in line
    assert line.isascii()


@pytest.mark.parametrize("run", ["--", "---", "----", "-->", "<!-- x -->", "a-\n-b", "-\\u002d"])
def test_nothing_in_a_memo_ends_the_comment(run: str) -> None:
    line = Memo(run=run, fence=1).to_line()
    assert "--" not in line
    assert Memo.from_line(line) == Memo(run=run, fence=1)


@given(any_text | st.binary().map(lambda b: b.decode("latin-1")))
def test_any_other_line_is_no_memo(line: str) -> None:
    assert Memo.from_line(line) is None


def changed(**changes: Any) -> str:
    fields = {**json.loads(Memo("r", 5, 2, "hash", 1.5, True).to_line()), **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not ...})


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[]",
        "7",
        "[" * 100_000,
        changed(v=VERSION + 1),
        changed(run=...),
        changed(run=5),
        changed(fence=...),
        changed(fence="5"),
        changed(fence=5.0),
        changed(attempt=None),
        changed(text=3),
        changed(due="soon"),
        changed(follow_up=1),
    ],
)
def test_a_line_of_another_kind_is_no_memo(line: str) -> None:
    assert Memo.from_line(line) is None


def test_what_a_later_release_adds_is_passed_over() -> None:
    assert Memo.from_line(changed(colour="red")) == Memo("r", 5, 2, "hash", 1.5, True)


def test_what_has_a_default_may_be_missing() -> None:
    assert Memo.from_line('{"v":1,"run":"r","fence":5}') == Memo("r", 5)
