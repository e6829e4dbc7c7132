"""Durations and sizes, as people write them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentsmith.config import Consumer, Duration, Grace, Size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        (" 2 m ", 120),
        ("1h", 3600),
        ("1d", 86400),
        ("1.5h", 5400),
        ("1500ms", 1.5),
        (5, 5),
        (0.25, 0.25),
        ("60", 60),
    ],
)
def test_durations(text: object, seconds: float) -> None:
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "5 weeks", "-3s", "1h30m", "ms", "1e3s", "٣s", "0", 0, -1, True, None, [], 1e300, float("nan"), "99999d"],
)
def test_no_durations(text: object) -> None:
    with pytest.raises(ValueError, match=r"^is (not a duration|too short|too long)"):
        Duration.parse(text)


@pytest.mark.parametrize(
    ("text", "size"), [("10 MiB", 10485760), ("500 kB", 500_000), ("1gib", 1024**3), (7, 7), ("7", 7), ("7B", 7)]
)
def test_sizes(text: object, size: int) -> None:
    assert Size.parse(text) == size


@pytest.mark.parametrize("text", ["", "10 XB", "-1", 0, 1.5, True, None, "9999999 GiB"])
def test_no_sizes(text: object) -> None:
    with pytest.raises(ValueError, match=r"^is (not a size|too large)"):
        Size.parse(text)


@given(st.floats(min_value=0.001, max_value=86400 * 366, allow_nan=False))
@example(0.001)
@example(90.0)
def test_a_duration_survives_being_written(seconds: float) -> None:
    duration = Duration(seconds)
    assert Duration.parse(duration.text) == pytest.approx(duration, abs=1e-6, rel=1e-6)


@given(st.integers(min_value=1, max_value=1024**4))
def test_a_size_survives_being_written(count: int) -> None:
    assert Size.parse(Size(count).text) == count


def test_a_grace_may_be_zero() -> None:
    assert float(Grace.parse("0s")) == 0
    assert Consumer(kill_grace=Grace(0)).kill_grace.text == "0s"
