"""A command wants the secrets that it comes to use, and no others; a file beside the configuration may hold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.wait import wait_until

TOKEN = "github-token-that-nobody-may-see"
KEY = "key-for-a-step-0123456789"
CONFIG = """
trackers:
  local: {}
  web:
    platform: github
    repository: acme/web
    token: ${MY_TOKEN}
    webhook_secret: ["${MY_HOOK}"]
    base_url: http://127.0.0.1:1/api/v3
  app:
    platform: github
    repository: acme/app
    app: {id: 1, installation_id: 2, private_key: "${MY_KEY}"}
  jira:
    platform: jira
    base_url: http://127.0.0.1:1
    project: WEB
    email: bot@acme.example
    token: ${MY_JIRA}
  lab: {platform: gitlab, project: acme/lab, token: "${MY_LAB}"}
  boards: {platform: azure-devops, organization: acme, project: web, token: "${MY_AZURE}"}
server:
  api_token: ${MY_API}
pipelines:
  hello: {steps: [{run: echo hello}]}
"""
WITHOUT = (
    ("runs",),
    ("runs", "local:1"),
    ("runs", "web:3"),
    ("pipelines",),
    ("labels",),
    ("status",),
    ("why", "local:1"),
    ("why", "web:3"),
    ("quota",),
    ("dead-letters", "list"),
    ("ticket", "list"),
    ("ticket", "show", "local:1"),
    ("ticket", "label", "local:1", "later"),
    ("ticket", "new", "--title", "another"),
    ("run", "local:1", "--pipeline", "hello", "--dry-run"),
    ("config", "check", "--without-secrets"),
)
STRICT = (("config", "check"), ("up",), ("doctor",))
OF_A_TRACKER = (
    ("cancel", "web:3"),
    ("retry", "web:3"),
    ("run", "web:3"),
    ("webhooks", "check", "web"),
    ("labels", "--create"),
)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    cli.configure(CONFIG)
    return cli


def test_what_needs_no_secret_works_without(cli: Cli) -> None:
    cli.run("ticket", "new", "--title", "first")
    for command in WITHOUT:
        cli.run(*command)
    cli.run("run", "local:1", "--pipeline", "hello")
    assert "hello" in cli.run("logs", "local:1").stdout
    assert cli.run("status", "--json").stderr == ""


@pytest.mark.parametrize("command", STRICT, ids=" ".join)
def test_what_needs_all_names_every_variable(cli: Cli, command: tuple[str, ...]) -> None:
    told = cli.run(*command, code=2).stderr
    for name in ("MY_TOKEN", "MY_HOOK", "MY_KEY", "MY_JIRA", "MY_LAB", "MY_AZURE", "MY_API"):
        assert f"the environment variable {name} is not set; set it, write it into the env_file" in told
    assert "agentsmith.yaml:7: trackers.web.token: " in told


@pytest.mark.parametrize("command", OF_A_TRACKER, ids=" ".join)
def test_a_tracker_misses_its_own_only(cli: Cli, command: tuple[str, ...]) -> None:
    told = cli.run(*command, code=2).stderr
    assert "agentsmith.yaml:7: trackers.web.token: the environment variable MY_TOKEN is not set" in told
    assert "MY_HOOK" not in told
    assert "agentsmith-lacks" not in told


@pytest.mark.parametrize("tracker", ["app:3", "jira:WEB-3", "lab:3", "boards:3"])
def test_every_platform_says_what_it_misses(cli: Cli, tracker: str) -> None:
    told = cli.run("retry", tracker, code=2).stderr
    assert f"trackers.{tracker.partition(':')[0]}." in told
    assert "is not set" in told


def test_redis_is_missed_by_whoever_asks_it(cli: Cli) -> None:
    cli.configure("redis: {url: 'redis://:${MY_PASSWORD}@127.0.0.1:1/0'}")
    for command in (("runs",), ("pipelines",), ("labels",), ("ticket", "list")):
        cli.run(*command)
    for command in (("status",), ("quota",), ("dead-letters", "list")):
        assert (
            "agentsmith.yaml:1: redis.url: the environment variable MY_PASSWORD is not set"
            in cli.run(*command, code=2).stderr
        )


def test_what_is_no_secret_is_always_needed(cli: Cli) -> None:
    cli.configure("trackers:\n  web:\n    platform: github\n    repository: ${MY_PLACE}\n    token: ${MY_TOKEN}\n")
    told = cli.run("runs", code=2).stderr
    assert "agentsmith.yaml:4: trackers.web.repository: the environment variable MY_PLACE is not set" in told
    assert "MY_TOKEN" not in told


def test_a_setting_in_the_environment_needs_no_other_variable(cli: Cli) -> None:
    cli.configure("redis: {url: '${MY_REDIS}'}\n")
    cli.run("config", "check", environ={"AGENTSMITH_REDIS__URL": "redis://127.0.0.1:1/0"})


def secret_file(cli: Cli, text: str, name: str = "agentsmith.env") -> Path:
    file = cli.folder / name
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_the_file_beside_the_configuration_is_read(cli: Cli) -> None:
    cli.configure("server: {port: 1}\nlabel_prefix: ${PREFIX}\nformer_label_prefixes: ['${A}', '${B}', '${C}']\n")
    secret_file(cli, "# mine\n\nexport PREFIX=work # ours\nA='a'\nB=\"b\" # too\r\nC=c\n")
    labels = cli.json("labels")["labels"]
    assert labels[0]["label"] == "work:pending"
    elsewhere = cli.run("labels", environ={"PREFIX": "real"}).stdout
    assert "real:pending" in elsewhere


def test_another_file_can_be_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "mine.yaml"
    file.write_text("env_file: ../secret.env\nlabel_prefix: ${PREFIX}\n")
    told = cli.run("labels", "--config", str(file), code=2).stderr
    assert "secret.env: there is no such file; correct env_file, or make it" in told
    secret_file(cli, "PREFIX=named\n", "secret.env")
    assert "named:done" in cli.run("labels", "--config", str(file)).stdout


def test_a_bad_line_is_told_without_its_value(cli: Cli) -> None:
    secret_file(cli, f"GOOD=1\nMY TOKEN={TOKEN}\nQUOTED='{TOKEN}\nGOOD={TOKEN}\n")
    told = cli.run("runs", code=2).stderr
    assert "agentsmith.env:2: is no variable; write NAME=value" in told
    assert "agentsmith.env:3: QUOTED: the quotation mark is not closed" in told
    assert "agentsmith.env:4: GOOD stands twice (first on line 1); keep one" in told
    assert TOKEN not in told


def test_a_file_that_everybody_reads_is_warned_about(cli: Cli) -> None:
    cli.configure("")
    file = secret_file(cli, "A=b\n")
    assert cli.run("runs").stderr == ""
    file.chmod(0o644)
    assert "chmod 600" in cli.run("runs").stderr
    checks = {check["check"]: check for check in cli.json("doctor")["checks"]}
    assert checks["env_file"]["state"] == "note"
    assert checks["env_file"]["remedy"].startswith("chmod 600 ")


def test_a_secret_of_ours_is_never_handed_on(cli: Cli) -> None:
    cli.configure(CONFIG + "    env: [MY_TOKEN]\n".replace("    env", "  leak:\n    steps: [run: x]\n    env"))
    secret_file(cli, f"MY_TOKEN={TOKEN}\n")
    told = cli.run("pipelines", code=2).stderr
    assert "MY_TOKEN holds a secret of agentsmith itself" in told
    assert TOKEN not in told


STEPS = """
pipelines:
  show:
    steps:
      - run: printenv STEP_KEY OTHER MY_TOKEN >> {seen} || printenv STEP_KEY
    env: [STEP_KEY]
