"""The configuration file while a daemon runs: good changes count at once, bad ones change nothing and are shown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentsmith.config import Config
from agentsmith.domain.claiming import Claimed, Held, Rejected
from agentsmith.domain.errors import ConfigError
from agentsmith.reload import ConfigFile
from agentsmith.rulebook import Rulebook
from agentsmith.store import Store
from tests.support.config_platforms import load_text
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world, sh, world_config

FIRST = "triggers: [{label: one, pipeline: hello}]\n"
SECOND = "triggers: [{label: two, pipeline: hello}]\n"
WRONG = "triggers: [{label: three, pipeline: nowhere}]\n"


class Watched:
    """A file that is watched, and what came of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "agentsmith.yaml"
        self.book = Rulebook(load_text(folder, FIRST))
        self.problems: list[str] = []
        self.watch = ConfigFile(self.file, self.read, every=0.005)

    def read(self) -> Config:
        return load_text(self.folder, self.file.read_bytes()) if self.file.exists() else self._gone()

    def _gone(self) -> Config:
        raise ConfigError(f"{self.file}: there is no such file")

    def write(self, text: str) -> None:
        """As editors do: a new file in place of the old one."""
        fresh = self.folder / "fresh"
        fresh.write_text(text)
        os.replace(fresh, self.file)

    @property
    def labels(self) -> list[str]:
        return [trigger.label for trigger in self.book.triggers]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def work() -> None:
            async for problem in self.watch.changes(self.book.replace):
                self.problems.append(problem)

        task = asyncio.create_task(work())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


async def test_a_good_change_is_in_force_at_once(watched: Watched) -> None:
    triggers = watched.book.triggers
    async with watched.running():
        watched.write(SECOND)
        await wait_until(lambda: watched.labels == ["two"], what="the new rules")
    assert watched.problems == [""]
    assert [trigger.label for trigger in triggers] == ["two"], "whoever holds them sees the change"


async def test_a_bad_change_leaves_the_last_good_one_in_force_and_is_shown(watched: Watched) -> None:
    with capture_logs() as logged:
        async with watched.running():
            watched.write(WRONG)
            await wait_until(lambda: len(watched.problems) == 1, what="the problem")
            assert watched.labels == ["one"]
            assert "there is no pipeline `nowhere`" in watched.problems[0]
            watched.file.unlink()
            await wait_until(lambda: len(watched.problems) == 2, what="the other problem")
            assert watched.labels == ["one"]
            watched.write(SECOND)
            await wait_until(lambda: len(watched.problems) == 3, what="it is mended")
    assert watched.labels == ["two"]
    assert watched.problems[-1] == ""
    wrong = [line for line in logged if line["log_level"] == "error"]
    assert len(wrong) == 2, "told once each, not at every look"
    assert "last good one stays in force" in wrong[0]["event"]


async def test_somebody_can_ask_for_it_now(watched: Watched) -> None:
    watched.watch = ConfigFile(watched.file, watched.read, every=3600)
    async with watched.running():
        await asyncio.sleep(0)
        watched.write(SECOND)
        watched.watch.look_now()
        await wait_until(lambda: watched.labels == ["two"], what="the new rules")


async def test_what_needs_a_restart_is_named(watched: Watched) -> None:
    async with watched.running():
        watched.write(SECOND + "server: {port: 9}\ntrackers: {local: {project: other, capacity: 3}}\n")
        await wait_until(lambda: bool(watched.problems), what="the change")
    assert watched.problems == ["takes effect after a restart: server, trackers.local"]
    assert watched.labels == ["two"]
    assert watched.book.rules.capacity.trackers == {"local": 3}


async def test_the_same_rules_have_the_same_digest_in_every_process(watched: Watched) -> None:
    again = Rulebook(watched.read())
    assert again.rules.digest == watched.book.rules.digest
    watched.write(SECOND)
    assert Rulebook(watched.read()).rules.digest != again.rules.digest


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url) as world:
        yield world


async def test_the_parts_of_a_daemon_go_by_the_rules_in_force(world: World, tmp_path: Path) -> None:
    first, second = await world.open_ticket(), await world.open_ticket()
    config = world.config
    renamed = config.triggers[0].model_copy(update={"label": "other"})
    world.parts.book.replace(config.model_copy(update={"triggers": (renamed,)}))
    assert isinstance(await world.claim(first), Rejected)
    claim = config.claim.model_copy(update={"capacity": 1})
    world.parts.book.replace(config.model_copy(update={"claim": claim}))
    assert isinstance(await world.claim(first), Claimed)
    assert isinstance(await world.claim(second), Held)
    # A pipeline that was changed runs as it is now.
    world.parts.book.replace(world_config(tmp_path / "data", sh(f"touch {tmp_path / 'changed'}")))
    await world.run_queue()
    assert (tmp_path / "changed").exists()
    assert TRIGGER in (await world.desk.show(first)).ticket.labels
