"""The configuration file while a daemon runs: good changes count at once, bad ones change nothing and are shown."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentsmith.config import Agent, Config, Pipeline, Step
from agentsmith.daemon.reload import ConfigFile
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import Claimed, Held, Rejected
from agentsmith.store import Store
from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripting import Script
from agentsmith.tickets.live_rules import LiveRules, rules_of
from tests.support.config_platforms import Hosted, load_text
from tests.support.settings_tried import ENTRIES, SETTINGS, VALUES, changed, is_reloaded, is_said, settings_of
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world, sh, world_config

NOBODY = 65534
FIRST = "triggers: [{label: one, pipeline: hello}]\n"
SECOND = "triggers: [{label: two, pipeline: hello}]\n"
WRONG = "triggers: [{label: three, pipeline: nowhere}]\n"


class Watched:
    """A file that is watched, and what came of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "agentsmith.yaml"
        self.rules = LiveRules(load_text(folder, FIRST))
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
        return [trigger.label for trigger in self.rules.triggers]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def work() -> None:
            async for problem in self.watch.changes(self.rules.replace):
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
    triggers = watched.rules.triggers
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


async def test_P2_a_folder_that_cannot_be_entered_any_more_changes_nothing(watched: Watched) -> None:
    watched.write(SECOND)

    def forbidden() -> None:
        os.chmod(watched.folder, 0o000)
        if os.geteuid() == 0:
            os.seteuid(NOBODY)

    def allowed() -> None:
        if os.getuid() == 0:
            os.seteuid(0)
        os.chmod(watched.folder, 0o700)

    before = watched.watch._mark()
    forbidden()
    try:
        unseen = watched.watch._mark()
    finally:
        allowed()
    assert before != unseen
    async with watched.running():
        await wait_until(lambda: watched.labels == ["two"], what="the new rules, as soon as they can be read")


async def test_somebody_can_ask_for_it_now(watched: Watched) -> None:
    watched.watch = ConfigFile(watched.file, watched.read, every=3600)
    async with watched.running():
        await asyncio.sleep(0)
        watched.write(SECOND)
        watched.watch.look_now()
        await wait_until(lambda: watched.labels == ["two"], what="the new rules")


async def test_what_needs_a_restart_is_named(watched: Watched) -> None:
    async with watched.running():
        watched.write(SECOND + "server: {port: 9}\ntrackers: {local: {poll_interval: 9s, capacity: 3}}\n")
        await wait_until(lambda: bool(watched.problems), what="the change")
    assert watched.problems == ["takes effect after a restart: server, trackers.local"]
    assert watched.labels == ["two"]
    assert watched.rules.in_force.capacity.trackers == {"local": 3}


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


@pytest.mark.parametrize("cut", ["", "trackers:\n", "trackers: {}\n"])
@pytest.mark.parametrize(
    "trackers",
    ["web: {platform: github, repository: acme/web, token: t0k3n}", "local: {allow: {users: [ann]}}"],
)
async def test_P2_trackers_do_not_disappear_by_accident(tmp_path: Path, trackers: str, cut: str) -> None:
    """The built-in one is there without them, under everybody's rules."""
    rules = LiveRules(load_text(tmp_path, f"trackers: {{{trackers}}}\n{FIRST}"))
    with pytest.raises(ConfigError, match="all trackers are gone"):
        rules.replace(load_text(tmp_path, cut + SECOND))
    assert [trigger.label for trigger in rules.triggers] == ["one"]


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
    rules = LiveRules(
        load_text(tmp_path, f"trackers: {{web: {tracker}, other: {tracker.replace('/web', '/o')}}}\n" + rest % "web")
    )
    before = rules.in_force
    for name in ("site", "page"):
        renamed = f"trackers: {{{name}: {tracker}, other: {tracker.replace('/web', '/o')}}}\n" + rest % name
        assert rules.replace(load_text(tmp_path, renamed)) == [f"trackers.{name}", "trackers.web"]
        assert rules.in_force.policies["web"] == before.policies["web"]
        assert rules.in_force.capacity.trackers["web"] == 3
        on_web = [t.label for t in rules.triggers if not t.trackers or "web" in t.trackers]
        assert sorted(on_web) == ["one", "two"]


async def test_an_agent_that_a_changed_pipeline_names_is_there(tmp_path: Path) -> None:
    rules = LiveRules(load_text(tmp_path, FIRST))
    agents, agent = rules.agents, "agents: {mine: {command: [echo]}}\n"
    assert rules.replace(load_text(tmp_path, FIRST + agent)) == []
    assert agents["mine"].command[0] == "echo"


async def test_another_prefix_waits_for_the_restart_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    rules = LiveRules(load_text(tmp_path, "server: {port: 9}\n"))
    assert rules.replace(load_text(tmp_path, "server: {port: 9}\nlabel_prefix: bot\n")) == ["label_prefix"]
    assert [trigger.label for trigger in rules.triggers] == ["agent-smith"]


