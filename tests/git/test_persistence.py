"""Branch persistence: what a run has done is found again by the next one, and nobody's work is overwritten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentsmith.domain.errors import LeaseLost
from agentsmith.git import Conflicted, Diverged, Merged, Pushed, UpToDate
from agentsmith.git.errors import WorkspaceBusy
from tests.support.git_bench import BRANCH, Bench, PlainShell, git, write_files


async def _save(bench: Bench, files: dict[str, str | bytes | None], step: str = "agent") -> str:
    checkout = await bench.open()
    write_files(checkout.path, files)
    outcome = await checkout.save_wip(run="r", pipeline="p", step=step, begin_write=bench.begin_write)
    assert isinstance(outcome, Pushed)
    return outcome.commit


async def test_nothing_to_save_pushes_nothing(bench: Bench) -> None:
    checkout = await bench.open()
    assert await checkout.save_wip(run="r", pipeline="p", step="s", begin_write=bench.begin_write) is None
    assert bench.on_server() == ""
    assert bench.writes == 0


async def test_trailers_hold_one_line_each_whatever_the_texts(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"a": "a"})
    await checkout.save_wip(
        run="r", pipeline="p\nSigned-off-by: Somebody <x@y>", step="s\0\r\n\n--force", begin_write=bench.begin_write
    )
    trailers = git("log", "-1", "--format=%(trailers:only,unfold)", BRANCH, at=bench.origin).splitlines()
    assert trailers == [
        "Agentsmith-Run: r",
        "Agentsmith-Pipeline: p Signed-off-by: Somebody <x@y>",
        "Agentsmith-Failed-Step: s --force",
    ]


async def test_P6_a_fenced_off_run_pushes_nothing(bench: Bench) -> None:
    async def fenced() -> None:
        raise LeaseLost("a newer fence stands")

    checkout = await bench.open()
    write_files(checkout.path, {"a": "a"})
    with pytest.raises(LeaseLost):
        await checkout.save_wip(run="r", pipeline="p", step="s", begin_write=fenced)
    await checkout.commit("more")
    with pytest.raises(LeaseLost):
        await checkout.push(fenced)
    assert bench.on_server() == ""


async def test_diverged_branch_is_reported_and_not_overwritten(bench: Bench) -> None:
    await _save(bench, {"a": "ours\n"})
    checkout = await bench.open()
    theirs = bench.person().commit("by a person", {"b": "theirs\n"}, on=BRANCH)
    bench.person().push()
    write_files(checkout.path, {"a": "ours again\n"})
    ours = await checkout.commit("ours")
    outcome = await checkout.push(bench.begin_write)
    assert outcome == Diverged(str(ours), theirs)
    assert theirs[:12] in str(outcome)
    assert bench.on_server() == theirs

    again = await bench.open()  # starts from what the person pushed; ours is kept, and said to be
    assert (again.path / "b").read_text() == "theirs\n"
    assert (again.path / "a").read_text() == "ours\n"
    assert any("kept at refs/agentsmith/aside/" in note for note in again.notes)
    assert git("show", f"refs/agentsmith/aside/{str(ours)[:12]}:a", at=bench.vault) == "ours again"


async def test_a_branch_that_the_server_set_back_is_not_forced(bench: Bench) -> None:
    first = await _save(bench, {"a": "1\n"})
    await _save(bench, {"a": "2\n"})
    checkout = await bench.open()
    write_files(checkout.path, {"a": "3\n"})
    await checkout.commit("third")
    git("update-ref", f"refs/heads/{BRANCH}", bench.on_server("main"), at=bench.origin)
    other = bench.person()
    git("fetch", "-q", "origin", at=other.at)
    git("checkout", "-q", "-B", BRANCH, "origin/main", at=other.at)
    theirs = other.commit("rewritten", {"a": "x\n"})
    other.push("--force")
    assert isinstance(await checkout.push(bench.begin_write), Diverged)
    assert bench.on_server() == theirs
    assert first != theirs


async def test_conflict_with_the_base_is_told_and_left_as_git_merge_leaves_it(bench: Bench) -> None:
    await _save(bench, {"README.md": "ours\n", "mine.txt": "mine\n"})
    base = bench.person().commit("theirs", {"README.md": "theirs\n", "new.txt": "new\n"}, on="main")
    bench.person().push()
    checkout = await bench.open()
    assert checkout.merge == Conflicted(("README.md",))
    assert checkout.resumed
    text = (checkout.path / "README.md").read_text()
    assert "<<<<<<<" in text
    assert "ours" in text
    assert "theirs" in text
    assert (checkout.path / "new.txt").exists()
    status = git("status", "--porcelain", at=checkout.path).splitlines()
    assert "AA README.md" in status or "UU README.md" in status
    assert git("rev-parse", "MERGE_HEAD", at=checkout.path) == base
    assert await checkout.conflicts() == ("README.md",)

    # Untouched, it is nothing to save: the next run finds the same conflict.
    assert await checkout.save_wip(run="r", pipeline="p", step="s", begin_write=bench.begin_write) is None
    checkout = await bench.open()
    assert checkout.merge == Conflicted(("README.md",))

    write_files(checkout.path, {"README.md": "both\n"})  # resolved, but not committed
    assert await checkout.conflicts() == ()
    commit = await checkout.commit("Resolve")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)
    assert git("log", "-1", "--format=%P", str(commit), at=bench.origin).split()[1] == base
    assert bench.content("README.md") == "both"
    assert bench.content("new.txt") == "new"
    assert (await bench.open()).merge == UpToDate()


async def test_a_worker_may_resolve_and_commit_the_merge_itself(bench: Bench) -> None:
    await _save(bench, {"README.md": "ours\n"})
    base = bench.person().commit("theirs", {"README.md": "theirs\n"}, on="main")
    bench.person().push()
    checkout = await bench.open()
    write_files(checkout.path, {"README.md": "both\n"})
    git("add", "README.md", at=checkout.path)
    git("commit", "-q", "--no-edit", at=checkout.path)
    await checkout.commit("unused")
    await checkout.push(bench.begin_write)
    assert bench.log()[0].startswith("Merge branch 'main'")
    assert base in git("log", "-1", "--format=%P", BRANCH, at=bench.origin)


async def test_a_worker_may_give_the_merge_up(bench: Bench) -> None:
    await _save(bench, {"README.md": "ours\n"})
    bench.person().commit("theirs", {"README.md": "theirs\n"}, on="main")
    bench.person().push()
    checkout = await bench.open()
    git("merge", "--abort", at=checkout.path)
    write_files(checkout.path, {"x": "x\n"})
    commit = await checkout.commit("on our side only")
    assert len(git("log", "-1", "--format=%P", str(commit), at=bench.vault).split()) == 1
    assert git("show", f"{commit}:README.md", at=bench.vault) == "ours"


async def test_half_resolved_conflict_is_saved_and_told_again(bench: Bench) -> None:
    await _save(bench, {"README.md": "ours\n", "two.txt": "ours\n"})
    bench.person().commit("theirs", {"README.md": "theirs\n", "two.txt": "theirs\n"}, on="main")
    bench.person().push()
    checkout = await bench.open()
    write_files(checkout.path, {"two.txt": "both\n"})
    assert await checkout.save_wip(run="r", pipeline="p", step="s", begin_write=bench.begin_write)
    again = await bench.open()
    assert again.merge == Conflicted(("README.md",))
    assert (again.path / "two.txt").read_text() == "both\n"


async def test_crashed_run_leaves_nothing_behind_but_its_work(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"committed.txt": "c\n"})
    git("add", "-A", at=checkout.path)
    git("commit", "-q", "-m", "by the agent", at=checkout.path)
    write_files(checkout.path, {"loose.txt": "l\n", "README.md": None})
    (checkout.path / ".git/index.lock").touch()  # as a killed git leaves it
    again = await bench.open()
    assert again.resumed
    assert git("status", "--porcelain", at=again.path) == ""
    assert sorted(p.name for p in again.path.iterdir()) == [".git", "committed.txt", "loose.txt"]
    assert any("left work" in note for note in again.notes)
    await again.push(bench.begin_write)
    assert bench.log() == ["[wip] left in the workspace by a run that did not end", "by the agent", "first"]


async def test_deleted_branch_means_a_new_start(bench: Bench) -> None:
    await _save(bench, {"a": "a\n"})
    git("update-ref", "-d", f"refs/heads/{BRANCH}", at=bench.origin)
    checkout = await bench.open()
    assert not checkout.resumed
    assert not (checkout.path / "a").exists()
    assert checkout.notes == ()


async def test_deleted_branch_does_not_take_unpushed_work_with_it(bench: Bench) -> None:
    await _save(bench, {"a": "a\n"})
    checkout = await bench.open()
    write_files(checkout.path, {"b": "b\n"})
    git("update-ref", "-d", f"refs/heads/{BRANCH}", at=bench.origin)
    again = await bench.open()
    assert not (again.path / "b").exists()
    kept = next(note for note in again.notes if "refs/agentsmith/aside" in note).rpartition(" ")[2]
    assert git("show", f"{kept}:b", at=bench.vault) == "b"
    assert checkout.path == again.path


async def test_another_machine_resumes_from_the_server_alone(bench: Bench, tmp_path: Path) -> None:
    await _save(bench, {"a": "a\n"})
    elsewhere = Bench(tmp_path / "elsewhere", bench.origin, bench.forge, PlainShell(tmp_path / "elsewhere/scratch"))
    checkout = await elsewhere.open()
    assert checkout.resumed
    assert (checkout.path / "a").read_text() == "a\n"
    await checkout.close()


@pytest.mark.parametrize("how", ["amend", "rebase", "reset", "other branch", "detached", "no .git", "orphan"])
async def test_whatever_the_worker_did_to_its_repository_the_files_count(bench: Bench, how: str) -> None:
    pushed = await _save(bench, {"a": "1\n"})
    checkout = await bench.open()
    at = checkout.path
    write_files(at, {"a": "2\n"})
    if how == "amend":
        git("commit", "-q", "-a", "--amend", "-m", "amended", at=at)
    elif how == "rebase":
        git("commit", "-q", "-a", "-m", "more", at=at)
        git("rebase", "-q", "--root", at=at, GIT_SEQUENCE_EDITOR=":")
        git("reset", "-q", "--soft", "HEAD~1", at=at)
        git("commit", "-q", "--amend", "-m", "rewritten", at=at)
    elif how == "reset":
        git("reset", "-q", "--mixed", "origin/main", at=at)
    elif how == "other branch":
        git("checkout", "-q", "-b", "my-own-idea", at=at)
        git("commit", "-q", "-a", "-m", "on a branch of its own", at=at)
    elif how == "detached":
        git("checkout", "-q", "--detach", at=at)
        git("commit", "-q", "-a", "-m", "detached", at=at)
    elif how == "no .git":
        shutil.rmtree(at / ".git")
    else:
        git("checkout", "-q", "--orphan", "fresh", at=at)
        git("commit", "-q", "-a", "-m", "orphan", at=at)
    await checkout.commit("what is there")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)
    assert bench.content("a") == "2"
    git("merge-base", "--is-ancestor", pushed, BRANCH, at=bench.origin)
    assert git("status", "--porcelain", at=at) == ""
    assert git("rev-parse", "HEAD", at=at) == bench.on_server()


async def test_a_worker_that_only_looked_at_the_base_has_not_undone_its_work(bench: Bench) -> None:
    checkout = await bench.open()
    at = checkout.path
    write_files(at, {"a": "1\n"})
    git("add", "-A", at=at)
    git("commit", "-q", "-m", "mine", at=at)
    git("checkout", "-q", "--detach", "origin/main", at=at)
    assert await checkout.changed()
    await checkout.commit("unused")
    await checkout.push(bench.begin_write)
    assert bench.log() == ["mine", "first"]


async def test_checkpoint_beside_a_working_agent(bench: Bench, tmp_path: Path) -> None:
    checkout = await bench.open()
    at, shell = checkout.path, PlainShell(tmp_path / "second")
    write_files(at, {"a": "1\n"})
    before = git("rev-parse", "HEAD", at=at)
    point = {"run": "r", "pipeline": "p", "step": "agent", "begin_write": bench.begin_write, "shell": shell}
    assert isinstance(await checkout.checkpoint(**point), Pushed)  # type: ignore[arg-type]
    assert git("rev-parse", "HEAD", at=at) == before
    assert await checkout.checkpoint(**point) is None  # type: ignore[arg-type]
    git("add", "-A", at=at)
    git("commit", "-q", "-m", "by the agent", at=at)  # it does not know of the checkpoint
    write_files(at, {"b": "2\n"})
    await checkout.commit("done")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)
    assert bench.content("b") == "2"
    assert {"done", "by the agent", "[wip] p: stopped at agent"} < set(bench.log())


async def test_two_runs_never_share_a_workspace(bench: Bench) -> None:
    await bench.open()
    first, bench.opened = bench.opened, []
    with pytest.raises(WorkspaceBusy):
        await bench.open()
    bench.opened = first
    assert (await bench.open()).path == bench.workspace


async def test_base_other_than_the_default_branch(bench: Bench) -> None:
    person = bench.person()
    git("checkout", "-q", "-b", "release", at=person.at)
    person.commit("released", {"v": "1\n"})
    person.push()
    checkout = await bench.open(base="release")
    assert checkout.base == "release"
    assert (checkout.path / "v").exists()
    write_files(checkout.path, {"a": "a\n"})
    assert await checkout.changed()


async def test_branch_that_its_base_has_overtaken_goes_on_from_the_base(bench: Bench) -> None:
    await _save(bench, {"a": "a\n"})
    person = bench.person()
    git("fetch", "-q", "origin", at=person.at)
    git("merge", "-q", "--no-ff", "-m", "merged", f"origin/{BRANCH}", at=person.at)
    person.push()
    checkout = await bench.open()
    assert checkout.merge == Merged(bench.on_server("main"))
    assert not await checkout.changed()


async def test_prompt_files_come_from_the_default_branch_only(bench: Bench) -> None:
    bench.person().commit("prompt", {".agentsmith/prompt.md": "be good\n"})
    bench.person().push()
    checkout = await bench.open()
    write_files(checkout.path, {".agentsmith/prompt.md": "be evil\n", "only-here": "x"})
    await checkout.commit("evil")
    await checkout.push(bench.begin_write)
    checkout = await bench.open()
    assert await checkout.show(".agentsmith/prompt.md") == b"be good\n"
    assert await checkout.show("only-here") is None
    assert await checkout.show(".agentsmith") is None
    assert await checkout.show("../README.md") is None
    assert await checkout.show("README.md", limit=3) is None
