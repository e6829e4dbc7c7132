"""What a run's commands are confined to: a user, a home, limits and a cgroup, as far as this machine allows."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentsmith.boottime import boottime
from agentsmith.config import Consumer as ConsumerSettings
from agentsmith.config import Duration, Grace, Pipeline, RunLimits, Size
from agentsmith.config import Run as RunSettings
from agentsmith.domain.errors import ConfigError, MachineTrouble
from agentsmith.domain.lifecycle import Status
from agentsmith.guard import cgroups
from agentsmith.guard.client import Confinement, Guard, User
from agentsmith.pipelines.runner import confinement_for, user_called
from agentsmith.store import Store
from tests.support.wait import wait_until
from tests.support.world import open_world, world_config

ROOT = os.geteuid() == 0
NOBODY = "nobody"
UNIFIED = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")]


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A folder that other users may pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="agentsmith-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(not ROOT, reason="only root may run commands as somebody else")
async def test_commands_run_as_their_own_user(public: Path, store: Store, redis_url: str) -> None:
    script = """
id -un > "$HOME/who"
cat "$AGENTSMITH_TICKET_FILE" "$AGENTSMITH_PROMPT_FILE" > read
echo '{"summary": "written"}' > "$AGENTSMITH_STATUS_FILE"
touch "$TMPDIR/temporary"
ls ../../../ > listing 2>&1 && exit 1
touch ../../../mine 2>/dev/null && exit 2
exit 0
"""
    config = world_config(
        public / "data",
        pipelines={"work": Pipeline.model_validate({"steps": [{"run": script}]})},
        run=RunSettings(user=NOBODY),
    )
    async with open_world(public, store, redis_url, config=config) as world:
        key = await world.open_ticket(title="It crashes")
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {Status.DONE}, await world.comments(key)
        folder = config.data_dir / "workspaces" / f"local.{key}"
        assert (folder / "home" / "who").read_text().strip() == NOBODY
        assert "It crashes" in (folder / "work" / "read").read_text()
        # The log, the record and the tickets are not that user's to read or change.
        for run in (config.data_dir / "runs").iterdir():
            assert {(run / name).stat().st_uid for name in ("output.log", "run.json")} == {0}
            assert all((run / name).stat().st_mode & 0o022 == 0 for name in ("output.log", "run.json"))


def test_a_user_that_cannot_be_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_called(None) is None
    with pytest.raises(ConfigError, match="there is no user 'no-such-user-here'"):
        user_called("no-such-user-here")
    if ROOT:
        nobody = pwd.getpwnam(NOBODY)
        found = user_called(NOBODY)
        assert found is not None
        assert (found.uid, found.gid) == (nobody.pw_uid, nobody.pw_gid)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(ConfigError, match="only root may run commands as"):
        user_called(NOBODY)


async def confined(
    tmp_path: Path, script: str, confinement: Confinement, cgroup: Path | None = None
) -> tuple[int | None, str]:
    """A command under a guard with these bounds: its exit code and its output."""
    guard = await Guard.open(trusted_until=boottime() + 60, grace=0.5, farewell=None, cgroup=cgroup)
    try:
        ended = await guard.run(
            ("/bin/sh", "-c", script),
            env={"PATH": os.environ["PATH"]},
            cwd=tmp_path,
            log=tmp_path / "log",
            log_limit=10_000,
            timeout=30,
            confinement=confinement,
        )
    finally:
        await guard.close()
    return ended.code, ended.tail


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory cannot be limited like this")
async def test_memory_is_limited_for_each_process(tmp_path: Path) -> None:
    hungry = f"{sys.executable} -c 'x = bytearray(300 * 1024 * 1024)'"
    assert (await confined(tmp_path, hungry, Confinement()))[0] == 0
    code, output = await confined(tmp_path, hungry, Confinement(memory=100 * 1024 * 1024))
    assert code == 1
    assert "MemoryError" in output


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processors cannot be chosen")
async def test_processors_are_limited_to_whole_ones(tmp_path: Path) -> None:
    count = f"{sys.executable} -c 'import os; print(len(os.sched_getaffinity(0)))'"
    assert await confined(tmp_path, count, Confinement(cpus=1)) == (0, "1\n")
    everything = len(os.sched_getaffinity(0))
    assert await confined(tmp_path, count, Confinement(cpus=1000)) == (0, f"{everything}\n")


@pytest.mark.skipif(not ROOT, reason="only root may become somebody else")
async def test_what_cannot_be_confined_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(MachineTrouble, match=r"check run\.user and run\.limits"):
        await confined(tmp_path, "touch ran", Confinement(user=User(-5, 1)))
    assert not (tmp_path / "ran").exists()


def test_a_cgroup_counts_for_all_processes_so_nothing_else_is_needed(tmp_path: Path) -> None:
    limits = RunLimits(memory=Size(1024), cpus=1.5)
    assert confinement_for(None, limits) == Confinement(memory=1024, cpus=2)
    assert confinement_for(None, limits.model_copy(update={"cgroup": tmp_path})) == Confinement()


def runs_in(group: Path) -> list[Path]:
    return list(group.glob("run-*"))


def members(group: Path) -> set[int]:
    return {int(pid) for file in group.rglob("cgroup.procs") for pid in file.read_text().split()}


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A group of a cgroup v2 tree that is ours."""
    tree = next((path for path in UNIFIED if (path / "cgroup.controllers").exists()), None)
    if tree is None:
        pytest.skip("there is no cgroup v2 tree")
    group = tree / f"agentsmith-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no group can be made: {error.strerror}")
    yield group
    for inner in group.glob("run-*"):
        inner.rmdir()
    group.rmdir()


