"""Submodules, when asked for: checked out where they belong, and no way out of the workspace or to another server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from agentsmith.git import Checkout, Pushed
from agentsmith.git.errors import CommitGone, GitError, NotUnderstood, RepositoryUnreachable, SubmoduleRefused
from agentsmith.git.mirror import Mirror
from tests.git.conftest import PASSWORD, USER
from tests.support.git_bench import BRANCH, Bench, Person, git, make_origin, write_files
from tests.support.git_http import GitHttp, serving


def link(at: Path, url: str, commit: str, *, path: str = "libs/lib") -> None:
    """Commit a link to a repository, as `git submodule add` does; of two for the same path the last one counts."""
    with (at / ".gitmodules").open("a") as file:
        file.write(f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n')
    (at / path).mkdir(parents=True, exist_ok=True)
    git("add", ".gitmodules", at=at)
    git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}", at=at)
    git("commit", "-q", "-m", "with a submodule", at=at)


def add_submodule(bench: Bench, url: str, commit: str, *, path: str = "libs/lib", to: str = "main") -> None:
    """Put a link to a repository onto the default branch, or another one that people look after."""
    person = bench.person()
    git("checkout", "-q", "-B", to, at=person.at)
    link(person.at, url, commit, path=path)
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
    link(library.at, "../inner.git", commit, path="inner")
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


@pytest.mark.parametrize(
    "trouble", [{"page": b"<html>We will be back soon</html>"}, {"answer": lambda _: (503, {})}], ids=["page", "status"]
)
async def test_P2_a_submodule_whose_server_is_sick_is_worth_another_try(
    tmp_path: Path, http_bench: Bench, trouble: dict[str, Any]
) -> None:
    (tmp_path / "other").mkdir()
    commit = git("rev-parse", "main", at=make_origin(tmp_path / "other/lib.git", {"lib.c": "l\n"}))
    with serving(tmp_path / "other") as other:
        add_submodule(http_bench, f"{other.url}/lib.git", commit)
        well = {name: getattr(other, name) for name in trouble}
        for name, value in trouble.items():
            setattr(other, name, value)
        with pytest.raises(RepositoryUnreachable, match="libs/lib"):
            await http_bench.open(submodules=True)
        for name, value in well.items():
            setattr(other, name, value)
        checkout = await http_bench.open(submodules=True)
        assert (checkout.path / "libs/lib/lib.c").read_text() == "l\n"


async def test_P2_a_submodule_whose_server_is_away_is_worth_another_try(http_bench: Bench) -> None:
    add_submodule(http_bench, "http://127.0.0.1:9/x.git", "1" * 40)
    with pytest.raises(RepositoryUnreachable, match="libs/lib"):
        await http_bench.open(submodules=True)


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


# --- what a worker's branch names, and nobody has reviewed ------------------------------------------------------------


async def save(checkout: Checkout, bench: Bench) -> None:
    """The worker's run ends, and what it did is pushed."""
    await checkout.commit("work")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)


def asked_for(server: GitHttp, repository: str) -> bool:
    return any(repository in request.path for request in server.requests)


@pytest.mark.parametrize("url", ["../private.git", "ext::sh -c touch% pwned"])
async def test_submodule_that_a_worker_added_is_left_empty(http_bench: Bench, server: GitHttp, url: str) -> None:
    """Our credential can read every repository of the server; the worker cannot."""
    commit = git("rev-parse", "main", at=make_origin(server.root / "acme/private.git", {"secret.txt": "s\n"}))
    ours = git("rev-parse", "main", at=make_origin(server.root / "acme/ours.git", {"lib.c": "l\n"}))
    add_submodule(http_bench, "../ours.git", ours, path="ours")
    add_submodule(http_bench, "../ours.git", ours, path="vendor/ours")
    first = await http_bench.open(submodules=True)
    link(first.path, url, commit)
    await save(first, http_bench)
    again = await http_bench.open(submodules=True)
    assert list((again.path / "libs/lib").iterdir()) == []
    assert not asked_for(server, "private")
    assert again.notes == (
        "submodules that `main` does not name with the same path and address are left empty until they are merged: "
        "`libs/lib`",
    )
    for path in ("ours", "vendor/ours"):
        assert (again.path / path / "lib.c").read_text() == "l\n"
    # The ticket goes on, and the link stays in its work.
    write_files(again.path, {"a.txt": "a\n"})
    await save(again, http_bench)
    assert git("rev-parse", f"{BRANCH}:libs/lib", at=http_bench.origin) == commit