"""


def test_a_step_sees_what_it_is_handed_and_nothing_else(cli: Cli) -> None:
    seen = cli.folder / "seen"
    cli.configure(STEPS.format(seen=seen))
    secret_file(cli, f"STEP_KEY={KEY}\nOTHER=other-secret-0123\nMY_TOKEN={TOKEN}\n")
    cli.run("ticket", "new", "--title", "look")
    cli.run("run", "1", "--pipeline", "show")
    assert seen.read_text() == f"{KEY}\n"
    assert KEY not in cli.run("logs", "1").stdout
    assert "***" in cli.run("logs", "1").stdout


async def test_a_daemon_reads_it_again(cli: Cli) -> None:
    seen = cli.folder / "seen"
    cli.configure(STEPS.format(seen=seen) + "triggers: [{label: go, pipeline: show}]\n")
    file = secret_file(cli, f"STEP_KEY={KEY}\n")
    with cli.up() as daemon:
        cli.run("ticket", "new", "--title", "one", "--label", "go")
        await wait_until(lambda: seen.exists() and seen.read_text() == f"{KEY}\n", what="the first key")
        file.write_text("STEP_KEY=another-key-0123456789\n")
        await wait_until(lambda: "the configuration was read again" in daemon.log.read_text(), what="it is read again")
        cli.run("ticket", "new", "--title", "two", "--label", "go")
        await wait_until(lambda: seen.read_text() == f"{KEY}\nanother-key-0123456789\n", what="the second key")
    assert KEY not in daemon.log.read_text()