async def test_a_process_that_forks_away_is_found_in_its_cgroup(tmp_path: Path, cgroup: Path) -> None:
    limits = RunLimits(cgroup=cgroup)
    cgroups.check(limits)
    group = cgroups.make(limits, "r1")
    assert group is not None
    away = f"""
setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' >/dev/null 2>&1 &
while [ ! -s {tmp_path}/pid ]; do sleep 0.02; done
cat /proc/self/cgroup
"""
    code, output = await confined(tmp_path, away, Confinement(), group)
    assert code == 0
    assert f"0::/{cgroup.name}/run-r1" in output
    pid = int((tmp_path / "pid").read_text())
    assert pid not in members(cgroup)
    assert (group / "cgroup.procs").read_text() == ""
    cgroups.clear(limits)
    assert not group.exists()


async def test_kill_9_of_the_guard_leaves_nothing_in_the_cgroup(tmp_path: Path, cgroup: Path) -> None:
    group = cgroups.make(RunLimits(cgroup=cgroup), "r2")
    assert group is not None
    guard = await Guard.open(trusted_until=boottime() + 60, grace=0.5, farewell=None, cgroup=group)
    running = asyncio.create_task(
        guard.run(("sleep", "60"), env={"PATH": os.environ["PATH"]}, cwd=tmp_path, log=tmp_path / "log", log_limit=100)
    )
    await wait_until(lambda: (group / "cgroup.procs").read_text() != "", what="the command to be in its group")
    os.kill(guard.pid, 9)
    await asyncio.wait({running})
    assert running.exception() is not None
    await wait_until(lambda: (group / "cgroup.procs").read_text() == "", what="the group to be empty")
    await guard.close()


def test_a_cgroup_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path, cgroup: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder of a cgroup v2 tree"):
        cgroups.check(RunLimits(cgroup=tmp_path))
    if "memory" not in (cgroup / "cgroup.controllers").read_text():
        with pytest.raises(ConfigError, match="lacks the controllers memory"):
            cgroups.check(RunLimits(cgroup=cgroup, memory=Size(1024)))
    cgroups.check(RunLimits())


def test_limits_are_written_as_the_kernel_reads_them(tmp_path: Path) -> None:
    """No tree with all controllers is at hand everywhere; the files and their contents are."""
    limits = RunLimits(cgroup=tmp_path, memory=Size(4 * 1024**3), cpus=1.5, processes=200)
    group = cgroups.make(limits, "r3")
    assert group is not None
    written = {file.name: file.read_text() for file in group.iterdir()}
    assert written == {"memory.max": "4294967296", "cpu.max": "150000 100000", "pids.max": "200"}


async def test_the_run_uses_its_cgroup(tmp_path: Path, store: Store, redis_url: str, cgroup: Path) -> None:
    config = world_config(
        tmp_path / "data",
        pipelines={"work": Pipeline.model_validate({"steps": [{"run": f"cat /proc/self/cgroup > {tmp_path}/mine"}]})},
        run=RunSettings(limits=RunLimits(cgroup=cgroup), retry_backoff=Duration(0.01)),
        consumer=ConsumerSettings(kill_grace=Grace(0.5)),
    )
    async with open_world(tmp_path, store, redis_url, config=config) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {Status.DONE}
    assert f"0::/{cgroup.name}/run-" in (tmp_path / "mine").read_text()
    assert runs_in(cgroup) == [], "the group goes with its run"
