"""Large files, where git-lfs is installed: over HTTP with basic auth, and from nobody but the repository's server."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agentsmith.domain.forge import GitCredential
from agentsmith.git import Pushed
from agentsmith.git.lfs import settings
from agentsmith.git.workspace import Workspace
from tests.git.conftest import PASSWORD, USER
from tests.support.git_bench import Bench, FakeForge, PlainShell, git, make_origin, write_files
from tests.support.git_http import GitHttp, serving

needs_lfs = pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
LARGE = os.urandom(100_000)
POINTER = (
    f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(LARGE).hexdigest()}\nsize {len(LARGE)}\n"
)


@pytest.fixture
async def lfs_bench(tmp_path: Path, server: GitHttp) -> AsyncIterator[Bench]:
    """A repository with one large file, which the server keeps beside it."""
    server.large[hashlib.sha256(LARGE).hexdigest()] = LARGE
    files = {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "large.bin": POINTER}
    origin = make_origin(server.root / "web.git", files)
    forge = FakeForge(f"{server.url}/web.git", GitCredential(USER, PASSWORD))
    bench = Bench(tmp_path, origin, forge, PlainShell(tmp_path / "scratch"))
    yield bench
    for checkout in bench.opened:
        await checkout.close()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[GitHttp]:
    (tmp_path / "stranger").mkdir()
    with serving(tmp_path / "stranger", user="never", password="matches") as state:
        yield state


@needs_lfs
async def test_large_files_come_and_go(lfs_bench: Bench, server: GitHttp) -> None:
    checkout = await lfs_bench.open(lfs=True)
    assert (checkout.path / "large.bin").read_bytes() == LARGE
    assert not await checkout.changed()
    new = os.urandom(50_000)
    write_files(checkout.path, {"new.bin": new})
    await checkout.commit("a large file")
    assert isinstance(await checkout.push(lfs_bench.begin_write), Pushed)
    assert server.large[hashlib.sha256(new).hexdigest()] == new
    assert lfs_bench.content("new.bin").startswith("version https://git-lfs")
    shutil.rmtree(lfs_bench.root)
    again = await lfs_bench.open(lfs=True)
    assert (again.path / "new.bin").read_bytes() == new


@needs_lfs
async def test_large_files_that_the_worker_committed_itself(lfs_bench: Bench, server: GitHttp) -> None:
    checkout = await lfs_bench.open(lfs=True)
    new = os.urandom(50_000)
    write_files(checkout.path, {"new.bin": new})
    git("add", "-A", at=checkout.path)
    git("commit", "-q", "-m", "by the agent", at=checkout.path)
    await checkout.commit("unused")
    assert isinstance(await checkout.push(lfs_bench.begin_write), Pushed)
    assert lfs_bench.log()[0] == "by the agent"
    assert server.large[hashlib.sha256(new).hexdigest()] == new


@needs_lfs
async def test_what_lfsconfig_says_leads_nobody_astray(lfs_bench: Bench, server: GitHttp, stranger: GitHttp) -> None:
    checkout = await lfs_bench.open(lfs=True)
    url = f"{stranger.url}/lfs"
    write_files(
        checkout.path,
        {
            ".lfsconfig": f'[lfs]\n\turl = {url}\n\tpushurl = {url}\n[remote "origin"]\n\tlfsurl = {url}\n',
            "new.bin": os.urandom(1000),
        },
    )
    await checkout.commit("x")
    assert isinstance(await checkout.push(lfs_bench.begin_write), Pushed)
    shutil.rmtree(lfs_bench.root)
    await lfs_bench.open(lfs=True)
    assert stranger.requests == []


@needs_lfs
async def test_without_lfs_there_are_pointers_and_nothing_changes(lfs_bench: Bench) -> None:
    checkout = await lfs_bench.open()
    assert (checkout.path / "large.bin").read_text() == POINTER
    assert not await checkout.changed()


def test_forged_large_files_are_not_taken_over(tmp_path: Path) -> None:
    good, bad = hashlib.sha256(b"good").hexdigest(), hashlib.sha256(b"other").hexdigest()
    store = tmp_path / "worker/.git/lfs/objects"
    for name, content in ((good, b"good"), (bad, b"bad")):
        write_files(store, {f"{name[:2]}/{name[2:4]}/{name}": content})
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    linked = hashlib.sha256(b"secret").hexdigest()
    (store / linked[:2] / linked[2:4]).mkdir(parents=True)
    (store / linked[:2] / linked[2:4] / linked).symlink_to(secret)
    Workspace(tmp_path / "worker").copy_large_files(tmp_path / "vault", limit=10_000)
    assert [p.name for p in (tmp_path / "vault").rglob("*") if p.is_file()] == [good]


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("https://host/a/b", "https://host/a/b.git/info/lfs"),
        ("https://host/a/b.git", "https://host/a/b.git/info/lfs"),
        ("file:///srv/b.git", "file:///srv/b.git"),
    ],
)
def test_endpoint(url: str, endpoint: str) -> None:
    assert dict(settings(url, stall=9.6))["lfs.url"] == dict(settings(url, stall=9.6))["lfs.pushurl"] == endpoint
    assert dict(settings(url, stall=9.6))["lfs.activitytimeout"] == "10"
