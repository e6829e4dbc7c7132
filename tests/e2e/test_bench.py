"""`agentsmith bench` measures what it says, through real processes; how fast they are is no matter of a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentsmith.bench.rows import GROUPS
from tests.support.cli import Cli

pytestmark = pytest.mark.long

RATIOS = {
    "queue": ["queue: push, one at a time", "queue: take and acknowledge, 50 at once", "queue: idle pick-up, p50"],
    "run": ["run without work, 50 at once", "run without work, 1 at once"],
    "receiver": ["receiver, 64 connections", "receiver, one connection: p50"],
    "life": ["life on local, 10 slots", "life on github, 10 slots"],
    "growth": [
        "growth over 18 open tickets: processor time per ticket, last third to first",
        "growth over 18 open tickets: memory, after the last third to after the first",
    ],
    "start": ["start: --version", "start: status", "start: up, until it serves"],
}
COUNTS = {
    "life": [
        *(
            f"life on {where}: Redis {what} per ticket"
            for where in ("local", "github")
            for what in ("scripts", "commands")
        ),
        *(f"life on {where}: label to first step, p50" for where in ("local", "github")),
        "life on github: requests per ticket",
    ]
}


@pytest.mark.parametrize("group", GROUPS)
def test_every_row_is_measured_and_stands_beside_what_the_machine_does_raw(tmp_path: Path, group: str) -> None:
    told = Cli(tmp_path).json("bench", group, "--passes", "1", "--effort", "0.01")
    rows = {row["row"]: row for row in told["rows"]}
    assert all(row["value"] > 0 for row in rows.values())
    assert all(rows[name]["raw"] > 0 and rows[name]["ratio"] > 0 for name in RATIOS[group])
    assert set(COUNTS.get(group, ())) <= rows.keys()
    assert told["passes"] == 1
    assert told["machine"]["python"]
    # A ticket is one claim and one run: fewer requests than these would not have been its life.
    if group == "life":
        assert rows["life on github: requests per ticket"]["value"] >= 8
        assert rows["life on local: Redis scripts per ticket"]["value"] >= 8
