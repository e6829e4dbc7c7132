"""Files of every kind go to the server as they are in the workspace."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from agentsmith.git import Pushed
from tests.support.git_bench import BRANCH, Bench, blob, git, make_origin, write_files

WEIRD = (
    "with space.txt",
    "quote\"and'quote.txt",
    "new\nline.txt",
    "tab\there.txt",
    "-dash.txt",
    "--force",
    ":colon",
    ":(glob)*.txt",
    "star*.txt",
    "[brackets].txt",
    "back\\slash.txt",
    "#hash",
    "!bang",
    "$(touch pwned)",
    "`touch pwned`",
    "ünïcödé.txt",
    "e\u0301.txt",
    "\u202etxt.exe",
    "🙂.txt",
    "trailing.",
    " leading",
    "x" * 250,
    "deep/" * 40 + "file.txt",
)


async def _publish(bench: Bench, files: dict[str, str | bytes | None]) -> None:
    checkout = await bench.open()
    write_files(checkout.path, files)
    await checkout.commit("files")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)


def _listed(bench: Bench) -> set[str]:
    return set(git("ls-tree", "-r", "-z", "--name-only", BRANCH, at=bench.origin).split("\0")) - {""}


async def test_names_of_every_kind(bench: Bench) -> None:
    await _publish(bench, {name: f"{name!r}\n" for name in WEIRD})
    assert _listed(bench) == {*WEIRD, "README.md"}
    again = await bench.open()
    assert all((again.path / name).read_text() == f"{name!r}\n" for name in WEIRD)
    assert git("status", "--porcelain", at=again.path) == ""


async def test_names_that_are_not_unicode(bench: Bench) -> None:
    name = os.fsdecode(b"latin-\xe9.txt")
    await _publish(bench, {name: "x\n"})
    assert name in _listed(bench)
    assert ((await bench.open()).path / name).read_text() == "x\n"


async def test_content_of_every_kind(bench: Bench) -> None:
    files: dict[str, str | bytes | None] = {
        "crlf.txt": b"a\r\nb\r\n",
        "mixed.txt": b"a\r\nb\nc\r",
        "no-newline": b"x",
        "empty": b"",
        "nul.bin": bytes(range(256)) * 10,
        "big.txt": b"0123456789abcde\n" * 1_000_000,
        "long-line.txt": b"x" * 5_000_000,
    }
    await _publish(bench, files)
    assert {name: blob(bench.origin, f"{BRANCH}:{name}") for name in files} == files


async def test_line_endings_follow_the_repository_and_nobody_else(bench: Bench) -> None:
    await _publish(
        bench, {".gitattributes": "*.txt text\n*.bat text eol=crlf\n", "a.txt": b"a\r\nb\r\n", "b.bat": b"a\r\nb\r\n"}
    )
    assert blob(bench.origin, f"{BRANCH}:a.txt") == b"a\nb\n"
    assert blob(bench.origin, f"{BRANCH}:b.bat") == b"a\nb\n"
    again = await bench.open()
    assert await again.commit("nothing has changed") is None
    shutil.rmtree(bench.root)
    anew = await bench.open()
    assert (anew.path / "a.txt").read_bytes() == b"a\nb\n"
    assert (anew.path / "b.bat").read_bytes() == b"a\r\nb\r\n"
    assert await anew.commit("nothing has changed") is None


async def test_files_folders_and_links_may_take_each_others_place(bench: Bench) -> None:
    await _publish(
        bench, {"was-file": "f\n", "was-folder/x": "x\n", "was-folder/y/z": "z\n", "gone": "g\n", "keep": "k\n"}
    )
    (bench.workspace / "was-file").unlink()
    shutil.rmtree(bench.workspace / "was-folder")
    (bench.workspace / "link").symlink_to("keep")
    (bench.workspace / "dangling").symlink_to("nowhere")
    await _publish(bench, {})  # a run that did not end left this
    checkout = await bench.open()
    write_files(checkout.path, {"was-file/inside": "i\n", "was-folder": "now a file\n", "gone": None})
    (checkout.path / "keep").chmod(0o755)
    await checkout.commit("changed")
    await checkout.push(bench.begin_write)
    assert _listed(bench) == {"README.md", "was-file/inside", "was-folder", "keep", "link", "dangling"}
    modes = git("ls-tree", "-r", "--format=%(path) %(objectmode)", BRANCH, at=bench.origin).splitlines()
    assert {"keep 100755", "link 120000", "dangling 120000"} <= set(modes)


async def test_ignored_files_stay_here_and_stay(bench: Bench) -> None:
    await _publish(bench, {".gitignore": "build/\n*.log\n", "build/out.o": "o\n", "x.log": "l\n", "src.c": "c\n"})
    assert _listed(bench) == {"README.md", ".gitignore", "src.c"}
    again = await bench.open()  # a cache that the next attempt is glad of
    assert (again.path / "build/out.o").exists()
    git("add", "-f", "x.log", at=again.path)
    git("commit", "-q", "-m", "this one is wanted", at=again.path)
    await again.commit("x")
    await again.push(bench.begin_write)
    assert "x.log" in _listed(bench)


async def test_what_tools_exclude_for_themselves_stays_out(bench: Bench) -> None:
    checkout = await bench.open()
    (checkout.path / ".git/info/exclude").write_text(".tool-history\n")
    write_files(checkout.path, {".tool-history": "chat\n", "a": "a\n"})
    await checkout.commit("a")
    await checkout.push(bench.begin_write)
    assert _listed(bench) == {"README.md", "a"}


async def test_file_that_cannot_be_converted_does_not_keep_the_rest_back(bench: Bench) -> None:
    await _publish(
        bench,
        {
            ".gitattributes": "*.u16 working-tree-encoding=UTF-16\n",
            "bad.u16": b"\xff\xfe\x00",
            **{f"{n}": "x" for n in range(9)},
        },
    )
    assert _listed(bench) == {"README.md", ".gitattributes", *map(str, range(9))}


async def test_workspace_with_read_only_folders_can_be_made_anew(bench: Bench, tmp_path: Path) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"cache/pkg/f": "f\n"})
    (checkout.path / "cache/pkg").chmod(0o500)
    other = make_origin(tmp_path / "other.git", {"other.txt": "o\n"})
    bench.forge.clone_url = f"file://{other}"
    again = await bench.open()
    assert sorted(p.name for p in again.path.iterdir()) == [".git", "other.txt"]
    assert any("another repository" in note for note in again.notes)
    kept = list((bench.root / "aside").rglob("cache/pkg/f"))
    assert len(kept) == 1


async def test_files_that_were_there_first_are_kept_aside(bench: Bench) -> None:
    bench.workspace.mkdir(parents=True)
    write_files(bench.workspace, {"somebodys": "s\n"})
    checkout = await bench.open()
    assert not (checkout.path / "somebodys").exists()
    assert any("not empty" in note for note in checkout.notes)
    assert [p.name for p in (bench.root / "aside").rglob("somebodys")] == ["somebodys"]


async def test_repository_with_longer_ids(bench: Bench, tmp_path: Path) -> None:
    git("init", "-q", "--bare", "--object-format=sha256", "--initial-branch=main", "long.git", at=tmp_path)
    bench.origin = tmp_path / "long.git"
    git("config", "uploadpack.allowFilter", "true", at=bench.origin)
    git("init", "-q", "--object-format=sha256", "--initial-branch=main", "seed", at=tmp_path)
    write_files(tmp_path / "seed", {"a": "a\n"})
    git("add", "-A", at=tmp_path / "seed")
    git("commit", "-q", "-m", "first", at=tmp_path / "seed")
    git("push", "-q", str(bench.origin), "main", at=tmp_path / "seed")
    bench.forge.clone_url = f"file://{bench.origin}"
    checkout = await bench.open()
    write_files(checkout.path, {"b": "b\n"})
    git("add", "-A", at=checkout.path)
    git("commit", "-q", "-m", "by the agent", at=checkout.path)
    write_files(checkout.path, {"c": "c\n"})
    commit = await checkout.commit("c")
    assert len(str(commit)) == 64
    await checkout.push(bench.begin_write)
    assert bench.log() == ["c", "by the agent", "first"]
    assert (await bench.open()).resumed


async def test_tickets_have_workspaces_of_their_own(bench: Bench) -> None:
    first = await bench.open(workspace=bench.root / "workspaces/web-12", branch="agent-smith/web-12")
    bench.opened.clear()
    second = await bench.open(workspace=bench.root / "workspaces/WEB-12", branch="agent-smith/WEB-12")
    write_files(first.path, {"first": "1\n"})
    write_files(second.path, {"second": "2\n"})
    for checkout in (first, second):
        await checkout.commit("x")
        await checkout.push(bench.begin_write)
        await checkout.close()
    assert bench.files("agent-smith/web-12") == ["README.md", "first"]
    assert bench.files("agent-smith/WEB-12") == ["README.md", "second"]
    assert len(list((bench.root / "vaults").glob("*.git"))) == 2
    assert len(list((bench.root / "mirrors").glob("*.git"))) == 1


async def test_message_may_be_anything(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"a": "a\n"})
    message = 'Fix "it" $(touch pwned) `x` 🙂 \u202e\n\n# not a comment\n\0\x1b[31m\n' + "long " * 200_000
    await checkout.commit(message, trailers={"Ticket: x\ny": "a\nb"})
    await checkout.push(bench.begin_write)
    said = git("log", "-1", "--format=%B", BRANCH, at=bench.origin)
    assert said.startswith('Fix "it" $(touch pwned) `x` 🙂 \u202e\n\n# not a comment\n\x1b[31m\nlong long')
    assert said.endswith("\n\nTicket-x-y: a b")
