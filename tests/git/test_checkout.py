"""A checkout from opening to push, on a repository on disk."""

from __future__ import annotations

from agentsmith.git import Merged, Pushed, UpToDate
from tests.support.git_bench import BRANCH, Bench, git, write_files


async def test_first_run_starts_from_the_base_and_ends_on_the_server(bench: Bench) -> None:
    checkout = await bench.open()
    assert (checkout.branch, checkout.base, checkout.resumed, checkout.merge) == (BRANCH, "main", False, UpToDate())
    assert (checkout.path / "README.md").read_text() == "hello\n"
    assert not await checkout.changed()
    write_files(checkout.path, {"fix.py": "print('fixed')\n", "README.md": "hello you\n"})
    assert await checkout.changed()
    commit = await checkout.commit("Fix it", trailers={"Ticket": "12"})
    outcome = await checkout.push(bench.begin_write)
    assert outcome == Pushed(commit or "")
    assert bench.on_server() == commit
    assert bench.writes == 1
    assert bench.content("fix.py") == "print('fixed')"
    assert git("log", "-1", "--format=%B", str(commit), at=bench.origin) == "Fix it\n\nTicket: 12"
    assert await checkout.commit("again") is None
    assert await checkout.push(bench.begin_write) == Pushed(commit or "", moved=False)


async def test_the_worker_finds_a_repository_that_works(bench: Bench) -> None:
    bench.person().commit("more", {"a/b.txt": "b\n"})
    bench.person().push()
    checkout = await bench.open()
    assert git("status", "--porcelain", at=checkout.path) == ""
    assert git("branch", "--show-current", at=checkout.path) == BRANCH
    assert git("log", "--format=%s", at=checkout.path).splitlines() == ["more", "first"]
    assert git("rev-parse", "origin/HEAD", at=checkout.path) == bench.on_server("main")
    assert git("config", "user.name", at=checkout.path) == "agentsmith"
    git("fsck", at=checkout.path)


async def test_commits_of_the_worker_are_kept(bench: Bench) -> None:
    checkout = await bench.open()
    for number in range(3):
        write_files(checkout.path, {f"{number}.txt": f"{number}\n"})
        git("add", "-A", at=checkout.path)
        git("commit", "-q", "-m", f"by the agent: {number}", at=checkout.path)
    write_files(checkout.path, {"rest.txt": "rest\n"})
    await checkout.commit("the rest")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)
    assert bench.log() == ["the rest", "by the agent: 2", "by the agent: 1", "by the agent: 0", "first"]


async def test_next_run_resumes_from_the_branch_and_merges_the_base_first(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"work.txt": "half\n"})
    await checkout.save_wip(run="r1", pipeline="fix-bug", step="agent", begin_write=bench.begin_write)
    bench.person().commit("meanwhile", {"other.txt": "other\n"}, on="main")
    bench.person().push()
    again = await bench.open()
    assert again.resumed
    assert isinstance(again.merge, Merged)
    assert (again.path / "work.txt").read_text() == "half\n"
    assert (again.path / "other.txt").read_text() == "other\n"
    await again.push(bench.begin_write)
    assert bench.log()[0] == f"Merge branch 'main' into {BRANCH}"
    body = git("log", "--format=%B", "-1", "--grep=wip", BRANCH, at=bench.origin)
    assert body.splitlines() == [
        "[wip] fix-bug: stopped at agent",
        "",
        "Agentsmith-Run: r1",
        "Agentsmith-Pipeline: fix-bug",
        "Agentsmith-Failed-Step: agent",
    ]
