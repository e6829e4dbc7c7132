"""`agentsmith bench`: what the product does on this machine, as ratios to what the machine does raw in the same run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from agentsmith import logs
from agentsmith.bench.figures import Row
from agentsmith.bench.rows import GROUPS, WITHOUT_ASKING, machine, measured
from agentsmith.cli import output
from agentsmith.config.names import choices
from agentsmith.domain.errors import ConfigError


def bench(rows: Sequence[str], *, passes: int, effort: float, as_json: bool) -> None:
    """Measure the rows, if none is named all of those that are quick, in a temporary folder, and show the figures."""
    for name in rows:
        if name not in GROUPS:
            raise ConfigError(f"there is nothing to measure called {name!r}{choices(name, tuple(GROUPS))}")
    logs.configure("console", "error")
    with tempfile.TemporaryDirectory(prefix="agentsmith-bench-") as folder:
        found = asyncio.run(
            measured(
                Path(folder),
                rows or WITHOUT_ASKING,
                passes=passes,
                effort=effort,
                tell=lambda doing: output.note(doing),
            )
        )
    if as_json:
        output.json_result({"machine": machine(), "passes": passes, "rows": [asdict(row) for row in found]})
        return
    output.rows(("What", "Median", "", "Spread", "Raw", "Ratio"), [_shown(row) for row in found])
    if passes == 1:
        output.note("one pass: nothing is known of how far passes lie apart")


def _shown(row: Row) -> tuple[str, ...]:
    raw = f"{row.raw:,.2f}" if row.raw is not None else ""
    ratio = f"{row.ratio:.2f}" if row.ratio is not None else raw and "too noisy"
    return (row.row, f"{row.value:,.2f}", row.unit, f"{row.spread:.0%}", raw, ratio)
