"""A worker may write anything into its workspace, its `.git` included: nothing of it may run, lead or lie to us."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentsmith.git import Checkout, Pushed
from agentsmith.git.command import search_path
from agentsmith.git.errors import PlaceRefused, TooLarge
from tests.support.git_bench import BRANCH, QUICK, Bench, blob, git, make_origin, write_files

HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-merge", "pre-push"),
    *(
        "pre-merge-commit",
        "reference-transaction",
        "post-index-change",
        "post-rewrite",
        "pre-auto-gc",
        "fsmonitor-watchman",
    ),
    *("pre-receive", "update", "post-receive", "push-to-checkout", "proc-receive"),
)
SETTINGS = {
    "core.fsmonitor": "{evil}",
    "core.hooksPath": "{hooks}",
    "core.sshCommand": "{evil}",
    "core.gitProxy": "{evil}",
    "core.pager": "{evil}",
    "core.editor": "{evil}",
    "core.askPass": "{evil}",
    "core.alternateRefsCommand": "{evil}",
    "credential.helper": "!{evil}",
    "filter.evil.clean": "{evil}",
    "filter.evil.smudge": "{evil}",
    "filter.evil.process": "{evil}",
    "filter.evil.required": "true",
    "diff.evil.command": "{evil}",
    "diff.evil.textconv": "{evil}",
    "diff.external": "{evil}",
    "merge.evil.driver": "{evil}",
    "gpg.program": "{evil}",
    "commit.gpgSign": "true",
    "uploadpack.packObjectsHook": "{evil}",
    "remote.origin.url": "ext::{evil}",
    "remote.origin.pushurl": "ext::{evil}",
    "remote.origin.uploadpack": "{evil}",
    "remote.origin.receivepack": "{evil}",
    "remote.origin.vcs": "evil",
    "url.ext::{evil} .insteadOf": "file://",
    "protocol.ext.allow": "always",
    "protocol.allow": "always",
    "http.proxy": "http://127.0.0.1:1",
    "alias.commit-tree": "!{evil}",
    "alias.push": "!{evil}",
    "sequence.editor": "{evil}",
    "trailer.x.command": "{evil}",
    "gc.auto": "1",
    "extensions.worktreeConfig": "true",
    "core.worktree": "/",
}


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "it-ran"


@pytest.fixture
def evil(tmp_path: Path, marker: Path) -> Path:
    program = tmp_path / "evil.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >>{marker}\nexit 0\n')
    program.chmod(0o755)
    return program


def ran(marker: Path) -> str:
    """What ran, one line for each time."""
    return marker.read_text() if marker.exists() else ""


def poison(git_dir: Path, evil: Path) -> None:
    """All that a configuration, hooks and attributes can be made to run."""
    hooks = git_dir / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in HOOKS:
        shutil.copy(evil, hooks / hook)
    lines = []
    for key, value in SETTINGS.items():
        section, _, name = key.rpartition(".")
        section = section.format(evil=evil)
        kind, _, part = section.partition(".")
        head = f'[{kind} "{part}"]' if part else f"[{kind}]"
        lines.append(f'{head}\n\t{name} = "{value.format(evil=evil, hooks=hooks)}"\n')
    included = git_dir / "more-config"
    included.write_text("".join(lines))
    for name in ("config", "config.worktree"):
        with (git_dir / name).open("a") as file:
            file.write("".join(lines) + f"[include]\n\tpath = {included}\n")
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info/attributes").write_text("* filter=evil diff=evil merge=evil\n")


async def everything(bench: Bench, checkout: Checkout) -> None:
    """All operations, and the next run."""
    await checkout.changed()
    await checkout.commit("first")
    await checkout.push(bench.begin_write)
    write_files(checkout.path, {"again.txt": "again\n"})
    await checkout.save_wip(run="r", pipeline="p", step="s", begin_write=bench.begin_write)
    write_files(checkout.path, {"left.txt": "left\n"})
    again = await bench.open()
    await again.push(bench.begin_write)


async def test_nothing_that_the_worker_configures_is_run(bench: Bench, evil: Path, marker: Path) -> None:
    bench.person().commit("conflicting", {"README.md": "base\n"})
    checkout = await bench.open()
    write_files(checkout.path, {"a.txt": "a\n", ".gitattributes": "* filter=evil diff=evil merge=evil\n"})
    git("add", "-A", at=checkout.path)
    git("commit", "-q", "-m", "before the poison", at=checkout.path)
    write_files(checkout.path, {"b.txt": "b\n", "README.md": "worker\n"})
    poison(checkout.path / ".git", evil)
    bench.person().push()  # so that opening has something to merge
    await everything(bench, checkout)
    assert ran(marker) == ""
    assert {"a.txt", "b.txt", "again.txt", "left.txt"} < set(bench.files())
    assert "before the poison" in bench.log()
    # The poison would have worked:
    git("status", at=_poisoned(bench, evil), fine=(0, 1, 128))
    assert "evil.sh" in ran(marker)


def _poisoned(bench: Bench, evil: Path) -> Path:
    person = bench.person("victim")
    poison(person.at / ".git", evil)
    with (person.at / ".git/config").open("a") as file:
        file.write(f"[core]\n\tworktree = {person.at}\n[extensions]\n\tworktreeConfig = false\n")
    (person.at / "README.md").touch()
    return person.at


async def test_nested_repositories_are_not_looked_into(bench: Bench, evil: Path, marker: Path) -> None:
    checkout = await bench.open()
    at = checkout.path
    nested = at / "lib/nested"
    nested.mkdir(parents=True)
    git("init", "-q", at=nested)
    git("config", "user.name", "x", at=nested)
    write_files(nested, {"n.txt": "n\n", ".gitattributes": "* filter=evil\n"})
    git("add", "-A", at=nested)
    git("commit", "-q", "-m", "nested", at=nested)
    git("add", "-A", at=at)  # makes a link of it, with nothing behind
    write_files(at, {".gitmodules": '[submodule "n"]\n\tpath = lib/nested\n\turl = ./n\n\tignore = none\n'})
    git("add", "-A", at=at)
    git("commit", "-q", "-m", "with a link", at=at)
    poison(nested / ".git", evil)
    (nested / "n.txt").write_text("changed\n")
    write_files(at, {"mine.txt": "mine\n"})
    await everything(bench, checkout)
    assert ran(marker) == ""
    assert "mine.txt" in bench.files()


async def test_untracked_nested_repository_is_left_out_and_kept(bench: Bench) -> None:
    checkout = await bench.open()
    nested = checkout.path / "vendor"
    nested.mkdir()
    git("init", "-q", at=nested)
    write_files(checkout.path, {"vendor/v.txt": "v\n", "mine.txt": "mine\n"})
    await checkout.commit("mine")
    await checkout.push(bench.begin_write)
    assert bench.files() == ["README.md", "mine.txt"]
    assert (await bench.open()).path.joinpath("vendor/v.txt").read_text() == "v\n"


def _as_gitfile(at: Path, outside: Path) -> None:
    shutil.rmtree(at / ".git")
    (at / ".git").write_text(f"gitdir: {outside}\n")


def _as_link(at: Path, outside: Path) -> None:
    shutil.rmtree(at / ".git")
    (at / ".git").symlink_to(outside)


def _objects_as_link(at: Path, outside: Path) -> None:
    shutil.rmtree(at / ".git/objects")
    (at / ".git/objects").symlink_to(outside / "objects")


def _loose_folders_as_links(at: Path, outside: Path) -> None:
    for folder in (outside / "objects").iterdir():
        target = at / ".git/objects" / folder.name
        shutil.rmtree(target, ignore_errors=True)
        target.symlink_to(folder)


def _alternates(at: Path, outside: Path) -> None:
    with (at / ".git/objects/info/alternates").open("a") as file:
        file.write(f"{outside / 'objects'}\n")


@pytest.mark.parametrize(
    "attack", [_as_gitfile, _as_link, _objects_as_link, _loose_folders_as_links, _alternates], ids=lambda a: a.__name__
)
async def test_objects_of_other_repositories_cannot_be_smuggled_out(
    bench: Bench, tmp_path: Path, attack: Callable[[Path, Path], None]
) -> None:
    """A commit of another repository on this machine, named by its id, must not find its way to our server."""
    outside = tmp_path / "private"
    outside.mkdir()
    git("init", "-q", at=outside)
    write_files(outside, {"private.txt": "do not publish\n"})
    git("add", "-A", at=outside)
    git("commit", "-q", "-m", "private", at=outside)
    secret = git("rev-parse", "HEAD", at=outside)
    checkout = await bench.open()
    at = checkout.path
    tree = git("rev-parse", "HEAD^{tree}", at=outside)
    attack(at, outside / ".git")
    # A commit on top of ours that shows the foreign tree, made by hand.
    ours = git("rev-parse", "refs/agentsmith/tip", at=bench.vault)
    body = f"tree {tree}\nparent {ours}\nauthor x <x> 0 +0000\ncommitter x <x> 0 +0000\n\nstolen\n"
    if (at / ".git").is_dir() and not (at / ".git").is_symlink() and not (at / ".git/objects").is_symlink():
        made = git("hash-object", "-t", "commit", "-w", "--stdin", at=at, stdin=body.encode())
        (at / ".git/HEAD").write_text(f"{made}\n")
    elif (at / ".git").is_dir() and not (at / ".git").is_symlink():
        (at / ".git/HEAD").write_text(f"{secret}\n")
    write_files(at, {"mine.txt": "mine\n"})
    await checkout.commit("mine")
    await checkout.push(bench.begin_write)
    assert bench.files() == ["README.md", "mine.txt"]
    assert "stolen" not in bench.log()
    assert git("cat-file", "-e", tree, at=bench.origin, fine=(0, 1, 128)) == ""
    assert (outside / ".git/HEAD").exists()


async def test_objects_under_a_false_name_do_not_get_in(bench: Bench) -> None:
    checkout = await bench.open()
    at = checkout.path
    write_files(at, {"a.txt": "harmless\n"})
    git("add", "-A", at=at)
    git("commit", "-q", "-m", "honest", at=at)
    blob = git("rev-parse", "HEAD:a.txt", at=at)
    other = git("hash-object", "-w", "--stdin", at=at, stdin=b"forged\n")
    objects = at / ".git/objects"
    forged = objects / blob[:2] / blob[2:]
    forged.chmod(0o644)
    shutil.copy(objects / other[:2] / other[2:], forged)
    await checkout.commit("from the files")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)
    assert bench.content("a.txt") == "harmless"
    assert bench.log() == ["from the files", "first"]
    git("fsck", "--strict", at=bench.origin)


async def test_replaced_objects_and_grafts_have_no_effect(bench: Bench) -> None:
    checkout = await bench.open()
    at = checkout.path
    write_files(at, {"a.txt": "1\n"})
    git("add", "-A", at=at)
    git("commit", "-q", "-m", "one", at=at)
    first = git("rev-list", "--max-parents=0", "HEAD", at=at)
    git("replace", "HEAD", first, at=at)
    (at / ".git/info/grafts").write_text(git("rev-parse", "HEAD", at=at) + "\n")
    await checkout.commit("x")
    await checkout.push(bench.begin_write)
    assert bench.log() == ["one", "first"]


@pytest.mark.parametrize("name", ["HEAD", "MERGE_HEAD", f"refs/heads/{BRANCH}", "packed-refs", "info/exclude"])
async def test_pipes_in_place_of_files_do_not_hang_us(bench: Bench, name: str) -> None:
    checkout = await bench.open()
    path = checkout.path / ".git" / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    write_files(checkout.path, {"a.txt": "a\n"})
    os.mkfifo(checkout.path / "pipe")
    await checkout.commit("a")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)
    assert bench.files() == ["README.md", "a.txt"]


async def test_huge_refs_are_not_read(bench: Bench) -> None:
    checkout = await bench.open()
    with (checkout.path / ".git/HEAD").open("wb") as file:
        file.truncate(10**12)
    write_files(checkout.path, {"a.txt": "a\n"})
    await checkout.commit("a")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)


async def test_links_out_of_the_tree_are_links_and_not_their_targets(bench: Bench, tmp_path: Path) -> None:
    bench.person().commit("more", {"dir/inside.txt": "inside\n", "dir/two.txt": "two\n"})
    bench.person().push()
    outside = tmp_path / "outside"
    outside.mkdir()
    write_files(outside, {"inside.txt": "SECRET\n", "two.txt": "SECRET\n"})
    checkout = await bench.open()
    shutil.rmtree(checkout.path / "dir")
    (checkout.path / "dir").symlink_to(outside)
    (checkout.path / "passwd").symlink_to("/etc/passwd")
    await checkout.commit("links")
    await checkout.push(bench.begin_write)
    assert bench.files() == ["README.md", "dir", "passwd"]
    assert bench.content("dir") == str(outside)
    assert bench.content("passwd") == "/etc/passwd"
    # And a next run that puts the folder back does not write through the link.
    bench.person().commit("back", {"dir/two.txt": "three\n"}, on="main")
    bench.person().push()
    git("update-ref", "-d", f"refs/heads/{BRANCH}", at=bench.origin)
    again = await bench.open()
    assert (again.path / "dir/two.txt").read_text() == "three\n"
    assert not (again.path / "dir").is_symlink()
    assert (outside / "two.txt").read_text() == "SECRET\n"


async def test_folder_behind_an_ignored_link_is_gone(bench: Bench, tmp_path: Path) -> None:
    bench.person().commit("more", {"dir/inside.txt": "inside\n", ".gitignore": "/dir\n"})
    bench.person().push()
    (tmp_path / "outside").mkdir()
    write_files(tmp_path / "outside", {"inside.txt": "SECRET\n"})
    checkout = await bench.open()
    shutil.rmtree(checkout.path / "dir")
    (checkout.path / "dir").symlink_to(tmp_path / "outside")
    await checkout.commit("linked")
    await checkout.push(bench.begin_write)
    assert bench.files() == [".gitignore", "README.md"]


async def test_workspace_replaced_by_a_link_is_made_anew(bench: Bench, tmp_path: Path) -> None:
    checkout = await bench.open()
    outside = tmp_path / "outside"
    checkout.path.rename(tmp_path / "gone")
    outside.mkdir()
    write_files(outside, {"precious.txt": "p\n"})
    checkout.path.symlink_to(outside)
    again = await bench.open()
    assert not again.path.is_symlink()
    assert (again.path / "README.md").exists()
    assert [p.name for p in outside.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize("where", ["..", "../elsewhere", "/tmp/elsewhere", "workspaces/../../up", "."])
async def test_workspace_outside_the_root_is_refused(bench: Bench, where: str) -> None:
    bench.root.mkdir()
    with pytest.raises(PlaceRefused):
        await bench.open(workspace=bench.root / where)


async def test_workspace_behind_a_link_out_of_the_root_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.root.mkdir()
    (tmp_path / "out").mkdir()
    (bench.root / "workspaces").symlink_to(tmp_path / "out")
    with pytest.raises(PlaceRefused):
        await bench.open()


async def test_what_a_worker_commits_has_a_limit(bench: Bench) -> None:
    checkout = await bench.open(bounds=replace(QUICK, taken_over=100_000))
    write_files(checkout.path, {"big.bin": os.urandom(200_000)})
    git("add", "-A", at=checkout.path)
    git("commit", "-q", "-m", "big", at=checkout.path)
    with pytest.raises(TooLarge):
        await checkout.commit("x")


async def test_our_own_surroundings_have_no_say(
    bench: Bench, evil: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables and configuration of the user that runs the daemon."""
    home = tmp_path / "home"
    home.mkdir()
    other = make_origin(tmp_path / "other.git", {"other.txt": "other\n"})
    (home / ".gitconfig").write_text(
        f'[url "file://{other}"]\n\tinsteadOf = file://{bench.origin}\n[core]\n\tfsmonitor = {evil}\n'
        f"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {evil}\n[core]\n\tautocrlf = true\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(other))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(evil))
    monkeypatch.setenv("GIT_ASKPASS", str(evil))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(evil))
    checkout = await bench.open()
    assert (checkout.path / "README.md").exists()
    write_files(checkout.path, {"crlf.txt": "a\r\nb\r\n"})
    await checkout.commit("x")
    await checkout.push(bench.begin_write)
    assert blob(bench.origin, f"{BRANCH}:crlf.txt") == b"a\r\nb\r\n"
    assert ran(marker) == ""


def test_programs_are_not_looked_for_where_we_stand() -> None:
    assert search_path({"PATH": "/usr/bin::.:relative/bin:/bin"}) == "/usr/bin:/bin"
    assert search_path({"PATH": ":"}) == os.defpath
