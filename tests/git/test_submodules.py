"""Submodules, when asked for: checked out where they belong, and no way out of the workspace or to another server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentsmith.pipelines.git import Pushed
from agentsmith.pipelines.git.errors import SubmoduleRefused
from tests.git.conftest import PASSWORD, USER
from tests.support.git_bench import BRANCH, Bench, Person, git, make_origin, write_files
from tests.support.git_http import GitHttp, serving


def add_submodule(bench: Bench, url: str, commit: str, *, path: str = "libs/lib") -> None:
    """Put a link to a repository onto the default branch, as `git submodule add` does."""
    person = bench.person()
    write_files(person.at, {".gitmodules": f'[submodule "lib"]\n\tpath = {path}\n\turl = {url}\n'})
    git("add", ".gitmodules", at=person.at)
    git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}", at=person.at)
    git("commit", "-q", "-m", "with a submodule", at=person.at)
    person.push()


@pytest.fixture
def library(bench: Bench) -> Person:
    """Another repository beside ours, with two commits."""
    origin = make_origin(bench.origin.parent / "lib.git", {"lib.c": "1\n"})
    person = Person.of(origin, bench.place / "librarian")
    person.commit("two", {"lib.c": "2\n"})
    person.push()
    return person


async def test_not_asked_for_means_not_there(bench: Bench, library: Person) -> None:
    add_submodule(bench, "../lib.git", git("rev-parse", "HEAD", at=library.at))
    checkout = await bench.open()
    assert list((checkout.path / "libs/lib").iterdir()) == []
    write_files(checkout.path, {"a.txt": "a\n"})
    await checkout.commit("a")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)
    assert "libs/lib" in git("ls-tree", "-r", "--name-only", BRANCH, at=bench.origin)


async def test_checked_out_at_the_commit_that_is_linked(bench: Bench, library: Person) -> None:
    first = git("rev-parse", "HEAD~1", at=library.at)
    add_submodule(bench, "../lib.git", first)
    checkout = await bench.open(submodules=True)
    inner = checkout.path / "libs/lib"
    assert (inner / "lib.c").read_text() == "1\n"
    assert git("rev-parse", "HEAD", at=inner) == first
    assert git("status", "--porcelain", at=checkout.path) == ""
    assert not await checkout.changed()
    again = await bench.open(submodules=True)
    assert git("status", "--porcelain", at=again.path) == ""


async def test_worker_may_move_it_to_another_commit_of_its_server(bench: Bench, library: Person) -> None:
    add_submodule(bench, "../lib.git", git("rev-parse", "HEAD~1", at=library.at))
    checkout = await bench.open(submodules=True)
    second = git("rev-parse", "origin/main", at=checkout.path / "libs/lib")
    git("checkout", "-q", "--detach", second, at=checkout.path / "libs/lib", fine=(0, 1, 128))
    (checkout.path / "libs/lib/.git/HEAD").write_text(f"{second}\n")
    await checkout.commit("newer library")
    await checkout.push(bench.begin_write)
    assert git("rev-parse", f"{BRANCH}:libs/lib", at=bench.origin) == second
    again = await bench.open(submodules=True)
    assert (again.path / "libs/lib/lib.c").read_text() == "2\n"


async def test_commits_that_its_server_lacks_are_not_linked(bench: Bench, library: Person) -> None:
    first = git("rev-parse", "HEAD~1", at=library.at)
    add_submodule(bench, "../lib.git", first)
    checkout = await bench.open(submodules=True)
    inner = checkout.path / "libs/lib"
    write_files(inner, {"lib.c": "mine\n"})
    git("commit", "-q", "-a", "-m", "in the submodule", at=inner)
    write_files(checkout.path, {"a.txt": "a\n"})
    await checkout.commit("a")
    await checkout.push(bench.begin_write)
    assert git("rev-parse", f"{BRANCH}:libs/lib", at=bench.origin) == first
    again = await bench.open(submodules=True)  # but the work in it is still here
    assert (again.path / "libs/lib/lib.c").read_text() == "mine\n"


async def test_submodules_of_submodules(bench: Bench, library: Person) -> None:
    inner = make_origin(bench.origin.parent / "inner.git", {"inner.c": "i\n"})
    commit = git("rev-parse", "refs/heads/main", at=inner)
    write_files(library.at, {".gitmodules": '[submodule "inner"]\n\tpath = inner\n\turl = ../inner.git\n'})
    git("add", "-A", at=library.at)
    git("update-index", "--add", "--cacheinfo", f"160000,{commit},inner", at=library.at)
    git("commit", "-q", "-m", "three", at=library.at)
    library.push()
    add_submodule(bench, "../lib.git", git("rev-parse", "HEAD", at=library.at))
    checkout = await bench.open(submodules=True)
    assert (checkout.path / "libs/lib/inner/inner.c").read_text() == "i\n"


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% pwned",
        "ssh://git@example.org/x",
        "-u./evil",
        "http://127.0.0.1:9/x.git",
        "../missing.git",
        "../empty.git",
    ],
)
async def test_submodule_that_is_refused(bench: Bench, library: Person, url: str) -> None:
    make_origin(bench.origin.parent / "empty.git", {})
    add_submodule(bench, url, git("rev-parse", "HEAD", at=library.at))
    with pytest.raises(SubmoduleRefused, match="libs/lib"):
        await bench.open(submodules=True)


async def test_commit_that_is_nowhere(bench: Bench, library: Person) -> None:
    add_submodule(bench, "../lib.git", "1" * 40)
    with pytest.raises(SubmoduleRefused, match="libs/lib"):
        await bench.open(submodules=True)


async def test_link_that_the_worker_put_in_its_way(bench: Bench, library: Person, tmp_path: Path) -> None:
    add_submodule(bench, "../lib.git", git("rev-parse", "HEAD", at=library.at))
    checkout = await bench.open(submodules=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(checkout.path / "libs")
    (checkout.path / "libs").symlink_to(outside)
    again = await bench.open(submodules=True)
    assert not (again.path / "libs/lib").is_symlink()
    assert list(outside.iterdir()) == []


async def test_submodule_on_the_same_server_gets_the_credential_and_on_another_it_does_not(
    tmp_path: Path, http_bench: Bench, server: GitHttp
) -> None:
    lib = make_origin(server.root / "acme/lib.git", {"lib.c": "l\n"})
    commit = git("rev-parse", "refs/heads/main", at=lib)
    add_submodule(http_bench, "../lib.git", commit)
    checkout = await http_bench.open(submodules=True)
    assert (checkout.path / "libs/lib/lib.c").read_text() == "l\n"

    (tmp_path / "other").mkdir()
    make_origin(tmp_path / "other/lib.git", {"lib.c": "l\n"})
    with serving(tmp_path / "other", user=USER, password=PASSWORD) as other:
        add_submodule(http_bench, f"{other.url}/lib.git", commit)
        with pytest.raises(SubmoduleRefused):
            await http_bench.open(submodules=True)
        assert {request.authorization for request in other.requests} == {None}