async def test_the_same_rules_have_the_same_digest_in_every_process(watched: Watched) -> None:
    again = LiveRules(watched.read())
    assert again.in_force.digest == watched.rules.in_force.digest
    watched.write(SECOND)
    assert LiveRules(watched.read()).in_force.digest != again.in_force.digest


@pytest.mark.long
def test_every_setting_is_in_force_after_a_reload_or_said_to_need_a_restart(tmp_path: Path) -> None:
    base: dict[str, Any] = {
        "triggers": [{"label": "one", "pipeline": "hello"}],
        "trackers": {"web": {"platform": "github", "repository": "acme/web", "token": "t0k3n"}},
        "repositories": {"lib": {"platform": "git", "url": "https://example.org/lib.git"}},
        "agents": {"mine": {"command": ["true"]}},
        "pipelines": {name: {"steps": [{"run": name}]} for name in ("hello", "another")},
    }
    (tmp_path / "some.env").touch()
    first = load_text(tmp_path, json.dumps(base))
    hosted = [("trackers", "web", *path) for path in settings_of(Hosted) if path != ("platform",)]
    untried = []
    for path in (*SETTINGS, *hosted, *ENTRIES):
        tried = 0
        for value in VALUES:
            try:
                config = load_text(tmp_path, json.dumps(changed(base, path, value)))
                book = LiveRules(first)
                waiting = book.replace(config)
            except ConfigError:
                continue
            tried += config != first
            what = f"{path} = {value}"
            if not waiting:
                assert is_reloaded(path) or config == first, f"{what}: not a word of it"
                assert book.in_force == rules_of(config), what
                assert book.pipelines == config.pipelines, what
                assert book.agents == config.agents, what
            elif is_reloaded(path) and path[0] != "trackers":
                assert is_said(path, waiting), what
                assert book.in_force == rules_of(first), f"{what}: by half"
            else:
                assert is_said(path, waiting), what
            assert book.in_force.policies.keys() == first.trackers.keys(), what
            assert {trigger.pipeline for trigger in book.triggers} <= book.pipelines.keys(), what
        if not tried:
            untried.append(".".join(map(str, path)))
    assert untried == ["run.runner"], "which has one value only"


def test_rules_that_fit_only_what_needs_a_restart_wait_with_it(tmp_path: Path) -> None:
    agent, base = "agents: {mine: {command: [echo]}}\n", "triggers: [{label: one, pipeline: hello}]\n"
    book = LiveRules(load_text(tmp_path, base + agent + "run: {agent: mine}\n"))
    assert book.replace(load_text(tmp_path, base)) == ["run"]
    assert "mine" in book.agents, "which is who works until then"
    bot = "label_prefix: bot\ntriggers: [{label: 'agent-smith:done', pipeline: hello}]\n"
    assert book.replace(load_text(tmp_path, bot)) == ["agents", "label_prefix", "run", "triggers"]
    assert [trigger.label for trigger in book.triggers] == ["one"]
    assert book.replace(load_text(tmp_path, SECOND)) == ["run"]
    assert [trigger.label for trigger in book.triggers] == ["two"]


def test_a_pipeline_for_code_waits_for_the_code(tmp_path: Path) -> None:
    base = "trackers: {local: {project: here%s}}\nserver: {port: 9}\n"
    book = LiveRules(load_text(tmp_path, base % ""))
    code = "pipelines: {fix: {steps: [checkout]}}\nrepositories: {lib: {platform: git, url: 'https://e.org/l.git'}}\n"
    waiting = book.replace(load_text(tmp_path, base % ", code: lib" + code))
    assert waiting == ["pipelines", "repositories", "trackers.local", "triggers"]
    assert "fix" not in book.pipelines


def test_P7_another_tracker_under_the_same_name_does_not_lend_its_rules(tmp_path: Path) -> None:
    trackers = (
        "trackers:\n"
        "  web: {platform: github, repository: acme/%s, token: t0k3n, allow: {users: [%s]}}\n"
        "  app: {platform: github, repository: acme/%s, token: t0k3n, allow: {users: [%s]}}\n"
    )
    rest = "triggers: [{label: one, pipeline: hello, tracker: web}, {label: two, pipeline: hello, tracker: app}]\n"
    book = LiveRules(load_text(tmp_path, trackers % ("web", "ann", "app", "bob") + rest))
    before = book.in_force
    swapped = load_text(tmp_path, trackers % ("app", "bob", "web", "ann") + rest.replace("one", "three"))
    assert book.replace(swapped) == ["trackers.app", "trackers.web"]
    assert book.in_force.policies == before.policies
    assert {trigger.label: trigger.trackers for trigger in book.triggers} == {"one": {"web"}, "two": {"app"}}


def test_a_file_without_triggers_may_change_more_than_once(tmp_path: Path) -> None:
    book = LiveRules(load_text(tmp_path, "server: {port: 9}\n"))
    for claims in (3, 4):
        config = load_text(tmp_path, f"server: {{port: 9}}\nclaim: {{capacity: {claims}}}\n")
        assert book.replace(config) == []
        assert book.in_force.capacity.total == claims


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url) as world:
        yield world


