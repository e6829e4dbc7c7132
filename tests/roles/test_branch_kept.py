"""The branch of a ticket stays its branch, also when trackers come and go and its name would be another today."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Final

import pytest

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.signal import Signal
from agentsmith.store import Store
from agentsmith.trackers.local.desk import Desk
from agentsmith.trackers.local.settings import LocalSettings
from tests.support.code_world import CodeWorld, RecordingForge, code_config, open_code_world, scripted_agent
from tests.support.git_bench import git, make_origin
from tests.support.stores import Flush, Settled

Open = Callable[[str | None], AbstractAsyncContextManager[CodeWorld]]

AGENT: Final = """
import pathlib, sys
file = pathlib.Path("notes.txt")
file.write_text((file.read_text() if file.exists() else "") + "x")
sys.exit(len(file.read_text()) == 2)
"""
"""Its second run fails."""
STEPS: Final[list[object]] = ["checkout", "agent", "commit", "push", "pull_request"]


@pytest.fixture
def opened(tmp_path: Path, store: Store, redis_url: str) -> Open:
    make_origin(tmp_path / "origin.git", None)
    forge = RecordingForge(str(tmp_path / "origin.git"))
    config = code_config(tmp_path / "data", STEPS, agent=scripted_agent(tmp_path, AGENT))
    return lambda beside: open_code_world(tmp_path, store, redis_url, config=config, forge=forge, beside=beside)


def branches(code: CodeWorld) -> list[str]:
    told = git("for-each-ref", "--format=%(refname:short)", "refs/heads/agent-smith", at=code.origin)
    return told.split("\n")


def as_an_older_release_wrote_it(code: CodeWorld) -> None:
    """Take the branch out of what our comments remember."""
    with closing(sqlite3.connect(LocalSettings().file(code.world.config.data_dir))) as tickets, tickets:
        tickets.execute("UPDATE comments SET memo = json_remove(memo, '$.branch')")


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (None, "web", ()),
        (None, "web", ("redis", "workspace")),
        (None, "web", ("redis", "memo")),
        ("web", None, ("redis", "memo", "workspace")),
    ],
    ids=["added", "added-memo-left", "added-workspace-left", "removed-server-left"],
)
async def test_work_goes_on_where_it_was_when_a_tracker_comes_or_goes(
    opened: Open,
    flush: Flush,
    settled: Settled,
    tmp_path: Path,
    before: str | None,
    after: str | None,
    lost: tuple[str, ...],
) -> None:
    async with opened(before) as code:
        key = await code.carry_through()
        await code.again(key)
        assert await code.world.statuses(key) == {Status.FAILED}
        [branch] = branches(code)
        assert branch == ("agent-smith/local.1" if before else "agent-smith/1")
        assert (await code.world.memo(key)).branch == branch
        if "memo" in lost:
            as_an_older_release_wrote_it(code)
    if "redis" in lost:
        await flush()
        await settled()
    if "workspace" in lost:
        shutil.rmtree(tmp_path / "data" / "workspaces")
    async with opened(after) as code:
        await code.again(key)
        assert await code.world.statuses(key) == {Status.DONE}
        assert branches(code) == [branch]
        assert git("show", f"{branch}:notes.txt", at=code.origin) == "xxx"
        assert {name: made.number for name, made in code.forge.open.items()} == {branch: "1"}
        assert (await code.world.memo(key)).branch == branch


async def test_a_ticket_of_another_tracker_with_the_same_number_has_a_branch_of_its_own(opened: Open) -> None:
    async with opened(None) as code:
        assert await code.carry_through() == "1"
    async with opened("web") as code:
        world = code.world
        async with Desk(path=LocalSettings().file(world.config.data_dir), project="web") as desk:
            ticket = await desk.new(title="Another", labels=("agent-smith",), actor="mona")
        assert ticket.key == "1"
        await world.parts.looks.on_signal(Signal("web", "1", world.trackers["web"].ticket_id("1"), cause="test"))
        await world.run_queue()
        assert branches(code) == ["agent-smith/1", "agent-smith/web.1"]
        assert git("show", "agent-smith/web.1:notes.txt", at=code.origin) == "x"
