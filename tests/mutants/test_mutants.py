"""The checks can fail: the simulation, and some tests, catch products with one safeguard less."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.mutants.__main__ import PAGE, documented, with_table
from tests.mutants.mutant import ROOT, Caught, DoesNotApply, Edit, Mutant, all_mutants, holds, parse
from tests.simulation.test_simulation import SEEDS

QUICK_TESTED: Final = "paging-by-the-kept-link"
QUICK: Final = ("claim-a-leased-ticket", "drop-the-index", "the-guard-trusts-for-ever")
MUTANTS: Final = {mutant.name: mutant for mutant in all_mutants()}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUICK)
def test_a_missing_safeguard_is_noticed(name: str) -> None:
    seed = documented(PAGE.read_text()).get(name, 0)
    caught = MUTANTS[name].hunt(first=seed, seeds=1) or MUTANTS[name].hunt(first=0, seeds=300)
    assert caught is not None, f"{name} was not caught"
    # The first seeds are played on the product itself by the tests of the simulation.
    assert caught.seed < SEEDS or holds(caught.seed), "the product fails there too"
    assert caught.promise.startswith("P")


def test_a_missing_safeguard_fails_the_test_that_it_names() -> None:
    assert MUTANTS[QUICK_TESTED].fails_its_test()


@pytest.mark.parametrize("name", [mutant.name for mutant in MUTANTS.values() if mutant.test])
def test_the_test_that_a_mutant_names_is_there(name: str) -> None:
    path, _, test = MUTANTS[name].test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / path).read_text()


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_still_applies(name: str) -> None:
    for path, text in MUTANTS[name].changed(ROOT).items():
        assert text != (ROOT / path).read_text()
        compile(text, path, "exec")


def test_the_docs_name_the_seed_that_catches_each() -> None:
    played = {mutant.name for mutant in MUTANTS.values() if not mutant.test}
    assert set(documented(PAGE.read_text())) == played, "make mutants writes the table"


def test_a_patch_that_does_not_apply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\none\n")
    for path, old in (("a.py", "one\n"), ("a.py", "three\n"), ("b.py", "one\n")):
        with pytest.raises(DoesNotApply):
            Mutant("x", "why", (Edit(path, old, ""),)).changed(tmp_path)
    edits = (Edit("a.py", "two\n", "2\n"), Edit("a.py", "2\none\n", "3\n"))
    assert Mutant("x", "why", edits).changed(tmp_path) == {"a.py": "one\n3\n"}


def test_a_patch_is_read() -> None:
    mutant = parse("x", "Why it is\nwrong.\n--- a.py\n stays\n-goes\n+comes\n-goes too\n--- b.py\n-only goes\n")
    assert mutant.why == "Why it is wrong."
    assert mutant.edits == (
        Edit("a.py", "stays\ngoes\n", "stays\ncomes\n"),
        Edit("a.py", "goes too\n", ""),
        Edit("b.py", "only goes\n", ""),
    )
    assert mutant.test == ""
    tested = parse("x", "Why.\nCaught by: tests/a.py::test_it\n--- a.py\n-goes\n")
    assert (tested.why, tested.test) == ("Why.", "tests/a.py::test_it")
    with pytest.raises(DoesNotApply):
        parse("x", "It changes nothing.\n")


def test_the_table_is_written_and_read_back() -> None:
    mutants = list(MUTANTS.values())[:2]
    page = with_table(
        "before\n<!-- mutants -->\nold\n<!-- /mutants -->\nafter\n",
        [(mutant, Caught(seed, "P1", "x", 1.0)) for seed, mutant in enumerate(mutants, start=7)],
    )
    assert documented(page) == {mutants[0].name: 7, mutants[1].name: 8}
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "\nold\n" not in page
