"""Repositories that are empty, gone, closed or silent, and names that git refuses: a clear error each, and no hang."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agentsmith.domain.forge import EmptyRepository
from agentsmith.git import Pushed
from agentsmith.git.errors import (
    BaseMissing,
    BranchRefused,
    CredentialRefused,
    GitError,
    GitTooOld,
    LfsMissing,
    NotUnderstood,
    PushRefused,
    RepositoryGone,
    RepositoryUnreachable,
)
from agentsmith.git.places import check_branch
from tests.support.git_bench import BRANCH, QUICK, Bench, PlainShell, git, make_origin, write_files
from tests.support.git_http import GitHttp


async def test_empty_repository(bench: Bench, tmp_path: Path) -> None:
    bench.forge.clone_url = f"file://{make_origin(tmp_path / 'empty.git', {})}"
    with pytest.raises(EmptyRepository):
        await bench.open()
    with pytest.raises(EmptyRepository):  # and the mirror that is there now knows it too
        await bench.open()


async def test_repository_that_was_empty_and_is_no_more(bench: Bench, tmp_path: Path) -> None:
    empty = make_origin(tmp_path / "empty.git", {})
    bench.forge.clone_url = f"file://{empty}"
    with pytest.raises(EmptyRepository):
        await bench.open()
    other = bench.person()
    git("push", "-q", str(empty), "HEAD:refs/heads/main", at=other.at)
    assert (await bench.open()).path.joinpath("README.md").exists()


async def test_repository_that_never_was(http_bench: Bench) -> None:
    http_bench.forge.clone_url = http_bench.forge.clone_url.replace("web", "nothing")
    with pytest.raises(RepositoryGone) as gone:
        await http_bench.open()
    assert not gone.value.retryable


async def test_repository_that_is_gone_leaves_the_work_alone(http_bench: Bench) -> None:
    checkout = await http_bench.open()
    write_files(checkout.path, {"a.txt": "a\n"})
    shutil.move(http_bench.origin, http_bench.place / "moved.git")
    with pytest.raises(RepositoryGone):
        await http_bench.open()
    assert (checkout.path / "a.txt").read_text() == "a\n"
    shutil.move(http_bench.place / "moved.git", http_bench.origin)
    assert ((await http_bench.open()).path / "a.txt").read_text() == "a\n"


@pytest.mark.parametrize("status", [500, 502, 503, 429])
async def test_server_that_fails_is_worth_another_try(http_bench: Bench, server: GitHttp, status: int) -> None:
    server.answer = lambda _: (status, {})
    with pytest.raises(RepositoryUnreachable) as away:
        await http_bench.open()
    assert away.value.retryable


async def test_forbidden_is_not(http_bench: Bench, server: GitHttp) -> None:
    server.answer = lambda _: (403, {})
    with pytest.raises(CredentialRefused) as refused:
        await http_bench.open()
    assert not refused.value.retryable


async def test_nobody_listens(bench: Bench) -> None:
    bench.forge.clone_url = "http://127.0.0.1:9/acme/web.git"
    with pytest.raises(RepositoryUnreachable):
        await bench.open()


async def test_server_that_goes_silent_is_given_up(http_bench: Bench, server: GitHttp) -> None:
    server.hold = lambda request: request.method == "POST"
    with pytest.raises(RepositoryUnreachable):
        await http_bench.open(bounds=replace(QUICK, stall=1.0, network=3600))


async def test_command_that_takes_too_long_is_stopped(http_bench: Bench, server: GitHttp) -> None:
    server.hold = lambda _: True
    with pytest.raises(RepositoryUnreachable, match="did not end within 1 s"):
        await http_bench.open(bounds=replace(QUICK, network=1.0))


async def test_ssh_asks_nobody(bench: Bench) -> None:
    bench.forge.clone_url = "ssh://nobody@127.0.0.1:9/acme/web.git"
    with pytest.raises(GitError):
        await bench.open()


async def test_base_that_is_not_there(bench: Bench) -> None:
    with pytest.raises(BaseMissing, match="`gone`"):
        await bench.open(base="gone")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-x",
        "--force",
        "a b",
        "a..b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[",
        "a\\b",
        "a//b",
        "/a",
        "a/",
        "a.lock",
        "a.lock/b",
        ".a",
        "a/.b",
        "a.",
        "@",
        "HEAD",
        "a@{b",
        "refs/heads/a",
        "a\nb",
        "a\0b",
        "a\x7fb",
        "a\u202eb",
        "x" * 300,
        "x/" * 600 + "x",
    ],
)
def test_branch_names_that_git_refuses(name: str) -> None:
    with pytest.raises(BranchRefused):
        check_branch(name)
    ours_alone = ("@", "HEAD", "refs/heads/a", "-x", "--force")  # fine after refs/heads/, but not where people type
    if "\0" not in name and len(name) < 300 and name.isprintable() and name not in ours_alone:
        git("check-ref-format", f"refs/heads/{name}", at=Path("/"), fine=(1,))


async def test_refused_branch_touches_nothing(bench: Bench) -> None:
    with pytest.raises(BranchRefused, match="cannot be the name of a branch"):
        await bench.open(branch="a..b")
    assert not bench.root.exists()


@pytest.mark.parametrize("name", ["agent-smith/WEB-12", "feature/ünïcode", "a" * 200, "x@y", "日本語"])
async def test_branch_names_that_git_takes(bench: Bench, name: str) -> None:
    checkout = await bench.open(branch=name)
    write_files(checkout.path, {"a": "a\n"})
    await checkout.commit("a")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)
    assert bench.on_server(name)


@pytest.mark.parametrize("name", ["main", "release"])
async def test_the_base_is_never_the_branch(bench: Bench, name: str) -> None:
    with pytest.raises(BranchRefused):
        await bench.open(branch=name, base=name)
    with pytest.raises(BranchRefused):
        await bench.open(branch="main", base=name)


@pytest.mark.parametrize("other", ["agent-smith", "agent-smith/12/sub"])
async def test_branch_that_cannot_be_beside_another(bench: Bench, other: str) -> None:
    git("branch", other, "main", at=bench.origin)
    with pytest.raises(BranchRefused, match=other):
        await bench.open()


async def test_push_that_a_rule_of_the_server_declines(http_bench: Bench) -> None:
    hook = http_bench.origin / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'branch names must begin with feature/' >&2\nexit 1\n")
    hook.chmod(0o755)
    checkout = await http_bench.open()
    write_files(checkout.path, {"a": "a\n"})
    await checkout.commit("a")
    with pytest.raises(PushRefused, match="must begin with feature/"):
        await checkout.push(http_bench.begin_write)
    assert http_bench.on_server(BRANCH) == ""


@pytest.mark.parametrize(
    "words",
    [
        "GitLab: Internal API unreachable",
        "GitLab: Failed to authorize your Git request: internal API unreachable",
        "The service is temporarily unavailable, try again later",
        "nobody knows what this means",
    ],
)
async def test_P2_a_refusal_that_is_no_rule_is_worth_another_try(http_bench: Bench, words: str) -> None:
    hook = http_bench.origin / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    hook.chmod(0o755)
    checkout = await http_bench.open()
    write_files(checkout.path, {"a": "a\n"})
    await checkout.commit("a")
    with pytest.raises(NotUnderstood, match="refused the push") as refused:
        await checkout.push(http_bench.begin_write)
    assert refused.value.retryable
    hook.unlink()
    assert isinstance(await checkout.push(http_bench.begin_write), Pushed)


SICK = {
    "a page of HTML": b"<html>We will be back soon</html>",
    "words that hang up": b"001e# service=git-upload-pack\n0000",
    "too much load": b"001e# service=git-upload-pack\n00000031ERR unable to handle this request due to load",
}


@pytest.mark.parametrize("page", SICK.values(), ids=SICK.keys())
async def test_P2_a_sick_server_is_worth_another_try_and_is_not_cloned_from_again(
    http_bench: Bench, server: GitHttp, page: bytes
) -> None:
    await http_bench.open()
    mark = http_bench.mirror / "ours"
    mark.touch()
    server.page = page
    server.requests.clear()
    with pytest.raises(RepositoryUnreachable) as away:
        await http_bench.open()
    assert away.value.retryable
    assert mark.exists(), "our copy is whole, so it stays"
    assert "git-upload-pack" not in "".join(path.rpartition("/")[2] for path in server.paths() if "?" not in path)
    server.page = b""
    await http_bench.open()
    assert mark.exists()


@pytest.mark.parametrize("page", SICK.values(), ids=SICK.keys())
async def test_P2_of_a_server_that_is_sick_at_first_sight_not_more_is_asked(
    http_bench: Bench, server: GitHttp, page: bytes
) -> None:
    """What it cannot do in part it is not asked for as a whole."""
    server.page = page
    with pytest.raises(RepositoryUnreachable):
        await http_bench.open()
    assert isinstance(http_bench.shell, PlainShell)
    assert len([argv for argv in http_bench.shell.argvs if "clone" in argv]) == 1


async def test_a_server_that_refuses_a_part_is_asked_for_the_whole(http_bench: Bench) -> None:
    git("config", "uploadpackfilter.allow", "false", at=http_bench.origin)
    assert ((await http_bench.open()).path / "README.md").read_text() == "hello\n"


async def test_no_git_at_all(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(GitTooOld):
        await bench.open()


async def test_git_that_is_too_old(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin/git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'git version 2.30.2'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(GitTooOld, match=r"2\.38 or newer"):
        await bench.open()


async def test_lfs_that_is_not_installed(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_git = tmp_path / "bin"
    only_git.mkdir()
    (only_git / "git").symlink_to(shutil.which("git") or "")
    monkeypatch.setenv("PATH", str(only_git))
    with pytest.raises(LfsMissing, match="install `git-lfs`"):
        await bench.open(lfs=True)
