"""How commands are called: names, options, help, and what every ending means to a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from agentsmith import __version__
from agentsmith.cli import app as cli
from agentsmith.cli.commands import RoleName
from agentsmith.daemon.build import Role
from agentsmith.domain.errors import ConfigError, StoreUnavailable
from agentsmith.store.server.binary import ServerUnavailable
from tests.support.cli import quiet_logs
from tests.support.json_answers import parsed

STABLE = (
    "demo|up|status|why|quota|init|doctor|labels|webhooks|replay|run|runs|logs|cancel|retry|pipelines|ticket|simulator|"
    "config|dead-letters|bench|docs|schema"
)
"""Names that people's scripts rely on."""


def leaves(command: Any, *words: str) -> Iterator[list[str]]:
    """Every command that does something."""
    below = getattr(command, "commands", None)
    if below is None:
        yield list(words)
    else:
        for name, inner in below.items():
            yield from leaves(inner, *words, name)


COMMANDS = tuple(leaves(typer.main.get_command(cli.app)))
WITHOUT_CONFIGURATION = (
    ["demo"],
    ["simulator"],
    ["bench"],
    ["config", "schema"],
    ["config", "example"],
    ["docs"],
    ["schema"],
)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTSMITH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("AGENTSMITH_CONFIG", raising=False)
    monkeypatch.delenv("AGENTSMITH_DEBUG", raising=False)
    with quiet_logs():
        yield


def test_the_names_that_scripts_rely_on_are_there() -> None:
    assert {words[0] for words in COMMANDS} >= set(STABLE.split("|"))
    assert ["dead-letters", "retry"] in COMMANDS


@pytest.mark.parametrize("group", [[], ["ticket"], ["config"], ["dead-letters"], ["webhooks"]], ids=" ".join)
def test_the_list_of_commands_says_what_each_does_in_a_line(group: list[str]) -> None:
    _, _, listed = help_of(*group).partition("Commands:")
    lines = [line for line in listed.splitlines() if line.strip()]
    assert lines
    assert [line for line in lines if line.endswith("...") or not re.match(r"  \S+ {2,}\S", line)] == []


def help_of(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, [*arguments, "--help"], prog_name="agentsmith")
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_with_an_example(words: list[str]) -> None:
    shown = help_of(*words)
    assert f"agentsmith {' '.join(words)}" in shown.partition("Example:")[2]
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("words", [words for words in COMMANDS if words not in WITHOUT_CONFIGURATION])
def test_every_command_that_reads_the_configuration_takes_it(words: list[str]) -> None:
    assert "--config FILE" in help_of(*words)


def test_alone_it_names_the_commands_to_try_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 0
    shown = capsys.readouterr().out
    first = shown.partition("Try these first:")[2]
    assert re.findall(r"^ *agentsmith (\w+)", first, re.MULTILINE) == ["demo", "up", "ticket", "init"]


@pytest.mark.parametrize("name", ["ticket", "config", "dead-letters"])
def test_a_group_alone_shows_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([name]) == 0
    assert f"Usage: agentsmith {name}" in capsys.readouterr().out


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"agentsmith {__version__}\n"


def test_the_roles_are_those_of_the_daemon() -> None:
    assert [name.value for name in RoleName] == [role.value for role in Role]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["up", "--bogus"], "No such option: --bogus"),
        (["up", "--role", "cook"], "'cook' is not one of 'receiver', 'poller', 'consumer', 'housekeeping'"),
        (["ticket", "new"], "Missing option '--title'"),
        (["ticket", "list", "--state", "ajar"], "ajar"),
        (["cancel"], "Missing argument 'TICKET'"),
        (["demo", "--tickets", "two"], "--tickets"),
        (["demo", "--tickets", "1"], "greater than or equal to 3"),
        (["demo", "--speed", "0"], "--speed"),
        (["demo", "--tracker", "gitbub"], "there is no demo on 'gitbub'; did you mean `github`? Known: local, github"),
        (["simulator"], "name the platform to simulate: github"),
        (["simulator", "gitbub"], "there is no simulator of 'gitbub'; did you mean `github`? Known: github"),
        (["simulator", "github", "--port", "70000"], "--port"),
        (["why"], "Missing argument 'TICKET'"),
        (["bench", "--passes", "0"], "--passes"),
        (["bench", "queues"], "there is nothing to measure called 'queues'; did you mean `queue`?"),
        (["status", "--watch", "--json"], "--watch never ends"),
        (["status", "--config", "absent.yaml"], "absent.yaml: there is no such file"),
        (["ticket", "show", "seven"], "name a ticket by its key (3), tracker:key (local:3)"),
        (["ticket", "show", "7"], "there is no ticket '7' in local/tickets"),
        (["ticket", "new", "--title", ""], "title"),
        (["ticket", "list", "--tracker", "web"], "there is no tracker 'web'"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ")
    assert said in shown.err
    if "--json" in arguments:
        assert said in parsed(arguments, shown.out, code=2)["error"]
    else:
        assert shown.out == ""


def test_ticket_commands_answer_with_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*arguments: str) -> dict[str, object]:
        assert cli.run([*arguments, "--json"]) == 0
        return dict(json.loads(capsys.readouterr().out))

    made = answer("ticket", "new", "--title", "Say hello", "--label", "b", "--label", "agent-smith")
    assert (made["id"], made["key"], made["labels"]) == ("local/tickets#1", "1", ["agent-smith", "b"])
    assert answer("ticket", "label", "local:1", "c", "d")["labels"] == ["agent-smith", "b", "c", "d"]
    assert answer("ticket", "unlabel", "local/tickets#1", "b", "c")["labels"] == ["agent-smith", "d"]
    assert answer("ticket", "comment", "local://tickets/1", "Well.", "--actor", "ann")["key"] == "1"
    assert answer("ticket", "close", "1")["state"] == "closed"
    assert answer("ticket", "reopen", "1")["state"] == "open"
    shown = answer("ticket", "show", "1")
    assert {**made, "labels": 0, "revision": 0, "updated_at": 0}.keys() < shown.keys()
    comments = shown["comments"]
    assert isinstance(comments, list)
    assert [(c["author"], c["body"]) for c in comments] == [("ann", "Well.")]


