"""The order of tests."""

from __future__ import annotations

import pytest

from tests.support.order import long_first


@pytest.mark.parametrize(
    ("workers", "ordered"),
    [(1, "ABCDabcdef"), (2, "ACabcDBdef"), (3, "ADaBbcCdef"), (20, "ABCDabcdef")],
)
def test_every_worker_begins_with_its_share_of_the_long_ones(workers: int, ordered: str) -> None:
    assert "".join(long_first("aAbBcCdDef", str.isupper, workers)) == ordered


def test_more_long_ones_than_a_share_holds_are_all_kept() -> None:
    assert sorted(long_first("ABCDEa", str.isupper, 4)) == sorted("ABCDEa")
