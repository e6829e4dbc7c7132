"""Killed at any moment, or two at once: the next run heals what is there, and nothing that was done is lost."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agentsmith.git import Pushed
from agentsmith.git.errors import WorkspaceBusy
from agentsmith.git.locks import HOLD
from tests.support.git_bench import BRANCH, QUICK, Bench, git, write_files
from tests.support.git_http import GitHttp
from tests.support.processes import is_alive
from tests.support.wait import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes as Linux shows them")

RUN = """
import asyncio, json, pathlib, sys
from dataclasses import replace
from agentsmith.boottime import boottime
from agentsmith.domain.forge import GitCredential
from agentsmith.git import GuardShell, open_checkout
from agentsmith.guard.client import Guard
from tests.support.git_bench import QUICK, FakeForge, write_files

async def begin_write():
    pass

async def main():
    plan = json.loads(sys.argv[1])
    root = pathlib.Path(plan["root"])
    forge = FakeForge(plan["url"], GitCredential(*plan["credential"]) if plan["credential"] else None)
    guard = await Guard.open(trusted_until=boottime() + 120, grace=0.1, farewell=None)
    checkout = await open_checkout(
        forge, root=root, workspace=root / "workspaces" / plan["workspace"], branch=plan["branch"], base=None,
        shell=GuardShell(guard, pathlib.Path(plan["scratch"])),
        bounds=replace(QUICK, stall=60.0, network=120.0, lock=120.0),
    )
    if plan["work"]:
        write_files(checkout.path, plan["work"])
        pathlib.Path(plan["armed"]).touch()
        await checkout.commit("work")
        await checkout.push(begin_write)
    await checkout.close()
    await guard.close()

asyncio.run(main())
"""

# In place of git on PATH: stops, and says so, before or after it runs one command.
GIT = """#!/bin/sh
hold=
if [ -e {armed} ] && [ ! -e {mark} ]; then
  for word in "$@"; do [ "$word" = {command} ] && hold=1; done
fi
if [ "$hold" ] && [ {when} = before ]; then echo $$ >{mark}.new; mv {mark}.new {mark}; exec sleep 60; fi
{git} "$@"
code=$?
if [ "$hold" ]; then echo $$ >{mark}.new; mv {mark}.new {mark}; exec sleep 60; fi
exit $code
"""


def gaps(*commands: str) -> list[tuple[str, str]]:
    """Of four commands: before the first, after the third. With AGENTSMITH_CRASH_FULL=1 before and after each."""
    both = [(command, when) for command in commands for when in ("before", "after")]
    return both if os.environ.get("AGENTSMITH_CRASH_FULL") else [*both[::8], *both[5::8]]


class Runs:
    """Runs in processes of their own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.armed, self.mark = place / "armed", place / "mark"
        self.processes: list[asyncio.subprocess.Process] = []
        self.path = os.environ["PATH"]

    def hold_at(self, command: str, when: str) -> None:
        """From now on git stops at this command, once `armed` is there."""
        wrapper = self.place / "bin/git"
        wrapper.parent.mkdir()
        text = GIT.format(armed=self.armed, mark=self.mark, command=command, when=when, git=shutil.which("git"))
        wrapper.write_text(text)
        wrapper.chmod(0o755)
        self.path = f"{wrapper.parent}:{os.environ['PATH']}"

    async def start(
        self, bench: Bench, work: Mapping[str, str] | None = None, *, workspace: str = "12", branch: str = BRANCH
    ) -> asyncio.subprocess.Process:
        secret = bench.forge.secret
        plan = {
            "root": str(bench.root),
            "url": bench.forge.clone_url,
            "credential": [secret.username, secret.password] if secret else None,
            "workspace": workspace,
            "branch": branch,
            "scratch": str(self.place / f"scratch-{len(self.processes)}"),
            "work": work,
            "armed": str(self.armed),
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", RUN, json.dumps(plan)),
            env=os.environ | {"PATH": self.path},
            stderr=subprocess.PIPE,
        )
        self.processes.append(process)
        return process

    async def kill_when_held(self, process: asyncio.subprocess.Process) -> None:
        """kill -9 of the run, once git stands still; returns when git is gone, too."""
        await wait_until(self.mark.exists, what="git stands still", within=60)
        held = int(self.mark.read_text())
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await wait_until(lambda: not is_alive(held), what="the guard ends git", within=30)

    async def close(self) -> None:
        for process in self.processes:
            if process.returncode is None:
                process.kill()
            await process.communicate()


@pytest.fixture
async def runs(tmp_path: Path) -> AsyncIterator[Runs]:
    runs = Runs(tmp_path)
    yield runs
    await runs.close()


