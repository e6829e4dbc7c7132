"""The configuration file while a daemon runs: good changes count at once, bad ones change nothing and are shown."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from agentsmith.config import Config
from agentsmith.daemon.reload import ConfigFile
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import Claimed, Held, Rejected
from agentsmith.store import Store
from agentsmith.tickets.live_rules import RELOADED, RELOADED_OF_A_TRACKER, Rulebook, rules_of
from tests.support.config_platforms import Hosted, load_text
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
        aside = self.folder / "read"  # reading it must not look like a change
        aside.mkdir(exist_ok=True)
        return load_text(aside, self.file.read_bytes()) if self.file.exists() else self._gone()

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
    assert set(watched.problems) == {""}
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


@pytest.mark.parametrize("text", ["", "\n", "# all\n# gone\n", "---\n", "{}\n"])
async def test_P2_an_emptied_file_is_an_accident(watched: Watched, text: str) -> None:
    async with watched.running():
        watched.write(text)
        await wait_until(lambda: bool(watched.problems), what="the problem")
    assert "is empty" in watched.problems[0]
    assert "start agentsmith anew" in watched.problems[0]
    assert watched.labels == ["one"]


async def test_P2_a_file_that_was_cut_off_before_its_triggers_is_an_accident(watched: Watched) -> None:
    async with watched.running():
        watched.write("server: {port: 9}\ntriggers:\n")
        await wait_until(lambda: bool(watched.problems), what="the problem")
        assert "all triggers are gone" in watched.problems[0]
        assert watched.labels == ["one"]
        watched.write("server: {port: 9}\ntriggers: []\n")
        await wait_until(lambda: len(watched.problems) == 2, what="the default, asked for on purpose")
    assert watched.labels == ["agent-smith"]


async def test_P2_trackers_do_not_disappear_by_accident(tmp_path: Path) -> None:
    trackers = "trackers: {web: {platform: github, repository: acme/web, token: t0k3n}}\n"
    book = Rulebook(load_text(tmp_path, trackers + FIRST))
    with pytest.raises(ConfigError, match="all trackers are gone"):
        book.replace(load_text(tmp_path, SECOND))
    assert [trigger.label for trigger in book.triggers] == ["one"]


async def test_a_file_that_is_being_written_counts_once_it_stays_the_same(watched: Watched) -> None:
    looks = 0

    def mark() -> object:
        nonlocal looks
        looks += 1
        return min(looks, 5)  # it grows at every look, and then it is whole

    watched.file.write_text(SECOND)
    watched.watch._mark = mark  # type: ignore[method-assign,assignment]
    async with watched.running():
        await wait_until(lambda: watched.labels == ["two"], what="the new rules")
    assert looks >= 6, "it was seen whole twice, and once more after it was loaded"
    assert watched.problems == [""]


async def test_a_tracker_that_is_renamed_keeps_its_rules_until_the_restart(tmp_path: Path) -> None:
    tracker = "{platform: github, repository: acme/web, token: t0k3n, capacity: 3, allow: {users: [ann]}}"
    rest = "triggers: [{label: one, pipeline: hello, tracker: %s}, {label: two, pipeline: hello}]\n"
    book = Rulebook(
        load_text(tmp_path, f"trackers: {{web: {tracker}, other: {tracker.replace('/web', '/o')}}}\n" + rest % "web")
    )
    before = book.rules
    for name in ("site", "page"):
        renamed = f"trackers: {{{name}: {tracker}, other: {tracker.replace('/web', '/o')}}}\n" + rest % name
        assert book.replace(load_text(tmp_path, renamed)) == [f"trackers.{name}", "trackers.web"]
        assert book.rules.policies["web"] == before.policies["web"]
        assert book.rules.capacity.trackers["web"] == 3
        on_web = [t.label for t in book.triggers if not t.trackers or "web" in t.trackers]
        assert sorted(on_web) == ["one", "two"]


async def test_an_agent_that_a_changed_pipeline_names_is_there(tmp_path: Path) -> None:
    book = Rulebook(load_text(tmp_path, FIRST))
    agents, agent = book.agents, "agents: {mine: {command: [echo]}}\n"
    assert book.replace(load_text(tmp_path, FIRST + agent)) == []
    assert agents["mine"].command[0] == "echo"


async def test_another_prefix_waits_for_the_restart_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    book = Rulebook(load_text(tmp_path, "server: {port: 9}\n"))
    assert book.replace(load_text(tmp_path, "server: {port: 9}\nlabel_prefix: bot\n")) == ["label_prefix"]
    assert [trigger.label for trigger in book.triggers] == ["agent-smith"]


async def test_the_same_rules_have_the_same_digest_in_every_process(watched: Watched) -> None:
    again = Rulebook(watched.read())
    assert again.rules.digest == watched.book.rules.digest
    watched.write(SECOND)
    assert Rulebook(watched.read()).rules.digest != again.rules.digest


OTHER_VALUES: tuple[object, ...] = (
    *(3, 77, 0.25, True, False, "7s", "70m", "2 GB", "another", "json", "warning", "write", "/elsewhere"),
    *(["another"], "127.0.0.9", "redis://127.0.0.9", "http://127.0.0.9", "always", {"memory": "1 GB"}, "codex"),
    *(
        "21s",
        "none",
        "admin",
        "some.env",
        "anyone",
        "https://e.org/{run}",
        ["sudo", "{command}"],
        {"users": ["ann"]},
        "lib",
    ),
    *({"another": {"command": ["echo"]}}, {"hello": {"steps": [{"run": "true"}]}}),
    *([{"label": "another", "pipeline": "hello"}], {"another": {"platform": "git", "url": "https://e.org/a.git"}}),
    {"another": {"platform": "github", "repository": "acme/another", "token": "t0k3n"}},
)


def settings_of(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every setting that a section has, and those of the sections inside it, as a path of keys."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from settings_of(inner, (*above, name))
        else:
            yield (*above, name)


def test_every_setting_is_in_force_after_a_reload_or_said_to_need_a_restart(tmp_path: Path) -> None:
    base: dict[str, Any] = {
        "triggers": [{"label": "one", "pipeline": "hello"}],
        "trackers": {"web": {"platform": "github", "repository": "acme/web", "token": "t0k3n"}},
        "repositories": {"lib": {"platform": "git", "url": "https://example.org/lib.git"}},
    }
    (tmp_path / "some.env").touch()
    first = load_text(tmp_path, json.dumps(base))
    paths = [
        *settings_of(Config),
        *(("trackers", "web", *path) for path in settings_of(Hosted) if path != ("platform",)),
    ]
    untried = []
    for path in paths:
        for value in OTHER_VALUES:
            document = copy.deepcopy(base)
            at = document
            for part in path[:-1]:
                at = at.setdefault(part, {})
            at[path[-1]] = value
            with contextlib.suppress(ConfigError):
                if (changed := load_text(tmp_path, json.dumps(document))) != first:
                    break
        else:
            untried.append(".".join(path))
            continue
        book = Rulebook(first)
        waiting = book.replace(changed)
        top = ".".join(path[:2]) if path[0] == "trackers" and len(path) > 1 else path[0]
        live = path[0] in RELOADED or (path[0] == "trackers" and path[-1] in RELOADED_OF_A_TRACKER)
        assert live or any(name == top or name.startswith(f"{top}.") for name in waiting), f"{path}: not a word of it"
        assert book.rules.policies.keys() >= first.trackers.keys(), path
        assert {trigger.pipeline for trigger in book.triggers} <= book.pipelines.keys(), path
        assert book.rules == rules_of(book._latest), path
    assert untried == ["run.runner"], "which has one value only"


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


async def test_P2_tickets_of_a_tracker_that_is_renamed_go_on(world: World) -> None:
    first, second = await world.open_ticket(), await world.open_ticket()
    assert isinstance(await world.claim(first), Claimed)
    (name,) = world.config.trackers
    renamed = world.config.model_copy(update={"trackers": {"renamed": world.config.trackers[name]}})
    assert world.parts.book.replace(renamed) == [f"trackers.{name}", "trackers.renamed"]
    assert isinstance(await world.claim(second), Claimed)
    await world.run_queue()
    assert [await world.statuses(key) for key in (first, second)] == [{Status.DONE}, {Status.DONE}]
