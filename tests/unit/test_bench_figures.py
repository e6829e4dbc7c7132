"""Several passes of the benchmark become one row: medians, and no ratio where the machine was too noisy."""

from __future__ import annotations

import pytest

from agentsmith.bench.figures import Reading, over, quantile


def passes(*pairs: tuple[float, float | None]) -> list[list[Reading]]:
    return [[Reading("a thing", "/s", value, raw), Reading("a count", "", value)] for value, raw in pairs]


def test_a_row_is_the_median_of_its_passes_and_the_ratio_that_of_the_ratios() -> None:
    thing, count = over(passes((10, 20), (12, 20), (30, 60)))
    assert (thing.row, thing.unit, thing.value, thing.raw) == ("a thing", "/s", 12, 20)
    assert thing.ratio == pytest.approx(0.5)
    assert thing.spread == pytest.approx(20 / 12)
    assert (count.row, count.raw, count.ratio) == ("a count", None, None)


def test_passes_that_lie_far_apart_give_no_ratio() -> None:
    (thing, _) = over(passes((10, 20), (10, 40), (10, 10)))
    assert thing.ratio is None
    assert thing.ratio_spread == pytest.approx(1.5)


def test_nothing_is_divided_by_zero() -> None:
    thing, count = over(passes((0, 0)))
    assert thing.ratio is None
    assert count.spread == 0


@pytest.mark.parametrize(("part", "is_"), [(0, 1), (0.5, 51), (0.99, 100), (1, 100)])
def test_a_quantile_is_one_of_the_values(part: float, is_: float) -> None:
    assert quantile([*range(100, 0, -1)], part) == is_
