"""Mutants of what the simulation does not play: each names, below what is wrong with it, the tests that catch it.

`make mutants` hunts all of them; here one is hunted, and of the others it is seen that they still apply.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.mutant import ROOT, Mutant, parse

FOLDER: Final = Path(__file__).parent / "tested"
ALL: Final = os.environ.get("AGENTSMITH_MUTANTS") == "all"
QUICK: Final = ("every-line-is-written",)


def read(file: Path) -> tuple[Mutant, Sequence[str]]:
    """A mutant, and the tests that are to catch it."""
    head, edits = file.read_text().split("--- ", 1)
    why, *caught = head.strip().splitlines()
    return parse(file.stem, f"{why}\n--- {edits}"), [line.removeprefix("Caught by: ") for line in caught]


MUTANTS: Final = {file.stem: read(file) for file in sorted(FOLDER.glob("*.patch"))}


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_still_applies_and_names_its_tests(name: str) -> None:
    mutant, tests = MUTANTS[name]
    for path, text in mutant.changed(ROOT).items():
        assert text != (ROOT / path).read_text()
        compile(text, path, "exec")
    assert tests
    assert all((ROOT / test.partition("::")[0]).is_file() for test in tests)


def outcome(mutant: Mutant, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """What the tests say of a copy of the tree in which the mutant lives."""
    with mutant.alive() as root:
        for part in (
            "tests/conftest.py",
            "tests/roles",
            "tests/unit",
            "tests/store",
            "tests/mutants",
            "pyproject.toml",
        ):
            (root / part).parent.mkdir(parents=True, exist_ok=True)
            if not (root / part).exists():
                (root / part).symlink_to(ROOT / part)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
        )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MUTANTS if ALL else QUICK)
def test_its_tests_catch_it(name: str) -> None:
    mutant, tests = MUTANTS[name]
    done = outcome(mutant, tests)
    assert done.returncode == 1, f"{name} was not caught:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


@pytest.mark.skipif(not ALL, reason="these tests are run by themselves; AGENTSMITH_MUTANTS=all runs them in a copy too")
def test_without_a_mutant_they_pass_in_such_a_copy() -> None:
    """What fails anyway catches nobody."""
    done = outcome(
        Mutant("none", "It is the product.", ()), sorted({t for _, tests in MUTANTS.values() for t in tests})
    )
    assert done.returncode == 0, done.stdout[-3000:]