async def test_the_parts_of_a_daemon_go_by_the_rules_in_force(world: World, tmp_path: Path) -> None:
    first, second = await world.open_ticket(), await world.open_ticket()
    config = world.config
    renamed = config.triggers[0].model_copy(update={"label": "other"})
    world.parts.rules.replace(config.model_copy(update={"triggers": (renamed,)}))
    assert isinstance(await world.claim(first), Rejected)
    claim = config.claim.model_copy(update={"capacity": 1})
    world.parts.rules.replace(config.model_copy(update={"claim": claim}))
    assert isinstance(await world.claim(first), Claimed)
    assert isinstance(await world.claim(second), Held)
    # A pipeline that was changed runs as it is now.
    world.parts.rules.replace(world_config(tmp_path / "data", sh(f"touch {tmp_path / 'changed'}")))
    await world.run_queue()
    assert (tmp_path / "changed").exists()
    assert TRIGGER in (await world.desk.show(first)).ticket.labels


@pytest.mark.parametrize("before", [0, 1])
async def test_P2_a_look_goes_by_the_rules_that_it_began_with(
    world: World, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """The file is read again at every step in Redis: no step may ask the new rules about what the old ones decided."""
    renamed = world.config.triggers[0].model_copy(update={"label": "other"})
    files = itertools.cycle([world.config, world.config.model_copy(update={"triggers": (renamed,)})])
    carry_out, outcomes = Script.on, []

    async def reload_and_carry_out(script: Script[Any], redis: Commands) -> Any:
        world.parts.rules.replace(next(files))
        return await carry_out(script, redis)

    for _ in range(before):
        next(files)
    keys = [await world.open_ticket() for _ in range(6)]
    with monkeypatch.context() as patch:
        patch.setattr(Script, "on", reload_and_carry_out)
        for key in keys:
            outcomes.append(await world.claim(key))
            world.parts.rules.replace(next(files))
    assert {type(outcome) for outcome in outcomes} == {Claimed, Rejected}


async def test_P2_tickets_of_a_tracker_that_is_renamed_go_on(world: World) -> None:
    first, second = await world.open_ticket(), await world.open_ticket()
    assert isinstance(await world.claim(first), Claimed)
    (name,) = world.config.trackers
    renamed = world.config.model_copy(update={"trackers": {"renamed": world.config.trackers[name]}})
    assert world.parts.rules.replace(renamed) == [f"trackers.{name}", "trackers.renamed"]
    assert isinstance(await world.claim(second), Claimed)
    await world.run_queue()
    assert [await world.statuses(key) for key in (first, second)] == [{Status.DONE}, {Status.DONE}]


async def test_P2_a_ticket_that_is_queued_for_a_pipeline_of_another_name_now_runs(world: World) -> None:
    key = await world.open_ticket()
    assert isinstance(await world.claim(key), Claimed)
    pipelines = {"renamed": world.config.pipelines["work"]}
    triggers = tuple(trigger.model_copy(update={"pipeline": "renamed"}) for trigger in world.config.triggers)
    world.parts.rules.replace(world.config.model_copy(update={"pipelines": pipelines, "triggers": triggers}))
    await world.run_queue()
    assert await world.statuses(key) == {Status.ENQUEUED}
    await world.claim(key)  # as the signal says that was sent
    await world.run_queue()
    assert await world.statuses(key) == {Status.DONE}


async def test_P2_a_ticket_whose_pipeline_and_trigger_are_gone_waits_for_another(world: World) -> None:
    key = await world.open_ticket()
    assert isinstance(await world.claim(key), Claimed)
    pipelines = {"else": world.config.pipelines["work"]}
    triggers = tuple(t.model_copy(update={"pipeline": "else", "label": "else"}) for t in world.config.triggers)
    world.parts.rules.replace(world.config.model_copy(update={"pipelines": pipelines, "triggers": triggers}))
    await world.run_queue()
    await world.claim(key)
    assert await world.statuses(key) <= {Status.PENDING}
    assert isinstance(await world.claim(key), Rejected)
    world.parts.rules.replace(world.config)
    assert isinstance(await world.claim(key), Claimed)


async def test_P2_a_run_goes_on_with_the_agent_that_it_began_with(tmp_path: Path, store: Store, redis_url: str) -> None:
    started, go_on = tmp_path / "started", tmp_path / "go-on"
    steps = (sh(f"touch {started}; while [ ! -e {go_on} ]; do sleep 0.02; done"), Step.read({"agent": "mine"}))
    config = world_config(tmp_path / "data", sh("true"))
    mine = {**config.agents, "mine": Agent(command=("true",))}
    config = config.model_copy(update={"agents": mine, "pipelines": {"work": Pipeline(steps=steps)}})
    async with open_world(tmp_path, store, redis_url, config=config) as world:
        key = await world.open_ticket()
        await world.claim(key)
        running = asyncio.create_task(world.run_queue())
        await wait_until(started.exists, what="the run to begin")
        without = world_config(tmp_path / "data", sh("true"))
        world.parts.rules.replace(without)
        assert "mine" not in world.parts.rules.agents
        go_on.touch()
        await running
        assert await world.statuses(key) == {Status.DONE}