async def _goes_on(bench: Bench, *, expected: Mapping[str, str]) -> None:
    """The next run finds the work and brings it to the server, whose repository is sound."""
    checkout = await bench.open()
    for name, content in expected.items():
        assert (checkout.path / name).read_text() == content
    assert git("status", "--porcelain", at=checkout.path) == ""
    write_files(checkout.path, {"after.txt": "after\n"})
    await checkout.commit("after")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)
    assert {*expected, "after.txt", "README.md"} == set(bench.files())
    git("fsck", "--strict", at=bench.origin)


@pytest.mark.parametrize(
    ("command", "when"), gaps("clone", "rev-parse", "for-each-ref", "rev-list", "fetch", "update-ref", "read-tree")
)
async def test_killed_while_opening_for_the_first_time(bench: Bench, runs: Runs, command: str, when: str) -> None:
    runs.hold_at(command, when)
    runs.armed.touch()
    await runs.kill_when_held(await runs.start(bench))
    await _goes_on(bench, expected={})


@pytest.mark.parametrize(
    ("command", "when"),
    gaps("fetch", "index-pack", "update-index", "write-tree", "commit-tree", "update-ref", "merge-tree", "read-tree"),
)
async def test_killed_while_opening_what_a_crashed_run_left(bench: Bench, runs: Runs, command: str, when: str) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"saved.txt": "saved\n"})
    await checkout.save_wip(run="r", pipeline="p", step="s", begin_write=bench.begin_write)
    write_files(checkout.path, {"packed.txt": "packed\n"})
    git("add", "-A", at=checkout.path)
    git("commit", "-q", "-m", "by the agent", at=checkout.path)
    git("repack", "-q", "-a", "-d", "-l", at=checkout.path)
    write_files(checkout.path, {"loose.txt": "loose\n"})
    await checkout.close()
    bench.person().commit("meanwhile", {"other.txt": "other\n"}, on="main")
    bench.person().push()
    runs.hold_at(command, when)
    runs.armed.touch()
    await runs.kill_when_held(await runs.start(bench))
    work = {"saved.txt": "saved\n", "packed.txt": "packed\n", "loose.txt": "loose\n", "other.txt": "other\n"}
    await _goes_on(bench, expected=work)
    assert "by the agent" in bench.log()


@pytest.mark.parametrize(
    ("command", "when"), gaps("ls-files", "update-index", "write-tree", "commit-tree", "update-ref", "log", "push")
)
async def test_killed_while_committing_and_pushing(bench: Bench, runs: Runs, command: str, when: str) -> None:
    runs.hold_at(command, when)
    await runs.kill_when_held(await runs.start(bench, {"work.txt": "work\n"}))
    pushed = bench.on_server()
    await _goes_on(bench, expected={"work.txt": "work\n"})
    if pushed:
        git("merge-base", "--is-ancestor", pushed, BRANCH, at=bench.origin)
    assert ("work" in bench.log()) == (
        command in ("log", "push", "update-ref") and (command, when) != ("update-ref", "before")
    )


@pytest.mark.parametrize("service", ["git-upload-pack", "git-receive-pack"])
async def test_killed_in_the_middle_of_a_transfer(http_bench: Bench, server: GitHttp, runs: Runs, service: str) -> None:
    server.hold = lambda request: request.method == "POST" and service in request.path
    process = await runs.start(http_bench, {"work.txt": "work\n"})
    await wait_until(server.held.is_set, what="the transfer has begun", within=60)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    server.release()
    cloned = service == "git-receive-pack"
    await _goes_on(http_bench, expected={"work.txt": "work\n"} if cloned else {})


async def test_many_processes_share_one_clone_and_one_fetch(http_bench: Bench, server: GitHttp, runs: Runs) -> None:
    server.hold = lambda request: request.method == "POST"
    first = [await runs.start(http_bench, {"0.txt": "0\n"}, workspace="0", branch="agent-smith/0")]
    await wait_until(server.held.is_set, what="the first one clones", within=60)
    for number in range(1, 4):
        name = str(number)
        first.append(await runs.start(http_bench, {f"{name}.txt": name}, workspace=name, branch=f"agent-smith/{name}"))
    mirrors, vaults = http_bench.root / "mirrors", http_bench.root / "vaults"
    await wait_until(lambda: _held(vaults) == 4, what="the others have come as far as the mirror", within=60)
    server.release()
    for process in first:
        async with asyncio.timeout(60):
            _, complaint = await process.communicate()
        assert process.returncode == 0, complaint.decode()
    # The clone, and one fetch for all who came during it; one more if a process was slow to look.
    assert [path.read_text() for path in mirrors.glob("*.begun")] in (["2"], ["3"])
    for number in range(4):
        assert http_bench.files(f"agent-smith/{number}") == [f"{number}.txt", "README.md"]
    assert len(list(mirrors.glob("*.git"))) == 1