def test_tickets_are_listed_by_label_and_state(capsys: pytest.CaptureFixture[str]) -> None:
    for title, label in (("one", "a"), ("two", "b"), ("three", "a")):
        assert cli.run(["ticket", "new", "--title", title, "--label", label]) == 0
    assert cli.run(["ticket", "close", "3"]) == 0
    capsys.readouterr()
    found = {}
    for state in ("open", "closed", "all"):
        assert cli.run(["ticket", "list", "--label", "a", "--state", state, "--json"]) == 0
        found[state] = [ticket["title"] for ticket in json.loads(capsys.readouterr().out)]
    assert found == {"open": ["one"], "closed": ["three"], "all": ["one", "three"]}


def test_several_local_trackers_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agentsmith.yaml").write_text(
        "trackers: {red: {platform: local, project: red}, blue: {platform: local, project: blue}}"
    )
    assert cli.run(["ticket", "new", "--title", "x"]) == 2
    assert "--tracker red or --tracker blue" in capsys.readouterr().err
    for name in ("red", "blue"):
        assert cli.run(["ticket", "new", "--title", f"in {name}", "--tracker", name]) == 0
    capsys.readouterr()
    assert cli.run(["ticket", "show", "1"]) == 2
    assert "say which: red:1, blue:1" in capsys.readouterr().err
    assert cli.run(["ticket", "show", "blue:1"]) == 0
    assert "local/blue#1: in blue" in capsys.readouterr().out
    assert cli.run(["ticket", "show", "1", "--tracker", "red"]) == 0
    assert "local/red#1: in red" in capsys.readouterr().out
    assert cli.run(["ticket", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["Ticket", "red:1", "blue:1"]


def test_config_check_says_what_it_found_and_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("redis: {url: 'redis://me:hush@db.example:6380/2'}\npipelines: {p: {steps: [{run: make}]}}\n")
    assert cli.run(["config", "check", "--config", str(file)]) == 0
    shown = capsys.readouterr().out
    assert f"{file}: fine" in shown
    assert "redis://db.example:6380/2" in shown
    assert "hush" not in shown
    file.write_text("server: {prot: 1}\nlog: {level: loud}\n")
    assert cli.run(["config", "check", "--config", str(file), "--json"]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out)["ok"] is False
    assert [line.startswith(f"error: {file}:") for line in told.err.splitlines()] == [True, True]


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "agentsmith configuration"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """`agentsmith boom` raises what is put into this list."""
    errors: list[BaseException] = []
    app = typer.Typer()

    @app.command()
    def boom() -> None:
        raise errors[0]

    monkeypatch.setattr(cli, "app", app)
    return errors


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigError("the port is taken"), 2, "error: the port is taken\n"),
        (ConfigError("a: one\nb: two"), 2, "error: a: one\nerror: b: two\n"),
        (ServerUnavailable("no server"), 2, "error: no server\n"),
        (ExceptionGroup("roles", [ExceptionGroup("x", [StoreUnavailable("gone")])]), 2, "error: gone\n"),
        (ExceptionGroup("roles", [ConfigError("why"), RuntimeError("so what")]), 2, "error: why\n"),
        (KeyboardInterrupt(), 130, ""),
        (typer.Abort(), 130, ""),
        (typer.Exit(1), 1, ""),
    ],
)
def test_every_way_to_end_has_its_exit_code(
    error: BaseException, code: int, said: str, failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(error)
    assert cli.run([]) == code
    assert capsys.readouterr().err == said


def test_a_bug_is_one_line_unless_somebody_debugs(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing.append(ExceptionGroup("roles", [ZeroDivisionError("division by zero")]))
    assert cli.run([]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == "error: something broke inside agentsmith: ZeroDivisionError: division by zero"
    assert "AGENTSMITH_DEBUG=1" in second
    monkeypatch.setenv("AGENTSMITH_DEBUG", "1")
    with pytest.raises(ExceptionGroup):
        cli.run([])
