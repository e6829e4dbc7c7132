"""The simulation can fail: it catches products with one safeguard less."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.mutants.__main__ import PAGE, documented, with_table
from tests.mutants.mutant import ROOT, Caught, DoesNotApply, Edit, Mutant, all_mutants, holds, parse
from tests.simulation.test_simulation import SEEDS

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


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_still_applies(name: str) -> None:
    for path, text in MUTANTS[name].changed(ROOT).items():
        assert text != (ROOT / path).read_text()
        compile(text, path, "exec")


def test_the_docs_name_the_seed_that_catches_each() -> None:
    assert set(documented(PAGE.read_text())) == set(MUTANTS), "make mutants writes the table"


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
