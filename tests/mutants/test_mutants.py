"""The simulation can fail: it catches products with one safeguard less."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.mutants.__main__ import PAGE, documented, with_table
from tests.mutants.mutant import Caught, DoesNotApply, Edit, all_mutants, parse

QUICK: Final = ("pop-instead-of-move", "drop-the-index", "begin-write-without-fence")
MUTANTS: Final = {mutant.name: mutant for mutant in all_mutants()}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUICK)
def test_a_missing_safeguard_is_noticed(name: str) -> None:
    seed = documented(PAGE.read_text()).get(name, 0)
    caught = MUTANTS[name].hunt(first=seed, seeds=1) or MUTANTS[name].hunt(first=0, seeds=300)
    assert caught is not None, f"{name} was not caught"
    assert caught.promise.startswith("P")


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_still_applies(name: str) -> None:
    with MUTANTS[name].alive() as root:
        assert (root / "agentsmith").is_dir()


def test_a_patch_that_does_not_apply_is_refused(tmp_path: Path) -> None:
    root = tmp_path
    (root / "a.py").write_text("one\ntwo\none\n")
    for old in ("one\n", "three\n"):
        with pytest.raises(DoesNotApply):
            Edit("a.py", old, "").apply(root)
    with pytest.raises(DoesNotApply):
        Edit("b.py", "one\n", "").apply(root)
    Edit("a.py", "two\n", "2\n").apply(root)
    assert (root / "a.py").read_text() == "one\n2\none\n"


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
    assert "old" not in page
