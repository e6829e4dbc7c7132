"""Retention: old folders go, what is in hand or was never pushed stays, and nobody sees half a folder."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from agentsmith import git
from agentsmith.config import Config, Duration
from agentsmith.config import Housekeeping as HousekeepingSettings
from agentsmith.git.locks import FileLock
from agentsmith.housekeeping.retention import Removed, Retention, prune_workspaces
from agentsmith.pipelines.workplace import Workplace, lock_of
from agentsmith.store import Pushed, RunLease, Store
from tests.support.code_world import code_config, open_code_world
from tests.support.stores import a_request, acquired, begin
from tests.support.wait import wait_until

NOBODY = 65534
DAY = 86400.0
NOW = 1_800_000_000.0
PLENTY = 1 << 40


def prune(
    root: Path,
    *,
    days: float = 1000,
    size: int = PLENTY,
    spare: tuple[str, ...] = (),
    halt: threading.Event | None = None,
) -> list[str]:
    return sorted(removing(root, days=days, size=size, spare=spare, halt=halt).workspaces)


def removing(
    root: Path,
    *,
    days: float,
    size: int = PLENTY,
    spare: tuple[str, ...] = (),
    halt: threading.Event | None = None,
) -> Removed:
    return prune_workspaces(
        root,
        keep_for=days * DAY,
        keep_size=size,
        keep_unsaved_for=1000 * DAY,
        spare=lambda: frozenset(spare),
        now=NOW,
        halt=halt,
    )


def folder(root: Path, name: str, *, days: float, kib: int = 4) -> Path:
    """A folder whose newest file was changed so many days before NOW."""
    made = root / name / "inside"
    made.mkdir(parents=True)
    (made / "file").write_bytes(os.urandom(kib * 1024))
    for path in (made / "file", made, made.parent):
        os.utime(path, (NOW - days * DAY, NOW - days * DAY))
    return made.parent


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if path.name != "locks"}


def test_what_nothing_touched_for_too_long_goes(tmp_path: Path) -> None:
    for days in (1, 13, 15, 40):
        folder(tmp_path, f"d{days}", days=days)
    assert prune(tmp_path, days=14) == ["d15", "d40"]
    assert names(tmp_path) == {"d1", "d13"}


def test_one_new_file_deep_inside_keeps_a_folder(tmp_path: Path) -> None:
    old = folder(tmp_path, "old", days=40)
    os.utime(old / "inside" / "file", (NOW, NOW))
    assert prune(tmp_path, days=14) == []


def test_the_oldest_go_while_there_is_too_much(tmp_path: Path) -> None:
    for days in (1, 2, 3, 4):
        folder(tmp_path, f"d{days}", days=days, kib=100)
    assert prune(tmp_path, size=250 * 1024) == ["d3", "d4"]
    assert names(tmp_path) == {"d1", "d2"}


def test_what_is_in_hand_is_spared_and_counts(tmp_path: Path) -> None:
    for days in (1, 2, 3):
        folder(tmp_path, f"d{days}", days=days, kib=100)
    assert prune(tmp_path, size=150 * 1024, spare=("d1", "d3")) == ["d2"]
    assert names(tmp_path) == {"d1", "d3"}


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = folder(tmp_path, "elsewhere", days=0)
    root = tmp_path / "root"
    old = folder(root, "old", days=40)
    (old / "link").symlink_to(elsewhere)
    (root / "linked").symlink_to(elsewhere)
    os.utime(old, (NOW - 40 * DAY, NOW - 40 * DAY))
    os.utime(old / "link", (NOW - 40 * DAY, NOW - 40 * DAY), follow_symlinks=False)
    assert prune(root, days=14) == ["old"]
    assert (elsewhere / "inside" / "file").exists()
    assert (root / "linked").is_symlink()


def test_what_an_earlier_clean_up_left_half_done_is_finished(tmp_path: Path) -> None:
    (tmp_path / ".removing-x" / "inside").mkdir(parents=True)
    assert prune(tmp_path) == []
    assert names(tmp_path) == set()


def as_nobody(do: Callable[[], str]) -> str:
    """What it answers in a process without any rights of ours."""
    ear, bell = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.write(bell, do().encode())
        except BaseException as error:
            os.write(bell, repr(error).encode())
        finally:
            os._exit(0)
    os.close(bell)
    os.waitpid(pid, 0)
    with os.fdopen(ear, "rb") as said:
        return said.read().decode()


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A folder that belongs to nobody, and that nobody can get to."""
    place = Path(tempfile.mkdtemp(prefix="agentsmith-test-"))
    place.chmod(0o755)
    root = place / "workspaces"
    root.mkdir()
    yield root
    for top, folders, _ in os.walk(place):
        for name in folders:
            os.chmod(os.path.join(top, name), 0o700)
    shutil.rmtree(place)