async def test_submodule_that_people_took_over_is_checked_out(http_bench: Bench, server: GitHttp) -> None:
    commit = git("rev-parse", "main", at=make_origin(server.root / "acme/lib.git", {"lib.c": "l\n"}))
    first = await http_bench.open(submodules=True)
    link(first.path, "../lib.git", commit)
    await save(first, http_bench)
    git("push", "-q", ".", f"{BRANCH}:main", at=http_bench.origin)
    again = await http_bench.open(submodules=True)
    assert (again.path / "libs/lib/lib.c").read_text() == "l\n"
    assert again.notes == ()


async def test_submodule_whose_address_a_worker_changed_is_left_empty(http_bench: Bench, server: GitHttp) -> None:
    commit = git("rev-parse", "main", at=make_origin(server.root / "acme/lib.git", {"lib.c": "l\n"}))
    private = git("rev-parse", "main", at=make_origin(server.root / "acme/private.git", {"secret.txt": "s\n"}))
    add_submodule(http_bench, "../lib.git", commit)
    first = await http_bench.open(submodules=True)
    shutil.rmtree(first.path / "libs/lib")  # else the commit that is checked out there is linked
    link(first.path, "../private.git", private)
    await save(first, http_bench)
    again = await http_bench.open(submodules=True)
    assert list((again.path / "libs/lib").iterdir()) == []
    assert not asked_for(server, "private")
    assert [note for note in again.notes if "`libs/lib`" in note]


async def test_submodule_that_only_the_base_names_is_checked_out(bench: Bench, library: Person) -> None:
    add_submodule(bench, "../lib.git", git("rev-parse", "HEAD", at=library.at), to="develop")
    first = await bench.open(submodules=True, base="develop")
    write_files(first.path, {"a.txt": "a\n"})
    await save(first, bench)
    again = await bench.open(submodules=True, base="develop")
    assert (again.path / "libs/lib/lib.c").read_text() == "2\n"
    assert again.notes == ()


@pytest.mark.parametrize(
    ("error", "stops"), [(NotUnderstood("a page of HTML"), True), (CommitGone("not our ref"), False)]
)
async def test_what_was_reviewed_is_unknown_while_the_server_is_sick(
    bench: Bench, library: Person, monkeypatch: pytest.MonkeyPatch, error: GitError, stops: bool
) -> None:
    """A worker moved the submodule, so the reviewed commit is asked for as well, and tells what is inside."""
    inner = make_origin(bench.origin.parent / "inner.git", {"inner.c": "i\n"})
    link(library.at, "../inner.git", git("rev-parse", "main", at=inner), path="inner")
    library.push()
    reviewed = git("rev-parse", "HEAD", at=library.at)
    add_submodule(bench, "../lib.git", reviewed)
    library.commit("newer", {"lib.c": "3\n"})
    library.push()
    first = await bench.open(submodules=True)
    link(first.path, "../lib.git", git("rev-parse", "HEAD", at=library.at))
    (first.path / "libs/lib/.git/HEAD").write_text(git("rev-parse", "HEAD", at=library.at) + "\n")
    await save(first, bench)
    bring = Mirror.bring_commit

    async def bring_commit(mirror: Mirror, commit: str) -> None:
        if commit == reviewed:
            raise error
        await bring(mirror, commit)

    monkeypatch.setattr(Mirror, "bring_commit", bring_commit)
    if stops:
        with pytest.raises(RepositoryUnreachable):
            await bench.open(submodules=True)
    else:
        assert [note for note in (await bench.open(submodules=True)).notes if "`libs/lib/inner`" in note]


@pytest.mark.parametrize("reviewed", [False, True])
async def test_submodule_in_a_commit_that_a_worker_moved_to(bench: Bench, library: Person, reviewed: bool) -> None:
    """Its server has commits that nobody reviewed either; theirs count only where the reviewed commit names them."""
    inner = make_origin(bench.origin.parent / "inner.git", {"inner.c": "i\n"})
    commit = git("rev-parse", "main", at=inner)
    if reviewed:
        link(library.at, "../inner.git", commit, path="inner")
        library.push()
    add_submodule(bench, "../lib.git", git("rev-parse", "HEAD", at=library.at))
    git("checkout", "-q", "-b", "proposed", at=library.at)
    library.commit("newer", {"lib.c": "3\n"})
    if not reviewed:
        link(library.at, "../inner.git", commit, path="inner")
    library.push()
    first = await bench.open(submodules=True)
    link(first.path, "../lib.git", git("rev-parse", "HEAD", at=library.at))
    (first.path / "libs/lib/.git/HEAD").write_text(git("rev-parse", "HEAD", at=library.at) + "\n")
    await save(first, bench)
    again = await bench.open(submodules=True)
    assert (again.path / "libs/lib/lib.c").read_text() == "3\n"
    assert (again.path / "libs/lib/inner/inner.c").exists() == reviewed
    assert [note for note in again.notes if "`libs/lib/inner`" in note] == ([] if reviewed else list(again.notes))