def _held(folder: Path) -> int:
    """How many lock files of a folder are held by somebody."""
    inodes = [lock.stat().st_ino for lock in folder.glob("*.lock")]
    with open("/proc/locks") as table:
        lines = table.readlines()
    return sum(any(f":{inode} " in line for line in lines) for inode in inodes)


LOCKS = ("HEAD.lock", "config.lock", "packed-refs.lock", "refs/heads/main.lock", "index.lock", "shallow.lock")


async def test_locks_of_a_killed_git_are_removed(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"a.txt": "a\n"})
    bench.person().commit("new", {"new.txt": "n\n"}, on="main")
    bench.person().push()
    for repo in (bench.mirror, bench.vault):
        for name in (*LOCKS, "refs/agentsmith/tip.lock", "objects/pack/tmp_pack_x", "objects/info/commit-graph.lock"):
            (repo / name).parent.mkdir(parents=True, exist_ok=True)
            (repo / name).write_bytes(b"half")
    half = bench.mirror.with_name(bench.mirror.name + ".new-dead")
    shutil.copytree(bench.mirror, half)
    (bench.mirror / "the-same").touch()
    await _goes_on(bench, expected={"a.txt": "a\n", "new.txt": "n\n"})
    left = [p.name for repo in (bench.mirror, bench.vault) for p in repo.rglob("*") if p.name.endswith((".lock", "_x"))]
    assert left == []
    assert not half.exists()
    assert (bench.mirror / "the-same").exists()  # mended, not cloned again


async def test_locks_of_a_living_git_are_respected(bench: Bench) -> None:
    await bench.open()
    bench.person().commit("new", {"new.txt": "n\n"}, on="main")
    bench.person().push()
    (bench.mirror / "packed-refs.lock").touch()
    busy = bench.mirror.with_suffix(".busy")
    alive = await asyncio.create_subprocess_exec(*HOLD, str(busy), "sleep", "60")
    await wait_until(lambda: _holds(alive.pid, busy), what="the other git has its lock")
    with pytest.raises(WorkspaceBusy):
        await bench.open(bounds=replace(QUICK, lock=0.2))
    assert (bench.mirror / "packed-refs.lock").exists()
    alive.kill()
    await alive.wait()
    await _goes_on(bench, expected={"new.txt": "n\n"})


def _holds(pid: int, lock: Path) -> bool:
    inode = lock.stat().st_ino if lock.exists() else -1
    with open("/proc/locks") as table:
        return any(f":{inode} " in line and f" {pid} " in line for line in table)


@pytest.mark.parametrize("damage", ["pack", "refs", "objects", "HEAD", "config"])
async def test_broken_mirror_is_made_anew(bench: Bench, damage: str) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"a.txt": "a\n"})
    bench.person().commit("new", {"new.txt": "n\n"}, on="main")
    bench.person().push()
    if damage == "pack":
        for pack in (bench.mirror / "objects/pack").glob("*"):
            pack.chmod(0o644)
            pack.write_bytes(b"garbage")
    elif damage == "refs":
        shutil.rmtree(bench.mirror / "refs")
        (bench.mirror / "packed-refs").write_bytes(b"\xff\0garbage\n")
    elif damage == "objects":
        shutil.rmtree(bench.mirror / "objects")
    else:
        (bench.mirror / damage).write_bytes(b"\0garbage")
    await _goes_on(bench, expected={"a.txt": "a\n", "new.txt": "n\n"})


async def test_mirror_that_was_deleted_is_made_anew(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"a.txt": "a\n"})
    shutil.rmtree(bench.root / "mirrors")
    await _goes_on(bench, expected={"a.txt": "a\n"})


async def test_index_that_was_cut_off_is_made_anew(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"a.txt": "a\n"})
    (bench.vault / "index").write_bytes((bench.vault / "index").read_bytes()[:40])
    await _goes_on(bench, expected={"a.txt": "a\n"})


async def test_half_written_workspace_is_not_taken_for_work(bench: Bench) -> None:
    """A crash of ours in the middle of a checkout must not look as if somebody had deleted files."""
    bench.person().commit("more", {f"{n}.txt": f"{n}\n" for n in range(20)})
    bench.person().push()
    await bench.open()
    for number in range(10):
        (bench.workspace / f"{number}.txt").unlink()
    (bench.workspace / "of-another-commit.txt").touch()
    (bench.vault / "agentsmith.unready").touch()
    checkout = await bench.open()
    assert len(list(checkout.path.glob("*.txt"))) == 20
    assert not await checkout.changed()
