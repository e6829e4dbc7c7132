"""Commands that run as a user of their own: they can work in the workspace, and write nowhere else."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentsmith.git import Pushed
from agentsmith.git.repository import make_passage
from tests.support.git_bench import PERSON, Bench, FakeForge, PlainShell, make_origin, write_files

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may run commands as somebody else")


@pytest.fixture
async def shared() -> AsyncIterator[Bench]:
    """A machine whose data directory other users may pass through, as `run.user` makes it, under a strict umask."""
    place = Path(tempfile.mkdtemp(prefix="agentsmith-test-"))
    former = os.umask(0o077)
    try:
        make_passage(place)
        origin = make_origin(place / "origin.git")
        bench = Bench(place, origin, FakeForge(f"file://{origin}"), PlainShell(place / "scratch"))
        for folder in (bench.root, bench.workspace.parent):
            make_passage(folder)
        yield bench
        for checkout in bench.opened:
            await checkout.close()
    finally:
        os.umask(former)
        shutil.rmtree(place)


def give(folder: Path) -> None:
    for top, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.chown(os.path.join(top, name), NOBODY, NOBODY, follow_symlinks=False)


def as_worker(script: str, at: Path) -> str:
    """Run a script as the worker's user; answers its output, or what went wrong."""
    done = subprocess.run(
        ["/bin/sh", "-ec", script], cwd=at, env=PERSON, user=NOBODY, group=NOBODY, extra_groups=(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else f"failed: {done.stderr}"


async def test_the_worker_can_work_and_its_work_arrives(shared: Bench) -> None:
    checkout = await shared.open()
    give(checkout.path)
    assert as_worker("git status --porcelain", checkout.path) == ""
    assert as_worker(
        "echo a >a.txt; git add -A; git commit -qm 'by the worker'; git log --format=%s", checkout.path
    ) == ("by the worker\nfirst\n")
    as_worker("umask 077; echo b >b.txt", checkout.path)
    await checkout.commit("the rest")  # gives the worker a fresh .git, which must be its own
    assert (
        as_worker("git log --format=%s -1; echo c >c.txt; git add -A; git commit -qm more", checkout.path)
        == "the rest\n"
    )
    await checkout.commit("unused")
    assert isinstance(await checkout.push(shared.begin_write), Pushed)
    assert shared.log() == ["more", "the rest", "by the worker", "first"]
    again = await shared.open()
    give(again.path)
    assert as_worker("git status --porcelain; git fsck 2>&1 | grep -v notice: || true", again.path) == ""


async def test_the_worker_can_write_to_neither_mirror_nor_vault(shared: Bench) -> None:
    checkout = await shared.open()
    give(checkout.path)
    for repo in (shared.mirror, shared.vault):
        for name in ("config", "objects/x", "hooks/pre-push", "refs/x", "agentsmith.json"):
            assert as_worker(f"mkdir -p {repo}/hooks; echo x >{repo}/{name}", checkout.path).startswith("failed")
        assert as_worker(f"ls {repo.parent}", checkout.path).startswith("failed")


async def test_links_to_what_the_worker_may_not_read_bring_it_nothing(shared: Bench) -> None:
    secret = shared.place / "secret"
    secret.mkdir(mode=0o700)
    write_files(secret, {"key": "TOP SECRET\n", "exclude": "*\n"})
    checkout = await shared.open()
    give(checkout.path)
    as_worker(
        f"ln -s {secret}/key key; ln -s {secret} folder; ln -sfn {secret} .git/info; echo a >a.txt", checkout.path
    )
    await checkout.commit("links")
    await checkout.push(shared.begin_write)
    assert shared.content("key") == str(secret / "key")
    assert shared.content("folder") == str(secret)
    assert shared.files() == ["README.md", "a.txt", "folder", "key"]
