"""Clean-up: what nobody has used for long goes, what a run holds or nobody has saved stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agentsmith.git import Pruned, prune
from agentsmith.git.locks import FileLock
from tests.support.git_bench import Bench, write_files

DAY = 86_400.0


def _later(days: float) -> float:
    return time.time() + days * DAY


async def _saved(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"a.txt": "a\n", "cache/ro/x": "x\n"})
    await checkout.save_wip(run="r", pipeline="p", step="s", begin_write=bench.begin_write)
    await checkout.close()


async def test_what_is_saved_goes_after_its_time(bench: Bench) -> None:
    await _saved(bench)
    (bench.workspace / "cache/ro").chmod(0o500)
    assert prune(bench.root, older_than=7 * DAY, unsaved_older_than=30 * DAY, now=_later(6)) == Pruned()
    pruned = prune(bench.root, older_than=7 * DAY, unsaved_older_than=30 * DAY, now=_later(8))
    assert (len(pruned.workspaces), len(pruned.mirrors), pruned.unsaved) == (1, 1, ())
    assert _left(bench.root) == ["mirrors", "vaults", "workspaces"]
    checkout = await bench.open()  # and it all comes back
    assert (checkout.path / "a.txt").read_text() == "a\n"


def _left(root: Path) -> list[str]:
    """Everything below the root, two levels deep."""
    return sorted(str(path.relative_to(root)) for path in (*root.glob("*"), *root.glob("*/*")))


async def test_what_was_never_pushed_stays_longer(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"a.txt": "a\n"})
    await checkout.close()
    pruned = prune(bench.root, older_than=7 * DAY, unsaved_older_than=30 * DAY, now=_later(8))
    assert (pruned.workspaces, pruned.mirrors, len(pruned.unsaved)) == ((), (), 1)
    assert (checkout.path / "a.txt").exists()
    assert len(prune(bench.root, older_than=7 * DAY, unsaved_older_than=30 * DAY, now=_later(31)).workspaces) == 1
    assert not checkout.path.exists()


async def test_what_a_run_holds_stays(bench: Bench) -> None:
    checkout = await bench.open()
    assert prune(bench.root, older_than=0, unsaved_older_than=0, now=_later(100)).workspaces == ()
    assert (checkout.path / "README.md").exists()


async def test_mirror_stays_while_a_workspace_needs_it(bench: Bench) -> None:
    await _saved(bench)
    used = next((bench.root / "mirrors").glob("*.used"))
    os.utime(used, (0, 0))
    assert prune(bench.root, older_than=7 * DAY, unsaved_older_than=30 * DAY).mirrors == ()


async def test_a_mirror_that_was_brought_up_to_date_a_moment_ago_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _saved(bench)
    used, take = next((bench.root / "mirrors").glob("*.used")), FileLock.try_take

    def after_somebody_else(path: Path) -> FileLock | None:
        if path == used.with_suffix(".lock"):
            os.utime(used, (_later(8), _later(8)))
        return take(path)

    monkeypatch.setattr(FileLock, "try_take", after_somebody_else)
    pruned = prune(bench.root, older_than=7 * DAY, unsaved_older_than=30 * DAY, now=_later(8))
    assert (len(pruned.workspaces), pruned.mirrors) == (1, ())
    assert used.with_suffix(".git").is_dir()


async def test_a_vault_that_names_a_place_elsewhere_takes_nothing_there_with_it(bench: Bench, tmp_path: Path) -> None:
    await _saved(bench)
    precious = tmp_path / "precious"
    precious.mkdir()
    note = bench.vault / "agentsmith.json"
    note.write_text(note.read_text().replace(str(bench.workspace), str(precious)))
    prune(bench.root, older_than=0, unsaved_older_than=0, now=_later(100))
    assert precious.is_dir()


def test_nothing_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert prune(tmp_path / "no", older_than=0, unsaved_older_than=0) == Pruned()
