"""What a row of the benchmark says, and how several passes over it become one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TOO_NOISY: Final = 0.5
"""A ratio whose passes lie further apart than this part of their median says nothing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement, and what the machine does raw, measured right beside it."""

    row: str
    unit: str
    value: float
    raw: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row over all passes: medians, and how far the passes lie apart, as a part of the median."""

    row: str
    unit: str
    value: float
    spread: float
    raw: float | None
    ratio: float | None
    """`value` to `raw`; None where there is nothing raw to compare with, or the machine was too noisy to tell."""
    ratio_spread: float | None


def over(passes: Sequence[Sequence[Reading]]) -> list[Row]:
    """One row for each thing that was measured, in the order of the first pass."""
    return [_row([each[at] for each in passes]) for at in range(len(passes[0]))]


def _row(readings: Sequence[Reading]) -> Row:
    first = readings[0]
    values = [reading.value for reading in readings]
    raws = [reading.raw for reading in readings if reading.raw is not None]
    ratios = [reading.value / reading.raw for reading in readings if reading.raw]
    apart = _spread(ratios) if ratios else None
    return Row(
        row=first.row,
        unit=first.unit,
        value=statistics.median(values),
        spread=_spread(values),
        raw=statistics.median(raws) if raws else None,
        ratio=statistics.median(ratios) if apart is not None and apart <= TOO_NOISY else None,
        ratio_spread=apart,
    )


def _spread(values: Sequence[float]) -> float:
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which this part of all values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