def give(root: Path) -> None:
    if os.geteuid() == 0:
        for top, folders, files in os.walk(root):
            for name in (".", *folders, *files):
                os.chown(os.path.join(top, name), NOBODY, NOBODY)


def test_folders_that_may_not_be_written_to_go_too(nobodys: Path) -> None:
    """As those of some package caches, which lie in the home of steps."""
    made = folder(nobodys, "old", days=40)
    give(nobodys)
    (made / "inside").chmod(0o555)
    assert as_nobody(lambda: ", ".join(prune(nobodys, days=14))) == "old"
    assert names(nobodys) == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may leave files of another user")
def test_P2_files_of_another_user_keep_no_other_folder_from_going(nobodys: Path) -> None:
    for name in ("a", "b", "c"):
        folder(nobodys, name, days=40)
    give(nobodys)
    os.chown(nobodys / "a" / "inside", 0, 0)

    def twice() -> str:
        told = []
        for _ in range(2):
            removed = removing(nobodys, days=14)
            told.append(f"{','.join(removed.workspaces)} {len(removed.stuck)}")
            folder(nobodys, "a", days=40)
        return "; ".join(told)

    assert as_nobody(twice) == "c,b,a 1; a 1"
    assert {name.rpartition("-")[0] for name in names(nobodys) - {"a"}} == {".removing-a"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may leave files of another user")
def test_P2_files_of_another_user_keep_no_other_checkout_from_going(nobodys: Path) -> None:
    for name in ("a", "b"):
        work = folder(nobodys, name, days=40) / "work"
        work.mkdir()
        vault = nobodys / "vaults" / f"{name}.git"
        vault.mkdir(parents=True)
        (vault / "agentsmith.json").write_text(json.dumps({"workspace": str(work)}))
        (vault / "agentsmith.saved").touch()
        os.utime(vault / "agentsmith.json", (NOW - 40 * DAY,) * 2)
        os.utime(vault / "agentsmith.saved", (NOW - 40 * DAY,) * 2)
    (nobodys / "a" / "work" / "theirs").mkdir()
    (nobodys / "a" / "work" / "theirs" / "file").touch()
    give(nobodys)
    os.chown(nobodys / "a" / "work" / "theirs", 0, 0)

    def told() -> str:
        pruned = git.prune(nobodys, older_than=DAY, unsaved_older_than=DAY, now=NOW)
        return f"{pruned.workspaces} {pruned.stuck}"

    assert as_nobody(told) == "('b',) ('a',)"
    assert not (nobodys / "a" / "work").exists(), "half of it would look like a worker's doing"
    assert as_nobody(told) == "('a',) ()", "and then the rest of it"


def test_nothing_to_keep_is_no_trouble(tmp_path: Path) -> None:
    assert prune(tmp_path / "absent") == []


def test_a_process_that_ends_waits_for_no_clean_up(tmp_path: Path) -> None:
    folder(tmp_path, "old", days=40)
    halt = threading.Event()
    halt.set()
    assert prune(tmp_path, days=1, halt=halt) == []
    assert names(tmp_path) == {"old"}


def test_what_was_used_within_the_last_hour_stays_however_little_room_there_is(tmp_path: Path) -> None:
    folder(tmp_path, "recent", days=0.01, kib=100)
    folder(tmp_path, "older", days=0.1, kib=100)
    assert prune(tmp_path, size=1) == ["older"]


def test_a_checkout_that_git_keeps_and_what_git_keeps_beside_it_stay(tmp_path: Path) -> None:
    for name in ("mirrors", "vaults", "aside", "local.1", "local.2"):
        folder(tmp_path, name, days=40)
    checkout = tmp_path / "local.1" / "work" / ".git"
    checkout.mkdir(parents=True)
    for path in (checkout, checkout.parent, checkout.parent.parent):
        os.utime(path, (NOW - 40 * DAY, NOW - 40 * DAY))
    assert prune(tmp_path, days=14) == ["local.2"]
    assert names(tmp_path) == {"mirrors", "vaults", "aside", "local.1"}


def _is_gone(path: Path) -> bool:
    return not path.exists()


@pytest.fixture
def retention(store: Store, tmp_path: Path) -> Retention:
    config = Config(data_dir=tmp_path / "data", housekeeping=HousekeepingSettings(tidy_every=Duration(0.05)))
    return Retention(store, config)


async def test_queued_and_running_tickets_keep_their_folders(retention: Retention, store: Store) -> None:
    workspaces, runs = retention.config.data_dir / "workspaces", retention.config.data_dir / "runs"
    await begin(store, 1)
    await store.queue.push(a_request(2))
    for number in (1, 2, 3):
        folder(workspaces, f"local.{number}", days=4000)
        folder(runs, f"run-{number}", days=4000)
    assert await retention.run_once() == Removed(("local.3",), records=1)
    assert names(workspaces) == {"local.1", "local.2"}
    assert names(runs) == {"run-1", "run-2"}


async def test_a_ticket_that_begins_between_two_reads_keeps_its_folder(
    retention: Retention, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for on the queue and among the runs, and goes from one to the other when the first was read."""
    request, waits = a_request(1), [True]
    await store.queue.push(request)
    folder(retention.config.data_dir / "workspaces", "local.1", days=4000)
    queued, running = store.queue.in_flight, store.runs.running

    async def goes_on() -> None:
        while waits:
            waits.pop()
            payload = await store.queue.take("c1", wait=1)
            assert payload is not None
            await acquired(store, request)
            await store.queue.acknowledge_and_take("c1", [(request.ticket, payload)], room=0)

    async def and_goes_on() -> AsyncIterator[str]:
        async for payload in queued():
            yield payload
        await goes_on()

    async def who_runs() -> list[RunLease]:
        found = await running()
        await goes_on()
        return found

    monkeypatch.setattr(store.queue, "in_flight", and_goes_on)
    monkeypatch.setattr(store.runs, "running", who_runs)
    assert await retention.run_once() == Removed()


async def test_one_process_at_a_time_tidies_a_data_directory_up(retention: Retention) -> None:
    folder(retention.config.data_dir / "runs", "old", days=4000)
    with (retention.config.data_dir / "retention.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert await retention.run_once() == Removed()
    assert await retention.run_once() == Removed(records=1)


async def test_P2_whatever_is_wrong_with_what_is_old_ends_no_work(
    retention: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = asyncio.Event()

    async def no_thread(*_: object) -> None:
        tried.set()
        monkeypatch.undo()
        raise RuntimeError("can't start new thread")

    old = folder(retention.config.data_dir / "runs", "old", days=4000)
    monkeypatch.setattr("asyncio.to_thread", no_thread)
    task = asyncio.create_task(retention.serve())
    try:
        await wait_until(lambda: tried.is_set() and not old.exists(), what="the next clean-up")
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_it_tidies_up_again_and_again(retention: Retention) -> None:
    serving = asyncio.create_task(retention.serve())
    for _ in range(2):
        old = folder(retention.config.data_dir / "runs", "old", days=4000)
        await wait_until(partial(_is_gone, old), what="the old record to go")
    serving.cancel()
    await asyncio.wait({serving})


PLAIN: Final[list[object]] = [{"run": "echo kept > kept"}]
WITH_CODE: Final[list[object]] = ["checkout", {"run": "echo kept > kept"}, "commit", "push"]


@pytest.fixture(params=[PLAIN, WITH_CODE], ids=["plain", "checkout"])
async def ended(request: pytest.FixtureRequest, tmp_path: Path, store: Store, redis_url: str) -> Retention:
    """A machine where the first ticket's run ended long ago."""
    config = code_config(tmp_path / "data", request.param)
    async with open_code_world(tmp_path, store, redis_url, config=config) as code:
        assert await code.carry_through() == "1"
    for top, folders, files in os.walk(config.data_dir / "workspaces"):
        for name in (*folders, *files):
            os.utime(os.path.join(top, name), (0, 0), follow_symlinks=False)
    assert _kept(config.data_dir)
    return Retention(store, config)


def _kept(data_dir: Path) -> bool:
    """Whether the ticket's folder is there, and whole."""
    folder, vaults = data_dir / "workspaces" / "local.1", data_dir / "workspaces" / "vaults"
    has_work, has_home = (folder / "work" / "kept").exists(), (folder / "home").exists()
    has_vault = any(vaults.glob("*.git")) if vaults.exists() else has_work
    assert has_work == has_home == has_vault, "half of it is gone"
    return has_work


def _prune(retention: Retention, spare: Callable[[], frozenset[str]]) -> None:
    root = retention.config.data_dir / "workspaces"
    prune_workspaces(root, keep_for=DAY, keep_size=PLENTY, keep_unsaved_for=DAY, spare=spare, now=time.time())


async def test_a_queued_ticket_keeps_its_folder_whole(ended: Retention, store: Store) -> None:
    request = a_request(1, fence=8 * 10**15)
    assert await store.queue.push(request) is Pushed.PUSHED
    await ended.run_once()
    assert _kept(ended.config.data_dir)
    payload = await store.queue.take("someone", wait=0.01)
    assert payload is not None
    await store.queue.acknowledge_and_take("someone", [(request.ticket, payload)], room=0)
    await ended.run_once()
    assert not _kept(ended.config.data_dir)


async def test_a_folder_stays_while_a_run_uses_it(ended: Retention) -> None:
    place = await Workplace.make(ended.config.data_dir, a_request(1))
    await ended.run_once()
    assert _kept(ended.config.data_dir)
    place.leave()
    await ended.run_once()
    assert not _kept(ended.config.data_dir)


async def test_a_folder_that_was_used_while_all_were_looked_through_stays(ended: Retention) -> None:
    workspaces = ended.config.data_dir / "workspaces"

    def used_meanwhile() -> frozenset[str]:
        for used in (workspaces / "local.1" / "memory.json", *workspaces.glob("vaults/*.git/agentsmith.saved")):
            os.utime(used)
        return frozenset()

    _prune(ended, used_meanwhile)
    assert _kept(ended.config.data_dir)


async def test_nobody_makes_a_folder_while_it_is_removed(ended: Retention) -> None:
    data_dir, asked, go_on = ended.config.data_dir, threading.Event(), threading.Event()

    def while_it_is_removed() -> frozenset[str]:
        asked.set()
        assert go_on.wait(60)
        return frozenset()

    removing = asyncio.create_task(asyncio.to_thread(_prune, ended, while_it_is_removed))
    assert await asyncio.to_thread(asked.wait, 60)
    making = asyncio.create_task(Workplace.make(data_dir, a_request(1)))
    await asyncio.sleep(0)
    assert FileLock.try_take(lock_of(data_dir / "workspaces" / "local.1"), shared=True) is None
    assert not making.done()
    go_on.set()
    await removing
    place = await making
    assert (place.work.is_dir(), place.home.is_dir(), list(place.work.iterdir())) == (True, True, [])
    place.leave()
