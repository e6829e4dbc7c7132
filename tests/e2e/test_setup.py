"""The first minutes: a configuration that works, and a doctor that says what does not."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentsmith.cli import app
from agentsmith.cli.checks import State
from agentsmith.cli.doctor import examine
from agentsmith.config import load
from agentsmith.simulators.playgrounds import PLAYGROUNDS
from agentsmith.simulators.serving import serve
from agentsmith.trackers import forges, registry
from tests.support.cli import Cli, quiet_logs
from tests.support.json_answers import parsed
from tests.support.redis_server import RedisServer, wait_for
from tests.support.stores import PrivateServer

PLATFORMS: dict[str, tuple[str, ...]] = {
    "github": ("--repository", "acme/web"),
    "gitlab": ("--project", "acme/apps/web"),
    "azure-devops": ("--organization", "acme", "--project", "web"),
    "jira": ("--project", "WEB", "--base-url", "https://acme.atlassian.net", "--email", "bot@acme.example"),
    "local": (),
}
STARTED: dict[tuple[str, ...], str] = {
    (): "hello",
    ("--pipeline", "fix-bug"): "fix-bug",
    ("--run", "make test"): "work",
}
"""What the label starts, by what was told."""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    monkeypatch.chdir(cli.folder)
    for name in [name for name in os.environ if name.startswith("AGENTSMITH_") or name.endswith("_TOKEN")]:
        monkeypatch.delenv(name)
    for name, value in cli.environ.items():
        if not name.endswith("_TOKEN"):
            monkeypatch.setenv(name, value)
    with quiet_logs():
        yield cli


def answer(capsys: pytest.CaptureFixture[str], *command: str, code: int = 0) -> Any:
    assert app.run((*command, "--json")) == code
    return parsed(command, capsys.readouterr().out, code=code)


def refusal(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert app.run(command) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    return shown.err


# init


@pytest.mark.parametrize("work", STARTED, ids=lambda work: work[0] if work else "hello")
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_first_configuration_of_at_most_twelve_lines_for_every_platform(
    cli: Cli, capsys: pytest.CaptureFixture[str], platform: str, work: tuple[str, ...]
) -> None:
    told = answer(capsys, "init", "--platform", platform, *PLATFORMS[platform], *work)
    text = (cli.folder / "agentsmith.yaml").read_text()
    assert len(text.splitlines()) <= 12
    assert yaml.safe_load(text) == told["config"]
    config = load(
        platforms=registry.settings_models(),
        hosts=forges.settings_models(),
        environ=dict.fromkeys(told["variables"], "s3cret"),
    )
    assert not work or work[1] != "fix-bug" or config.code_of(platform) is not None, "its work is on code"
    assert [settings.platform for settings in config.trackers.values()] == [platform]
    assert [trigger.label for trigger in config.triggers] == ["agent-smith"]
    assert config.triggers[0].pipeline == STARTED[work]


def test_every_platform_that_there_is_was_tried() -> None:
    assert PLATFORMS.keys() == registry.settings_models().keys()


def test_it_says_what_comes_next_and_writes_no_secret(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp-very-secret")
    assert app.run(("init", "--platform", "github", "--repository", "acme/web", "--config", "mine.yaml")) == 0
    shown = capsys.readouterr().out
    assert "agentsmith doctor --config mine.yaml" in shown
    assert "export GITHUB_TOKEN" not in shown, "it is set already"
    assert "ghp-very-secret" not in shown + (cli.folder / "mine.yaml").read_text()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("--platform", "githup"), "there is no platform 'githup'; known: github"),
        (("--platform", "github"), "needs --repository"),
        (("--platform", "github", "--project", "x"), "a tracker on github has no project; leave out --project"),
        (("--platform", "github", "--repository", "nonsense"), "trackers.github.repository"),
        (("--platform", "local", "--pipeline", "nonsense"), "there is no pipeline 'nonsense'; known: hello, fix-bug"),
        (("--platform", "local", "--pipeline", "hello", "--run", "make"), "give one of them"),
        (("--platform", "local", "--config", "absent/x.yaml"), "cannot be written"),
    ],
)
def test_bad_input_leaves_no_file(
    cli: Cli, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], said: str
) -> None:
    assert said in refusal(capsys, "init", *command)
    assert not list(cli.folder.glob("*.yaml"))


def test_a_file_that_is_there_is_replaced_only_by_force(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    file = cli.configure("log: {level: debug}\n")
    assert "is there already" in refusal(capsys, "init", "--platform", "local")
    assert "needs --repository" in refusal(capsys, "init", "--platform", "github", "--force")
    assert "repository" in refusal(capsys, "init", "--platform", "github", "--repository", "x", "--force")
    assert file.read_text() == "log: {level: debug}\n"
    assert answer(capsys, "init", "--platform", "local", "--force")["file"] == "agentsmith.yaml"
    assert "platform: local" in file.read_text()


def test_what_init_writes_for_the_built_in_tracker_works_at_once(cli: Cli) -> None:
    cli.run("init", "--platform", "local", "--run", "true")
    assert cli.json("doctor")["ok"] is True


def test_work_on_code_for_tickets_without_any_gets_a_repository_that_doctor_accepts(cli: Cli) -> None:
    told = cli.run("init", "--platform", "local", "--pipeline", "fix-bug").stdout
    assert "put the address of your repository in the place of https://git.example.com" in told
    cli.run("init", "--platform", "local", "--pipeline", "fix-bug", "--code", f"{cli.folder}/code.git", "--force")
    with (cli.folder / "agentsmith.yaml").open("a") as file:
        file.write("agents: {claude: {command: [sh]}}\n")
    assert states(cli.json("doctor"))["code of local"] == "ok"


# doctor


def states(told: Any) -> dict[str, str]:
    return {check["check"]: check["state"] for check in told["checks"]}


def test_a_fresh_machine_is_fine(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, "doctor")
    assert told["ok"] is True
    assert states(told) == {
        "configuration": "ok",
        "data directory": "ok",
        "git": "ok",
        "redis": "ok",
        "daemon": "note",
        "tracker local": "ok",
        "webhooks local": "ok",
    }
    assert not (cli.data / "redis").exists(), "nothing was started"
    assert app.run(("doctor",)) == 0
    assert capsys.readouterr().out.endswith("\nNothing is wrong.\n")


def test_a_broken_configuration_is_bad_input(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    cli.configure("serverr: {port: 1}\nlease: {ttl: soon}\n")
    told = answer(capsys, "doctor", code=2)
    assert told["ok"] is False
    assert [check["state"] for check in told["checks"]] == ["wrong", "wrong"]
    assert "agentsmith.yaml:1: serverr: unknown key" in told["checks"][0]["saw"]


CODING = "triggers: [{label: agent-smith, pipeline: fix-bug}]\n"


def test_work_on_code_needs_a_repository(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    coding = CODING + "agents: {claude: {command: [sh]}}\n"
    cli.configure(coding)
    told = answer(capsys, "doctor", code=1)
    (check,) = [check for check in told["checks"] if check["check"] == "code of local"]
    assert check["state"] == "wrong"
    assert check["remedy"] == "describe the repository under `repositories`, and name it in trackers.local.code"
    repository = f"repositories: {{code: {{platform: git, url: {cli.folder}/code.git}}}}\n"
    cli.configure(f"{coding}{repository}trackers: {{local: {{code: code}}}}\n")
    assert states(answer(capsys, "doctor"))["code of local"] == "ok"


def test_programs_that_a_label_would_need_are_looked_for(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = cli.folder / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    assert states(answer(capsys, "doctor"))["git"] == "note", "nothing needs it yet"
    cli.configure(CODING + "agents: {claude: {command: [our-agent]}}\n")
    told = answer(capsys, "doctor", code=1)
    assert states(told)["git"] == "wrong"
    (agent,) = [check for check in told["checks"] if check["check"] == "agent claude"]
    assert (agent["state"], agent["saw"]) == ("wrong", "there is no program our-agent")
    assert "set agents.claude.command" in agent["remedy"]
    for name in ("git", "our-agent"):
        (empty / name).symlink_to(shutil.which("true", path="/usr/bin:/bin") or "/bin/true")
    told = answer(capsys, "doctor", code=1)
    assert states(told)["agent claude"] == "ok"
    assert states(told)["git"] == "wrong", "it does not say that it is new enough"


def test_an_old_git_is_refused(cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    old = cli.folder / "git"
    old.write_text("#!/bin/sh\necho git version 2.20.1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(cli.folder), prepend=os.pathsep)
    (git,) = [check for check in answer(capsys, "doctor")["checks"] if check["check"] == "git"]
    assert git["saw"].startswith("git version 2.20.1")
    assert git["remedy"] == "install 2.38 or newer"


def test_a_data_directory_that_cannot_be_used(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    cli.data.write_text("a file")
    told = answer(capsys, "doctor", code=1)
    assert states(told)["data directory"] == "wrong"
    assert "set data_dir" in told["checks"][1]["remedy"]


def test_a_damaged_ticket_file(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    cli.data.mkdir()
    (cli.data / "tickets.sqlite3").write_bytes(b"no database" * 100)
    told = answer(capsys, "doctor", code=1)
    (tracker,) = [check for check in told["checks"] if check["check"] == "tracker local"]
    assert "restore it from a backup" in tracker["saw"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--maxmemory-policy", "allkeys-lru"), "set maxmemory-policy noeviction"),
        (("--cluster-enabled", "yes"), "use a single server"),
    ],
)
def test_a_redis_that_cannot_serve_us(
    cli: Cli, capsys: pytest.CaptureFixture[str], private_server: PrivateServer, options: tuple[str, ...], said: str
) -> None:
    _point_at(cli, private_server(*options, tcp=True))
    told = answer(capsys, "doctor", code=1)
    (redis,) = [check for check in told["checks"] if check["check"] == "redis"]
    assert redis["state"] == "wrong"
    assert said in redis["saw"]


def test_a_redis_that_forgets_and_one_that_does_not(
    cli: Cli, capsys: pytest.CaptureFixture[str], private_server: PrivateServer
) -> None:
    _point_at(cli, private_server())
    assert states(answer(capsys, "doctor"))["redis memory"] == "note"
    _point_at(cli, private_server("--appendonly", "yes"))
    assert "redis memory" not in states(answer(capsys, "doctor"))


def test_a_redis_that_refuses_writes(
    cli: Cli, capsys: pytest.CaptureFixture[str], private_server: PrivateServer
) -> None:
    _point_at(cli, server := private_server())
    server.command("CONFIG", "SET", "min-replicas-to-write", "1")
    told = answer(capsys, "doctor", code=1)
    (redis,) = [check for check in told["checks"] if check["check"] == "redis"]
    assert (redis["state"], redis["saw"].split()[0]) == ("wrong", "NOREPLICAS")
    assert "bring the replicas of Redis back" in redis["saw"]


def test_an_old_primary_that_would_go_on_taking_writes(
    cli: Cli, capsys: pytest.CaptureFixture[str], private_server: PrivateServer
) -> None:
    _point_at(cli, primary := private_server("--repl-diskless-sync-delay", "0", tcp=True))
    assert "redis replicas" not in states(answer(capsys, "doctor"))
    for count, minimum, state in ((1, 0, "note"), (1, 1, "note"), (2, 1, "ok")):
        replicas = int(primary.command("INFO", "replication")["connected_slaves"])
        for _ in range(count - replicas):
            private_server("--replicaof", "127.0.0.1", str(primary.port))
        wait_for(lambda n=count: primary.command("WAIT", str(n), "100") == n, what="it follows", within=30)  # type: ignore[misc]
        primary.command("CONFIG", "SET", "min-replicas-to-write", str(minimum))
        assert states(answer(capsys, "doctor"))["redis replicas"] == state


def _point_at(cli: Cli, server: RedisServer) -> None:
    cli.configure(f"redis: {{url: 'unix://{server.socket}'}}\n")


async def test_an_unreachable_redis_is_wrong(cli: Cli) -> None:
    cli.configure("redis: {url: 'redis://127.0.0.1:1/0'}\n")
    (redis,) = [check async for check in _examined() if check.check == "redis"]
    assert redis.state is State.WRONG
    assert "correct redis.url" in redis.saw


async def test_roles_that_nobody_has_taken(cli: Cli) -> None:
    with cli.up("--role", "consumer") as daemon:
        await daemon.ready()
        (staff,) = [check async for check in _examined() if check.check == "daemon"]
        assert staff.state is State.NOTE
        assert staff.saw == "up, but nobody is receiver, poller, housekeeping"
        assert staff.remedy == "start one: agentsmith up --role receiver --role poller --role housekeeping"


def _examined() -> AsyncIterator[Any]:
    return examine(load(platforms=registry.settings_models()), None)


HOSTED = sorted(set(PLATFORMS) - {"local"})


@pytest.mark.parametrize("platform", HOSTED)
async def test_a_tracker_that_answers_and_one_whose_token_is_refused(cli: Cli, platform: str) -> None:
    stage = PLAYGROUNDS[platform]()
    async with serve(stage.simulator):
        block = stage.tracker()
        cli.configure(yaml.safe_dump({"trackers": {"web": block}, "server": {"port": 0}}))
        found = {check.check: check async for check in _examined()}
        # The bot of Azure's stage is in no team, as service accounts often are.
        assert found["tracker web"].state is not State.WRONG, found["tracker web"]
        assert ", as " in found["tracker web"].saw
        assert found["tracker web"].state is State.OK, "all of them may do what they have to"
        cli.configure(yaml.safe_dump({"trackers": {"web": {**block, "token": "wr0ng", "webhook_secret": []}}}))
        found = {check.check: check async for check in _examined()}
        assert found["tracker web"].state is State.WRONG
        assert found["tracker web"].remedy
        assert "wr0ng" not in found["tracker web"].saw
        assert found["webhooks web"].state is State.NOTE
        assert "set trackers.web.webhook_secret" in found["webhooks web"].remedy


@pytest.mark.parametrize("platform", HOSTED)
async def test_a_webhook_that_the_platform_does_not_have_is_noted(cli: Cli, platform: str) -> None:
    stage = PLAYGROUNDS[platform]()

    async def look() -> Any:
        [check] = [check async for check in _examined() if check.check == "webhooks web"]
        return check

    async with serve(stage.simulator):
        cli.configure(yaml.safe_dump({"trackers": {"web": stage.tracker()}, "server": {"port": 0}}))
        before = await look()
        if platform != "azure-devops":  # where everybody may look at them
            assert (before.state, "this token may not see" in before.saw) == (State.NOTE, True)
        stage.let_look_after_webhooks()
        missing = await look()
        assert missing.state is State.NOTE
        assert "but the platform has none that sends to us; also polled" in missing.saw
        assert missing.remedy == "agentsmith webhooks install"
        assert await asyncio.to_thread(app.run, ["webhooks", "install", "--url", "http://127.0.0.1:1"]) == 0
        assert (await look()).state is State.OK


@pytest.mark.parametrize(("secret", "noted"), [("x" * 23, True), (["x" * 30, "short"], True), ("x" * 24, False)])
async def test_a_webhook_secret_that_can_be_guessed_is_noted(cli: Cli, secret: object, noted: bool) -> None:
    block = {"platform": "github", "repository": "a/b", "token": "t", "base_url": "http://127.0.0.1:1"}
    cli.configure(yaml.safe_dump({"trackers": {"web": {**block, "webhook_secret": secret}}, "server": {"port": 0}}))
    found = [check async for check in _examined() if check.check == "webhooks web"]
    assert any("can be guessed" in check.saw and "openssl rand" in check.remedy for check in found) == noted
    assert not any("short" in f"{check.saw} {check.remedy}" for check in found), "the secret itself is not shown"


async def test_a_tracker_that_is_away_is_wrong(cli: Cli) -> None:
    cli.configure("trackers: {web: {platform: github, repository: a/b, token: t, base_url: 'http://127.0.0.1:1'}}\n")
    found = {check.check: check async for check in _examined()}
    assert found["tracker web"].state is State.WRONG
    assert "is the network up" in found["tracker web"].remedy
