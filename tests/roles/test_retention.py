"""Retention: old folders go, what is in hand stays, and nobody sees half a folder."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from agentsmith.retention import Keep, Retention, prune
from agentsmith.store import Store
from tests.support.stores import a_request, begin

DAY = 86400.0
NOW = 1_800_000_000.0
FOREVER = Keep(1000 * DAY, 1 << 40)
NONE: frozenset[str] = frozenset()


def folder(root: Path, name: str, *, days: float, kib: int = 4) -> Path:
    """A folder whose newest file was changed so many days before NOW."""
    made = root / name / "inside"
    made.mkdir(parents=True)
    (made / "file").write_bytes(os.urandom(kib * 1024))
    for path in (made / "file", made, made.parent):
        os.utime(path, (NOW - days * DAY, NOW - days * DAY))
    return made.parent


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


def test_what_nothing_touched_for_too_long_goes(tmp_path: Path) -> None:
    for days in (1, 13, 15, 40):
        folder(tmp_path, f"d{days}", days=days)
    assert sorted(prune(tmp_path, Keep(14 * DAY, 1 << 40), spare=NONE, now=NOW)) == ["d15", "d40"]
    assert names(tmp_path) == {"d1", "d13"}


def test_one_new_file_deep_inside_keeps_a_folder(tmp_path: Path) -> None:
    old = folder(tmp_path, "old", days=40)
    os.utime(old / "inside" / "file", (NOW, NOW))
    assert prune(tmp_path, Keep(14 * DAY, 1 << 40), spare=NONE, now=NOW) == []


def test_the_oldest_go_while_there_is_too_much(tmp_path: Path) -> None:
    for days in (1, 2, 3, 4):
        folder(tmp_path, f"d{days}", days=days, kib=100)
    gone = prune(tmp_path, Keep(1000 * DAY, 250 * 1024), spare=NONE, now=NOW)
    assert sorted(gone) == ["d3", "d4"]
    assert names(tmp_path) == {"d1", "d2"}


def test_what_is_in_hand_is_spared_and_counts(tmp_path: Path) -> None:
    for days in (1, 2, 3):
        folder(tmp_path, f"d{days}", days=days, kib=100)
    assert prune(tmp_path, Keep(0, 150 * 1024), spare=frozenset({"d1", "d3"}), now=NOW) == ["d2"]
    assert names(tmp_path) == {"d1", "d3"}


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = folder(tmp_path, "elsewhere", days=0)
    root = tmp_path / "root"
    old = folder(root, "old", days=40)
    (old / "link").symlink_to(elsewhere)
    (root / "linked").symlink_to(elsewhere)
    os.utime(old, (NOW - 40 * DAY, NOW - 40 * DAY))
    os.utime(old / "link", (NOW - 40 * DAY, NOW - 40 * DAY), follow_symlinks=False)
    assert prune(root, Keep(14 * DAY, 1 << 40), spare=NONE, now=NOW) == ["old"]
    assert (elsewhere / "inside" / "file").exists()
    assert (root / "linked").is_symlink()


def test_what_an_earlier_clean_up_left_half_done_is_finished(tmp_path: Path) -> None:
    (tmp_path / ".removing-x" / "inside").mkdir(parents=True)
    assert prune(tmp_path, FOREVER, spare=NONE, now=NOW) == []
    assert names(tmp_path) == set()


def test_nothing_to_keep_is_no_trouble(tmp_path: Path) -> None:
    assert prune(tmp_path / "absent", FOREVER, spare=NONE, now=NOW) == []


def test_a_process_that_ends_waits_for_no_clean_up(tmp_path: Path) -> None:
    folder(tmp_path, "old", days=40)
    halt = threading.Event()
    halt.set()
    assert prune(tmp_path, Keep(0, 1), spare=NONE, now=NOW, halt=halt) == []
    assert names(tmp_path) == {"old"}


@pytest.fixture
def retention(store: Store, tmp_path: Path) -> Retention:
    return Retention(
        store, tmp_path / "data", workspaces=Keep(14 * DAY, 1 << 40), runs=Keep(30 * DAY, 1 << 40), every=1
    )


async def test_queued_and_running_tickets_keep_their_folders(retention: Retention, store: Store) -> None:
    workspaces, runs = retention.data_dir / "workspaces", retention.data_dir / "runs"
    await begin(store, 1)
    await store.queue.push(a_request(2))
    for number in (1, 2, 3):
        folder(workspaces, f"local.{number}", days=4000)
        folder(runs, f"run-{number}", days=4000)
    assert sorted(await retention.tidy_up()) == ["local.3", "run-3"]
    assert names(workspaces) == {"local.1", "local.2"}
    assert names(runs) == {"run-1", "run-2"}


async def test_one_process_at_a_time_tidies_a_data_directory_up(retention: Retention) -> None:
    folder(retention.data_dir / "runs", "old", days=4000)
    with (retention.data_dir / "retention.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert await retention.tidy_up() == []
    assert await retention.tidy_up() == ["old"]
