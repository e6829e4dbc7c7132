"""P1 to P6 hold over hundreds of seeds, and a seed tells the same story every time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SEEDS: Final = 504
PARTS: Final = 2
"""So that the workers of pytest-xdist can share them; not more, because each has to import the product anew."""
JOBS: Final = (2, 1)
"""One of the parts in several processes, as the long runs are."""
STORY: Final = re.compile(r"0\.0000 +seed (\d+): (.*?)(?=0\.0000 +seed|\Z)", re.DOTALL)


FOUND: Final = (
    7101440, 9003304, 9003486, 9004624, 9013712, 9013785, 9015229, 9017752, 9018916, 9019186, 9023448, 9027091, 9027708,
    20001916, 20011063, 20011160, 20012020, 20017001, 20018257, 30010438, 30016572, 31001484, 60006023, 1181,
)  # fmt: skip
"""Seeds beyond the first ones that broke a promise once; each has its story in `test_found_by_simulation.py` too."""


def simulate(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *options],
        check=False, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_promises_hold(part: int) -> None:
    each = SEEDS // PARTS
    done = simulate("--from", str(part * each), "--seeds", str(each), "--jobs", str(JOBS[part]))
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert f"{each} seeds from {part * each}: every promise held" in done.stdout


def test_what_broke_a_promise_once_does_so_no_more() -> None:
    done = simulate("--these", *map(str, FOUND))
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


def test_a_seed_tells_the_same_story_to_the_letter_and_another_one_another() -> None:
    options = ("--from", "3", "--seeds", "2", "--trace")
    first = simulate(*options, PYTHONHASHSEED="random")
    again = simulate(*options, PYTHONHASHSEED="12345")
    assert first.returncode == again.returncode == 0, first.stdout[-5_000:] + first.stderr[-5_000:]
    assert first.stdout == again.stdout
    third, fourth = (f"seed {seed}: {story}" for seed, story in STORY.findall(first.stdout))
    assert third.startswith("seed 3: ")
    assert fourth.startswith("seed 4: ")
    assert min(len(third.splitlines()), len(fourth.splitlines())) > 50
    assert third.splitlines()[1:10] != fourth.splitlines()[1:10]


@pytest.mark.parametrize("options", [("--seeds", "0"), ("--from", "-1"), ("--seeds", "many")])
def test_bad_input_is_told_in_one_message(options: tuple[str, ...]) -> None:
    done = simulate(*options)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
