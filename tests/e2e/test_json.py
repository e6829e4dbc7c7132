"""`--json`: every command answers in the form that is documented for it, and so does every failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main
from typer.core import TyperGroup

from agentsmith.cli import answers, app
from tests.support.cli import Cli, quiet_logs
from tests.support.json_answers import parsed

CONFIG = """\
trackers: {local: {platform: local}}
pipelines:
  hello: {steps: [{run: "echo hello; echo there"}]}
triggers: [{label: agent-smith, pipeline: hello}]
"""
ELSEWHERE = {"bench", "demo", "simulator", "dead-letters show", "webhooks install", "webhooks remove"}
"""What takes seconds, or a platform: the tests of these commands look at what they answer."""
REQUIRED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("cancel", "logs", "replay", "retry", "run", "why"), ("1",)),
    **{f"ticket {name}": ("1",) for name in ("close", "reopen", "show")},
    **{f"ticket {name}": ("1", "x") for name in ("comment", "label", "unlabel")},
    **{f"dead-letters {name}": ("1",) for name in ("retry", "show")},
    "dead-letters drop": ("--all",),
    "ticket new": ("--title", "x"),
    "webhooks install": ("--url", "https://a.example"),
}


def taking_json(group: TyperGroup, *above: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from taking_json(command, *above, name)
        elif any("--json" in parameter.opts for parameter in command.params):
            yield " ".join((*above, name))


def root() -> TyperGroup:
    group = typer.main.get_command(app.app)
    assert isinstance(group, TyperGroup)
    return group


COMMANDS = sorted(taking_json(root()))
Ask = Callable[..., Any]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    monkeypatch.chdir(cli.folder)
    for name, value in cli.environ.items():
        if name.startswith("AGENTSMITH_") or name == "HOME":
            monkeypatch.setenv(name, value)
    with quiet_logs():
        yield cli


@pytest.fixture
def ask(cli: Cli, capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(*command: str, code: int = 0) -> Any:
        assert app.run([*command, "--json"]) == code
        return parsed(command, capsys.readouterr().out, code=code)

    return asked


def test_every_command_that_answers_in_json_has_a_documented_form() -> None:
    assert [*COMMANDS, answers.ERROR] == [*sorted(answers.KINDS.keys() - {answers.ERROR}), answers.ERROR]


def test_every_command_answers_in_its_form(cli: Cli, ask: Ask) -> None:
    cli.configure(CONFIG)
    seen = set()

    def tell(*command: str, code: int = 0) -> Any:
        seen.add(next(name for name in (" ".join(command[:2]), command[0]) if name in answers.KINDS))
        return ask(*command, code=code)

    tell("ticket", "new", "--title", "One", "--label", "agent-smith")
    for change in (("comment", "1", "x"), ("label", "1", "x"), ("unlabel", "1", "x"), ("close", "1"), ("reopen", "1")):
        tell("ticket", *change)
    tell("ticket", "list")
    tell("ticket", "show", "1")
    assert tell("why", "1")["looks"] is None
    assert tell("status")["asking"] is None
    tell("quota")
    tell("run", "1", "--dry-run")
    tell("run", "1")
    tell("run", "1", code=1)
    [run] = tell("runs")
    log = tell("logs", "1")
    assert (log["run"], log["state"], log["lines"]) == (run["run"], "succeeded", ["hello", "there"])
    assert tell("logs", "1", "--follow") == log
    tell("cancel", "1", code=1)
    tell("retry", "1")
    tell("config", "check")
    tell("doctor")
    tell("docs")
    tell("docs", "install")
    tell("init", "--config", "other.yaml")
    tell("labels")
    tell("pipelines")
    tell("webhooks", "check")
    tell("dead-letters", "list")
    tell("dead-letters", "drop", "--all")
    assert set(COMMANDS) - seen - ELSEWHERE == {"dead-letters retry", "replay"}  # which want a letter, and a daemon
    assert tell("dead-letters", "retry", "x", code=2)["code"] == "bad-input"
    assert tell("replay", code=2)["code"] == "redis-unreachable"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_fails_in_one_form(cli: Cli, ask: Ask, command: str) -> None:
    told = ask(*command.split(), "--nonsense", code=2)
    assert (told["code"], told["error"]) == ("usage", "No such option: --nonsense")
    assert told["remedy"] == f"see: agentsmith {command} --help"


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("init", "bench", "demo", "docs", "simulator")])
def test_a_wrong_configuration_is_told_in_the_same_form(cli: Cli, ask: Ask, command: str) -> None:
    cli.configure("serverr: {port: 1}\nlog: {level: loud}\n")
    told = ask(*command.split(), *REQUIRED.get(command, ()), code=2)
    if command == "doctor":
        assert [check["state"] for check in told["checks"]] == ["wrong", "wrong"]
    else:
        assert (told["code"], len(told["problems"])) == ("bad-input", 2)
        assert "agentsmith.yaml:1: serverr: unknown key" in told["error"]
        assert told["remedy"].startswith("did you mean `server`?")


def test_what_follows_two_dashes_is_not_ours(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["run", "99", "--", "make", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_a_secret_in_an_error_is_hidden(cli: Cli, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.configure("redis: {url: 'redis://me:hush-hush-hush@127.0.0.1:1/0'}\n")
    told = ask("dead-letters", "list", code=2)
    assert told["code"] == "redis-unreachable"
    assert "hush-hush-hush" not in json.dumps(told)


def test_schemas_are_printed(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["schema", "ticket", "show"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one["$id"] == "urn:agentsmith:ticket-show:1"
    assert app.run(["schema"]) == 0
    for schema in json.loads(capsys.readouterr().out).values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert app.run(["schema", "statuss"]) == 2
    assert "did you mean `status`?" in capsys.readouterr().err
